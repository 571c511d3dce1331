package dataset

import (
	"archive/zip"
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/internal/npy"
	"selfheal/internal/number"
)

// arrays are a data set's NumPy arrays: an archive's, or the .npy files of one folder.
type arrays struct {
	list  []array
	first string // the array that the path names; "" if it names all
}

type array struct {
	name string // without .npy
	raw  func() (opened, error)
}

// opened is an open array, positioned at the first value.
type opened struct {
	io.Reader
	io.Closer
	at     io.ReaderAt // the file from its header on; nil if it is compressed
	size   uint64      // bytes, header included
	header npy.Header
}

// openArrays finds the arrays of an archive (.npz), of the .npy files in a folder, or of the .npy files beside a .npy
// file.
func openArrays(fsys fs.FS, name string, files *closers) (a arrays, err error) {
	folder := name
	switch {
	case strings.EqualFold(path.Ext(name), ".npy"):
		folder, a.first = path.Dir(name), strings.TrimSuffix(path.Base(name), path.Ext(name))
	case !isFolder(fsys, name):
		f, err := files.open(fsys, name)
		if err == nil {
			a.list, err = archived(f)
		}
		return a, err
	}
	entries, err := fs.ReadDir(fsys, folder)
	if err != nil {
		return a, err
	}
	for _, e := range entries {
		if strings.EqualFold(path.Ext(e.Name()), ".npy") {
			a.list = append(a.list, array{strings.TrimSuffix(e.Name(), path.Ext(e.Name())), func() (opened, error) {
				f, err := openFile(fsys, path.Join(folder, e.Name()))
				return opened{Reader: io.NewSectionReader(f, 0, f.size), Closer: f, at: f, size: uint64(f.size)}, err
			}})
		}
	}
	if len(a.list) == 0 {
		return a, errors.New("it holds no .npy files")
	}
	if a.first != "" && a.find(a.first) == nil {
		return a, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return a, nil
}

func isArrays(fsys fs.FS, name string) bool {
	isArray := func(name string) bool { return strings.EqualFold(path.Ext(name), ".npy") }
	entries, _ := fs.ReadDir(fsys, name) // a file has none
	return isArray(name) && isFile(fsys, name) ||
		slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return isArray(e.Name()) })
}

func archived(f file) (list []array, err error) {
	archive, err := zip.NewReader(f, f.size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // entries are read by name, never unpacked
		return nil, fmt.Errorf("it is no NumPy archive (.npz): %w", err)
	}
	for _, entry := range archive.File {
		name, ok := strings.CutSuffix(entry.Name, ".npy")
		if !ok {
			continue
		}
		list = append(list, array{name, func() (opened, error) {
			body, err := entry.Open()
			o := opened{Reader: body, Closer: body, size: entry.UncompressedSize64}
			if err == nil && entry.Method == zip.Store && entry.CompressedSize64 == entry.UncompressedSize64 {
				var offset int64
				offset, err = entry.DataOffset()
				o.at = io.NewSectionReader(f, offset, int64(o.size))
			}
			return o, err
		}})
	}
	return list, nil
}

// open opens an array, checks its header against the file's size and leaves the reader at the first value.
func (a array) open() (opened, error) {
	o, err := a.raw()
	if err != nil {
		return opened{}, err
	}
	o.Reader = bufio.NewReaderSize(o.Reader, 1<<16)
	h, err := npy.ReadHeader(o.Reader)
	if want := uint64(h.Bytes) + uint64(h.N)*uint64(h.Width); err == nil && want != o.size {
		err = fmt.Errorf("a shape of %v of %s takes %d bytes, but it has %d", h.Shape, h.Name, want, o.size)
	}
	if o.header = h; err != nil {
		o.Close()
	}
	return o, err
}

// find returns the first of the named arrays that exists, or nil.
func (a arrays) find(names ...string) *array {
	for _, name := range names {
		if i := slices.IndexFunc(a.list, func(x array) bool { return x.name == name }); i >= 0 {
			return &a.list[i]
		}
	}
	return nil
}

func (a arrays) names() string {
	return cmp.Or(some(lists.Map(a.list, func(x array) string { return x.name })), "no arrays")
}

// arrayNames are common names of arrays of images and labels. SPLIT in them stands for a split.
var arrayNames = [][2]string{{"x", "y"}, {"X", "y"}, {"images", "labels"}, {"data", "labels"}, {"x", "labels"},
	{"arr_0", "arr_1"}, {"x_SPLIT", "y_SPLIT"}, {"X_SPLIT", "y_SPLIT"}, {"SPLIT_images", "SPLIT_labels"},
	{"SPLIT_x", "SPLIT_y"}, {"SPLIT_data", "SPLIT_labels"}, {"images_SPLIT", "labels_SPLIT"}}

