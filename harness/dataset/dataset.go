// Package dataset reads labelled images: CIFAR's files, Tiny-ImageNet's folders, NumPy archives, Parquet files and
// folders of PNG, JPEG and WebP files. [Open] opens the images that a [Spec] names, the [Dataset] gives them by index
// from any goroutine, and Close ends it. In any format, pixels are float32 in [0,1], channels first, and an image's
// id is its index in the file (or sorted folder) before indices and limit.
//
// No pixels are kept. Opening a set reads each chosen image once, to check it and to hash the set; later each image
// is read again from its file on every request. An image's label stays in memory, of a chosen one the id and
// checksum too, and its name in a folder: 20 to 100 bytes. The checksum finds files that change while they are in
// use. A compressed NumPy array allows no random access, so it is unpacked into a temporary file.
package dataset

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"selfheal/harness/result"
	"selfheal/internal/checksum"
	"selfheal/internal/lists"
)

// Spec says which images to read.
type Spec struct {
	Format string // one of [Formats]
	Path   string // within the file system given to [Open]
	SHA256 string // required [Dataset.SHA256] in lower-case hex; "" if not given
	// Targets is a file with a class for each image, before any choice, that attacks may aim at: a NumPy array of
	// integers (.npy), or text with a number on each line. "" if there is none.
	Targets string
	// Truth is a file with the numbers that answers to each image are compared with, for a task other than
	// classification, or a folder of masks. Labels do not count then, and sources need none. "" if there is none.
	Truth string
	// Indices are the ids to take, in this order; nil takes all.
	Indices []int
	// Limit is the number of images to take after Indices and Sample; 0 takes all. They are the first ones, or evenly
	// spread over the classes if there is no Sample and the labels never fall.
	Limit int
	// Classes is the number of classes; 0 takes it from the format or the data.
	Classes int
	// ClassNames names the classes in the order of their labels; nil if not given. For image-folder and
	// tiny-imagenet, whose classes have names, it also sets that order.
	ClassNames []string
	// Channels returns the input channels of the network to be asked about the images, or 0 if none is known; it may
	// be nil. For 1, picture files are read as grey. It is not a key of the config.
	Channels func() int `json:"-"`
	result.Shaping
}

func (s *Spec) channels() int {
	if s.Channels == nil {
		return 0
	}
	return s.Channels()
}

func (s *Spec) grey() bool { return s.channels() == 1 }

// Dataset holds the chosen images of an open source. Many goroutines may read it at once.
type Dataset struct {
	place   string // and format, for messages
	shape   [3]int
	classes int
	names   []string
	ids     []int
	labels  []int
	by      labelled // which gives the images' labels
	truth   *truths  // nil if none are given
	targets labels   // of all the source's images; nil if none are given
	sums    []uint32 // checksums of the images' bytes
	hash    string
	source  source
	file    func(id int) string // path of an image that has a file of its own; nil for other formats
	files   closers
	left    result.LeftOut
	sample  *result.Sample // the sample that was taken; may be nil
	// elsewhere says that the set was opened from a digest.
	elsewhere bool
	buffers   sync.Pool // of *[]byte, for an image's bytes
}

// source is an open set in one format. Its methods may be called from many goroutines at once.
type source interface {
	labelled
	// name identifies an image in a message.
	name(id int) string
	// read reads an image's bytes, in the format's form, into buf, or into new memory if buf is too short. The shape
	// is channels, height and width.
	read(id int, buf []byte) (bytes []byte, shape [3]int, err error)
}

type labelled interface {
	// count returns the number of images before any choice.
	count() int
	// label returns an image's label. It is valid if below the number of classes.
	label(id int) int
	// classes returns the number of classes and, if they have any, their names.
	classes() (int, []string)
}

// labels are the labels of a source's images, by id.
type labels []int

func (l labels) count() int       { return len(l) }
func (l labels) label(id int) int { return l[id] }
func (l labels) used() int        { return slices.Max(append(l, -1)) + 1 } // the largest label plus one

