package dataset

import (
	"fmt"
	"io/fs"

	"selfheal/harness/result"
	"selfheal/internal/pillow"
)

// values writes the pixels of bytes into out.
func values(bytes []byte, out []float32) {
	for i, b := range bytes {
		out[i] = value(b)
	}
}

// ReadImage reads a PNG, JPEG or WebP file like an image folder's image for a network of so many channels and, unless
// by is nil, resizes and crops it. It returns pixels in [0,1], row-major CHW, and their shape.
func ReadImage(fsys fs.FS, name string, channels int, by *result.Transform) (pixels []float32, shape [3]int,
	err error) {
	levels, shape, err := decodeFile(fsys, name, channels == 1, nil)
	if err == nil && by != nil {
		if levels, shape, err = (&scratch{levels: levels}).resize(shape, *by, nil); err != nil {
			err = fmt.Errorf("%s %w", name, err)
		}
	}
	pixels = make([]float32, len(levels))
	values(levels, pixels)
	return pixels, shape, err
}

// unreadable is the error about a file that is missing or not an image. A set only leaves out this image.
type unreadable struct{ error }

func (e unreadable) Unwrap() error { return e.error }

func decodeFile(fsys fs.FS, name string, grey bool, buf []byte) ([]byte, [3]int, error) {
	f, err := openFile(fsys, name)
	if err != nil {
		return nil, [3]int{}, unreadable{err}
	}
	defer f.Close()
	return decode(f, name, grey, buf)
}

// decode is [pillow.Decode] with an error that is [unreadable].
func decode(f file, name string, grey bool, buf []byte) ([]byte, [3]int, error) {
	levels, shape, err := pillow.Decode(f, f.size, name, grey, buf)
	if err != nil {
		err = unreadable{err}
	}
	return levels, shape, err
}
