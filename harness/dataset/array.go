package dataset

import (
	"archive/zip"
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// ReadImage reads a PNG or JPEG file as an image folder's images are read: pixels in
// [0,1], row-major CHW, of three channels, and their shape.
func ReadImage(fsys fs.FS, name string) (pixels []float32, shape [3]int, err error) {
	levels, shape, err := decode(fsys, name, nil)
	if err != nil {
		return nil, shape, err
	}
	pixels = make([]float32, len(levels))
	for i, b := range levels {
		pixels[i] = float32(b) / 255
	}
	return pixels, shape, nil
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
		entry, err := pick(archive, wanted)
		if err != nil {
			return nil, nil, err
		}
		body, err := entry.Open()
		if err != nil {
			return nil, nil, err
		}
		defer body.Close()
		r = body
	}
	return ReadNPY(bufio.NewReaderSize(r, 1<<16))
}

// pick finds the first of the wanted arrays, else the only one.
func pick(archive *zip.Reader, wanted []string) (*zip.File, error) {
	if f := find(archive, wanted...); f != nil {
		return f, nil
	}
	all := arrays(archive)
	i := slices.IndexFunc(archive.File, func(f *zip.File) bool { return strings.HasSuffix(f.Name, ".npy") })
	if i >= 0 && len(all) == 1 {
		return archive.File[i], nil
	}
	return nil, fmt.Errorf("it holds the arrays %s, none of them called %s", strings.Join(all, ", "),
		strings.Join(wanted, " or "))
}
