package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"selfheal/internal/pickle"
)

// cifarVersion is CIFAR-10 or -100 (Krizhevsky 2009, https://www.cs.toronto.edu/~kriz/cifar.html) in one of its
// layouts. The binary layout has records of one label byte, in CIFAR-100 a coarse and a fine one, and 3072 pixels,
// channels first. The Python layout, which torchvision downloads, has pickled dictionaries of arrays.
type cifarVersion struct {
	format  string
	archive string              // its published name, without .tar.gz
	folder  string              // the folder in the archive
	files   map[string][]string // by split
	before  int                 // bytes before an image's pixels: labels, of which the last one counts
	key     string              // of the labels in a pickle; "" for the binary layout
	names   []string            // of the classes
	listed  string              // the file beside the batches that names the classes; "" if there is none
}

var (
	cifarNames = [2][]string{
		strings.Fields("airplane automobile bird cat deer dog frog horse ship truck"),
		strings.Fields(`apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
			camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup
			dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower
			leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid
			otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road
			rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar sunflower
			sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale
			willow_tree wolf woman worm`),
	}

	cifar10Bin = cifarVersion{"cifar10-bin", "cifar-10-binary", "cifar-10-batches-bin", map[string][]string{
		"train": batches(".bin"), "test": {"test_batch.bin"}}, 1, "", cifarNames[0], "batches.meta.txt"}
	cifar100Bin = cifarVersion{"cifar100-bin", "cifar-100-binary", "cifar-100-binary", map[string][]string{
		"train": {"train.bin"}, "test": {"test.bin"}}, 2, "", cifarNames[1], "fine_label_names.txt"}
	cifar10Python = cifarVersion{"cifar10-python", "cifar-10-python", "cifar-10-batches-py", map[string][]string{
		"train": batches(""), "test": {"test_batch"}}, 0, "labels", cifarNames[0], ""}
	cifar100Python = cifarVersion{"cifar100-python", "cifar-100-python", "cifar-100-python", map[string][]string{
		"train": {"train"}, "test": {"test"}}, 0, "fine_labels", cifarNames[1], ""}

	cifarVersions = []cifarVersion{cifar10Bin, cifar100Bin, cifar10Python, cifar100Python}
)

func batches(ext string) []string {
	const names = "data_batch_1? data_batch_2? data_batch_3? data_batch_4? data_batch_5?"
	return strings.Fields(strings.ReplaceAll(names, "?", ext))
}

// cifar holds images of 3072 bytes at equal distances in one file or more.
type cifar struct {
	labels
	parts  []cifarPart
	before int // bytes before an image's pixels
	names  []string
}

type cifarPart struct {
	file
	path    string
	first   int // id of its first image
	n       int
	columns bool // pixel k of all images, then pixel k + 1
}

const cifarPixels = 3 * 32 * 32

// open opens a folder or a .tar.gz with the files of a split, or one such file.
func (v cifarVersion) open(fsys fs.FS, spec Spec, files *closers) (source, error) {
	c := &cifar{before: v.before, names: v.names}
	err := v.find(fsys, spec, c, files)
	if err != nil {
		return nil, err
	}
	for i := range c.parts {
		p, read := &c.parts[i], v.pickled
		if v.key == "" {
			read = v.binary
		}
		labels, err := read(p)
		if err != nil && len(c.parts) > 1 {
			err = fmt.Errorf("%s: %w", p.path, err)
		}
		if err != nil {
			return nil, err
		}
		p.first, p.n = len(c.labels), len(labels)
		c.labels = append(c.labels, labels...)
	}
	return c, nil
}

func (v cifarVersion) find(fsys fs.FS, spec Spec, c *cifar, keep *closers) error {
	info, err := fs.Stat(fsys, spec.Path)
	if err != nil {
		return err
	}
	archived := isTarGz(spec.Path)
	if !info.IsDir() && !archived {
		if spec.Split != "" {
			return fmt.Errorf("split: a single file has no splits; remove it, or give the folder that has both")
		}
		f, err := keep.open(fsys, spec.Path)
		c.parts = []cifarPart{{file: f, path: spec.Path}}
		return cmp.Or(err, v.name(fsys, path.Dir(spec.Path), c))
	}
	split := cmp.Or(spec.Split, "test")
	wanted := v.files[split]
	if wanted == nil {
		return fmt.Errorf("split must be train or test, not %s", shorten(spec.Split))
	}
	files, folder := make([]file, len(wanted)), v.within(fsys, spec.Path)
	holds := func(name string) bool { return isFile(fsys, path.Join(folder, name)) }
	if archived {
		var held []string
		if files, held, err = unpackTarGz(fsys, spec.Path, wanted, keep); err != nil {
			return err
		}
		folder, holds = "", func(name string) bool { return slices.Contains(held, name) }
	}
	for i, name := range wanted {
		p := path.Join(folder, name)
		if !archived && holds(name) {
			if files[i], err = keep.open(fsys, p); err != nil {
				return err
			}
		}
		if files[i].ReaderAt == nil {
			return v.lacking(name, split, holds)
		}
		c.parts = append(c.parts, cifarPart{file: files[i], path: p})
	}
	if archived {
		return nil
	}
	return v.name(fsys, folder, c)
}

