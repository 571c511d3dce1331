package dataset

import (
	"bytes"
	stdimage "image"
	"image/color/palette"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"selfheal/internal/must"
	"selfheal/internal/npy"
)

// walk opens a data set and reads every image. Each has a label of a class and pixels in [0,1].
func walk(t *testing.T, spec Spec, fsys fs.FS) {
	t.Helper()
	_ = must.Survive(t, func() error {
		d, err := Open(spec, fsys, 0)
		if err != nil {
			return err
		}
		defer d.Close()
		for i := range d.Len() {
			_, pixels, label, err := d.Image(i)
			if err != nil {
				return err
			}
			if label < 0 || label >= d.Classes() {
				t.Fatalf("label %d of %d classes", label, d.Classes())
			}
			for _, v := range pixels {
				if !(v >= 0 && v <= 1) {
					t.Fatalf("pixel %v", v)
				}
			}
		}
		return nil
	})
}

func FuzzReadNPY(f *testing.F) {
	f.Add(floats(2, 3)(1, 2, 3, 4, 5, 6))
	f.Add(npyOf("<f8", "1, 1", make([]byte, 8)))
	f.Add(npyOf("|u1", "0, 99999999, 99999999", nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = must.Survive(t, func() error {
			shape, values, err := npy.Read(bytes.NewReader(data))
			if err == nil {
				must.Do(t, npy.Write(new(bytes.Buffer), shape, slices.Values([][]float32{values})))
			}
			return err
		})
	})
}

// An archive of any two arrays.
func FuzzNPZ(f *testing.F) {
	f.Add(floats(2, 1, 1, 2)(0, 1, 0.5, 0), ints(0, 1))
	f.Add(npyOf("|u1", "1, 2, 2, 3", make([]byte, 12)), npyOf("|u1", "1,", []byte{2}))
	f.Fuzz(func(t *testing.T, x, y []byte) {
		fsys := fstest.MapFS{"f": {Data: archive(t, x, y)}}
		walk(t, Spec{Format: "npz", Path: "f"}, fsys)
		_ = must.Survive(t, func() error {
			_, _, err := ReadArray(fsys, "f", "x", "y")
			return err
		})
	})
}

// Any bytes as a file of every format, and as the one image of a folder.
func FuzzFormats(f *testing.F) {
	for _, name := range []string{"gray.npz", "uint8_nhwc.npz", "float32.npy"} {
		f.Add(must.Get(os.ReadFile("testdata/" + name))(f))
	}
	box := stdimage.Rect(0, 0, 3, 2)
	for _, seed := range [][]byte{cifarFile(2, 1), cifarFile(2, 2), pngFile(f, picture(1)), jpegFile(f, picture(2)),
		pngFile(f, stdimage.NewGray16(box)), pngFile(f, stdimage.NewNRGBA64(box)), jpegFile(f, stdimage.NewGray(box)),
		pngFile(f, stdimage.NewPaletted(box, palette.WebSafe))} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fsys := fstest.MapFS{"file": {Data: data}, "folder/class/a.png": {Data: data},
			"folder/wnids.txt": {Data: []byte("class")}}
		for _, format := range Formats() {
			for _, path := range []string{"file", "folder", "folder/train"} {
				walk(t, Spec{Format: format, Path: path}, fsys)
			}
		}
	})
}

// Any text as Tiny-ImageNet's list of classes and as its labels.
func FuzzTinyImageNet(f *testing.F) {
	f.Add("n01\nn02\n", "a.png\tn02\t0\t0\t1\t1\nb.png\tn01\n")
	f.Add("\ufeffn01 n02\r\n", "../a.png n01\n")
	f.Add("n01", strings.Repeat("a", 3000)+" n01")
	im := pngFile(f, picture(1))
	f.Fuzz(func(t *testing.T, classes, labels string) {
		fsys := fstest.MapFS{}
		for name, data := range map[string][]byte{"wnids.txt": []byte(classes),
			"val/val_annotations.txt": []byte(labels), "val/images/a.png": im, "val/images/b.png": im,
			"train/n01/images/a.png": im} {
			fsys["set/"+name] = &fstest.MapFile{Data: data}
		}
		walk(t, Spec{Format: "tiny-imagenet", Path: "set"}, fsys)
		walk(t, Spec{Format: "tiny-imagenet", Path: "set/train"}, fsys)
	})
}
