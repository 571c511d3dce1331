package folder

import (
	"encoding/json"
	"io"

	"selfheal/internal/checksum"
	"selfheal/internal/input"
	"selfheal/internal/journal"
)

// SavedKey is the key by which the journal says that a file has been written.
func SavedKey(name string) Key { return Key{Of: Saved, Part: name} }

// Checksum identifies a file's content in the journal.
type Checksum struct {
	Bytes int64  `json:"bytes"`
	Sum   uint32 `json:"sum"` // CRC-32C
}

// SavedAs returns the last checksum of a file in a journal.
func SavedAs(block *journal.Block) (known Checksum, ok bool) {
	err := block.Read(func(line []byte) error { return json.Unmarshal(line, &known) })
	return known, err == nil && block.Written()
}

// Is reports whether a file has the checksum.
func (c Checksum) Is(path string) bool {
	f, err := input.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	n, sum, err := checksum.Read(io.LimitReader(f, c.Bytes+1))
	return err == nil && n == c.Bytes && sum == c.Sum
}
