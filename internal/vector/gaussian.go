package vector

import (
	"crypto/sha256"
	"encoding/binary"

	"golang.org/x/sys/cpu"
)

// #include "vector.h"
import "C"

// Key determines the values of Gaussian noise.
type Key struct{ high, low uint64 }

// NewKey returns the key of some numbers, in order; other numbers almost surely have another key.
func NewKey(numbers ...uint64) Key {
	text := make([]byte, 0, 64)
	for _, v := range numbers {
		text = binary.LittleEndian.AppendUint64(text, v)
	}
	sum := sha256.Sum256(text)
	return Key{binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])}
}

// At returns the key of the i-th noise in a row. Steps are odd multiples, and Noisy mixes their bits.
func (k Key) At(i uint64) Key {
	return Key{k.high + i*0xd1342543de82ef95, k.low + i*0xaf251af3b0f025b5}
}

// Noisy writes x + sigma·η, rounded once, with η ~ N(0, I): float32 numbers by xoshiro128++ and Box and Muller's
// method, no larger than 6.7. They depend only on the key and their place.
func Noisy(x []float32, sigma float32, k Key, out []float32) { noisy(wide, x, sigma, k, out) }

func noisy(bits int, x []float32, sigma float32, k Key, out []float32) {
	C.vector_noisy(C.int(bits), c(x, x), C.float(sigma), C.uint64_t(k.high), C.uint64_t(k.low), c(out, x), n(x))
}

// wide is the width in bits of the processor's vectors with fused products; 0 for a processor without them, and on
// other platforms than amd64.
var wide = func() int {
	switch {
	case cpu.X86.HasAVX512F:
		return 512
	case cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		return 256
	}
	return 0
}()
