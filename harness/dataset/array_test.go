package dataset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"selfheal/internal/must"
)

// The first array that is wanted is read, else the only one.
func TestReadArray(t *testing.T) {
	alone, one := floats(2, 1)(3, 4), func(v float32) []byte { return floats(1)(v) }
	fsys := files(map[string][]byte{
		"a.npy":     alone,
		"both.npz":  zipped(t, map[string][]byte{"first.npy": one(1), "second.npy": one(2), "third.npy": one(3)}),
		"one.npz":   zipped(t, map[string][]byte{"anything.npy": one(5), "notes.txt": one(6)}),
		"other.npz": archive(t, one(1), one(2)),
		"none.npz":  archive(t, nil, nil),
		"no.npz":    alone,
	})
	for _, c := range []struct {
		name  string
		shape []int
		want  []float32
		err   string
	}{
		{"a.npy", []int{2, 1}, []float32{3, 4}, ""}, {"both.npz", []int{1}, []float32{2}, ""},
		{"one.npz", []int{1}, []float32{5}, ""}, {"absent.npy", nil, nil, "not exist"},
		{"other.npz", nil, nil, "it holds the arrays x, y, none of them called second or first"},
		{"none.npz", nil, nil, "it holds the arrays no arrays, none"},
		{"no.npz", nil, nil, "it is no NumPy archive (.npz): zip: not a valid zip file"},
	} {
		shape, values, err := ReadArray(fsys, c.name, "second", "first")
		if (err == nil) != (c.err == "") || !strings.Contains(fmt.Sprint(err), c.err) ||
			!slices.Equal(shape, c.shape) || !slices.Equal(values, c.want) {
			t.Errorf("%s holds %v of shape %v, %v; want %+v", c.name, values, shape, err, c)
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
