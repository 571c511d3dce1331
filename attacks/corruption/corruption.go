// Package corruption applies the 15 common corruptions of Hendrycks & Dietterich (2019), "Benchmarking Neural Network
// Robustness to Common Corruptions and Perturbations". [Check] says whether an image can be corrupted; [Apply] corrupts
// it. Images of 32×32 pixels get the results of the authors' make_cifar_c.py and larger ones those of
// make_imagenet_c.py, with the same constants, the same order of random draws and the same quantisation to 8-bit
// levels. (The authors store ImageNet-C as JPEG files of quality 85; that step is left out.)
package corruption

import (
	"fmt"
	"strings"

	"selfheal/internal/lists"
)

// Source gives the random numbers for one image; [math/rand/v2.Rand] implements it.
type Source interface {
	Float64() float64 // in [0,1)
	NormFloat64() float64
	IntN(n int) int // in [0,n)
}

// Severities is the highest severity; the lowest is 1.
const Severities = 5

// smallest is the side of CIFAR's images, which have their own constants.
const smallest = 32

// kind is a row of the table of corruptions.
type kind struct {
	name    string
	alexnet float64 // error of AlexNet on ImageNet-C, averaged over the severities
	apply   func(p picture, severity int, draw Source) []float64
	moves   bool // what the image shows, to other places
}

// kinds is the table, in the paper's order. The mean corruption error divides by AlexNet's errors.
var kinds = []kind{
	{"gaussian_noise", .886428, gaussianNoise, false},
	{"shot_noise", .894468, shotNoise, false},
	{"impulse_noise", .922640, impulseNoise, false},
	{"defocus_blur", .819880, defocusBlur, false},
	{"glass_blur", .826268, glassBlur, false},
	{"motion_blur", .785948, motionBlur, false},
	{"zoom_blur", .798360, zoomBlur, false},
	{"snow", .866816, snow, false},
	{"frost", .826572, frost, false},
	{"fog", .819324, fog, false},
	{"brightness", .564592, brightness, false},
	{"contrast", .853204, contrast, false},
	{"elastic_transform", .646056, elasticTransform, true},
	{"pixelate", .717840, pixelate, false},
	{"jpeg_compression", .606500, jpegCompression, false},
}

// Names lists the corruptions as their files are called, in the paper's order.
func Names() []string {
	return lists.Map(kinds, func(k kind) string { return k.name })
}

func lookup(name string) (kind, error) {
	if k := lists.Find(kinds, func(k kind) bool { return k.name == name }); k != nil {
		return *k, nil
	}
	return kind{}, fmt.Errorf("unknown corruption %q (want %s)", name, strings.Join(Names(), ", "))
}

// AlexNetError returns the error of AlexNet on ImageNet under a corruption, averaged over the severities.
func AlexNetError(name string) float64 {
	k, _ := lookup(name)
	return k.alexnet
}

// Moves reports whether a corruption moves what the image shows to other places.
func Moves(name string) bool {
	k, _ := lookup(name)
	return k.moves
}

// Check returns an error for an unknown corruption and for images that the corruptions are not defined on.
func Check(name string, severity, channels, height, width int) error {
	_, err := lookup(name)
	switch {
	case err != nil:
		return err
	case severity < 1 || severity > Severities:
		return fmt.Errorf("%s has severities from 1 to %d, not %d", name, Severities, severity)
	case channels != 3 || height != width || height < smallest:
		return fmt.Errorf("corruptions are defined on square RGB images of 32×32 pixels and more, "+
			"these have %d×%d pixels of %d channels", width, height, channels)
	case name == "frost" && height >= leastTexture:
		return fmt.Errorf("frost takes images of less than %d×%d pixels, as the authors' textures are no larger; "+
			"name the other corruptions", leastTexture, leastTexture)
	}
	return nil
}

// picture is a square RGB image on 8-bit levels, row by row, the channels of a pixel together.
type picture struct {
	side   int
	levels []uint8
}

// unit returns the levels as numbers in [0,1].
func (p picture) unit() []float64 {
	return lists.Map(p.levels, func(v uint8) float64 { return float64(v) / 255 })
}

// by returns the constant of the severity for the picture's size: CIFAR-10-C's or ImageNet-C's.
func by[T any](p picture, severity int, cifar, imagenet [Severities]T) T {
	if p.side == smallest {
		return cifar[severity-1]
	}
	return imagenet[severity-1]
}

// full clips numbers to [0,1] and scales them to levels without rounding.
func full(values []float64) []float64 {
	for i, v := range values {
		values[i] = min(max(v, 0), 1) * 255
	}
	return values
}

// Apply corrupts an image that [Check] allows: values in [0,1], channel by channel, which it first rounds to 8-bit
// levels. The result is on 8-bit levels too, truncated as in the authors' code.
func Apply(name string, severity int, pixels []float32, draw Source) ([]float32, error) {
	k, err := lookup(name)
	if err != nil {
		return nil, err
	}
	plane := len(pixels) / 3
	p := picture{side: smallest, levels: make([]uint8, len(pixels))}
	for p.side*p.side < plane {
		p.side++
	}
	for i := range plane {
		for c := range 3 {
			p.levels[3*i+c] = uint8(min(max(pixels[c*plane+i], 0), 1)*255 + 0.5)
		}
	}
	out := make([]float32, len(pixels))
	for i, v := range k.apply(p, severity, draw) {
		out[i%3*plane+i/3] = float32(uint8(v)) / 255
	}
	return out, nil
}
