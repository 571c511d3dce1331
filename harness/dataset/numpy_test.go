package dataset

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"selfheal/internal/must"
)

// What NumPy itself saved (testdata/numpy_arrays.py).
func TestNumPyArchives(t *testing.T) {
	fsys := os.DirFS("testdata")
	var hashes []string
	for _, name := range []string{"uint8_nchw", "uint8_nhwc", "float32_nchw", "float32_nhwc_big_endian",
		"float64_nchw"} {
		d, err := Open(Spec{Format: "npz", Path: name + ".npz"}, fsys, 0)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d.Len() != 4 || d.Shape() != [3]int{3, 2, 5} || d.Classes() != 3 || d.ClassNames() != nil {
			t.Errorf("%s: %d images of shape %v in %d classes %v", name, d.Len(), d.Shape(), d.Classes(),
				d.ClassNames())
		}
		for i, want := range []int{2, 0, 1, 2} {
			id, pixels, label := d.Image(i)
			if id != i || label != want {
				t.Errorf("%s: image %d has id %d and label %d", name, i, id, label)
			}
			for k, v := range pixels {
				if want := float32((37*i+11*k)%256) / 255; v != want {
					t.Fatalf("%s: value %d of image %d is %v, want %v", name, k, i, v, want)
				}
			}
		}
		hashes = append(hashes, d.SHA256())
	}
	for _, h := range hashes {
		if h != hashes[0] {
			t.Errorf("the same images have the hashes %v", hashes)
		}
	}

	d := must.Get(Open(Spec{Format: "npz", Path: "gray.npz", Indices: []int{3, 1}}, fsys, 0))(t)
	if id, pixels, _ := d.Image(0); d.Shape() != [3]int{1, 2, 5} || id != 3 || pixels[1] != float32((37*3+11)%256)/255 {
		t.Errorf("gray: shape %v, id %d, pixels %v", d.Shape(), id, pixels)
	}

	_, err := Open(Spec{Format: "npz", Path: "fortran.npz"}, fsys, 0)
	if err == nil || !strings.Contains(err.Error(), "numpy.ascontiguousarray") {
		t.Errorf("Fortran order: %v", err)
	}
}

// WriteNPY writes the very bytes that numpy.save writes.
func TestWriteNPYAsNumPy(t *testing.T) {
	want := must.Get(os.ReadFile("testdata/float32.npy"))(t)
	shape, values := must.Get2(ReadArray(os.DirFS("testdata"), "float32.npy"))(t)
	var got bytes.Buffer
	must.Do(t, WriteNPY(&got, shape, values))
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("got  %q\nwant %q", got.Bytes()[:128], want[:128])
	}
	// The only array of an archive, and the array x of several.
	for _, name := range []string{"float32_nchw.npz", "float64_nchw.npz"} {
		shape, again, err := ReadArray(os.DirFS("testdata"), name, "x")
		if err != nil || len(shape) != 4 || len(again) != len(values) || again[7] != values[7] {
			t.Errorf("%s: shape %v, %v", name, shape, err)
		}
	}
}
