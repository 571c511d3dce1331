// Package checksum computes CRC-32C, for which processors have an instruction.
package checksum

import (
	"hash"
	"hash/crc32"
	"io"
)

var table = crc32.MakeTable(crc32.Castagnoli)

// Size is a checksum's number of bytes.
const Size = crc32.Size

// Of is the checksum of bytes.
func Of(data []byte) uint32 { return Add(0, data) }

// Add is the checksum of bytes behind those that sum is of.
func Add(sum uint32, data []byte) uint32 { return crc32.Update(sum, table, data) }

// New takes bytes piece by piece.
func New() hash.Hash32 { return crc32.New(table) }

// Read reads to the end, and returns how many bytes there are and their checksum.
func Read(r io.Reader) (n int64, sum uint32, err error) {
	s := New()
	n, err = io.Copy(s, r)
	return n, s.Sum32(), err
}