// unpacker is a source without random access. unpack is called before the first read and makes the images of the ids
// readable.
type unpacker interface {
	unpack(ids []int, files *closers) error
}

// encoded is a source whose bytes are not levels, channel by channel. pixels decodes an image's bytes to C·H·W
// values.
type encoded interface {
	pixels(bytes []byte, out []float32)
}

// Digest holds the results of reading all images of a data set. With it the set can be opened again without reading
// them.
type Digest struct {
	SHA256 string `json:"sha256"`
	Shape  [3]int `json:"shape"`
	Labels []int  `json:"labels"` // of the chosen images
	// Targets are the chosen images' targets, if the set has any.
	Targets []int    `json:"targets,omitempty"`
	Sums    []uint32 `json:"sums"` // CRC-32C of their bytes
	// Clipped is the number of clipped values.
	Clipped int `json:"clipped,omitempty"`
}

func (d *Dataset) Digest() Digest {
	return Digest{d.hash, d.shape, d.labels, d.chosenTargets(), d.sums, d.left.Clipped}
}

// chosenTargets returns the chosen images' targets, or nil.
func (d *Dataset) chosenTargets() []int {
	if d.targets == nil {
		return nil
	}
	return lists.Map(d.ids, d.targets.label)
}

// fits reports whether a digest may belong to these images of a source with so many classes.
func (g *Digest) fits(src labelled, ids []int, classes int) bool {
	n := len(ids)
	if g == nil || len(g.Labels) != n || len(g.Sums) != n || min(g.Shape[0], g.Shape[1], g.Shape[2]) <= 0 {
		return false
	}
	for i, id := range ids {
		if label := src.label(id); label != g.Labels[i] || label < 0 || label >= classes {
			return false
		}
	}
	return true
}

// Open opens the images that spec asks for through fsys, at most limit of them unless limit is 0. An error names the
// file, the record and what to do.
func Open(spec Spec, fsys fs.FS, limit int) (*Dataset, error) {
	return OpenKnown(spec, fsys, limit, nil)
}

// OpenKnown is [Open] for a set whose digest is known: it reads an image only when asked for it, and returns an error
// then if the image differs from the digest. It ignores a nil digest and one that evidently belongs to another set.
func OpenKnown(spec Spec, fsys fs.FS, limit int, known *Digest) (*Dataset, error) {
	f := Find(spec.Format)
	if f.open == nil {
		return nil, fmt.Errorf("data set %s: there is no format %q; formats: %s",
			spec.Path, spec.Format, strings.Join(Formats(), ", "))
	}
	place := fmt.Sprintf("%s (%s)", spec.Path, spec.Format)
	d, err := open(spec, fsys, limit, f, known)
	var missing *fs.PathError
	switch {
	case err == nil:
		d.place, d.elsewhere = place, known != nil
		return d, nil
	case errors.As(err, &missing) && errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("data set %s: %s does not exist; a path in a config is relative to the config's folder",
			place, missing.Path)
	}
	return nil, fmt.Errorf("data set %s: %w", place, err)
}

