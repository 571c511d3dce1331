package vector

import (
	"crypto/sha256"
	"encoding/binary"

	"golang.org/x/sys/cpu"
)

// #include "vector.h"
import "C"

// Key is what Gaussian noise depends on.
type Key struct{ high, low uint64 }

// NewKey is the key of some numbers, in order: other numbers have, but for chance, another one.
func NewKey(numbers ...uint64) Key {
	text := make([]byte, 0, 64)
	for _, v := range numbers {
		text = binary.LittleEndian.AppendUint64(text, v)
	}
	sum := sha256.Sum256(text)
	return Key{binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])}
}

// At is the key of the i-th of a row of noises. Steps are odd multiples, and Noisy mixes their bits.
func (k Key) At(i uint64) Key {
	return Key{k.high + i*0xd1342543de82ef95, k.low + i*0xaf251af3b0f025b5}
}

// Noisy writes x + sigma·η, rounded once, with η ~ N(0, I): float32 numbers of xoshiro128++ and Box and Muller's
// method, no larger than 6.7. They depend on the key and their place alone.
func Noisy(x []float32, sigma float32, k Key, out []float32) { noisy(wide, x, sigma, k, out) }

func noisy(bits int, x []float32, sigma float32, k Key, out []float32) {
	C.vector_noisy(C.int(bits), c(x, x), C.float(sigma), C.uint64_t(k.high), C.uint64_t(k.low), c(out, x), n(x))
}

// wide is how many bits of vectors with fused products the processor has; 0: it has none, or is none of amd64's.
var wide = func() int {
	switch {
	case cpu.X86.HasAVX512F:
		return 512
	case cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		return 256
	}
	return 0
}()
