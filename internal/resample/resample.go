// Package resample resizes images of levels of 8 bits, axis by axis, as Pillow 13 does it (Resample.c).
package resample

import "math"

// Filter weighs the values by how far from the new one they lie.
type Filter struct {
	support float64
	weight  func(distance float64) float64
}

// Pillow's filters.
var (
	Box = Filter{.5, func(x float64) float64 {
		if x > -.5 && x <= .5 {
			return 1
		}
		return 0
	}}
	Bilinear = Filter{1, func(x float64) float64 { return max(0, 1-math.Abs(x)) }}
	Bicubic  = Filter{2, cubic}
)

// cubic is Keys's kernel with a = −1/2.
func cubic(x float64) float64 {
	switch x = math.Abs(x); {
	case x < 1:
		return (1.5*x-2.5)*x*x + 1
	case x < 2:
		return ((-0.5*x+2.5)*x-4)*x + 2
	}
	return 0
}

// DownFirst reports whether Pillow, from version 13 on (its pull request 9549), resizes an image of h×w pixels along
// its columns first: where that takes more than twice as many rows away as the other pass takes columns. Values are
// rounded to levels between the passes, so that the order matters.
func DownFirst(h, newH, w, newW int) bool { return newH < h && h-newH > 2*(w-newW) }

// Kernel has, for each value along an axis that is asked for, the weights of the values that it is made of.
type Kernel struct {
	starts  []int
	weights [][]int32 // in units of 2^-precision
}

const precision = 22 // bits, Pillow's: 32 − 8 − 2

// New resamples from values to to of them and keeps n from first on.
func New(from, to, first, n int, filter Filter) Kernel {
	scale := float64(from) / float64(to)
	wider := max(scale, 1) // antialiasing
	support := filter.support * wider
	k := Kernel{make([]int, n), make([][]int32, n)}
	for i := range n {
		centre := (float64(first+i) + 0.5) * scale
		start, end := max(int(centre-support+0.5), 0), min(int(centre+support+0.5), from)
		weights, sum := make([]float64, end-start), 0.
		for j := range weights {
			weights[j] = filter.weight((float64(start+j) - centre + 0.5) / wider)
			sum += weights[j]
		}
		k.starts[i], k.weights[i] = start, make([]int32, len(weights))
		for j, w := range weights {
			k.weights[i][j] = int32(math.Round(w / sum * (1 << precision)))
		}
		if from == to {
			k.starts[i], k.weights[i] = first+i, []int32{1 << precision}
		}
	}
	return k
}

// Len is how many values it makes.
func (k Kernel) Len() int { return len(k.starts) }

// Span is from the first value that is needed to behind the last.
func (k Kernel) Span() (first, end int) {
	last := len(k.starts) - 1
	return k.starts[0], k.starts[last] + len(k.weights[last])
}

// From is the kernel for values of which the first so many are left out.
func (k Kernel) From(first int) Kernel {
	starts := make([]int, len(k.starts))
	for i, s := range k.starts {
		starts[i] = s - first
	}
	return Kernel{starts, k.weights}
}

// Apply writes what it makes of the values in, which lie a step apart, to out.
func (k Kernel) Apply(in []byte, step int, out []byte, outStep int) {
	for i, start := range k.starts {
		sum := int64(1 << (precision - 1))
		for j, w := range k.weights[i] {
			sum += int64(w) * int64(in[(start+j)*step])
		}
		out[i*outStep] = uint8(min(max(sum>>precision, 0), 255))
	}
}
