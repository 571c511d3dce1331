// Package input opens files that a user names: whatever lies at a path, the program neither waits nor reads for ever.
package input

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"selfheal/internal/memory"
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
		if err := memory.Room(info.Size()); err != nil {
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		}
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

// Packed reports whether a file that begins so is one that gzip has packed.
func Packed(head []byte) bool { return bytes.HasPrefix(head, []byte{0x1f, 0x8b}) }

// mostPacked is how many bytes gzip makes one of, at most.
const mostPacked = 1032

// Unpack unpacks data that gzip has packed, and returns other data as it is. It is an error if the unpacked bytes are
// more than most or than the memory that is free, which is known before any is taken, or if begins refuses their head.
func Unpack(data []byte, most int64, begins func(head []byte) error) ([]byte, error) {
	if !Packed(data) {
		return data, nil
	}
	// The last bytes are the size, where the file is one that no other was appended to.
	end := make([]byte, 4)
	copy(end, data[max(0, len(data)-4):])
	size := int64(binary.LittleEndian.Uint32(end))
	for size = min(size, mostPacked*int64(len(data))); ; {
		out, whole, err := unpacked(data, size, most, begins)
		if err != nil || whole <= int64(len(out)) {
			return out[:whole], err
		}
		size = whole
	}
}

// unpacked unpacks so many bytes, and counts how many there are.
func unpacked(data []byte, size, most int64, begins func(head []byte) error) (out []byte, whole int64, err error) {
	packed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, 0, err
	}
	from := bufio.NewReader(io.LimitReader(packed, most+1))
	head, _ := from.Peek(64)
	if err = cmp.Or(begins(head), memory.Room(min(size, most))); err != nil {
		return nil, 0, err
	}
	out = make([]byte, min(size, most))
	n, _ := io.ReadFull(from, out)
	rest, err := io.Copy(io.Discard, from) // what ended the file ends it again
	if whole = int64(n) + rest; err == nil && whole > most {
		err = fmt.Errorf("holds more than %s, unpacked", number.Bytes(most))
	}
	if err != nil {
		return nil, 0, err
	}
	return out, whole, nil
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
