package dataset

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// cifarFile makes n records: label (3 i) mod 10 (fine) and pixel k = (i + k) mod 256.
func cifarFile(n, labelBytes int) []byte {
	var b []byte
	for i := range n {
		if labelBytes == 2 {
			b = append(b, 19) // coarse
		}
		b = append(b, byte(3*i%10))
		for k := range cifarPixels {
			b = append(b, byte(i+k))
		}
	}
	return b
}

func files(pairs map[string][]byte) fs.FS {
	m := fstest.MapFS{}
	for name, data := range pairs {
		m[name] = &fstest.MapFile{Data: data}
	}
	return m
}

// of describes a set of a format at a path.
func of(format, path, split string, keys *result.Keys) Spec {
	return Spec{Format: format, Path: path, Shaping: result.Shaping{Split: split, Keys: keys}}
}

// refused fails the test unless opening a set is an error in one line that begins with its path, its format and these
// words.
func refused(t *testing.T, spec Spec, fsys fs.FS, want string) {
	t.Helper()
	_, err := Open(spec, fsys, 0)
	want = fmt.Sprintf("data set %s (%s): %s", spec.Path, spec.Format, want)
	if must.Refuse(t, err, "data set"); !strings.HasPrefix(fmt.Sprint(err), want) {
		t.Errorf("%+v:\n got %v\nwant %s", spec, err, want)
	}
}