func open(spec Spec, fsys fs.FS, limit int, f Format, known *Digest) (_ *Dataset, err error) {
	var files closers
	defer func() {
		if err != nil {
			files.Close()
		}
	}()
	if spec.Layout == result.Flat && !f.Rows {
		return nil, fmt.Errorf("layout: flat is for rows of features: %s", strings.Join(WithRows(), ", "))
	}
	src, err := f.open(fsys, spec, &files)
	if err != nil {
		return nil, err
	}
	var left result.LeftOut
	var truth *truths
	by := labelled(src)
	pairs, paired := src.(*pairs)
	switch {
	case paired && spec.Truth != "":
		return nil, errors.New("a list of pairs has its own truth; remove truth")
	case paired:
		truth = pairs.truths(spec)
		by = truth
	case spec.Truth != "":
		if truth, err = readTruths(fsys, spec, src, &files); err != nil {
			return nil, fmt.Errorf("truth %s: %w", spec.Truth, err)
		}
		by = truth
	}
	ids, sample, err := choose(by, spec, limit, &left)
	if err != nil {
		return nil, err
	}
	if truth != nil && truth.fill != nil {
		if err := truth.fill(ids); err != nil {
			return nil, fmt.Errorf("truth %s: %w", spec.Truth, err)
		}
	}
	if f, ok := src.(*folder); ok {
		left.Files, left.Names = f.left, f.leftNames
	}
	if u, ok := src.(unpacker); ok {
		if err := u.unpack(ids, &files); err != nil {
			return nil, err
		}
	}
	var file func(id int) string
	if f, ok := src.(interface{ file(id int) string }); ok {
		file = f.file
	}
	if spec.Layout == result.Flat {
		if src, err = inBox(src, spec.Shaping); err != nil {
			return nil, err
		}
	}
	if spec.Transform != nil {
		src = &transformed{source: src, by: *spec.Transform}
	}
	d := &Dataset{left: left, sample: sample, ids: ids, labels: make([]int, len(ids)), sums: make([]uint32, len(ids)),
		source: src, by: by, truth: truth, file: file, files: files}
	if spec.Targets != "" {
		if d.targets, err = readTargets(fsys, spec.Targets, src.count(), &files); err != nil {
			return nil, fmt.Errorf("targets %s: %w", spec.Targets, err)
		}
	}
	n, names := by.classes()
	if len(spec.ClassNames) > 0 {
		names = spec.ClassNames
	}
	d.classes = cmp.Or(len(spec.ClassNames), spec.Classes, f.Classes, n)
	if len(names) == d.classes {
		d.names = names
	}
	if truth != nil { // no digest has it
		d.classes, d.names = n, names
		return d, d.check()
	}
	if known.fits(by, ids, d.classes) && slices.Equal(known.Targets, d.chosenTargets()) {
		d.hash, d.shape, d.labels, d.sums = known.SHA256, known.Shape, known.Labels, known.Sums
		d.left.Clipped = known.Clipped
		return d, nil
	}
	return d, d.check()
}

// check reads every image once. Each must have the shape of the first, a label among the classes and pixels in [0,1].
// It notes labels and checksums and hashes the set. A file that is not an image is left out.
func (d *Dataset) check() (err error) {
	var buf, text []byte
	var pixels []float32
	hash, kept := sha256.New(), 0
	for _, id := range d.ids {
		bytes, shape, rerr := d.source.read(id, buf)
		if errors.As(rerr, new(unreadable)) {
			d.lose(rerr)
			err = cmp.Or(err, rerr)
			continue
		}
		if rerr != nil {
			return rerr
		}
		if kept == 0 {
			d.shape = shape
			pixels = make([]float32, d.size())
			text = make([]byte, 0, 4*len(pixels)+8)
		}
		if shape != d.shape {
			return fmt.Errorf("%s has shape %v, but the images before it have %v; all must have the same: "+
				"transform: {resize: 256, crop: 224}, or --resize and --crop, makes them so", d.source.name(id), shape,
				d.shape)
		}
		label := d.by.label(id)
		if label < 0 || label >= d.classes {
			return fmt.Errorf("%s has the label %d, but there are %d classes (labels 0 to %d)", d.source.name(id),
				label, d.classes, d.classes-1)
		}
		if d.targets != nil && d.targets[id] >= d.classes {
			return fmt.Errorf("the target %d of %s is no class, there are %d (0 to %d)", d.targets[id],
				d.source.name(id), d.classes, d.classes-1)
		}
		d.left.Clipped += d.decode(bytes, pixels)
		if k := outside(pixels); k >= 0 {
			if b, is := d.source.(*boxed); is {
				return fmt.Errorf("%s: feature %d %s", d.source.name(id), k, b.explain(pixels[k], k))
			}
			return fmt.Errorf("%s holds %v at value %d; %s", d.source.name(id), pixels[k], k, d.explain(pixels[k]))
		}
		text, _ = binary.Append(text[:0], binary.LittleEndian, pixels)
		hash.Write(d.appendClasses(text, id, label))
		d.ids[kept], d.labels[kept], d.sums[kept], buf = id, label, checksum.Of(bytes), bytes
		kept++
	}
	if kept == 0 {
		return err
	}
	d.ids, d.labels, d.sums = d.ids[:kept], d.labels[:kept], d.sums[:kept]
	d.hash = hex.EncodeToString(hash.Sum(nil))
	return nil
}

