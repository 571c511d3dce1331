// Package sealed stores Go values in files with a checksum, so that a flipped bit is found before a value is used.
// [Read] returns what [Write] has written, or an error.
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

// ErrDamaged is returned for a file that differs from what [Write] wrote.
var ErrDamaged = errors.New("is damaged")

// Write stores a value in a file, whole or not at all. When it returns, the value survives a power cut. The last four
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

// Read reads a value written by Write into a pointer. The error is [io/fs.ErrNotExist] for a missing file and
// ErrDamaged for other content; a file that cannot be opened or is larger than the free memory gives another error.
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
