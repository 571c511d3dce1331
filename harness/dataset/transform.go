package dataset

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"selfheal/harness/result"
)

// transformed is a source whose images are resized and cropped as torchvision's Resize and CenterCrop do it on
// Pillow's images: Pillow's resampling (Resample.c) of levels of 8 bits, with its rounding after each axis.
type transformed struct {
	source
	by      result.Transform
	scratch sync.Pool // of *scratch
}

type scratch struct {
	bytes  []byte    // the source's
	pixels []float32 // that they stand for
	levels []byte
	wide   []byte // resized along the rows
}

// planar is a source whose images are bytes of levels, channel by channel.
type planar struct{}

func (planar) pixels(bytes []byte, out []float32) { values(bytes, out) }
func (planar) isPlanar()                          {}

func (s *transformed) pixels(bytes []byte, out []float32) { values(bytes, out) }

func (s *transformed) read(id int, buf []byte) ([]byte, [3]int, error) {
	w, ok := s.scratch.Get().(*scratch)
	if !ok {
		w = new(scratch)
	}
	defer s.scratch.Put(w)
	bytes, shape, err := s.source.read(id, w.bytes)
	if err != nil {
		return nil, shape, err
	}
	w.bytes, w.levels = bytes, bytes
	if _, ok := s.source.(interface{ isPlanar() }); !ok {
		if w.levels, err = w.quantised(s.source, shape); err != nil {
			return nil, shape, fmt.Errorf("%s: %w", s.name(id), err)
		}
	}
	buf, to, err := w.resize(shape, s.by, buf)
	if err != nil {
		err = fmt.Errorf("%s %w", s.name(id), err)
	}
	return buf, to, err
}

// quantised are the levels of an image that is stored in another way.
func (w *scratch) quantised(s source, shape [3]int) ([]byte, error) {
	n := shape[0] * shape[1] * shape[2]
	w.pixels = slices.Grow(w.pixels[:0], n)[:n]
	s.pixels(w.bytes, w.pixels)
	levels := make([]byte, n)
	for i, v := range w.pixels {
		level := math.Round(float64(v) * 255)
		if math.Abs(level-float64(v)*255) > 1e-3 || level < 0 || level > 255 {
			return nil, fmt.Errorf("value %d is %v, not a level of 8 bits, which transform takes; "+
				"save the images as uint8, or resized", i, v)
		}
		levels[i] = byte(level)
	}
	return levels, nil
}

// resize makes the shorter side of an image as long as asked for and takes its middle.
func (w *scratch) resize(shape [3]int, by result.Transform, buf []byte) ([]byte, [3]int, error) {
	channels, h, wide := shape[0], shape[1], shape[2]
	newH, newW := h, wide
	if by.Resize > 0 {
		if newH, newW = by.Resize, by.Resize; h < wide {
			newW = int(float64(by.Resize*wide) / float64(h))
		} else {
			newH = int(float64(by.Resize*h) / float64(wide))
		}
	}
	if newH > maxPixels/newW {
		return nil, shape, fmt.Errorf("has %d×%d pixels when resized, more than this program reads", newW, newH)
	}
	crop := [2]int{newH, newW}
	if by.Crop > 0 {
		if crop = [2]int{by.Crop, by.Crop}; newH < by.Crop || newW < by.Crop {
			return nil, shape, fmt.Errorf("has %d×%d pixels, fewer than the crop of %d; resize to at least that", newW,
				newH, by.Crop)
		}
	}
	top, left := int(math.RoundToEven(float64(newH-crop[0])/2)), int(math.RoundToEven(float64(newW-crop[1])/2))
	rows, columns := newKernel(h, newH, top, crop[0], by.Interpolation), newKernel(wide, newW, left, crop[1],
		by.Interpolation)
	first, end := rows.span() // of the rows that are needed
	rows = rows.from(first)
	w.wide = slices.Grow(w.wide[:0], (end-first)*crop[1])[:(end-first)*crop[1]]
	buf = slices.Grow(buf[:0], channels*crop[0]*crop[1])[:channels*crop[0]*crop[1]]
	for c := range channels {
		plane, out := w.levels[c*h*wide:(c+1)*h*wide], buf[c*crop[0]*crop[1]:(c+1)*crop[0]*crop[1]]
		for y := first; y < end; y++ {
			columns.apply(plane[y*wide:], 1, w.wide[(y-first)*crop[1]:], 1)
		}
		for x := range crop[1] {
			rows.apply(w.wide[x:], crop[1], out[x:], crop[1])
		}
	}
	return buf, [3]int{channels, crop[0], crop[1]}, nil
}

// kernel has, for each value along an axis that is asked for, the weights of the values that it is made of.
type kernel struct {
	starts  []int
	weights [][]int32 // in units of 2^-precision
}

const precision = 22 // bits, Pillow's: 32 − 8 − 2

// newKernel resamples from values to to of them and keeps n from first on.
func newKernel(from, to, first, n int, interpolation string) kernel {
	filter, support := triangle, 1.
	if interpolation == result.Bicubic {
		filter, support = cubic, 2
	}
	scale := float64(from) / float64(to)
	wider := max(scale, 1) // antialiasing
	support *= wider
	k := kernel{make([]int, n), make([][]int32, n)}
	for i := range n {
		centre := (float64(first+i) + 0.5) * scale
		start, end := max(int(centre-support+0.5), 0), min(int(centre+support+0.5), from)
		weights, sum := make([]float64, end-start), 0.
		for j := range weights {
			weights[j] = filter((float64(start+j) - centre + 0.5) / wider)
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

func triangle(x float64) float64 { return max(0, 1-math.Abs(x)) }

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

// span is from the first value that is needed to behind the last.
func (k kernel) span() (first, end int) {
	last := len(k.starts) - 1
	return k.starts[0], k.starts[last] + len(k.weights[last])
}

// from is the kernel for values of which the first so many are left out.
func (k kernel) from(first int) kernel {
	starts := make([]int, len(k.starts))
	for i, s := range k.starts {
		starts[i] = s - first
	}
	return kernel{starts, k.weights}
}

// apply writes what it makes of the values in, which lie a step apart, to out.
func (k kernel) apply(in []byte, step int, out []byte, outStep int) {
	for i, start := range k.starts {
		sum := int64(1 << (precision - 1))
		for j, w := range k.weights[i] {
			sum += int64(w) * int64(in[(start+j)*step])
		}
		out[i*outStep] = clip8(int(sum >> precision))
	}
}
