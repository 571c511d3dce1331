package dataset

import (
	"fmt"
	"io"
	"io/fs"
)

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
