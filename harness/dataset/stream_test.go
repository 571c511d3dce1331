package dataset

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	stdimage "image"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/parquet-go/parquet-go"

	"selfheal/internal/must"
)

// stored makes a .npz file as numpy.savez does: uncompressed.
func stored(t testing.TB, arrays map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, data := range arrays {
		entry := must.Get(w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store}))(t)
		must.Get(entry.Write(data))(t)
	}
	must.Do(t, w.Close())
	return b.Bytes()
}

// set makes a data set of n images of 3×32×32 at the path set.
type set struct {
	name   string
	format string
	files  func(t testing.TB, n int) fstest.MapFS
}

// sets store the same kind of images in every format. Image i's first pixel is i mod 10, and so is its label.
var sets = []set{
	{"cifar10", "cifar10-bin", func(_ testing.TB, n int) fstest.MapFS {
		all := make([]byte, n*3073)
		for i := range n {
			all[i*3073], all[i*3073+1] = byte(i%10), byte(i%10)
		}
		return fstest.MapFS{"set": {Data: all}}
	}},
	{"cifar100", "cifar100-bin", func(_ testing.TB, n int) fstest.MapFS {
		all := make([]byte, n*3074)
		for i := range n {
			all[i*3074+1], all[i*3074+2] = byte(i%10), byte(i%10)
		}
		return fstest.MapFS{"set": {Data: all}}
	}},
	{"cifar10, pickled", "cifar10-python", func(_ testing.TB, n int) fstest.MapFS {
		labels, all := []byte{}, make([]byte, n*3072)
		for i := range n {
			labels, all[i*3072] = append(labels, 'K', byte(i%10)), byte(i%10)
		}
		text := "\x80\x02}(U\x06labels](" + string(labels) + "eU\x04datacnumpy.core.multiarray\n_reconstruct\n" +
			"cnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01J" + string(number32(n)) + "M\x00\x0c\x86cnumpy\ndtype\n" +
			"U\x02u1NN\x87R\x89T" + string(number32(len(all))) + string(all) + "tbu."
		return fstest.MapFS{"set": {Data: []byte(text)}}
	}},
	{"npz, stored", "npz", func(t testing.TB, n int) fstest.MapFS {
		return fstest.MapFS{"set": {Data: stored(t, arrays10(n))}}
	}},
	{"npz, compressed", "npz", func(t testing.TB, n int) fstest.MapFS {
		return fstest.MapFS{"set": {Data: zipped(t, arrays10(n))}}
	}},
	{"parquet", "parquet", func(t testing.TB, n int) fstest.MapFS {
		type picture struct {
			Bytes []byte `parquet:"bytes"`
		}
		type row struct {
			Image picture `parquet:"image"`
			Label int32   `parquet:"label"`
		}
		var b bytes.Buffer
		w, pictures := parquet.NewGenericWriter[row](&b, parquet.MaxRowsPerRowGroup(50)), pictures10(t)
		for i := range n {
			must.Get(w.Write([]row{{picture{pictures[i%10]}, int32(i % 10)}}))(t)
		}
		must.Do(t, w.Close())
		return fstest.MapFS{"set": {Data: b.Bytes()}}
	}},
	{"image-folder", "image-folder", func(t testing.TB, n int) fstest.MapFS {
		fsys, pictures := fstest.MapFS{}, pictures10(t)
		for i := range n { // class by class
			class := i * 10 / n
			fsys[fmt.Sprintf("set/c%d/%06d.png", class, i)] = &fstest.MapFile{Data: pictures[class]}
		}
		return fsys
	}},
	{"tiny-imagenet", "tiny-imagenet", func(t testing.TB, n int) fstest.MapFS {
		fsys, pictures := fstest.MapFS{}, pictures10(t)
		var list strings.Builder
		for i := range n {
			fmt.Fprintf(&list, "%d.png c%d\n", i, i%10)
			fsys[fmt.Sprintf("set/val/images/%d.png", i)] = &fstest.MapFile{Data: pictures[i%10]}
		}
		fsys["set/val/val_annotations.txt"] = &fstest.MapFile{Data: []byte(list.String())}
		fsys["set/wnids.txt"] = &fstest.MapFile{Data: []byte("c0 c1 c2 c3 c4 c5 c6 c7 c8 c9")}
		return fsys
	}},
}

func number32(n int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(n)) }

func arrays10(n int) map[string][]byte {
	x, y := make([]byte, n*3072), make([]byte, n)
	for i := range n {
		x[i*3072], y[i] = byte(i%10), byte(i%10)
	}
	return map[string][]byte{"x.npy": npyOf("|u1", fmt.Sprintf("%d, 3, 32, 32", n), x),
		"y.npy": npyOf("|u1", fmt.Sprintf("%d,", n), y)}
}

