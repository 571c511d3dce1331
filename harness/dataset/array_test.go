package dataset

import (
	"archive/zip"
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"selfheal/internal/must"
)

// packed packs float32 arrays of one value under the given names.
func packed(t *testing.T, arrays map[string]float32) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, v := range arrays {
		w := must.Get(z.Create(name))(t)
		must.Do(t, WriteNPY(w, []int{1}, []float32{v}))
	}
	must.Do(t, z.Close())
	return b.Bytes()
}

// The first array that is wanted is read, else the only one.
func TestReadArray(t *testing.T) {
	var alone bytes.Buffer
	must.Do(t, WriteNPY(&alone, []int{2, 1}, []float32{3, 4}))
	fsys := fstest.MapFS{
		"a.npy":     {Data: alone.Bytes()},
		"both.npz":  {Data: packed(t, map[string]float32{"first.npy": 1, "second.npy": 2, "third.npy": 3})},
		"one.npz":   {Data: packed(t, map[string]float32{"anything.npy": 5, "notes.txt": 6})},
		"other.npz": {Data: packed(t, map[string]float32{"x.npy": 1, "y.npy": 2})},
		"no.npz":    {Data: alone.Bytes()},
	}
	for _, c := range []struct {
		name  string
		shape []int
		want  []float32
		err   string
	}{
		{"a.npy", []int{2, 1}, []float32{3, 4}, ""}, {"both.npz", []int{1}, []float32{2}, ""}, {"one.npz", []int{1},
			[]float32{5}, ""},
		{"other.npz", nil, nil, "none of them called second or first"}, {"no.npz", nil, nil, "no NumPy archive"},
		{"absent.npy", nil, nil, "not exist"},
	} {
		shape, values, err := ReadArray(fsys, c.name, "second", "first")
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v, want one with %q", c.name, err, c.err)
			}
			continue
		}
		if err != nil || !slices.Equal(shape, c.shape) || !slices.Equal(values, c.want) {
			t.Errorf("%s holds %v of shape %v, %v; want %v of %v", c.name, values, shape, err, c.want, c.shape)
		}
	}
}

// An image file alone is read as in an image folder.
func TestReadImage(t *testing.T) {
	fsys := fstest.MapFS{"set/cat/a.png": {Data: pngFile(t, picture(10))}, "broken.png": {Data: []byte("broken")}}
	d := must.Get(Open(Spec{Format: "image-folder", Path: "set"}, fsys, 0))(t)
	_, want, _ := d.Image(0)
	pixels, shape, err := ReadImage(fsys, "set/cat/a.png")
	if err != nil || shape != d.Shape() || !slices.Equal(pixels, want) || slices.Max(pixels) == 0 {
		t.Errorf("%v, %v of shape %v, want %v of %v", err, pixels, shape, want, d.Shape())
	}
	for name, want := range map[string]string{"broken.png": "broken.png is no readable PNG or JPEG",
		"absent.png": "not exist"} {
		if _, _, err := ReadImage(fsys, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
