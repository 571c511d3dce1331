package corruption

import (
	"bytes"
	"embed"
	"fmt"
	"math"
	"slices"
	"sync"

	"golang.org/x/image/webp"
)

func fog(p picture, severity int, draw Source) []float64 {
	c := by(p, severity, [...][2]float64{{.2, 3}, {.5, 3}, {.75, 2.5}, {1, 2}, {1.5, 1.75}},
		[...][2]float64{{1.5, 2}, {2, 2}, {2.5, 1.7}, {2.5, 1.5}, {3, 1.4}})
	size := smallest
	if p.side > size {
		size = 256 // the authors' size for images of 224 pixels
	}
	for size < p.side {
		size *= 2
	}
	cloud, x := plasma(size, c[1], draw), p.unit()
	brightest := slices.Max(x)
	for i, v := range x {
		pixel := i / 3
		x[i] = (v + c[0]*cloud[pixel/p.side*size+pixel%p.side]) * brightest / (brightest + c[0])
	}
	return full(x)
}

// plasma is the authors' diamond-square fractal on a torus of size×size values, a power of 2, scaled to [0,1].
func plasma(size int, decay float64, draw Source) []float64 {
	m, wibble := make([]float64, size*size), 100.0
	at := func(y, x int) float64 { return m[(y+size)%size*size+(x+size)%size] }
	for step := size; step >= 2; step /= 2 {
		half := step / 2
		set := func(y0, x0 int, sum func(y, x int) float64) {
			for y := y0; y < size; y += step {
				for x := x0; x < size; x += step {
					m[y*size+x] = sum(y, x)/4 + wibble*(-wibble+2*wibble*draw.Float64())
				}
			}
		}
		set(half, half, func(y, x int) float64 { // squares
			return at(y-half, x-half) + at(y+half, x-half) + at(y-half, x+half) + at(y+half, x+half)
		})
		around := func(y, x int) float64 { return at(y-half, x) + at(y+half, x) + at(y, x-half) + at(y, x+half) }
		set(0, half, around)
		set(half, 0, around)
		wibble /= decay
	}
	low, high := slices.Min(m), slices.Max(m)
	for i := range m {
		m[i] = (m[i] - low) / (high - low)
	}
	return m
}

// textures are the authors' (frost/LICENSE), without loss; scripts/goldens/corruption_samples.py writes them. The
// authors have six files, draw from the first five, and the third has the pixels of the second.
//
//go:embed frost/*.webp
var textures embed.FS

// texture is a picture of frost, in the form of [picture] but not square.
type texture struct {
	height, width int
	levels        []uint8
}

var frosts = sync.OnceValue(func() (list []texture) {
	for _, i := range []int{1, 2, 2, 4, 5} {
		data, _ := textures.ReadFile(fmt.Sprintf("frost/frost%d.webp", i)) // embedded, so it can be read
		image, err := webp.Decode(bytes.NewReader(data))
		if err != nil {
			panic("corruption: a texture can't be read: " + err.Error())
		}
		size := image.Bounds().Size()
		t := texture{size.Y, size.X, make([]uint8, 0, 3*size.X*size.Y)}
		for y := range size.Y {
			for x := range size.X {
				r, g, b, _ := image.At(x, y).RGBA()
				t.levels = append(t.levels, uint8(r>>8), uint8(g>>8), uint8(b>>8))
			}
		}
		list = append(list, t)
	}
	return list
})

// leastTexture is the height of the lowest texture; images must be smaller.
const leastTexture = 315

func frost(p picture, severity int, draw Source) []float64 {
	c := by(p, severity, [...][2]float64{{1, .2}, {1, .3}, {.9, .4}, {.85, .4}, {.75, .45}},
		[...][2]float64{{1, .4}, {.8, .6}, {.7, .7}, {.65, .7}, {.6, .75}})
	all, n := frosts(), p.side
	t := all[draw.IntN(len(all))]
	height, width, stride, first := t.height, t.width, 1, 0
	if n == smallest { // OpenCV's linear resize to a fifth takes every fifth pixel, beginning with the third
		height, width = int(math.RoundToEven(float64(height)*.2)), int(math.RoundToEven(float64(width)*.2))
		stride, first = 5, 2
	}
	top := draw.IntN(height - n)
	left := draw.IntN(width - n)
	out := make([]float64, len(p.levels))
	for i, v := range p.levels {
		y, x := top+i/3/n, left+i/3%n
		at := 3*((first+stride*y)*t.width+first+stride*x) + i%3
		out[i] = min(max(c[0]*float64(v)+c[1]*float64(t.levels[at]), 0), 255)
	}
	return out
}
