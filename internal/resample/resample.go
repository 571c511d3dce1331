// Package resample resizes images on 8-bit levels, axis by axis, with the results of Pillow 13 (Resample.c). [New]
// makes a [Kernel] for an axis, [Kernel.Apply] applies it to a line, and [DownFirst] says which axis comes first.
package resample

import "math"

// Filter weighs values by their distance from the new value.
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
// its columns first: if that removes more than twice as many rows as the other pass removes columns. Values are rounded
// to levels between the passes, so the order matters.
func DownFirst(h, newH, w, newW int) bool { return newH < h && h-newH > 2*(w-newW) }

// Kernel has, for each new value along an axis, the weights of the old values.
type Kernel struct {
	starts  []int
	weights [][]int32 // in units of 2^-precision
}

const precision = 22 // bits, Pillow's: 32 − 8 − 2

// New makes the kernel that resamples from values to to values and keeps n of them, beginning with first.
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

// Len returns the number of new values.
func (k Kernel) Len() int { return len(k.starts) }

// Span returns the range of old values that are needed; end is exclusive.
func (k Kernel) Span() (first, end int) {
	last := len(k.starts) - 1
	return k.starts[0], k.starts[last] + len(k.weights[last])
}

// From returns the kernel for values without the first ones.
func (k Kernel) From(first int) Kernel {
	starts := make([]int, len(k.starts))
	for i, s := range k.starts {
		starts[i] = s - first
	}
	return Kernel{starts, k.weights}
}

// Apply resamples the values in, which lie step apart, into out.
func (k Kernel) Apply(in []byte, step int, out []byte, outStep int) {
	for i, start := range k.starts {
		sum := int64(1 << (precision - 1))
		for j, w := range k.weights[i] {
			sum += int64(w) * int64(in[(start+j)*step])
		}
		out[i*outStep] = uint8(min(max(sum>>precision, 0), 255))
	}
}