// lose notes an image that can't be read.
func (d *Dataset) lose(err error) {
	const most = 10 // named in the note
	if d.left.Unreadable++; len(d.left.Reasons) < most {
		d.left.Reasons = append(d.left.Reasons, oneLine(err.Error(), 200))
	}
}

// decode writes the pixels of an image's bytes into out and returns how many it has clipped.
func (d *Dataset) decode(bytes []byte, out []float32) int {
	if s, ok := d.source.(encoded); ok {
		s.pixels(bytes, out)
		return clip(out)
	}
	values(bytes, out)
	return 0
}

// value returns the pixel of a byte.
func value(b byte) float32 { return float32(b) / 255 }

// choose returns the ids that a sample and the tighter limit leave of the images that spec's indices name, and the
// sample, which may follow from the limit. It notes the classes that the limit drops.
func choose(src labelled, spec Spec, limit int, left *result.LeftOut) (ids []int, sample *result.Sample, err error) {
	if ids, err = indexed(src.count(), spec.Indices); err != nil {
		return nil, nil, err
	}
	if sample = spec.Sample; sample != nil {
		ids = sampled(src, ids, *sample)
	}
	for _, l := range []int{spec.Limit, limit} {
		if l < 0 {
			return nil, nil, fmt.Errorf("the limit %d is below 0", l)
		}
	}
	if limit = min(cmp.Or(spec.Limit, len(ids)), cmp.Or(limit, len(ids)), len(ids)); limit == 0 {
		return nil, nil, errors.New("indices is an empty list, so no image is left")
	}
	if sample == nil && limit < len(ids) && byClass(src, ids) {
		sample = &result.Sample{N: limit, PerClass: true}
		ids = sampled(src, ids, *sample)
	}
	left.Classes = dropped(src, ids, limit)
	return ids[:limit:limit], sample, nil
}

