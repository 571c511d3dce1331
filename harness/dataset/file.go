package dataset

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"selfheal/internal/fault"
	"selfheal/internal/input"
	"selfheal/internal/lists"
	"selfheal/internal/temporary"
)

// file is an open file of known size with random access.
type file struct {
	io.ReaderAt
	io.Closer
	size int64
}

// closers are the open files of a data set.
type closers []io.Closer

func (c *closers) add(one io.Closer) { *c = append(*c, one) }

func (c *closers) open(fsys fs.FS, path string) (file, error) {
	f, err := openFile(fsys, path)
	if err == nil {
		c.add(f)
	}
	return f, err
}

func (c closers) Close() error {
	return errors.Join(lists.Map(c, io.Closer.Close)...)
}

// openFile opens a regular file of fsys. Its files must have random access, as os's and embed's have.
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
	case err == nil && !info.Mode().IsRegular():
		err = fmt.Errorf("%s is a pipe, a file is needed", path)
	case err == nil && !anywhere:
		err = fmt.Errorf("%s can only be read from its beginning", path)
	case err == nil:
		if err = input.Present(io.NewSectionReader(r, 0, info.Size())); err != nil {
			err = fmt.Errorf("%s %w", path, err)
		}
	}
	if err != nil {
		f.Close()
		return file{}, err
	}
	return file{r, f, info.Size()}, nil
}

// readBytes is [readAt] for an image of a source, which the error names.
func readBytes(s source, id int, r io.ReaderAt, buf []byte, offset int64) error {
	if err := readAt(r, buf, offset); err != nil {
		return fmt.Errorf("%s can't be read: %w", s.name(id), err)
	}
	return nil
}

// readAt fills buf from offset on.
func readAt(r io.ReaderAt, buf []byte, offset int64) error {
	n, err := r.ReadAt(buf, offset)
	if n == len(buf) {
		return nil
	}
	if err == io.EOF {
		err = errors.New("the file ends before it")
	}
	return fault.Reason(err)
}

// temporary makes a temporary file with the output of fill. It stays open until the closers are closed.
func (c *closers) temporary(fill func(io.Writer) error) (io.ReaderAt, error) {
	t, err := temporary.Write(temporary.Folders(), fill)
	if err != nil {
		return nil, err
	}
	c.add(t)
	return t, nil
}
