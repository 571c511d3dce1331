package harness

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"selfheal/internal/atomicfile"
	"selfheal/internal/input"
)

// CostCache keeps what was measured for estimates in a folder. A nil one keeps nothing.
type CostCache struct{ Dir string }

// UserCostCache is the cache in the user's cache folder, or nil where there is none.
func UserCostCache() *CostCache {
	dir, err := os.UserCacheDir()
	if err != nil {
		return nil
	}
	return &CostCache{Dir: filepath.Join(dir, "selfheal", "timings")}
}

// costEntry is a file: what was measured, and the whole text of its key.
type costEntry[T any] struct {
	Key   string `json:"key"`
	Value T      `json:"value"`
}

func (c *CostCache) path(key string) string {
	return filepath.Join(c.Dir, fmt.Sprintf("%x.json", sha256.Sum256([]byte(key))))
}

// recalled is what the cache has under a key, where it is sound, else what make finds, which is then kept.
// A file that is damaged or has another key is passed over; one that can't be written is no loss.
func recalled[T any](c *CostCache, key string, sound func(T) bool, make func() (T, error)) (T, error) {
	if value, ok := cached[T](c, key); ok && sound(value) {
		return value, nil
	}
	value, err := make()
	if err == nil {
		keep(c, key, value)
	}
	return value, err
}

// mostCost bounds an entry, in bytes.
const mostCost = 16 << 20

// cached reads what the cache has under a key.
func cached[T any](c *CostCache, key string) (value T, ok bool) {
	if c == nil {
		return value, false
	}
	var e costEntry[T]
	data, err := input.Read(c.path(key), mostCost)
	ok = err == nil && json.Unmarshal(data, &e) == nil && e.Key == key
	return e.Value, ok
}

// keep writes to the cache, as far as that is possible.
func keep[T any](c *CostCache, key string, value T) {
	if c == nil {
		return
	}
	if data, err := json.Marshal(costEntry[T]{key, value}); err == nil && os.MkdirAll(c.Dir, 0o755) == nil {
		dir, name := atomicfile.At(c.path(key))
		_ = dir.Write(name, data)
	}
}
