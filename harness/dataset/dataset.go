// Package dataset reads labelled images: CIFAR's binary files, Tiny-ImageNet's folders, NumPy archives and
// folders of PNG and JPEG files. Whatever the format, pixels come out as float32 in [0,1], channels first, and
// an image's id is its index in the file (or sorted folder) before indices and limit.
//
// Pixels that are bytes in the file, or floats that bytes divided by 255 in float32 give, are kept as bytes and
// divided when an image is asked for: a data set takes a byte a value, 0.6 GB for 50,000 images of 3×64×64.
// Whoever walks through it needs one image as float32 at a time.
package dataset

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"
)

// Spec says which images to read.
type Spec struct {
	Format string // one of [Formats]
	Path   string // for the file system given to [Open]
	// Indices are the ids to take, in this order; nil takes all.
	Indices []int
	// Limit takes the first so many after Indices; 0 takes all.
	Limit int
	// Classes is the number of classes; 0 takes it from the format or the data.
	Classes int
	// ClassNames names the classes in the order of their labels; nil when not given. For image-folder and
	// tiny-imagenet, whose classes have names, it also decides that order.
	ClassNames []string
}

// Dataset is the chosen images in memory. It is not written to after [Open],
// so it may be read from many goroutines at once.
type Dataset struct {
	shape   [3]int
	classes int
	names   []string
	ids     []int
	labels  []int
	rows    []int     // where in bytes or floats each image lies
	bytes   []byte    // pixels of all images, or
	floats  []float32 // pixels of all images
	hash    func() string
}

// source is a set that a format has opened.
type source interface {
	// count is the number of images before any choice.
	count() int
	// classes is the number of classes and, where they have any, their names.
	classes() (int, []string)
	// read returns image id; it is called with rising ids. Exactly one of
	// bytes and floats is given; both stay valid until the next call only.
	read(id int) (image, error)
	io.Closer
}

type image struct {
	shape  [3]int
	bytes  []byte
	floats []float32
	label  int
	name   string // of the record, for messages
}

// file is an open file of known size that can be read anywhere.
type file struct {
	io.ReaderAt
	io.Closer
	size int64
}

// openFile opens a regular file of fsys, whose files can be read anywhere, as os's and embed's can.
func openFile(fsys fs.FS, path string) (file, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return file{}, err
	}
	info, err := f.Stat()
	r, anywhere := f.(io.ReaderAt)
	switch {
	case err == nil && info.IsDir():
		err = fmt.Errorf("%s is a folder, a file is needed", path)
	case err == nil && !anywhere:
		err = fmt.Errorf("%s can only be read from its beginning", path)
	}
	if err != nil {
		f.Close()
		return file{}, err
	}
	return file{r, f, info.Size()}, nil
}

// maxMemory bounds the pixels kept in memory, in bytes.
const maxMemory = 8 << 30

// Open reads the images that spec asks for through fsys, and at most limit of
// them unless limit is 0. An error names the file, the record and what to do.
func Open(spec Spec, fsys fs.FS, limit int) (*Dataset, error) {
	f := Find(spec.Format)
	if f.open == nil {
		return nil, fmt.Errorf("data set %s: there is no format %q; formats: %s",
			spec.Path, spec.Format, strings.Join(Formats(), ", "))
	}
	d, err := read(spec, fsys, limit, f)
	var missing *fs.PathError
	switch {
	case err == nil:
		return d, nil
	case errors.As(err, &missing) && errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("data set %s (%s): %s does not exist; a path in a config is relative to the config's "+
			"folder", spec.Path, spec.Format, missing.Path)
	}
	return nil, fmt.Errorf("data set %s (%s): %w", spec.Path, spec.Format, err)
}

func read(spec Spec, fsys fs.FS, limit int, f Format) (*Dataset, error) {
	src, err := f.open(fsys, spec)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	ids, err := choose(src.count(), spec.Indices, spec.Limit, limit)
	if err != nil {
		return nil, err
	}
	d := &Dataset{ids: ids, labels: make([]int, len(ids)), rows: make([]int, len(ids))}
	n, names := src.classes()
	if len(spec.ClassNames) > 0 {
		names = spec.ClassNames
	}
	d.classes = cmp.Or(len(spec.ClassNames), spec.Classes, f.Classes, n)
	if len(names) == d.classes {
		d.names = names
	}

	// Read and kept in the file's order.
	order := make([]int, len(ids)) // positions by rising id
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return ids[a] - ids[b] })
	for k, at := range order {
		im, err := src.read(ids[at])
		if err != nil {
			return nil, err
		}
		if k == 0 {
			d.shape = im.shape
			if err := d.reserve(1); err != nil {
				return nil, err
			}
		}
		if im.shape != d.shape {
			return nil, fmt.Errorf("%s has shape %v, but the images before it have %v; all must have the same", im.name,
				im.shape, d.shape)
		}
		if im.label < 0 || im.label >= d.classes {
			return nil, fmt.Errorf("%s has the label %d, but there are %d classes (labels 0 to %d)", im.name, im.label,
				d.classes, d.classes-1)
		}
		if err := checkRange(im); err != nil {
			return nil, err
		}
		d.labels[at], d.rows[at] = im.label, k
		if err := d.keep(im); err != nil {
			return nil, err
		}
	}
	d.hash = sync.OnceValue(d.sum)
	return d, nil
}

// reserved is up to how much memory for pixels is taken at once, in bytes: as much as a
// file may claim without holding it.
const reserved = 2 << 30