// name takes the classes' names from the list in a folder, if there is one: another data set in CIFAR's layout has
// its own.
func (v cifarVersion) name(fsys fs.FS, folder string, c *cifar) error {
	list := path.Join(folder, v.listed)
	if v.listed == "" || !isFile(fsys, list) {
		return nil
	}
	text, err := readText(fsys, list)
	if names := strings.Fields(text); len(names) == len(v.names) {
		c.names = names
	}
	return err
}

// within returns the folder of the files: folder itself, or the published one in it.
func (v cifarVersion) within(fsys fs.FS, folder string) string {
	if inner := path.Join(folder, v.folder); v.has(fsys, inner) {
		return inner
	}
	return folder
}

// has reports whether a folder holds any file of the set.
func (v cifarVersion) has(fsys fs.FS, folder string) bool {
	return slices.ContainsFunc(slices.Concat(v.files["test"], v.files["train"]), func(name string) bool {
		return isFile(fsys, path.Join(folder, name))
	})
}

// is reports whether a file or folder has the published layout.
func (v cifarVersion) is(fsys fs.FS, name string) bool {
	return isTarGz(name) && strings.HasPrefix(path.Base(name), v.archive) || v.has(fsys, v.within(fsys, name))
}

// lacking returns the error about a missing file. It names the version whose files are there.
func (v cifarVersion) lacking(name, split string, holds func(name string) bool) error {
	text := fmt.Sprintf("there is no %s in it, which split %s needs", name, split)
	for _, other := range cifarVersions {
		for _, its := range []string{"train", "test"} {
			switch {
			case !holds(other.files[its][0]):
			case other.format != v.format:
				return fmt.Errorf("%s; its files are those of format %s", text, other.format)
			case its != split:
				return fmt.Errorf("%s; it has split %s", text, its)
			}
		}
	}
	return errors.New(text)
}

// binary reads the labels of a file of records.
func (v cifarVersion) binary(p *cifarPart) (labels []int, err error) {
	size := int64(v.before + cifarPixels)
	if rest := p.size % size; rest != 0 {
		note := "; the file is cut short or of another format"
		for _, other := range cifarVersions {
			if other.key == "" && p.size%int64(other.before+cifarPixels) == 0 {
				note = "; its size fits " + other.format
			}
		}
		return nil, fmt.Errorf("its %d bytes are %d records of %d bytes and %d bytes more%s", p.size, p.size/size, size,
			rest, note)
	}
	for at := int64(v.before - 1); at < p.size; at += size {
		var label [1]byte
		if err := readAt(p, label[:], at); err != nil {
			return nil, fmt.Errorf("record %d of %s can't be read: %w", at/size, p.path, err)
		}
		labels = append(labels, int(label[0]))
	}
	return labels, nil
}

// pickled reads a file's dictionary: its labels, and where its pixels lie.
func (v cifarVersion) pickled(p *cifarPart) (labels []int, err error) {
	all, err := pickle.Read(p.file, p.size)
	if err != nil {
		return nil, err
	}
	data, ok := all["data"].(*pickle.Array)
	bytes, plain := all["data"].(pickle.Bytes)
	if !ok && !plain {
		return nil, errors.New("its dictionary has no array called data; CIFAR's batches have")
	}
	labels, ok = pickle.Wholes(all[v.key])
	if !ok {
		for _, other := range cifarVersions {
			if _, ok := all[other.key]; ok {
				return nil, fmt.Errorf("its dictionary has no list of numbers called %s but one called %s: its format "+
					"is %s", v.key, other.key, other.format)
			}
		}
		if _, ok := all[v.key].(*pickle.Array); ok {
			return nil, fmt.Errorf("its %s are an array, not a list: write them by .tolist()", v.key)
		}
		return nil, fmt.Errorf("its dictionary has no list of numbers called %s", v.key)
	}
	shape := []int{len(labels), cifarPixels}
	if plain {
		data = &pickle.Array{Shape: shape, Of: "u1", Data: bytes}
	}
	p.file = file{io.NewSectionReader(p.file, data.Data.At, data.Data.N), nil, data.Data.N}
	p.columns = data.Columns
	if data.Of != "u1" || !slices.Equal(data.Shape, shape) || p.size != int64(len(labels))*cifarPixels {
		return nil, fmt.Errorf("its array data has the shape %v, the type %q and %d bytes; %d labels need %v of u1",
			data.Shape, shorten(string(data.Of)), p.size, len(labels), shape)
	}
	return labels, nil
}

func (c *cifar) record() int              { return c.before + cifarPixels }
func (c *cifar) classes() (int, []string) { return len(c.names), c.names }

// part returns the part that holds an image, and the image's index in it.
func (c *cifar) part(id int) (*cifarPart, int) {
	i := len(c.parts) - 1
	for c.parts[i].first > id {
		i--
	}
	return &c.parts[i], id - c.parts[i].first
}

func (c *cifar) name(id int) string {
	p, k := c.part(id)
	return fmt.Sprintf("record %d of %s", k, p.path)
}

func (c *cifar) read(id int, buf []byte) ([]byte, [3]int, error) {
	p, k := c.part(id)
	buf = slices.Grow(buf[:0], c.record())[:c.record()]
	at, step := int64(k*len(buf)), len(buf)
	if p.columns {
		at, step = int64(k), 1
	}
	var err error
	for i := 0; i < len(buf) && err == nil; i += step {
		err = readBytes(c, id, p, buf[i:i+step], at+int64(i/step*p.n))
	}
	return buf, [3]int{3, 32, 32}, err
}

func (c *cifar) pixels(bytes []byte, out []float32) { values(bytes[c.before:], out) }
