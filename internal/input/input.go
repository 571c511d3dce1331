// Package input opens files that a user names. Reading never waits and never goes on without end, whatever lies at a
// path: [Open] refuses devices and does not wait for pipes, [Read] has a limit of size, and [Unpack] checks the size
// before taking memory.
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

// Open opens a file or folder for reading, as [os.Open] does. It refuses devices and sockets. It does not wait for a
// pipe: one without a writer is empty.
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

// Packed reports whether a file with this head is packed by gzip.
func Packed(head []byte) bool { return bytes.HasPrefix(head, []byte{0x1f, 0x8b}) }

// mostPacked is the largest number of bytes that gzip packs into one.
const mostPacked = 1032

// Unpack unpacks data that gzip has packed, and returns other data unchanged. It returns an error if begins refuses the
// head, or if the unpacked bytes exceed most or the free memory; it knows their number before taking memory.
func Unpack(data []byte, most int64, begins func(head []byte) error) ([]byte, error) {
	if !Packed(data) {
		return data, nil
	}
	// The last bytes are the size, unless files were appended to each other.
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

// unpacked unpacks size bytes, and counts how many there are in all.
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
	rest, err := io.Copy(io.Discard, from) // an error that ended the reading ends it again
	if whole = int64(n) + rest; err == nil && whole > most {
		err = fmt.Errorf("holds more than %s, unpacked", number.Bytes(most))
	}
	if err != nil {
		return nil, 0, err
	}
	return out, whole, nil
}

// pointer begins the text that Git stores in place of a file kept by Git LFS.
const pointer = "version https://git-lfs.github.com/spec/"

// Present returns an error if r, at a file's beginning, reads a pointer of Git LFS: the file itself was not fetched.
func Present(r io.Reader) error {
	head := make([]byte, len(pointer))
	if _, err := io.ReadFull(r, head); err == nil && string(head) == pointer {
		return errors.New("is a Git LFS pointer, not the file itself; git lfs pull fetches that")
	}
	return nil
}
