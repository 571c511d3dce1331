package dataset

import (
	"fmt"
	"io/fs"
	"slices"
)

// cifar reads CIFAR's binary version (Krizhevsky 2009,
// https://www.cs.toronto.edu/~kriz/cifar.html): records of one label byte, in
// CIFAR-100 a coarse and a fine one, and 3072 pixels, channels first.
type cifar struct {
	file
	path       string
	labelBytes int // the last of them is the label
}

const cifarPixels = 3 * 32 * 32

func openCIFAR10(fsys fs.FS, spec Spec) (source, error)  { return openCIFAR(fsys, spec.Path, 1) }
func openCIFAR100(fsys fs.FS, spec Spec) (source, error) { return openCIFAR(fsys, spec.Path, 2) }

func openCIFAR(fsys fs.FS, path string, labelBytes int) (source, error) {
	f, err := openFile(fsys, path)
	if err != nil {
		return nil, err
	}
	size := int64(labelBytes + cifarPixels)
	if rest := f.size % size; rest != 0 {
		f.Close()
		other, note := int64(3-labelBytes), "; the file is cut short or of another format"
		if f.size%(other+cifarPixels) == 0 {
			note = fmt.Sprintf("; its size fits %s", map[int64]string{1: "cifar10-bin", 2: "cifar100-bin"}[other])
		}
		return nil, fmt.Errorf("its %d bytes are %d records of %d bytes and %d bytes more%s", f.size, f.size/size, size,
			rest, note)
	}
	return &cifar{f, path, labelBytes}, nil
}

func (c *cifar) record() int              { return c.labelBytes + cifarPixels }
func (c *cifar) count() int               { return int(c.size) / c.record() }
func (c *cifar) classes() (int, []string) { return 0, nil } // the format says how many
func (c *cifar) name(id int) string       { return fmt.Sprintf("record %d of %s", id, c.path) }

func (c *cifar) read(id int, buf []byte) (image, error) {
	buf = slices.Grow(buf[:0], c.record())[:c.record()]
	if err := readAt(c, buf, int64(id)*int64(len(buf))); err != nil {
		return image{}, fmt.Errorf("%s can't be read: %w", c.name(id), err)
	}
	return image{[3]int{3, 32, 32}, int(buf[c.labelBytes-1]), buf}, nil
}

func (c *cifar) pixels(bytes []byte, out []float32) { values(bytes[c.labelBytes:], out) }
