package pca

import (
	"bytes"
	"encoding/gob"
	"os"
	"testing"

	"selfheal/internal/must"
)

// Any bytes as a cached fit count as absent or are a subspace of the sizes that its network needs.
func FuzzLoad(f *testing.F) {
	for _, s := range []Subspace{
		{Dim: 4, Rank: 1, Mean: make([]float32, 4), Components: make([]float32, 4), Variance: 0.9, Samples: 7},
		{Dim: 4, Rank: 1 << 62, Mean: make([]float32, 4)}, // four times that is 0
	} {
		var b bytes.Buffer
		must.Do(f, gob.NewEncoder(&b).Encode(s))
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &Cache{t.TempDir()}
		must.Do(t, os.WriteFile(c.path("key"), data, 0o644))
		_ = must.Survive(t, func() error {
			if s, ok := c.Load("key", 4); ok && (s.Rank < 1 || s.Rank > 4 || len(s.Components) != 4*s.Rank) {
				t.Fatalf("%+v is taken", s)
			}
			return nil
		})
	})
}
