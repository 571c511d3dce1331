package pca

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"testing"

	"selfheal/internal/must"
)

// Any bytes as a cached fit count as absent, or are a subspace of the size that its network needs.
func FuzzLoad(f *testing.F) {
	for _, s := range []Subspace{
		{Dim: 4, Rank: 1, Mean: make([]float32, 4), Components: make([]float32, 4), Variance: 0.9, Samples: 7},
		{Dim: 4, Rank: 1 << 62, Mean: make([]float32, 4)}, // four times this overflows to 0
	} {
		c := &Cache{f.TempDir()}
		must.Do(f, c.Store("key", &s))
		whole := must.Get(os.ReadFile(c.Path("key")))(f)
		f.Add(whole[:len(whole)-crc32.Size])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &Cache{t.TempDir()}
		data = binary.BigEndian.AppendUint32(data, crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
		must.Do(t, os.WriteFile(c.Path("key"), data, 0o644))
		_ = must.Survive(t, func() error {
			if s, _ := c.Load("key", 4); s != nil && (s.Rank < 1 || s.Rank > 4 || len(s.Components) != 4*s.Rank) {
				t.Fatalf("%+v is taken", s)
			}
			return nil
		})
	})
}
