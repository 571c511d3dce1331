package dataset

import (
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"

	"selfheal/harness/result"
	"selfheal/internal/fault"
	"selfheal/internal/npy"
	"selfheal/internal/number"
	"selfheal/internal/pillow"
)

// npz holds NumPy arrays of images (uint8, float32 or float64, [N, C, H, W], [N, H, W, C] or [N, H, W]) and of labels
// (any integer type, [N] or [N, 1]), in an archive or in files of their own.
type npz struct {
	labels
	path   string
	x      array
	h      npy.Header  // x's
	values io.ReaderAt // x's, uncompressed; nil before unpack
	start  int64       // position of image 0 in values
	shape  [3]int      // C, H, W
	last   bool        // channels last
	rows   bool        // of features: [N, d]
	n      int         // number of classes: the largest label plus one
}

func openNPZ(fsys fs.FS, spec Spec, files *closers) (source, error) {
	set, err := openArrays(fsys, spec.Path, files)
	if err != nil {
		return nil, err
	}
	x, y, err := set.pair(spec)
	if err != nil {
		return nil, err
	}
	z := &npz{path: spec.Path, rows: spec.Layout == result.Flat}
	if err := z.openImages(*x, spec.channels(), files); err != nil {
		return nil, fmt.Errorf("its array %s: %w", shorten(x.name), err)
	}
	if y == nil {
		z.labels = make(labels, z.images())
		return z, nil
	}
	if z.labels, err = y.classes(); err != nil {
		return nil, fmt.Errorf("its array %s: %w", shorten(y.name), err)
	}
	z.n = z.used()
	if z.images() != z.count() {
		return nil, fmt.Errorf("%s holds %d images and %s %d labels", shorten(x.name), z.images(), shorten(y.name),
			z.count())
	}
	return z, nil
}

// openImages opens the images. channels is the number that a network takes, or 0 if unknown.
func (z *npz) openImages(x array, channels int, files *closers) error {
	opened, err := x.open()
	if err != nil {
		return err
	}
	if opened.at != nil {
		files.add(opened)
	} else {
		opened.Close()
	}
	if z.x, z.h = x, opened.header; z.h.Kind != 'f' && z.h.Name != "uint8" && !z.rows {
		return fmt.Errorf("images are uint8 or float32, not %s", z.h.Name)
	}
	s := z.h.Shape
	switch {
	case z.rows && len(s) != 2:
		return fmt.Errorf("rows of features have the shape [N, d], not %v; leave layout out for images", s)
	case z.rows:
		s = []int{s[0], 1, 1, s[1]}
	case len(s) == 2:
		return fmt.Errorf("images have the shape [N, C, H, W] or [N, H, W, C], not %v; rows of features take layout: "+
			"flat", s)
	case len(s) == 3: // grey
		s = slices.Insert(slices.Clone(s), 1, 1)
	case len(s) != 4:
		return fmt.Errorf("images have the shape [N, C, H, W] or [N, H, W, C], not %v", s)
	}
	if !z.rows {
		if z.last, err = channelsLast(s, channels); err != nil {
			return err
		}
	}
	z.shape = [3]int(s[1:])
	if z.last {
		z.shape = [3]int{s[3], s[1], s[2]}
	}
	size := z.shape[0] * z.shape[1] * z.shape[2]
	if size == 0 || size > pillow.MaxPixels {
		return fmt.Errorf("images of shape %v can't be read", z.shape)
	}
	z.values, z.start = opened.at, int64(z.h.Bytes)
	return nil
}

// channelsLast tells [N, H, W, C] from [N, C, H, W]. The channels' axis has the network's number of channels;
// otherwise it is 1 or 3; otherwise the other two axes, the sides, are equal; otherwise it is 2 or 4. If both axes
// fit, channels come first.
func channelsLast(s []int, channels int) (bool, error) {
	holds := func(some ...int) func(int) bool { return func(n int) bool { return slices.Contains(some, n) } }
	for _, fits := range []struct{ first, last bool }{
		{s[1] == channels, s[3] == channels}, {holds(1, 3)(s[1]), holds(1, 3)(s[3])}, {s[2] == s[3], s[1] == s[2]},
		{holds(2, 4)(s[1]), holds(2, 4)(s[3])},
	} {
		if fits.first || fits.last {
			return !fits.first, nil
		}
	}
	return false, fmt.Errorf("which axis of %v holds the channels? save it as [N, C, H, W] of square images, or of as "+
		"many channels as the model takes", s)
}

