package dataset

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"selfheal/harness/result"
	"selfheal/internal/pillow"
	"selfheal/internal/resample"
)

// transformed is a source whose images are resized and cropped like torchvision's Resize and CenterCrop on Pillow's
// images: Pillow's resampling (Resample.c) of 8-bit levels, rounded after each axis.
type transformed struct {
	source
	by      result.Transform
	scratch sync.Pool // of *scratch
}

type scratch struct {
	bytes  []byte    // the source's
	pixels []float32 // the pixels of bytes
	levels []byte
	half   []byte // resized along one axis
}

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
	if d, ok := s.source.(encoded); ok {
		if w.levels, err = w.quantised(d, shape); err != nil {
			return nil, shape, fmt.Errorf("%s: %w", s.name(id), err)
		}
	}
	buf, to, err := w.resize(shape, s.by, buf)
	if err != nil {
		err = fmt.Errorf("%s %w", s.name(id), err)
	}
	return buf, to, err
}

// quantised returns the 8-bit levels of an image that is stored in another form.
func (w *scratch) quantised(s encoded, shape [3]int) ([]byte, error) {
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

// resize resizes an image so that its shorter side is as asked, and crops the middle.
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
	if newH > pillow.MaxPixels/newW {
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
	filter := resample.Bilinear
	if by.Interpolation == result.Bicubic {
		filter = resample.Bicubic
	}
	along := axis{1, 1, resample.New(wide, newW, left, crop[1], filter)}
	across := axis{wide, crop[1], resample.New(h, newH, top, crop[0], filter)}
	if resample.DownFirst(h, newH, wide, newW) {
		along, across = across, along
	}
	buf = slices.Grow(buf[:0], channels*crop[0]*crop[1])[:channels*crop[0]*crop[1]]
	for c := range channels {
		w.twoPasses(w.levels[c*h*wide:(c+1)*h*wide], buf[c*crop[0]*crop[1]:(c+1)*crop[0]*crop[1]], along, across)
	}
	return buf, [3]int{channels, crop[0], crop[1]}, nil
}

// axis is one of a plane's: the distances between its values before and after, and the resampling.
type axis struct {
	in, out int
	resample.Kernel
}

// twoPasses resizes a plane along the lines of one axis and then across them. The first pass computes only lines that
// the second needs.
func (w *scratch) twoPasses(in, out []byte, along, across axis) {
	first, end := across.Span()
	n := along.Len()
	w.half = slices.Grow(w.half[:0], (end-first)*n)[:(end-first)*n]
	for line := first; line < end; line++ {
		along.Apply(in[line*across.in:], along.in, w.half[(line-first)*n:], 1)
	}
	second := across.From(first)
	for k := range n {
		second.Apply(w.half[k:], n, out[k*along.out:], across.out)
	}
}