// pair finds the images and, unless they have truths, the labels: by keys, by common names, or else by their shapes.
func (a arrays) pair(spec Spec) (x, y *array, err error) {
	switch k := spec.Keys; {
	case spec.Truth != "":
		return a.alone(spec)
	case k != nil:
		for _, name := range []string{k.X, k.Y} {
			if a.find(name) == nil {
				return nil, nil, fmt.Errorf("keys: there is no array %s; it holds: %s", shorten(name), a.names())
			}
		}
		if spec.Split != "" {
			err = errors.New("split: keys name the arrays, so there is no split to choose; remove one of the two")
		}
		return a.find(k.X), a.find(k.Y), err
	case a.first != "":
		return a.beside(spec)
	}
	of := func(split string, splits bool) bool {
		for _, names := range arrayNames {
			x = a.find(strings.ReplaceAll(names[0], "SPLIT", split))
			y = a.find(strings.ReplaceAll(names[1], "SPLIT", split))
			if x != nil && y != nil && strings.Contains(names[0], "SPLIT") == splits {
				return true
			}
		}
		return false
	}
	if spec.Split == "" && of("", false) {
		return x, y, nil
	}
	split, err := commonSplit(spec.Split, func(split string) bool { return of(split, true) }, "split",
		"none of its arrays is one of "+shorten(spec.Split)+"; it holds: "+a.names())
	if split == "" && err == nil {
		return a.byShape("", rankOf(spec))
	}
	return x, y, err
}

// alone finds the images of a set without labels: by keys, by the path or by common names.
func (a arrays) alone(spec Spec) (x, _ *array, err error) {
	names := []string{a.first, "x", "X", "images", "data", "arr_0"}
	if spec.Keys != nil {
		names = []string{spec.Keys.X}
	}
	if x = a.find(names...); x == nil {
		err = fmt.Errorf("which of its arrays are images? it holds: %s; name them by keys: {x: IMAGES, y: TRUTH}",
			a.names())
	}
	return x, nil, err
}

// beside finds the labels of the images that the path names: in a file whose name has their common word, or by shape.
func (a arrays) beside(spec Spec) (x, y *array, err error) {
	if spec.Split != "" {
		return nil, nil, errors.New("split: the path names the images, so there is no split to choose; remove it")
	}
	for _, names := range [][2]string{{"images", "labels"}, {"image", "label"}, {"data", "labels"}, {"data", "label"},
		{"imgs", "labels"}, {"x", "y"}, {"X", "y"}, {"X", "Y"}} {
		if y := a.find(strings.Replace(a.first, names[0], names[1], 1)); y != nil && y.name != a.first {
			return a.find(a.first), y, nil
		}
	}
	return a.byShape(a.first, rankOf(spec))
}

// rankOf returns how many dimensions an array of images, or of rows, has.
func rankOf(spec Spec) int {
	if spec.Layout == result.Flat {
		return 2
	}
	return 4
}

// byShape finds the only array that may be images, or the one named images, and the only one that may be their
// labels.
func (a arrays) byShape(images string, rank int) (x, y *array, err error) {
	var xs, ys []*array
	for _, one := range a.list {
		o, err := one.open()
		if err != nil { // neither of them
			continue
		}
		o.Close()
		switch n := len(o.header.Shape); {
		case images == "" && n == rank || one.name == images:
			xs = append(xs, &one)
		case n == 1 && o.header.Kind != 'f' && o.header.Kind != 'b':
			ys = append(ys, &one)
		}
	}
	if len(xs) == 1 && len(ys) == 1 {
		return xs[0], ys[0], nil
	}
	return nil, nil, fmt.Errorf("which of its arrays are images and labels? it holds: %s; name them by keys: "+
		"{x: IMAGES, y: LABELS} or --keys IMAGES,LABELS", a.names())
}

// ReadArray reads a float32 or float64 array from a .npy file, or from a .npz file: there the first wanted array that
// exists, or else its only array.
func ReadArray(fsys fs.FS, name string, wanted ...string) (shape []int, values []float32, err error) {
	return readArray(fsys, name, npy.Read, wanted)
}

func readArray(fsys fs.FS, name string, read func(io.Reader) ([]int, []float32, error), wanted []string) (
	shape []int, values []float32, err error) {
	f, err := openFile(fsys, name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if !strings.EqualFold(path.Ext(name), ".npz") {
		return read(bufio.NewReaderSize(io.NewSectionReader(f, 0, f.size), 1<<16))
	}
	a := arrays{}
	if a.list, err = archived(f); err != nil {
		return nil, nil, err
	}
	entry := a.find(wanted...)
	switch {
	case entry == nil && len(a.list) == 1:
		entry = &a.list[0]
	case entry == nil:
		return nil, nil, fmt.Errorf("it holds the arrays %s, none of them called %s", a.names(),
			strings.Join(wanted, " or "))
	}
	o, err := entry.raw()
	if err != nil {
		return nil, nil, err
	}
	defer o.Close()
	if o.size > 256<<20 && o.size/100 > uint64(f.size) {
		return nil, nil, fmt.Errorf("its array %s unpacks to %s of a file of %s; save it by numpy.savez",
			shorten(entry.name), number.Bytes(o.size), number.Bytes(f.size))
	}
	return read(bufio.NewReaderSize(o, 1<<16))
}