// reserve makes room for all images with values of so many bytes.
func (d *Dataset) reserve(width int) error {
	values := float64(len(d.ids)) * float64(d.size())
	if need := values * float64(width); need > maxMemory {
		return fmt.Errorf("%d images of shape %v need %.1f GiB of memory, the bound is %d; set a limit", len(d.ids),
			d.shape, need/(1<<30), maxMemory>>30)
	}
	room := int(min(values, float64(reserved/width)))
	if width == 1 {
		d.bytes = make([]byte, 0, room)
	} else {
		d.floats = make([]float32, 0, room)
	}
	return nil
}

// keep appends an image's pixels, as bytes as long as these say everything.
func (d *Dataset) keep(im image) error {
	if im.floats == nil {
		d.bytes = append(d.bytes, im.bytes...)
		return nil
	}
	if d.floats == nil {
		before := len(d.bytes)
		for _, v := range im.floats {
			b := byte(v*255 + 0.5)
			if math.Float32bits(value(b)) != math.Float32bits(v) {
				break
			}
			d.bytes = append(d.bytes, b)
		}
		if len(d.bytes) == before+len(im.floats) {
			return nil
		}
		was := d.bytes[:before]
		if err := d.reserve(4); err != nil {
			return err
		}
		for _, b := range was {
			d.floats = append(d.floats, value(b))
		}
		d.bytes = nil
	}
	d.floats = append(d.floats, im.floats...)
	return nil
}

// value is the pixel that a byte stands for.
func value(b byte) float32 { return float32(b) / 255 }

// choose returns the ids that indices and limits leave of count images.
func choose(count int, indices []int, limits ...int) ([]int, error) {
	if count == 0 {
		return nil, errors.New("it holds no images")
	}
	ids := indices
	if indices == nil {
		ids = make([]int, count)
		for i := range ids {
			ids[i] = i
		}
	}
	seen := make(map[int]bool, len(indices))
	for _, id := range indices {
		if id < 0 || id >= count {
			return nil, fmt.Errorf("indices asks for image %d, but it holds %d images (0 to %d)", id, count, count-1)
		}
		if seen[id] {
			return nil, fmt.Errorf("indices lists image %d twice", id)
		}
		seen[id] = true
	}
	for _, limit := range limits {
		if limit < 0 {
			return nil, fmt.Errorf("the limit %d is below 0", limit)
		}
		if limit > 0 && limit < len(ids) {
			ids = ids[:limit]
		}
	}
	if len(ids) == 0 {
		return nil, errors.New("indices is an empty list, so no image is left")
	}
	return slices.Clone(ids), nil
}

// checkRange refuses float pixels that are not in [0,1].
func checkRange(im image) error {
	for i, v := range im.floats {
		switch f := float64(v); {
		case math.IsNaN(f) || math.IsInf(f, 0):
			return fmt.Errorf("%s holds %v at value %d; pixels must be numbers in [0,1]", im.name, v, i)
		case v > 1:
			return fmt.Errorf("%s holds %v at value %d, but pixels must lie in [0,1]; divide by 255 (or save uint8)",
				im.name, v, i)
		case v < 0:
			return fmt.Errorf("%s holds %v at value %d, but pixels must lie in [0,1]; save them before normalising "+
				"by mean and std, which is the model's preprocess", im.name, v, i)
		}
	}
	return nil
}

func (d *Dataset) size() int { return d.shape[0] * d.shape[1] * d.shape[2] }

// Len is the number of images.
func (d *Dataset) Len() int { return len(d.ids) }

// Shape is the shape of every image: channels, height, width.
func (d *Dataset) Shape() [3]int { return d.shape }

// Classes is the number of classes; labels lie in [0, Classes).
func (d *Dataset) Classes() int { return d.classes }

// ClassNames returns the names of the classes, or nil where they have none.
func (d *Dataset) ClassNames() []string { return slices.Clone(d.names) }

// Image returns the i-th chosen image: its id, its pixels (C·H·W values in
// [0,1], row-major CHW; the caller's to keep) and its label.
func (d *Dataset) Image(i int) (id int, pixels []float32, label int, err error) {
	pixels = make([]float32, d.size())
	err = d.Pixels(i, pixels)
	return d.ids[i], pixels, d.labels[i], err
}

// ID returns the id of the i-th chosen image.
func (d *Dataset) ID(i int) int { return d.ids[i] }

// Label returns the label of the i-th chosen image.
func (d *Dataset) Label(i int) int { return d.labels[i] }

// Pixels writes the pixels of the i-th chosen image into out, of length C·H·W.
func (d *Dataset) Pixels(i int, out []float32) error {
	size := d.size()
	from := d.rows[i] * size
	if d.floats != nil {
		copy(out[:size], d.floats[from:])
		return nil
	}
	for j, b := range d.bytes[from : from+size] {
		out[j] = value(b)
	}
	return nil
}

// Close frees what the set holds; its images can't be read any more.
func (d *Dataset) Close() error { return nil }

// SHA256 returns, in hex, the hash over the chosen images in order: of each,
// its pixels as little-endian float32 and then its label as little-endian int64.
func (d *Dataset) SHA256() string { return d.hash() }

func (d *Dataset) sum() string {
	hash := sha256.New()
	pixels := make([]float32, d.size())
	buf := make([]byte, 0, 4*len(pixels)+8)
	for i, label := range d.labels {
		d.Pixels(i, pixels) // from memory, which does not fail
		buf = buf[:0]
		for _, v := range pixels {
			buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(v))
		}
		hash.Write(binary.LittleEndian.AppendUint64(buf, uint64(label)))
	}
	return hex.EncodeToString(hash.Sum(nil))
}