func pictures10(t testing.TB) (files [][]byte) {
	for i := range 10 {
		im := stdimage.NewRGBA(stdimage.Rect(0, 0, 32, 32))
		for k := range im.Pix {
			im.Pix[k] = 255
		}
		im.Pix[0] = uint8(i)
		files = append(files, pngFile(t, im))
	}
	return files
}

// Many goroutines read the same as one, in any order of the chosen images.
func TestReadFromManyGoroutines(t *testing.T) {
	for _, s := range sets {
		fsys := s.files(t, 40)
		d := must.Get(Open(Spec{Format: s.format, Path: "set", Indices: []int{39, 2, 17, 0, 21, 38, 5, 6}}, fsys, 0))(t)
		var group sync.WaitGroup
		for k := range 64 {
			group.Go(func() {
				i := k % d.Len()
				id, pixels, label, err := d.Image(i)
				if err != nil || id != d.ID(i) || label != d.Label(i) || pixels[0] != float32(label)/255 {
					t.Errorf("%s: image %d has id %d, label %d and pixel %v, %v", s.name, i, id, label, pixels[0], err)
				}
				clear(pixels) // the caller may change them
			})
		}
		group.Wait()
		must.Do(t, d.Close())
	}
}

// The memory of an open set does not grow with its images' pixels.
func TestNoPixelsAreKept(t *testing.T) {
	for _, s := range sets {
		var taken [2]int64
		for k, n := range []int{20, 320} {
			fsys := s.files(t, n)
			before := heap()
			d := must.Get(Open(Spec{Format: s.format, Path: "set"}, fsys, 0))(t)
			out := make([]float32, 3072)
			for i := range d.Len() {
				must.Do(t, d.Pixels(i, out))
			}
			taken[k] = heap() - before
			runtime.KeepAlive(fsys)
			must.Do(t, d.Close())
		}
		if each := (taken[1] - taken[0]) / 300; each > 400 {
			t.Errorf("%s: an image takes %d bytes of memory", s.name, each)
		}
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools hold goes with the second collection
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// An image that has changed since the set was opened is refused, and no other.
func TestChangedFiles(t *testing.T) {
	small := pngFile(t, picture(0))
	for _, s := range sets {
		fsys, dir := s.files(t, 20), t.TempDir()
		must.Do(t, os.CopyFS(dir, fsys))
		d := must.Get(Open(Spec{Format: s.format, Path: "set"}, os.DirFS(dir), 0))(t)
		refused := func(count int, words ...string) {
			t.Helper()
			for i := range d.Len() {
				if err := d.Pixels(i, make([]float32, 3072)); err != nil {
					count--
					must.Refuse(t, err, append(words, "data set set ("+s.format+"): ")...)
				}
			}
			if count != 0 {
				t.Errorf("%s: %d more images should be refused", s.name, count)
			}
		}
		refused(0)
		const changed = "has changed since it was opened"
		if f, ok := d.source.(*folder); ok {
			file := filepath.Join(dir, f.name(7))
			must.Do(t, os.WriteFile(file, pictures10(t)[d.Label(7)+1], 0o644))
			refused(1, f.name(7), changed)
			must.Do(t, os.WriteFile(file, small, 0o644))
			refused(1, f.name(7), changed)
			must.Do(t, os.Remove(file))
			refused(1, f.name(7), "no such file")
			continue
		}
		file, data := filepath.Join(dir, "set"), slices.Clone(fsys["set"].Data)
		data[len(data)/2] ^= 1
		must.Do(t, os.WriteFile(file, data, 0o644))
		if s.name == "npz, compressed" || s.name == "parquet" { // it was copied
			refused(0)
		} else {
			refused(1, " of set ", changed)
			must.Do(t, os.Truncate(file, 20))
			refused(20, " of set can't be read: the file ends before it")
		}
		must.Do(t, d.Close())
		refused(20, "closed")
	}
}

// A refused source is closed.
func TestRefusedSourceIsClosed(t *testing.T) {
	c := &closing{}
	refused := Format{open: func(_ fs.FS, _ Spec, files *closers) (source, error) { files.add(c); return c, nil }}
	if _, err := open(Spec{}, nil, 0, refused, nil); err == nil ||
		err.Error() != "no disk" || !c.closed {
		t.Errorf("%v, closed %v", err, c.closed)
	}
}

type closing struct {
	folder
	closed bool
}

func (c *closing) count() int { return 3 }
func (c *closing) read(int, []byte) ([]byte, [3]int, error) {
	return nil, [3]int{}, errors.New("no disk")
}
func (c *closing) Close() error { c.closed = true; return nil }
