// Package checksum computes CRC-32C, for which processors have an instruction: [Of] for bytes in memory, [New] piece by
// piece, [Read] for a reader.
package checksum

import (
	"hash"
	"hash/crc32"
	"io"
)

var table = crc32.MakeTable(crc32.Castagnoli)

// Size is a checksum's number of bytes.
const Size = crc32.Size

// Of returns the checksum of bytes.
func Of(data []byte) uint32 { return Add(0, data) }

// Add returns the checksum of bytes that follow those with the checksum sum.
func Add(sum uint32, data []byte) uint32 { return crc32.Update(sum, table, data) }

// New returns a hash that takes bytes piece by piece.
func New() hash.Hash32 { return crc32.New(table) }

// Read reads r to its end and returns the number of bytes and their checksum.
func Read(r io.Reader) (n int64, sum uint32, err error) {
	s := New()
	n, err = io.Copy(s, r)
	return n, s.Sum32(), err
}
