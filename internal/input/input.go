// Package input opens files that a user names: whatever lies at a path, the program neither waits nor reads for ever.
package input

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"selfheal/internal/number"
)

// Open opens a file or folder to read, as [os.Open] does. Devices and sockets are refused. A pipe is not waited for:
// where nobody writes to it, it is empty.
func Open(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil || info.Mode().IsRegular() || info.IsDir() {
		return os.Open(path)
	}
	if info.Mode()&fs.ModeNamedPipe != 0 {
		return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("is a device, not a file")}
}

// ErrPipe is returned for a pipe that is empty.
var ErrPipe = errors.New("is a pipe to which nothing writes")

// Read reads a whole file of at most so many bytes.
func Read(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var data []byte
	large := info.Mode().IsRegular() && info.Size() > most
	if !large {
		data, err = io.ReadAll(io.LimitReader(f, most+1))
	}
	switch {
	case err != nil:
		return nil, err
	case large || int64(len(data)) > most:
		err = fmt.Errorf("is larger than %s", number.Bytes(most))
	case len(data) == 0 && !info.Mode().IsRegular():
		err = ErrPipe
	default:
		if err = Present(bytes.NewReader(data)); err == nil {
			return data, nil
		}
	}
	return nil, &fs.PathError{Op: "read", Path: path, Err: err}
}

// pointer begins the text that Git has in place of a file whose bytes lie with Git LFS.
const pointer = "version https://git-lfs.github.com/spec/"

// Present is an error where r, at a file's beginning, reads a pointer of Git LFS: the file itself was not fetched.
func Present(r io.Reader) error {
	head := make([]byte, len(pointer))
	if _, err := io.ReadFull(r, head); err == nil && string(head) == pointer {
		return errors.New("is a Git LFS pointer, not the file itself; git lfs pull fetches that")
	}
	return nil
}
