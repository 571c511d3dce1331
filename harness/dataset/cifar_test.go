package dataset

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"selfheal/internal/must"
)

// samples is the output of scripts/goldens/dataset_samples.py; torchvision reads the Python versions.
var samples = os.DirFS("testdata/samples")

// unpacked returns the files of an archive.
func unpacked(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	fsys := fstest.MapFS{}
	zipped := must.Get(gzip.NewReader(bytes.NewReader(must.Get(fs.ReadFile(samples, name))(t))))(t)
	r := tar.NewReader(zipped)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return fsys
		}
		must.Do(t, err)
		fsys[h.Name] = &fstest.MapFile{Data: must.Get(io.ReadAll(r))(t)}
	}
}

// The images and labels of CIFAR's versions are the same from the archive, its folder, the folder around it and a
// single file. There are 10 training images, in CIFAR-100 2, and 2 test images.
func TestCIFARVersions(t *testing.T) {
	for _, v := range cifarVersions {
		archive := v.archive + ".tar.gz"
		fsys := unpacked(t, archive)
		for name, file := range fsys {
			fsys["data/"+name] = file
		}
		fsys[archive] = &fstest.MapFile{Data: must.Get(fs.ReadFile(samples, archive))(t)}
		single := path.Join(v.folder, v.files["test"][0])
		train := 2 * len(v.files["train"])
		for _, c := range []struct {
			path, split string
			first, n    int
		}{
			{archive, "", 10, 2}, {archive, "test", 10, 2}, {archive, "train", 0, train}, {v.folder, "", 10, 2},
			{v.folder, "train", 0, train}, {"data", "", 10, 2}, {"data", "train", 0, train}, {single, "", 10, 2},
		} {
			d, err := Open(of(v.format, c.path, c.split, nil), fsys, 0)
			if err != nil {
				t.Errorf("%s %s of %s: %v", v.format, c.split, c.path, err)
				continue
			}
			if d.Len() != c.n || d.Classes() != len(v.names) || d.Shape() != [3]int{3, 32, 32} ||
				len(d.ClassNames()) != d.Classes() {
				t.Errorf("%s of %s: %d images, shape %v, %d classes %v", v.format, c.path, d.Len(), d.Shape(),
					d.Classes(), d.ClassNames())
			}
			for i := range d.Len() {
				id, pixels, label := must.Get3(d.Image(i))(t)
				number := c.first + i
				want := map[int]int{10: 3 * number % 10, 100: 37 * number % 100}[d.Classes()]
				if id != i || label != want {
					t.Errorf("%s of %s: image %d has label %d, want %d", v.format, c.path, id, label, want)
				}
				for k, pixel := range pixels {
					if pixel != value(byte(7*number+k/3)) {
						t.Fatalf("%s of %s: image %d, pixel %d is %v", v.format, c.path, id, k, pixel)
					}
				}
			}
			must.Do(t, d.Close())
		}
		for _, name := range []string{archive, v.folder, "data"} {
			if got := must.Get(Guess(fsys, name))(t); got != v.format {
				t.Errorf("%s is guessed to be %s, not %s", name, got, v.format)
			}
		}
	}
	if len(cifar100Bin.names) != 100 || len(cifar10Bin.names) != 10 {
		t.Error("classes are missing")
	}
}

// The class names are CIFAR's, whatever the file is called, unless a list of names lies beside it, or the config says
// otherwise.
func TestClassNamesOfSingleFiles(t *testing.T) {
	own := "disc\nring\nsquare\nframe\ntriangle\ncross\nstar\nbars\ncrescent\nell\n\n"
	for _, c := range []struct {
		name, list string
		classes    int
		first      string // name; "" for none
	}{
		{"test.bin", "", 0, "airplane"}, {"d/shapes.bin", "", 0, "airplane"}, {"d/shapes.bin", own, 0, "disc"},
		{"test.bin", own, 0, "disc"}, {"test.bin", "one\ntwo\n", 0, "airplane"}, {"cifar10-test.bin", "", 7, ""},
	} {
		set := map[string][]byte{c.name: cifarFile(2, 1)}
		if c.list != "" {
			set[path.Join(path.Dir(c.name), "batches.meta.txt")] = []byte(c.list)
		}
		d := must.Get(Open(Spec{Format: "cifar10-bin", Path: c.name, Classes: c.classes}, files(set), 0))(t)
		names := append(d.ClassNames(), "")
		if names[0] != c.first {
			t.Errorf("%s: class 0 is called %q, not %q", c.name, names[0], c.first)
		}
	}
}

