package dataset

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"testing"
	"testing/fstest"

	"selfheal/harness/result"
	"selfheal/internal/must"
)

// Images are resized and cropped to the same bits as by torchvision with Pillow.
func TestTransform(t *testing.T) {
	for name, by := range map[string]result.Transform{
		"smaller":         {Resize: 24, Crop: 20, Interpolation: result.Bilinear},
		"smaller-bicubic": {Resize: 24, Crop: 20, Interpolation: result.Bicubic},
		"larger":          {Resize: 34, Crop: 31, Interpolation: result.Bicubic},
		"cropped":         {Crop: 21, Interpolation: result.Bilinear},
	} {
		want := must.Get(Open(Spec{Format: "npz", Path: "pictures-" + name + ".npz"}, samples, 0))(t)
		got := must.Get(Open(Spec{Format: "image-folder", Path: "pictures", Shaping: result.Shaping{Transform: &by}},
			samples, 0))(t)
		if got.Len() != want.Len() || got.Shape() != want.Shape() {
			t.Errorf("%s: %d images of shape %v, want %d of %v", name, got.Len(), got.Shape(), want.Len(), want.Shape())
			continue
		}
		for i := range got.Len() {
			_, x, label := must.Get3(got.Image(i))(t)
			_, y, wanted := must.Get3(want.Image(i))(t)
			if !slices.Equal(x, y) || label != wanted {
				t.Errorf("%s: %s has other pixels than torchvision's, or label %d instead of %d", name,
					got.source.name(i), label, wanted)
			}
		}
	}
}

// Images of other formats are transformed like picture files, if they are levels of 8 bits.
func TestTransformArrays(t *testing.T) {
	by := result.Transform{Resize: 4, Crop: 3, Interpolation: result.Bilinear}
	open := func(format, path string) *Dataset {
		return must.Get(Open(Spec{Format: format, Path: path, Shaping: result.Shaping{Transform: &by}}, samples, 0))(t)
	}
	if a, b := open("npz", "pictures-smaller.npz"), open("image-folder", "pictures"); a.Shape() != b.Shape() ||
		a.Shape() != [3]int{3, 3, 3} {
		t.Errorf("shapes %v and %v", a.Shape(), b.Shape())
	}
	python, binary := open("cifar10-python", "cifar-10-python.tar.gz"), open("cifar10-bin", "cifar-10-binary.tar.gz")
	if python.SHA256() != binary.SHA256() || python.Shape() != [3]int{3, 3, 3} {
		t.Errorf("CIFAR's versions differ: %v and %v", python.SHA256(), binary.SHA256())
	}
	fsys := files(map[string][]byte{"f": archive(t, floats(1, 1, 2, 2)(0, 1, 0.123, 1), ints(0))})
	_, err := Open(Spec{Format: "npz", Path: "f", Shaping: result.Shaping{Transform: &by}}, fsys, 0)
	must.Refuse(t, err, "image 0 of f: value 2 is 0.123, not a level of 8 bits, which transform takes")
}

func TestTransformErrors(t *testing.T) {
	for _, c := range []struct {
		by   *result.Transform
		want string
	}{
		{nil, "but the images before it have [3 30 40]; all must have the same: transform: {resize: 256, crop: 22"},
		{&result.Transform{Resize: 20}, "cat/b.jpg has shape [3 27 20], but the images before it have [3 20 26]; al"},
		{&result.Transform{Crop: 27}, "dog/c.webp has 26×25 pixels, fewer than the crop of 27; resize to at least"},
		{&result.Transform{Resize: 1 << 14}, "cat/a.png has 21845×16384 pixels when resized, more than this program"},
	} {
		_, err := Open(Spec{Format: "image-folder", Path: "pictures", Shaping: result.Shaping{Transform: c.by}},
			samples, 0)
		must.Refuse(t, err, c.want)
	}
}

// Any bytes as a picture of any kind, resized to any size.
func FuzzPicture(f *testing.F) {
	for _, name := range must.Get(fs.Glob(samples, "pictures/*/*"))(f) {
		f.Add(path.Ext(name) == ".webp", must.Get(fs.ReadFile(samples, name))(f), uint8(24), uint8(20))
	}
	f.Fuzz(func(t *testing.T, bicubic bool, data []byte, resize, crop uint8) {
		by := &result.Transform{Resize: int(resize), Crop: int(crop), Interpolation: result.Bilinear}
		if bicubic {
			by.Interpolation = result.Bicubic
		}
		fsys := fstest.MapFS{}
		for i := range 2 {
			fsys[fmt.Sprintf("set/class/%d.webp", i)] = &fstest.MapFile{Data: data}
		}
		walk(t, Spec{Format: "image-folder", Path: "set", Shaping: result.Shaping{Transform: by}}, fsys)
	})
}
