package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"

	"selfheal/internal/atomicfile"
	"selfheal/internal/fault"
)

// ErrNoVector is returned for a vector that is not there, or not as it was written.
var ErrNoVector = errors.New("a vector is missing or damaged")

// Vector says where a vector stands in its file, and its checksum.
type Vector struct {
	At  int64  `json:"at"` // in bytes
	Sum uint32 `json:"sum"`
}

// VectorsSuffix ends the names of the files of vectors.
const VectorsSuffix = ".f32"

// Vectors is a file of float32 vectors of one length in a journal's folder.
type Vectors struct {
	journal *Journal
	name    string
	length  int
	file    *os.File
	end     int64
}

// Vectors opens a file of vectors of n values by its name, which is one that files may have.
func (j *Journal) Vectors(name string, n int) (*Vectors, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if v := j.vectors[name]; v != nil {
		return v, nil
	}
	v := &Vectors{journal: j, name: name, length: n}
	var err error
	if v.file, err = atomicfile.In(j.dir).Open(name + VectorsSuffix); err == nil {
		v.end, err = v.file.Seek(0, io.SeekEnd)
	}
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", j.dir, fault.Reason(err))
	}
	j.vectors[name] = v
	return v, nil
}

func (v *Vectors) path() string { return filepath.Join(v.journal.dir, v.name+VectorsSuffix) }

// Put adds a vector. It counts from the moment that a line says where it stands.
func (v *Vectors) Put(values []float32) (at Vector, err error) {
	data := make([]byte, 0, 4*len(values))
	for _, x := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	err = v.journal.write(func() error {
		if len(values) != v.length {
			return fmt.Errorf("a vector of %d values, not of %d", len(values), v.length)
		}
		at = Vector{v.end, crc32.Checksum(data, castagnoli)}
		_, err := interrupted(v.file).Write(data)
		v.end += int64(len(data))
		v.journal.dirty[v.file] = true
		return err
	})
	return at, err
}

// Get reads a vector. The error is an [ErrNoVector] where it can't be had.
func (v *Vectors) Get(at Vector) ([]float32, error) {
	data := make([]byte, 4*v.length)
	if _, err := v.file.ReadAt(data, at.At); err != nil || crc32.Checksum(data, castagnoli) != at.Sum {
		return nil, ErrNoVector
	}
	values := make([]float32, v.length)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return values, nil
}

// Has reports whether a vector is there as it was written.
func (v *Vectors) Has(at Vector) bool {
	_, err := v.Get(at)
	return err == nil
}

// Remove removes the file, once the lines that make it needless are on the disk; nobody may use it any more.
func (v *Vectors) Remove() error {
	j := v.journal
	if err := j.sync(); err != nil {
		return j.write(func() error { return err })
	}
	return j.write(func() error {
		delete(j.vectors, v.name)
		delete(j.dirty, v.file)
		return errors.Join(v.file.Close(), os.Remove(v.path()))
	})
}
