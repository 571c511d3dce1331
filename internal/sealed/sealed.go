// Package sealed keeps Go values in files with a checksum, so that a flipped bit is found before a value is used.
package sealed

import (
	"bufio"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"

	"selfheal/internal/atomicfile"
	"selfheal/internal/checksum"
	"selfheal/internal/input"
	"selfheal/internal/memory"
)

// ErrDamaged is returned for a file that is not as [Write] has left it.
var ErrDamaged = errors.New("is damaged")

// Write puts a value into a file, whole or not at all. When it returns, the value outlives a power cut. The last four
// bytes are a checksum of the others (CRC-32C).
func Write(path string, value any) error {
	dir, name := atomicfile.At(path)
	return dir.FillSynced(name, func(w io.Writer) error {
		sum := checksum.New()
		if err := gob.NewEncoder(io.MultiWriter(w, sum)).Encode(value); err != nil {
			return err
		}
		return binary.Write(w, binary.BigEndian, sum.Sum32())
	})
}

// Read reads a value that Write has written, into a pointer. An absent file is an [io/fs.ErrNotExist], one that cannot
// be opened or is larger than the memory that is free another error, and one that holds something else an ErrDamaged.
func Read(path string, value any) error {
	f, err := input.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	end, err := f.Seek(-checksum.Size, io.SeekEnd)
	if err != nil {
		return ErrDamaged
	}
	if err := memory.Room(end); err != nil {
		return fmt.Errorf("%w; if it is damaged, remove it", err)
	}
	var want uint32
	if binary.Read(f, binary.BigEndian, &want) != nil {
		return ErrDamaged
	}
	if _, sum, err := checksum.Read(io.NewSectionReader(f, 0, end)); err != nil || sum != want {
		return ErrDamaged
	}
	if gob.NewDecoder(bufio.NewReader(io.NewSectionReader(f, 0, end))).Decode(value) != nil {
		return ErrDamaged
	}
	return nil
}
