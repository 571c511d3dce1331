package sealed

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"selfheal/internal/must"
)

// A value comes back unchanged, but not from a file that differs by a bit or is cut anywhere.
func TestDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "value")
	var got []float32
	if err := Read(path, &got); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no file: %v", err)
	}
	want := []float32{0.5, -3, 1e-9}
	must.Do(t, Write(path, want))
	must.Do(t, Read(path, &got))
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	whole := must.Get(os.ReadFile(path))(t)
	refused := func(data []byte) {
		must.Do(t, os.WriteFile(path, data, 0o644))
		if err := Read(path, &got); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d of %d bytes: %v", len(data), len(whole), err)
		}
	}
	for bit := range 8 * len(whole) {
		data := slices.Clone(whole)
		data[bit/8] ^= 1 << (bit % 8)
		refused(data)
	}
	for n := range whole {
		refused(whole[:n])
	}
	refused(append(slices.Clone(whole), 0))
}