const (
	maxClasses = 1 << 24 // bounds labels: no data set has more classes
	maxImages  = 1 << 22 // bounds the memory that is kept for images, as a small file may claim many
)

// classes reads an array of classes, one an image.
func (a array) classes() (labels, error) {
	r, err := a.open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	h := r.header
	switch {
	case h.Kind == 'f' || h.Kind == 'b':
		return nil, fmt.Errorf("labels are integers, not %s", h.Name)
	case h.N > maxImages:
		return nil, fmt.Errorf("its %d labels are more than the %d images that are read", h.N, maxImages)
	case len(h.Shape) != 1 && !(len(h.Shape) == 2 && h.Shape[1] == 1):
		return nil, fmt.Errorf("labels have the shape [N], not %v (class indices, not one-hot rows)", h.Shape)
	}
	buf := make([]byte, h.Width)
	all := make(labels, h.N)
	for i := range all {
		if _, err := io.ReadFull(r, buf); err != nil {
			return nil, fmt.Errorf("label %d can't be read: %w", i, err)
		}
		v := h.Value(buf)
		if v < 0 || v > maxClasses {
			return nil, fmt.Errorf("label %d is %.0f, not a class index", i, v)
		}
		all[i] = int(v)
	}
	return all, nil
}

func (z *npz) record() int              { return z.shape[0] * z.shape[1] * z.shape[2] * z.h.Width }
func (z *npz) images() int              { return z.h.Shape[0] }
func (z *npz) classes() (int, []string) { return z.n, nil }
func (z *npz) name(id int) string       { return fmt.Sprintf("image %d of %s", id, z.path) }

// unpack copies the images up to the last of ids into a temporary file, unless they allow random access.
func (z *npz) unpack(ids []int, files *closers) error {
	if z.values != nil {
		return nil
	}
	size := int64(slices.Max(ids)+1) * int64(z.record())
	var err error
	z.start = 0
	z.values, err = files.temporary(func(w io.Writer) error {
		r, err := z.x.open()
		if err != nil {
			return err
		}
		defer r.Close()
		n, err := io.CopyN(w, r, size)
		if err != nil {
			err = fmt.Errorf("%s can't be read: %w", z.name(int(n)/z.record()), err)
		}
		return err
	})
	return fault.At(fmt.Sprintf("its array %s is compressed and is unpacked for reading, %s", shorten(z.x.name),
		number.Bytes(size)), err)
}

func (z *npz) read(id int, buf []byte) ([]byte, [3]int, error) {
	buf = slices.Grow(buf[:0], z.record())[:z.record()]
	return buf, z.shape, readBytes(z, id, z.values, buf, z.start+int64(id)*int64(len(buf)))
}

func (z *npz) pixels(bytes []byte, out []float32) {
	channels, plane := z.shape[0], z.shape[1]*z.shape[2]
	next, step := plane, 1 // distances between values of the next channel and of the next pixel
	if z.last {
		next, step = 1, channels
	}
	for c := range channels {
		from, out := c*next, out[c*plane:(c+1)*plane]
		switch {
		case z.h.Width == 1 && !z.rows:
			for k := range out {
				out[k] = value(bytes[from+k*step])
			}
		case z.h.Width == 4 && z.h.Order == binary.LittleEndian:
			for k := range out {
				out[k] = math.Float32frombits(binary.LittleEndian.Uint32(bytes[4*(from+k*step):]))
			}
		default:
			for k := range out {
				out[k] = float32(z.h.Value(bytes[(from+k*step)*z.h.Width:]))
			}
		}
	}
}