// indexed returns the ids at the given indices, or all.
func indexed(count int, indices []int) (ids []int, err error) {
	if count == 0 {
		return nil, errors.New("it holds no images")
	}
	if ids = slices.Clone(indices); indices == nil {
		ids = lists.To(count)
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
	return ids, nil
}

func (d *Dataset) size() int { return d.shape[0] * d.shape[1] * d.shape[2] }

// Len returns the number of images.
func (d *Dataset) Len() int { return len(d.ids) }

// Shape returns the shape of every image: channels, height, width.
func (d *Dataset) Shape() [3]int { return d.shape }

// Classes returns the number of classes; labels lie in [0, Classes).
func (d *Dataset) Classes() int { return d.classes }

// ClassNames returns the names of the classes, or nil where they have none.
func (d *Dataset) ClassNames() []string { return slices.Clone(d.names) }

// Numbered lists each class with its label; of many classes the first and the last.
func Numbered(names []string) string {
	const most = 6
	var list []string
	for i, name := range names {
		switch {
		case len(names) <= most || i < most-1 || i == len(names)-1:
			list = append(list, fmt.Sprintf("%s → %d", shorten(name), i))
		case i == most-1:
			list = append(list, "…")
		}
	}
	return strings.Join(list, ", ")
}

// LeftOut returns the images, classes and files that the set leaves out or changes.
func (d *Dataset) LeftOut() result.LeftOut { return d.left }

// Sample returns the sample that was taken, by the spec or because the limit spread its images over the classes, or
// nil.
func (d *Dataset) Sample() *result.Sample { return d.sample }

// Image returns the i-th chosen image: its id, its pixels (C·H·W values in [0,1], row-major CHW, owned by the caller)
// and its label. It fails like [Dataset.Pixels].
func (d *Dataset) Image(i int) (id int, pixels []float32, label int, err error) {
	pixels = make([]float32, d.size())
	err = d.Pixels(i, pixels)
	return d.ids[i], pixels, d.labels[i], err
}

// ID returns the id of the i-th chosen image.
func (d *Dataset) ID(i int) int { return d.ids[i] }

// File returns the path of the i-th image within the data set's folder; "" in formats whose files hold many images.
func (d *Dataset) File(i int) string {
	if d.file == nil {
		return ""
	}
	return d.file(d.ids[i])
}

// Label returns the label of the i-th chosen image.
func (d *Dataset) Label(i int) int { return d.labels[i] }

// Target returns the class that attacks of the i-th chosen image may aim at; 0 if the set has no targets.
func (d *Dataset) Target(i int) int {
	if d.targets == nil {
		return 0
	}
	return d.targets[d.ids[i]]
}

// Truth returns the numbers that answers to the i-th chosen image are compared with, or nil if the set has none. The
// caller must not change them.
func (d *Dataset) Truth(i int) []float32 {
	if d.truth == nil {
		return nil
	}
	return d.truth.rows[d.ids[i]]
}

// Pixels writes the i-th chosen image's pixels into out, of length C·H·W. It returns an error if the file can't be
// read any more or the image has changed since the set was opened.
func (d *Dataset) Pixels(i int, out []float32) error {
	buf, ok := d.buffers.Get().(*[]byte)
	if !ok {
		buf = new([]byte)
	}
	defer d.buffers.Put(buf)
	bytes, shape, err := d.source.read(d.ids[i], *buf)
	if err != nil {
		return fmt.Errorf("data set %s: %w", d.place, err)
	}
	*buf = bytes
	if shape != d.shape || checksum.Of(bytes) != d.sums[i] {
		advice := "start the command anew"
		if d.elsewhere {
			advice = "choose another --out"
		}
		return fmt.Errorf("data set %s: %s has changed since it was opened; restore it, or %s", d.place,
			d.source.name(d.ids[i]), advice)
	}
	d.decode(bytes, out[:d.size()])
	return nil
}

// appendClasses appends an image's label and, if it has one, its target, as little-endian int64, and its truth as
// little-endian float32.
func (d *Dataset) appendClasses(b []byte, id, label int) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(label))
	if d.targets != nil {
		b = binary.LittleEndian.AppendUint64(b, uint64(d.targets[id]))
	}
	if d.truth != nil {
		b, _ = binary.Append(b, binary.LittleEndian, d.truth.rows[id])
	}
	return b
}

// SHA256 returns, in hex, the hash over the chosen images in order: for each, its pixels as little-endian float32, then
// its label and, if the set has targets, its target as little-endian int64, and then its truth, if it has one.
func (d *Dataset) SHA256() string { return d.hash }

// Images identifies the chosen images, to tell them from each other and from those of other sets.
func (d *Dataset) Images() (known result.Images) {
	sums := make([]byte, 0, 4*len(d.ids))
	for i, id := range d.ids {
		sums = binary.BigEndian.AppendUint32(sums, checksum.Add(d.sums[i], d.appendClasses(nil, id, d.labels[i])))
		if id != i {
			known.IDs = d.ids
		}
	}
	known.Checksums = hex.EncodeToString(sums)
	return known
}

// Close closes the set's files. Its images can't be read any more.
func (d *Dataset) Close() error { return d.files.Close() }
