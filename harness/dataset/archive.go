package dataset

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"selfheal/internal/number"
)

const (
	maxUnpacked = 1 << 30   // bounds the bytes of an archive that are read
	maxMember   = 256 << 20 // bounds a file in it; CIFAR's largest has 148 MiB
)

func isTarGz(name string) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(name, ".tar.gz") || strings.HasSuffix(name, ".tgz")
}

// unpackTarGz unpacks the wanted files, in whatever folders of the archive they lie, into a temporary file that stays
// open. A file that the archive lacks is empty; held then lists all names in it.
func unpackTarGz(fsys fs.FS, name string, wanted []string, keep *closers) (files []file, held []string, err error) {
	f, err := openFile(fsys, name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	var starts []int64
	copied, err := keep.temporary(func(w io.Writer) (err error) {
		files, starts = make([]file, len(wanted)), make([]int64, len(wanted))
		held, err = unpackFrom(f, wanted, w, files, starts)
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("it is compressed and is unpacked for reading: %w", err)
	}
	for i := range files {
		if files[i].size > 0 {
			files[i].ReaderAt = io.NewSectionReader(copied, starts[i], files[i].size)
		}
	}
	return files, held, nil
}

// unpackFrom writes the wanted files of an archive to w and notes where each starts and how large it is.
func unpackFrom(f file, wanted []string, w io.Writer, files []file, starts []int64) (held []string, err error) {
	unzipped, err := gzip.NewReader(io.NewSectionReader(f, 0, f.size))
	if err != nil {
		return nil, fmt.Errorf("it is no .tar.gz: %w", err)
	}
	r := tar.NewReader(io.LimitReader(unzipped, maxUnpacked))
	var end int64
	for left := len(wanted); left > 0; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // files are found by their base names alone
			return nil, fmt.Errorf("it is no .tar.gz: %w", err)
		}
		base := path.Base(h.Name)
		i := slices.Index(wanted, base)
		held = append(held, base)
		if i < 0 || files[i].size > 0 || h.Typeflag != tar.TypeReg {
			continue
		}
		if h.Size > maxMember {
			return nil, fmt.Errorf("its file %s has %s, more than %s", shorten(base), number.Bytes(h.Size),
				number.Bytes(maxMember))
		}
		if _, err := io.Copy(w, r); err != nil {
			return nil, fmt.Errorf("its file %s can't be unpacked: %w", base, err)
		}
		starts[i], files[i].size = end, h.Size
		end += h.Size
		left--
	}
	return held, nil
}
