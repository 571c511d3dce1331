package dataset

import (
	"bytes"
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

// openFile opens a regular file of fsys. A file system whose files can't be
// read anywhere (os and embed can) has it read into memory.
func openFile(fsys fs.FS, path string) (file, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return file{}, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder, a file is needed", path)
	}
	if err != nil {
		f.Close()
		return file{}, err
	}
	if r, ok := f.(io.ReaderAt); ok {
		return file{r, f, info.Size()}, nil
	}
	data, err := io.ReadAll(io.LimitReader(f, maxMemory))
	if err != nil {
		f.Close()
		return file{}, err
	}
	return file{bytes.NewReader(data), f, int64(len(data))}, nil
}
