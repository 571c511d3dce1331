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
)

// npz reads a NumPy archive with arrays x (the images, uint8, float32 or float64, [N, C, H, W], [N, H, W, C] or
// [N, H, W]) and y (the labels, any integer type, [N] or [N, 1]).
type npz struct {
	file
	path   string
	r      io.Reader // x's values; closing the file is all that it needs
	h      header    // x's
	shape  [3]int    // C, H, W
	last   bool      // channels last
	labels []int
	n      int // of classes: the largest label and one
	next   int // the id that r stands at
	record []byte
	bytes  []byte
	floats []float32
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

// openArray opens an array of an archive, checks its header against the size
// that the archive declares, and leaves the reader at the first value.
func openArray(archive *zip.Reader, name string) (io.Reader, header, error) {
	entry := find(archive, name)
	if entry == nil {
		_, names := arrays(archive)
		return nil, header{}, fmt.Errorf("there is none; the archive holds: %s (numpy.savez(file, x=images, y=labels))",
			names)
	}
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
			all, list = append(all, f), append(list, shorten(name))
		}
	}
	if len(list) > 20 {
		list = append(list[:20], "…")
	}
	return all, cmp.Or(strings.Join(list, ", "), "no arrays")
}

func (z *npz) openImages(archive *zip.Reader) (err error) {
	if z.r, z.h, err = openArray(archive, "x"); err != nil {
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
	z.record = make([]byte, size*z.h.width)
	if z.h.kind == 'f' {
		z.floats = make([]float32, size)
	} else {
		z.bytes = make([]byte, size)
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

// maxClasses bounds labels: no data set has more classes.
const maxClasses = 1 << 24

func (z *npz) readLabels(archive *zip.Reader) error {
	r, h, err := openArray(archive, "y")
	switch {
	case err != nil:
		return err
	case h.kind == 'f' || h.kind == 'b':
		return fmt.Errorf("labels are integers, not %s", h.name)
	case len(h.shape) != 1 && !(len(h.shape) == 2 && h.shape[1] == 1):
		return fmt.Errorf("labels have the shape [N], not %v (class indices, not one-hot rows)", h.shape)
	}
	buf := make([]byte, h.width)
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

func (z *npz) count() int               { return z.h.shape[0] }
func (z *npz) classes() (int, []string) { return z.n, nil }

func (z *npz) read(id int) (image, error) {
	im := image{shape: z.shape, bytes: z.bytes, floats: z.floats, label: z.labels[id],
		name: fmt.Sprintf("image %d of %s", id, z.path)}
	for ; z.next <= id; z.next++ {
		if _, err := io.ReadFull(z.r, z.record); err != nil {
			return im, fmt.Errorf("image %d can't be read: %w", z.next, err)
		}
	}
	channels, plane, i := z.shape[0], z.shape[1]*z.shape[2], 0
	for channel := range channels {
		for at := range plane {
			from := i // where the value lies in the record
			if z.last {
				from = at*channels + channel
			}
			if z.floats != nil {
				z.floats[i] = float32(z.h.value(z.record[from*z.h.width:]))
			} else {
				z.bytes[i] = z.record[from]
			}
			i++
		}
	}
	return im, nil
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
		if r, err = entry.Open(); err != nil {
			return nil, nil, err
		}
	}
	return readNPY(bufio.NewReaderSize(r, 1<<16))
}