func TestCIFAR(t *testing.T) {
	fsys := files(map[string][]byte{"c10.bin": cifarFile(8, 1), "c100.bin": cifarFile(8, 2)})
	for _, c := range []struct {
		spec  Spec
		limit int
		ids   []int
	}{
		{Spec{}, 0, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{Spec{Limit: 3}, 0, []int{0, 1, 2}},
		{Spec{Limit: 3}, 2, []int{0, 1}},
		{Spec{Limit: 3}, 5, []int{0, 1, 2}},
		{Spec{Limit: 100}, 0, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{Spec{Indices: []int{6, 1, 3}}, 0, []int{6, 1, 3}},
		{Spec{Indices: []int{6, 1, 3}, Limit: 2}, 0, []int{6, 1}},
		{Spec{Indices: []int{6, 1, 3}, Limit: 2}, 1, []int{6}},
	} {
		for format, path := range map[string]string{"cifar10-bin": "c10.bin", "cifar100-bin": "c100.bin"} {
			c.spec.Format, c.spec.Path = format, path
			d := must.Get(Open(c.spec, fsys, c.limit))(t)
			if classes := map[string]int{"cifar10-bin": 10, "cifar100-bin": 100}[format]; d.Classes() != classes ||
				d.Shape() != [3]int{3, 32, 32} {
				t.Errorf("%+v: %d classes, shape %v", c.spec, d.Classes(), d.Shape())
			}
			var ids []int
			for i := range d.Len() {
				id, pixels, label := must.Get3(d.Image(i))(t)
				ids = append(ids, id)
				if label != 3*id%10 {
					t.Errorf("%+v: image %d has label %d", c.spec, id, label)
				}
				for k, v := range pixels {
					if v != float32(byte(id+k))/255 {
						t.Fatalf("%+v: pixel %d of image %d is %v", c.spec, k, id, v)
					}
				}
			}
			if !slices.Equal(ids, c.ids) {
				t.Errorf("%+v with limit %d: images %v, want %v", c.spec, c.limit, ids, c.ids)
			}
		}
	}
}

// The hash is over float32 pixels and an int64 label of every image in order.
func TestSHA256(t *testing.T) {
	fsys := files(map[string][]byte{"a.bin": cifarFile(5, 1), "b.bin": cifarFile(9, 1)})
	open := func(spec Spec) string {
		t.Helper()
		spec.Format = "cifar10-bin"
		d := must.Get(Open(spec, fsys, 0))(t)
		return d.SHA256()
	}
	var want bytes.Buffer
	for _, id := range []int{4, 2} {
		for k := range cifarPixels {
			binary.Write(&want, binary.LittleEndian, float32(byte(id+k))/255)
		}
		binary.Write(&want, binary.LittleEndian, int64(3*id%10))
	}
	sum := sha256.Sum256(want.Bytes())
	got := open(Spec{Path: "a.bin", Indices: []int{4, 2}})
	if got != hex.EncodeToString(sum[:]) {
		t.Errorf("hash %s, want %x", got, sum)
	}
	if open(Spec{Path: "b.bin", Indices: []int{4, 2}, Classes: 50}) != got {
		t.Error("the same images of another file have another hash")
	}
	if open(Spec{Path: "a.bin", Indices: []int{2, 4}}) == got || open(Spec{Path: "a.bin", Indices: []int{4}}) == got {
		t.Error("other images or another order have the same hash")
	}
}

func TestErrors(t *testing.T) {
	good := cifarFile(3, 1)
	badLabel := slices.Clone(good)
	badLabel[3073] = 77
	fsys := fstest.MapFS{
		"good.bin":      {Data: good},
		"short.bin":     {Data: good[:len(good)-10]},
		"c100.bin":      {Data: cifarFile(3, 2)},
		"empty.bin":     {},
		"label.bin":     {Data: badLabel},
		"folder/x.txt":  {Data: []byte("x")},
		"not.npz":       {Data: []byte("no zip")},
		"lfs.npz":       {Data: []byte(testinput.Pointer)},
		"lfs.bin":       {Data: []byte(testinput.Pointer)},
		"lfs/cat/0.png": {Data: []byte(testinput.Pointer)},
	}
	nan := float32(math.NaN())
	for name, npz := range map[string][]byte{
		"nan":        archive(t, floats(2, 1, 1, 2)(0, nan, 0, 0), ints(0, 1)),
		"inf":        archive(t, floats(2, 1, 1, 2)(0, 0, float32(math.Inf(-1)), 0), ints(0, 1)),
		"255":        archive(t, floats(2, 1, 1, 2)(0, 0, 0, 255), ints(0, 1)),
		"normalised": archive(t, floats(2, 1, 1, 2)(0, 0, 0, -0.5), ints(0, 1)),
		"negative":   archive(t, floats(1, 1, 1, 1)(0), ints(-1)),
		"counts":     archive(t, floats(2, 1, 1, 1)(0, 0), ints(0, 1, 1)),
		"none":       archive(t, floats(0, 1, 1, 1)(), ints()),
		"flat":       archive(t, floats(2, 2)(0, 0, 0, 0), ints(0, 1)),
		"channels":   archive(t, floats(1, 5, 6, 7)(make([]float32, 210)...), ints(0)),
		"floaty":     archive(t, floats(2, 1, 1, 1)(0, 0), floats(2)(0, 1)),
		"many":       archive(t, floats(1, 1, 1, 1)(0), npyOf("|u1", "4194305,", make([]byte, 1<<22+1))),
		"onehot":     archive(t, floats(2, 1, 1, 1)(0, 0), npyOf("<i8", "2, 2", make([]byte, 32))),
		"int32":      archive(t, npyOf("<i4", "1, 1, 1, 1", make([]byte, 4)), ints(0)),
		"noy":        archive(t, floats(2, 1, 1, 1)(0, 0), nil),
		"object":     archive(t, npyOf("|O", "1,", make([]byte, 8)), ints(0)),
		"lying":      archive(t, npyOf("|u1", "1000000, 3, 32, 32", make([]byte, 3072)), ints(0)),
		"flatlabel":  archive(t, floats(1, 1, 1, 1)(0), ints(9)),
	} {
		fsys[name+".npz"] = &fstest.MapFile{Data: npz}
	}
	for _, c := range []struct {
		format, path string
		spec         Spec
		want         string // in the error, after the data set's path and format
	}{
		{"cifar10-bin", "absent.bin", Spec{}, "absent.bin does not exist"},
		{"npz", "folder", Spec{}, "it holds no .npy files"},
		{"cifar10-bin", "short.bin", Spec{}, "its 9209 bytes are 2 records of 3073 bytes and 3063 bytes more; the"},
		{"cifar10-bin", "c100.bin", Spec{},
			"its 9222 bytes are 3 records of 3073 bytes and 3 bytes more; its size fits cifar100-bin"},
		{"cifar100-bin", "good.bin", Spec{},
			"its 9219 bytes are 2 records of 3074 bytes and 3071 bytes more; its size fits cifar10-bin"},
		{"cifar10-bin", "empty.bin", Spec{}, "it holds no images"},
		{"cifar10-bin", "label.bin", Spec{}, "record 1 of label.bin has the label 77, but there are 10 classes"},
		{"cifar10-bin", "good.bin", Spec{Classes: 5}, "record 2 of good.bin has the label 6, but there are 5 classes"},
		{"cifar10-bin", "good.bin", Spec{Indices: []int{0, 3}}, "indices asks for image 3, but it holds 3 images (0"},
		{"cifar10-bin", "good.bin", Spec{Indices: []int{-1}}, "indices asks for image -1, but it holds 3 images (0"},
		{"cifar10-bin", "good.bin", Spec{Indices: []int{1, 1}}, "indices lists image 1 twice"},
		{"cifar10-bin", "good.bin", Spec{Indices: []int{}}, "indices is an empty list, so no image is left"},
		{"cifar10-bin", "good.bin", Spec{Limit: -1}, "the limit -1 is below 0"},
		{"npz", "not.npz", Spec{}, "it is no NumPy archive (.npz): zip: not a valid zip file"},
		{"npz", "lfs.npz", Spec{}, "lfs.npz is a Git LFS pointer, not the file itself; git lfs pull fetches that"},
		{"cifar10-bin", "lfs.bin", Spec{}, "lfs.bin is a Git LFS pointer"},
		{"image-folder", "lfs", Spec{}, "lfs/cat/0.png is a Git LFS pointer"},
		{"npz", "nan.npz", Spec{}, "image 0 of nan.npz holds NaN at value 1; pixels must be numbers in [0,1]"},
		{"npz", "inf.npz", Spec{}, "image 1 of inf.npz holds -Inf at value 0; pixels must be numbers in [0,1]"},
		{"npz", "255.npz", Spec{}, "image 1 of 255.npz holds 255 at value 1; pixels must lie in [0,1], but those"},
		{"npz", "normalised.npz", Spec{},
			"image 1 of normalised.npz holds -0.5 at value 1; pixels must lie in [0,1], but those of the first image"},
		{"npz", "negative.npz", Spec{}, "its array y: label 0 is -1, not a class index"},
		{"npz", "counts.npz", Spec{}, "x holds 2 images and y 3 labels"},
		{"npz", "none.npz", Spec{}, "it holds no images"},
		{"npz", "flat.npz", Spec{}, "its array x: images have the shape [N, C, H, W] or [N, H, W, C], not [2 2]"},
		{"npz", "channels.npz", Spec{}, "its array x: which axis of [1 5 6 7] holds the channels? save"},
		{"npz", "floaty.npz", Spec{}, "its array y: labels are integers, not float32"},
		{"npz", "many.npz", Spec{}, "its array y: its 4194305 labels are more than the 4194304 images that are read"},
		{"npz", "onehot.npz", Spec{}, "its array y: labels have the shape [N], not [2 2] (class indices, not one-hot"},
		{"npz", "int32.npz", Spec{}, "its array x: images are uint8 or float32, not int32"},
		{"npz", "noy.npz", Spec{}, "which of its arrays are images and labels? it holds: x; name them by keys"},
		{"npz", "object.npz", Spec{}, "its array x: it holds Python objects, which are not read; save numbers"},
		{"npz", "lying.npz", Spec{},
			"its array x: a shape of [1000000 3 32 32] of uint8 takes 3072000128 bytes, but it has 3200"},
		{"npz", "flatlabel.npz", Spec{Classes: 3}, "image 0 of flatlabel.npz has the label 9, but there are 3 classes"},
		{"image-folder", "absent", Spec{}, "absent does not exist"},
		{"image-folder", "folder", Spec{}, "it holds no folders; every class is a folder of PNG, JPEG or WebP files"},
		{"tiny-imagenet", "folder", Spec{}, "folder/wnids.txt does not exist"},
	} {
		c.spec.Format, c.spec.Path = c.format, c.path
		refused(t, c.spec, fsys, c.want)
	}
	_, err := Open(Spec{Format: "cifar", Path: "good.bin"}, fsys, 0)
	if err == nil || !strings.Contains(err.Error(), `no format "cifar"; formats: cifar10-bin`) {
		t.Error(err)
	}
}

// Pixels that are floats in the file keep every bit.
func TestFloats(t *testing.T) {
	x := []float32{0, 1, 0.3, float32(math.Copysign(0, -1)), math.SmallestNonzeroFloat32, math.Nextafter32(1, 0)}
	for b := range 256 {
		x = append(x, float32(b)/255)
	}
	x = x[:260]
	fsys := files(map[string][]byte{"f.npz": archive(t, floats(65, 1, 2, 2)(x...), ints(make([]int64, 65)...))})
	d := must.Get(Open(Spec{Format: "npz", Path: "f.npz", Indices: []int{64, 0, 3}}, fsys, 0))(t)
	for i := range d.Len() {
		id, pixels, _ := must.Get3(d.Image(i))(t)
		for j, v := range pixels {
			if want := x[4*id+j]; math.Float32bits(v) != math.Float32bits(want) {
				t.Errorf("image %d has the value %v, want %v", id, v, want)
			}
		}
	}
}
