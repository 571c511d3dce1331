package dataset

import (
	"archive/zip"
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

	"selfheal/internal/number"
)

// npz reads a NumPy archive with arrays x (the images, uint8, float32 or float64, [N, C, H, W], [N, H, W, C] or
// [N, H, W]) and y (the labels, any integer type, [N] or [N, 1]).
type npz struct {
	file
	path   string
	x      *zip.File
	h      header      // x's
	values io.ReaderAt // x's, uncompressed; nil before unpack
	start  int64       // where in them image 0 lies
	copied *temporary  // them, where the file has them compressed; else nil
	shape  [3]int      // C, H, W
	last   bool        // channels last
	labels []int
	n      int // of classes: the largest label and one
}

func openNPZ(fsys fs.FS, spec Spec) (_ source, err error) {
	f, err := openFile(fsys, spec.Path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	archive, err := openArchive(f)
	if err != nil {
		return nil, err
	}
	if spec.Split != "" {
		return nil, errors.New("split: a NumPy archive has no splits; remove it")
	}
	z := &npz{file: f, path: spec.Path}
	if err := z.openImages(archive); err != nil {
		return nil, fmt.Errorf("its array x: %w", err)
	}
	if err := z.readLabels(archive); err != nil {
		return nil, fmt.Errorf("its array y: %w", err)
	}
	if images := z.count(); images != len(z.labels) {
		return nil, fmt.Errorf("x holds %d images and y %d labels", images, len(z.labels))
	}
	return z, nil
}

func openArchive(f file) (*zip.Reader, error) {
	archive, err := zip.NewReader(f, f.size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // entries are read by name, never unpacked
		return nil, fmt.Errorf("it is no NumPy archive (.npz): %w", err)
	}
	return archive, nil
}

// member returns an array of an archive.
func member(archive *zip.Reader, name string) (*zip.File, error) {
	if entry := find(archive, name); entry != nil {
		return entry, nil
	}
	_, names := arrays(archive)
	return nil, fmt.Errorf("there is none; the archive holds: %s (numpy.savez(file, x=images, y=labels))", names)
}

// openArray opens an array, checks its header against the size that the archive
// declares, and leaves the reader at the first value.
func openArray(entry *zip.File) (io.Reader, header, error) {
	body, err := entry.Open()
	if err != nil {
		return nil, header{}, err
	}
	r := bufio.NewReaderSize(body, 1<<16)
	h, err := readHeader(r)
	if want := uint64(h.bytes) + uint64(h.n)*uint64(h.width); err == nil && want != entry.UncompressedSize64 {
		err = fmt.Errorf("a shape of %v of %s takes %d bytes, but the archive declares %d", h.shape, h.name, want,
			entry.UncompressedSize64)
	}
	return r, h, err
}

// find returns the first of the named arrays that an archive holds, or nil.
func find(archive *zip.Reader, names ...string) *zip.File {
	for _, name := range names {
		for _, f := range archive.File {
			if f.Name == name+".npy" {
				return f
			}
		}
	}
	return nil
}

// arrays are the arrays of an archive, and their names for a message.
func arrays(archive *zip.Reader) (all []*zip.File, names string) {
	var list []string
	for _, f := range archive.File {
		if name, ok := strings.CutSuffix(f.Name, ".npy"); ok {
			all, list = append(all, f), append(list, name)
		}
	}
	return all, cmp.Or(some(list), "no arrays")
}

func (z *npz) openImages(archive *zip.Reader) (err error) {
	if z.x, err = member(archive, "x"); err != nil {
		return err
	}
	if _, z.h, err = openArray(z.x); err != nil {
		return err
	}
	if z.h.kind != 'f' && z.h.name != "uint8" {
		return fmt.Errorf("images are uint8 or float32, not %s", z.h.name)
	}
	s := z.h.shape
	switch {
	case len(s) == 3: // gray
		s = slices.Insert(slices.Clone(s), 1, 1)
	case len(s) != 4:
		return fmt.Errorf("images have the shape [N, C, H, W] or [N, H, W, C], not %v", s)
	}
	if z.last, err = channelsLast(s); err != nil {
		return err
	}
	z.shape = [3]int(s[1:])
	if z.last {
		z.shape = [3]int{s[3], s[1], s[2]}
	}
	size := z.shape[0] * z.shape[1] * z.shape[2]
	if size == 0 || size > maxPixels {
		return fmt.Errorf("images of shape %v can't be read", z.shape)
	}
	if z.x.Method == zip.Store && z.x.CompressedSize64 == z.x.UncompressedSize64 {
		offset, err := z.x.DataOffset()
		z.values, z.start = z.file, offset+int64(z.h.bytes)
		return err
	}
	return nil
}

// channelsLast tells [N, H, W, C] from [N, C, H, W]: by the axis that is 1 or
// 3, else by the one that is 2 or 4. Where both fit, channels come first.
func channelsLast(s []int) (bool, error) {
	for _, channels := range [][]int{{1, 3}, {2, 4}} {
		if slices.Contains(channels, s[1]) {
			return false, nil
		}
		if slices.Contains(channels, s[3]) {
			return true, nil
		}
	}
	return false, fmt.Errorf("which axis of %v holds the channels? images have 1 to 4", s)
}

const (
	maxClasses = 1 << 24 // bounds labels: no data set has more classes
	maxImages  = 1 << 22 // bounds what is kept of images, some bytes of each, where a small file claims many
)

func (z *npz) readLabels(archive *zip.Reader) error {
	entry, err := member(archive, "y")
	if err != nil {
		return err
	}
	r, h, err := openArray(entry)
	switch {
	case err != nil:
		return err
	case h.kind == 'f' || h.kind == 'b':
		return fmt.Errorf("labels are integers, not %s", h.name)
	case h.n > maxImages:
		return fmt.Errorf("its %d labels are more than the %d images that are read", h.n, maxImages)
	case len(h.shape) != 1 && !(len(h.shape) == 2 && h.shape[1] == 1):
		return fmt.Errorf("labels have the shape [N], not %v (class indices, not one-hot rows)", h.shape)
	}
	buf := make([]byte, h.width)
	z.labels = make([]int, 0, h.n)
	for i := range h.n {
		if _, err := io.ReadFull(r, buf); err != nil {
			return fmt.Errorf("label %d can't be read: %w", i, err)
		}
		v := h.value(buf)
		if v < 0 || v > maxClasses {
			return fmt.Errorf("label %d is %.0f, not a class index", i, v)
		}
		z.labels = append(z.labels, int(v))
		z.n = max(z.n, int(v)+1)
	}
	return nil
}

func (z *npz) record() int              { return z.shape[0] * z.shape[1] * z.shape[2] * z.h.width }
func (z *npz) count() int               { return z.h.shape[0] }
func (z *npz) classes() (int, []string) { return z.n, nil }
func (z *npz) name(id int) string       { return fmt.Sprintf("image %d of %s", id, z.path) }

func (z *npz) Close() error {
	if z.copied != nil {
		z.copied.Close()
	}
	return z.file.Close()
}

// unpack copies the images up to the last one of ids into a temporary file, unless they can be read where they lie.
func (z *npz) unpack(ids []int) error {
	if z.values != nil {
		return nil
	}
	last := slices.Max(ids)
	size := int64(last+1) * int64(z.record())
	copied, err := writeTemporary(temporaryFolders(), func(w io.Writer) error {
		r, _, err := openArray(z.x)
		if err != nil {
			return err
		}
		buf := make([]byte, z.record())
		for id := range last + 1 {
			if _, err := io.ReadFull(r, buf); err != nil {
				return fmt.Errorf("%s can't be read: %w", z.name(id), err)
			}
			if _, err := w.Write(buf); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("its array x is compressed and is unpacked for reading, %s: %w", number.Bytes(size), err)
	}
	z.copied, z.values = copied, copied
	return nil
}

func (z *npz) label(id int) (int, error) { return z.labels[id], nil }

func (z *npz) read(id int, buf []byte) ([]byte, [3]int, error) {
	buf = slices.Grow(buf[:0], z.record())[:z.record()]
	if err := readAt(z.values, buf, z.start+int64(id)*int64(len(buf))); err != nil {
		return nil, z.shape, fmt.Errorf("%s can't be read: %w", z.name(id), err)
	}
	return buf, z.shape, nil
}

func (z *npz) pixels(bytes []byte, out []float32) {
	channels, plane := z.shape[0], z.shape[1]*z.shape[2]
	next, step := plane, 1 // how many values on the next channel and the next pixel lie
	if z.last {
		next, step = 1, channels
	}
	for c := range channels {
		from, out := c*next, out[c*plane:(c+1)*plane]
		switch {
		case z.h.width == 1:
			for k := range out {
				out[k] = value(bytes[from+k*step])
			}
		case z.h.width == 4 && z.h.order == binary.LittleEndian:
			for k := range out {
				out[k] = math.Float32frombits(binary.LittleEndian.Uint32(bytes[4*(from+k*step):]))
			}
		default:
			for k := range out {
				out[k] = float32(z.h.value(bytes[(from+k*step)*z.h.width:]))
			}
		}
	}
}

// ReadArray reads a float32 or float64 array from a .npy file, or from a .npz
// file: the first of the named arrays that it holds, else its only array.
func ReadArray(fsys fs.FS, name string, wanted ...string) (shape []int, values []float32, err error) {
	f, err := openFile(fsys, name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	var r io.Reader = io.NewSectionReader(f, 0, f.size)
	if strings.EqualFold(path.Ext(name), ".npz") {
		archive, err := openArchive(f)
		if err != nil {
			return nil, nil, err
		}
		all, names := arrays(archive)
		entry := find(archive, wanted...)
		switch {
		case entry == nil && len(all) == 1:
			entry = all[0]
		case entry == nil:
			return nil, nil, fmt.Errorf("it holds the arrays %s, none of them called %s", names,
				strings.Join(wanted, " or "))
		}
		if size := entry.UncompressedSize64; size > 256<<20 && size/100 > entry.CompressedSize64 {
			return nil, nil, fmt.Errorf("its array %s takes %s and unpacks to %s; save it by numpy.savez",
				shorten(entry.Name), number.Bytes(entry.CompressedSize64), number.Bytes(size))
		}
		if r, err = entry.Open(); err != nil {
			return nil, nil, err
		}
	}
	return readNPY(bufio.NewReaderSize(r, 1<<16))
}