// An array in Fortran order is read in place too.
func TestFortranPickle(t *testing.T) {
	name := "cifar-10-batches-py/test_batch"
	data := bytes.Clone(unpacked(t, "cifar-10-python.tar.gz")[name].Data)
	at := bytes.Index(data, []byte("\x89T"))
	data[at] = 0x88
	pixels := data[at+6 : at+6+2*cifarPixels]
	rows := bytes.Clone(pixels)
	for k := range cifarPixels {
		pixels[2*k], pixels[2*k+1] = rows[k], rows[cifarPixels+k]
	}
	d := must.Get(Open(Spec{Format: "cifar10-python", Path: "f"}, files(map[string][]byte{"f": data}), 0))(t)
	for i := range 2 {
		_, got, _ := must.Get3(d.Image(i))(t)
		for k, pixel := range got {
			if pixel != value(byte(7*(10+i)+k/3)) {
				t.Fatalf("image %d, pixel %d is %v", i, k, pixel)
			}
		}
	}
}

// Pickles in CIFAR's form that Python 3 writes by protocols 3 to 5 are read, with NumPy's names before and after its
// second version. Earlier protocols, and data outside of the pickle, are refused.
func TestPython3Pickles(t *testing.T) {
	older := strings.NewReplacer("\x16numpy._core.multiarray", "\x15numpy.core.multiarray",
		"\x13numpy._core.numeric", "\x12numpy.core.numeric", "cnumpy._core.", "cnumpy.core.")
	read := 0
	for name, file := range unpacked(t, "python3-pickles.tar.gz") {
		for _, data := range []string{string(file.Data), older.Replace(string(file.Data))} {
			d, err := Open(Spec{Format: "cifar10-python", Path: "f"}, files(map[string][]byte{"f": []byte(data)}), 0)
			switch form, protocol, _ := strings.Cut(path.Base(name), "-"); {
			case protocol < "2":
				must.Refuse(t, err, "it is no Python pickle of protocols 2 to 5")
				continue
			case protocol == "2":
				must.Refuse(t, err, "Python 3 wrote it by protocol 2; write it by pickle.dump's own protocol")
				continue
			case form == "buffers":
				must.Refuse(t, err, "its data lies outside of it; write it by pickle.dump without buffer_callback")
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for i := range 2 {
				_, got, label := must.Get3(d.Image(i))(t)
				for k, pixel := range got {
					if pixel != value(byte(7*(10+i)+k/3)) || label != 3*i {
						t.Fatalf("%s: image %d, of label %d: pixel %d is %v", name, i, label, k, pixel)
					}
				}
			}
			must.Do(t, d.Close())
			read++
		}
	}
	if read != 2*16 {
		t.Errorf("%d files are read", read)
	}
}

func TestCIFARErrors(t *testing.T) {
	fsys := fstest.MapFS{"empty/x": {}, "bad.tar.gz": {Data: []byte("no archive")}}
	for _, v := range cifarVersions {
		archive := v.archive + ".tar.gz"
		fsys[archive] = &fstest.MapFile{Data: must.Get(fs.ReadFile(samples, archive))(t)}
		fsys["cut-"+archive] = &fstest.MapFile{Data: fsys[archive].Data[:500]}
		for name, file := range unpacked(t, archive) {
			fsys[name] = file
		}
	}
	good := fsys["cifar-10-batches-py/test_batch"].Data
	edited := func(from, to string) []byte { return bytes.Replace(good, []byte(from), []byte(to), 1) }
	for name, data := range map[string][]byte{
		"calls":    edited("cnumpy.core.multiarray\n_reconstruct\n", "cos\nsystem\n"),
		"nolabels": edited("labels", "lebals"),
		"nodata":   edited("U\x04data", "U\x04date"),
		"shape":    edited("K\x02M\x00\x0c", "K\x03M\x00\x0c"),
		"type":     edited("u1", "f4"),
		"label":    edited("K\x00K\x03e", "K\x00K\x63e"),
	} {
		fsys[name] = &fstest.MapFile{Data: data}
	}
	delete(fsys, "cifar-10-batches-bin/data_batch_3.bin")
	delete(fsys, "cifar-100-binary/test.bin")
	for _, c := range []struct{ format, path, split, want string }{
		{"cifar10-python", "absent", "", "absent does not exist"},
		{"cifar10-python", "empty", "", "there is no test_batch in it, which split test needs"},
		{"cifar10-python", "cifar-10-batches-py", "val", "split must be train or test, not val"},
		{"cifar10-python", "cifar-10-batches-py/test_batch", "test", "split: a single file has no splits; remove it"},
		{"cifar10-bin", "cifar-10-batches-bin", "train",
			"there is no data_batch_3.bin in it, which split train needs; it has split test"},
		{"cifar100-bin", "cifar-100-binary", "",
			"there is no test.bin in it, which split test needs; it has split train"},
		{"cifar10-python", "cifar-10-batches-bin", "",
			"there is no test_batch in it, which split test needs; its files are those of format cifar10-bin"},
		{"cifar10-bin", "cifar-100-python.tar.gz", "",
			"there is no test_batch.bin in it, which split test needs; its files are those of format cifar100-python"},
		{"cifar10-python", "bad.tar.gz", "", "it is compressed and is unpacked for reading: it is no .tar.gz: "},
		{"cifar10-python", "cut-cifar-10-python.tar.gz", "train", "it is compressed and is unpacked for reading: "},
		{"cifar10-python", "cifar-10-batches-bin/test_batch.bin", "", "it is no Python pickle of protocols 2 to 5"},
		{"cifar100-python", "cifar-10-batches-py/test_batch", "", "its dictionary has no list of numbers called " +
			"fine_labels but one called labels: its format is cifar10-python"},
		{"cifar10-python", "nolabels", "", "its dictionary has no list of numbers called labels"},
		{"cifar10-python", "nodata", "", "its dictionary has no array called data"},
		{"cifar10-python", "calls", "", `its pickle can't be read at byte 105: it calls "os system", which CIFAR's`},
		{"cifar10-python", "shape", "",
			`its array data has the shape [3 3072], the type "u1" and 6144 bytes; 2 labels need [2 3072] of u1`},
		{"cifar10-python", "type", "", `its array data has the shape [2 3072], the type "f4"`},
		{"cifar10-python", "label", "", "record 1 of label has the label 99, but there are 10 classes"},
	} {
		refused(t, of(c.format, c.path, c.split, nil), fsys, c.want)
	}
}

// Any bytes as a pickle, and any change of one of CIFAR's.
func FuzzPickle(f *testing.F) {
	for _, name := range []string{"cifar-10-python.tar.gz", "cifar-100-python.tar.gz", "python3-pickles.tar.gz"} {
		for file, data := range unpacked(f, name) {
			f.Add(data.Data, strings.Contains(file, "100"))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, hundred bool) {
		format := cifar10Python.format
		if hundred {
			format = cifar100Python.format
		}
		walk(t, Spec{Format: format, Path: "f"}, fstest.MapFS{"f": {Data: data}})
	})
}

// Any bytes as an archive of each of CIFAR's versions.
func FuzzTarGz(f *testing.F) {
	for _, v := range cifarVersions {
		f.Add(must.Get(fs.ReadFile(samples, v.archive+".tar.gz"))(f))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		t.Setenv("TMPDIR", t.TempDir())
		for _, v := range cifarVersions {
			walk(t, Spec{Format: v.format, Path: "f.tar.gz"}, fstest.MapFS{"f.tar.gz": {Data: data}})
		}
	})
}
