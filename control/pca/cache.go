package pca

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"selfheal/internal/sealed"
	"selfheal/models/onnx"
)

// fitVersion is part of every cache key. Raise it when Fit's results change.
const fitVersion = "pca/2"

// Key identifies a fit by the data set's hash, the target, the states' shape, the hash of the network up to them (""
// at the input) and the seed. An exact fit does not depend on the seed.
func Key(network string, state onnx.Shape, dataset string, target Target, seed uint64) string {
	if state.Items() <= exactDim {
		seed = 0
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n%g %d %d\n%v", fitVersion, network, dataset, target.Variance,
		target.Rank, seed, state))
	return hex.EncodeToString(sum[:])
}

// Cache keeps fitted subspaces in a folder, by key. A nil *Cache keeps nothing.
type Cache struct{ Dir string }

// UserCache returns the cache in the user's cache folder, or nil if there is none.
func UserCache() *Cache {
	dir, err := os.UserCacheDir()
	if err != nil {
		return nil
	}
	return &Cache{Dir: filepath.Join(dir, "selfheal", "fits")}
}

// Load returns the subspace stored under key, or nil. damaged reports that a file is there but its content is not
// what was stored, or that an earlier version wrote it, without a checksum.
func (c *Cache) Load(key string, dim int) (s *Subspace, damaged bool) {
	if c == nil {
		return nil, false
	}
	s = &Subspace{}
	err := sealed.Read(c.Path(key), s)
	if err == nil && s.Dim == dim && len(s.Mean) == dim && s.Rank >= 1 && s.Rank <= dim &&
		len(s.Components) == dim*s.Rank {
		return s, false
	}
	return nil, err == nil || errors.Is(err, sealed.ErrDamaged)
}

// Store writes a subspace to a temporary file, syncs it and renames it.
func (c *Cache) Store(key string, s *Subspace) error {
	if c == nil {
		return nil
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	return sealed.Write(c.Path(key), s)
}

// Path returns the file of a key's subspace.
func (c *Cache) Path(key string) string { return filepath.Join(c.Dir, key+".gob") }
