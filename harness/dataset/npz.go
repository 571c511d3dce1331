package dataset

import (
	"archive/zip"
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// npz reads a NumPy archive with arrays x (the images, uint8, float32 or float64, [N, C, H, W], [N, H, W, C] or
// [N, H, W]) and y (the labels, any integer type, [N] or [N, 1]).
type npz struct {
	file
	path   string
	x      io.ReadCloser
	r      *bufio.Reader
	h      header
	shape  [3]int // C, H, W
	last   bool   // channels last
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
	z := &npz{file: f, path: spec.Path}
	defer func() {
		if err != nil {
			z.close()
		}
	}()
	archive, err := openArchive(f)
	if err != nil {
		return nil, err
	}
	if err := z.openImages(archive); err != nil {
		return nil, fmt.Errorf("its array x: %w", err)
	}
	if err := z.readLabels(archive); err != nil {
		return nil, fmt.Errorf("its array y: %w", err)
	}
	if images := z.h.shape[0]; images != len(z.labels) {
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
func openArray(archive *zip.Reader, name string) (io.ReadCloser, *bufio.Reader, header, error) {
	entry := find(archive, name)
	if entry == nil {
		return nil, nil, header{}, fmt.Errorf("there is none; the archive holds: %s (numpy.savez(file, x=images, "+
			"y=labels))", strings.Join(arrays(archive), ", "))
	}
	body, err := entry.Open()
	if err != nil {
		return nil, nil, header{}, err
	}
	r := bufio.NewReaderSize(body, 1<<16)
	h, err := readHeader(r)
	if err == nil {
		if want := uint64(h.bytes) + uint64(h.values())*uint64(h.width); want != entry.UncompressedSize64 {
			err = fmt.Errorf("a shape of %v of %s takes %d bytes, but the archive declares %d", h.shape, h.name(), want,
				entry.UncompressedSize64)
		}
	}
	if err != nil {
		body.Close()
		return nil, nil, header{}, err
	}
	return body, r, h, nil
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

// arrays lists the names of an archive's arrays.
func arrays(archive *zip.Reader) []string {
	var names []string
	for _, f := range archive.File {
		if len(names) == 20 {
			return append(names, "…")
		}
		if name, ok := strings.CutSuffix(f.Name, ".npy"); ok {
			names = append(names, shorten(name))
		}
	}
	if names == nil {
		names = []string{"no arrays"}
	}
	return names
}

func (z *npz) openImages(archive *zip.Reader) (err error) {
	if z.x, z.r, z.h, err = openArray(archive, "x"); err != nil {
		return err
	}
	if z.h.kind != 'f' && z.h.name() != "uint8" {
		return fmt.Errorf("images are uint8 or float32, not %s", z.h.name())
	}
	s := z.h.shape
	switch {
	case len(s) == 3: // gray
		s = []int{s[0], 1, s[1], s[2]}
	case len(s) != 4:
		return fmt.Errorf("images have the shape [N, C, H, W] or [N, H, W, C], not %v", s)
	}
	if z.last, err = channelsLast(s); err != nil {
		return err
	}
	z.shape = [3]int{s[1], s[2], s[3]}
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

func (z *npz) readLabels(archive *zip.Reader) error {
	body, r, h, err := openArray(archive, "y")
	if err != nil {
		return err
	}
	defer body.Close()
	if h.kind == 'f' || h.kind == 'b' {
		return fmt.Errorf("labels are integers, not %s", h.name())
	}
	if len(h.shape) != 1 && !(len(h.shape) == 2 && h.shape[1] == 1) {
		return fmt.Errorf("labels have the shape [N], not %v (class indices, not one-hot rows)", h.shape)
	}
	buf := make([]byte, h.width)
	for i := range h.values() {
		if _, err := io.ReadFull(r, buf); err != nil {
			return fmt.Errorf("label %d can't be read: %w", i, err)
		}
		v, ok := h.integer(buf)
		if !ok || v < 0 || v > maxClasses {
			return fmt.Errorf("label %d is %d, not a class index", i, v)
		}
		z.labels = append(z.labels, int(v))
		z.n = max(z.n, int(v)+1)
	}
	return nil
}

// maxClasses bounds labels: no data set has more classes.
const maxClasses = 1 << 24

func (z *npz) count() int               { return z.h.shape[0] }
func (z *npz) classes() (int, []string) { return z.n, nil }

func (z *npz) close() error {
	if z.x != nil {
		z.x.Close()
	}
	return z.Close()
}

func (z *npz) read(id int) (image, error) {
	im := image{shape: z.shape, label: z.labels[id], name: fmt.Sprintf("image %d of %s", id, z.path)}
	for ; z.next <= id; z.next++ {
		if _, err := io.ReadFull(z.r, z.record); err != nil {
			return im, fmt.Errorf("image %d can't be read: %w", z.next, err)
		}
	}
	// from is where the value at channel, row and column lies in the record.
	c, h, w := z.shape[0], z.shape[1], z.shape[2]
	i := 0
	for channel := range c {
		for at := range h * w {
			from := i
			if z.last {
				from = at*c + channel
			}
			if z.floats != nil {
				z.floats[i] = z.h.float(z.record[from*z.h.width:])
			} else {
				z.bytes[i] = z.record[from]
			}
			i++
		}
	}
	im.bytes, im.floats = z.bytes, z.floats
	return im, nil
}
