package dataset

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/npy"
)

// npyOf makes a .npy file by hand.
func npyOf(descr, shape string, values []byte) []byte {
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape)
	return npyHeader(1, dict, values)
}

func npyHeader(version byte, dict string, values []byte) []byte {
	dict += strings.Repeat(" ", 117-len(dict)%118) + "\n"
	b := append([]byte(npy.Magic), version, 0)
	if version == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(dict)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(dict)))
	}
	return append(append(b, dict...), values...)
}

func ints(values ...int64) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return npyOf("<i8", fmt.Sprintf("%d,", len(values)), b)
}

func floats(shape ...int) func(values ...float32) []byte {
	return func(values ...float32) []byte {
		var b bytes.Buffer
		if err := npy.Write(&b, shape, slices.Values([][]float32{values})); err != nil {
			panic(err)
		}
		return b.Bytes()
	}
}

// zipped makes a .npz file of arrays and leaves out nil ones.
func zipped(t testing.TB, arrays map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(arrays)) {
		if arrays[name] != nil {
			must.Get(must.Get(w.Create(name))(t).Write(arrays[name]))(t)
		}
	}
	must.Do(t, w.Close())
	return b.Bytes()
}

// archive makes a .npz file of x and, unless nil, y.
func archive(t testing.TB, x, y []byte) []byte {
	t.Helper()
	return zipped(t, map[string][]byte{"x.npy": x, "y.npy": y})
}

func TestNPYRoundTrip(t *testing.T) {
	many := make([]float32, 70_000*3)
	for i := range many {
		many[i] = float32(i) / 3
	}
	for _, c := range []struct {
		shape  []int
		values []float32
	}{
		{[]int{2, 3}, []float32{0, 1, -1, float32(math.Inf(1)), math.MaxFloat32, math.SmallestNonzeroFloat32}},
		{[]int{3}, []float32{1, 2, 3}},
		{[]int{0, 3, 32, 32}, nil},
		{nil, []float32{7}},
		{[]int{70_000, 3}, many},
	} {
		data := floats(c.shape...)(c.values...)
		if i := bytes.IndexByte(data, '\n') + 1; i%64 != 0 {
			t.Errorf("%v: the values begin at byte %d, not at a multiple of 64", c.shape, i)
		}
		r := bytes.NewReader(append(data, "more"...))
		shape, values, err := npy.Read(r)
		if err != nil || !slices.Equal(shape, c.shape) || !slices.Equal(values, c.values) {
			t.Errorf("%v: got %v and %d values, %v", c.shape, shape, len(values), err)
		}
		if rest, _ := io.ReadAll(r); string(rest) != "more" {
			t.Errorf("%v: what follows the array was read too: %q is left", c.shape, rest)
		}
	}
	if err := npy.Write(io.Discard, []int{2, 2}, slices.Values([][]float32{[]float32{1}})); err == nil {
		t.Error("a shape that does not fit the values is written")
	}
}

func TestNPYVersions(t *testing.T) {
	for _, version := range []byte{1, 2, 3} {
		data := npyHeader(version, "{'descr': '>f8', 'fortran_order': False, 'shape': (1L, 2L)}",
			binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, math.Float64bits(0.5)),
				math.Float64bits(-2)))
		shape, values, err := npy.Read(bytes.NewReader(data))
		if err != nil || !slices.Equal(shape, []int{1, 2}) || !slices.Equal(values, []float32{0.5, -2}) {
			t.Errorf("version %d: %v %v %v", version, shape, values, err)
		}
	}
}

func TestNPYErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "it does not begin like a NumPy array"},
		{"text", []byte("hello, this is text"), "it does not begin like a NumPy array"},
		{"version", npyHeader(9, "{}", nil), "its NumPy format version 9 is unknown"},
		{"cut header", npyOf("<f4", "1,", nil)[:40], "its header is cut short"},
		{"huge header", append([]byte(npy.Magic), 2, 0, 255, 255, 255, 255),
			"its header claims 4294967295 bytes, more than any array needs"},
		{"no header", npyHeader(1, "{}", nil), `its header can't be read: "{}" (plain arrays of numbers only)`},
		{"no comma", npyHeader(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}", nil),
			`its header can't be read: "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}" (plain arrays of ` +
				"numbers only)"},
		{"record", npyHeader(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", nil),
			`its header can't be read: "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (" (plain ` +
				"arrays of numbers only)"},
		{"complex", npyOf("<c8", "1,", nil),
			"it holds values of type <c8; uint8, integers and floats of 16 to 64 bits are read"},
		{"odd width", npyOf("<f48", "1,", nil),
			"it holds values of type <f48; uint8, integers and floats of 16 to 64 bits are read"},
		{"huge", npyOf("<f4", "99999999999, 99999999999", nil),
			"its shape (99999999999, 99999999999) is larger than any array that is read"},
		{"overflow", npyOf("<f4", "99999999999999999999", nil),
			"its shape (99999999999999999999) is larger than any array that is read"},
		{"memory", npyOf("<f4", "999999999999,", nil), "its 999999999999 values need more than 8 GiB of memory"},
		{"lying", npyOf("<f4", "1999999999,", make([]byte, 40)),
			"it is cut short: 1999999999 values are promised, about 0 are there"},
		{"bytes", npyOf("|u1", "4,", make([]byte, 4)), "it holds uint8 values, float32 is needed"},
		{"many dims", npyOf("<f4", strings.Repeat("1, ", 33), nil),
			"its shape (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, ) is larger than any array that " +
				"is read"},
	} {
		if _, _, err := npy.Read(bytes.NewReader(c.data)); err == nil || err.Error() != c.want {
			t.Errorf("%s:\n got %v\nwant %s", c.name, err, c.want)
		}
	}
}

// Values of 16 bits are read as NumPy reads them: a half, the least and the largest number.
func TestFloat16(t *testing.T) {
	data := npyOf("<f2", "2, 2", []byte{0x00, 0x38, 0x01, 0x00, 0xff, 0x7b, 0x00, 0xc0})
	shape, values := must.Get2(npy.ReadNumbers(bytes.NewReader(data)))(t)
	if !slices.Equal(shape, []int{2, 2}) || !slices.Equal(values, []float32{0.5, 1. / (1 << 24), 65504, -2}) {
		t.Error(shape, values)
	}
}

// Arrays that NumPy itself saved (testdata/numpy_arrays.py) are read.
func TestNumPyArchives(t *testing.T) {
	fsys := os.DirFS("testdata")
	var hashes []string
	for _, name := range []string{"uint8_nchw", "uint8_nhwc", "float32_nchw", "float32_nhwc_big_endian",
		"float64_nchw"} {
		d := must.Get(Open(Spec{Format: "npz", Path: name + ".npz"}, fsys, 0))(t)
		if d.Len() != 4 || d.Shape() != [3]int{3, 2, 5} || d.Classes() != 3 || d.ClassNames() != nil {
			t.Errorf("%s: %d images of shape %v in %d classes %v", name, d.Len(), d.Shape(), d.Classes(),
				d.ClassNames())
		}
		for i, want := range []int{2, 0, 1, 2} {
			id, pixels, label := must.Get3(d.Image(i))(t)
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
	if id, pixels, _ := must.Get3(d.Image(0))(t); d.Shape() != [3]int{1, 2, 5} || id != 3 ||
		pixels[1] != float32((37*3+11)%256)/255 {
		t.Errorf("gray: shape %v, id %d, pixels %v", d.Shape(), id, pixels)
	}

	_, err := Open(Spec{Format: "npz", Path: "fortran.npz"}, fsys, 0)
	if err == nil || !strings.Contains(err.Error(), "numpy.ascontiguousarray") {
		t.Errorf("Fortran order: %v", err)
	}
}

// WriteNPY writes the same bytes as numpy.save.
func TestWriteNPYAsNumPy(t *testing.T) {
	want := must.Get(os.ReadFile("testdata/float32.npy"))(t)
	shape, values := must.Get2(ReadArray(os.DirFS("testdata"), "float32.npy"))(t)
	var got bytes.Buffer
	must.Do(t, npy.Write(&got, shape, slices.Values([][]float32{values})))
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("got  %q\nwant %q", got.Bytes()[:128], want[:128])
	}
}

// ReadArray reads the first wanted array, or else the only one.
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
	for _, by := range []*result.Transform{nil, {Resize: 8, Crop: 6, Interpolation: result.Bicubic}} {
		spec := Spec{Format: "image-folder", Path: "set", Shaping: result.Shaping{Transform: by}}
		d := must.Get(Open(spec, fsys, 0))(t)
		_, want, _ := must.Get3(d.Image(0))(t)
		pixels, shape, err := ReadImage(fsys, "set/cat/a.png", 3, by)
		if err != nil || shape != d.Shape() || !slices.Equal(pixels, want) || slices.Max(pixels) == 0 {
			t.Errorf("%v, %v of shape %v, want %v of %v", err, pixels, shape, want, d.Shape())
		}
	}
	for name, want := range map[string]string{"broken.png": "broken.png is no readable PNG, JPEG or WebP",
		"absent.png": "not exist"} {
		if _, _, err := ReadImage(fsys, name, 3, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
