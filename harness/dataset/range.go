package dataset

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"selfheal/internal/normalised"
)

// rounding is how far a value may lie outside [0,1] by rounding. Normalising in float32 and undoing it leaves up to
// some 1e-6. The tolerance is a four-hundredth of a grey level, which no attack notices.
const rounding = 1e-5

// clip clips pixels to [0,1] and returns how many it changed.
func clip(pixels []float32) (n int) {
	for i, v := range pixels {
		if c := min(max(v, 0), 1); v != c && math.Abs(float64(v-c)) <= rounding {
			pixels[i] = c
			n++
		}
	}
	return n
}

// outside returns the index of the first pixel that is not in [0,1], or −1.
func outside(pixels []float32) int {
	return slices.IndexFunc(pixels, func(v float32) bool { return !(v >= 0 && v <= 1) })
}

// explain continues the error about a pixel outside [0,1]: it describes the values of the first images and says what
// to do.
func (d *Dataset) explain(pixel float32) string {
	const most = 100 // most images that are looked at
	if v := float64(pixel); math.IsNaN(v) || math.IsInf(v, 0) {
		return "pixels must be numbers in [0,1]"
	}
	channels := d.shape[0]
	low, high := make([]float64, channels), make([]float64, channels)
	pixels := make([]float32, d.size())
	for _, id := range d.ids[:min(most, len(d.ids))] {
		bytes, shape, err := d.source.read(id, nil)
		if err != nil || shape != d.shape {
			break // such an error is reported once this one is mended
		}
		d.decode(bytes, pixels)
		for i, v := range pixels {
			c := i / (d.shape[1] * d.shape[2])
			low[c], high[c] = min(low[c], float64(v)), max(high[c], float64(v))
		}
	}
	from, to := slices.Min(low), slices.Max(high)
	text := fmt.Sprintf("pixels must lie in [0,1], but those of the first images run from %.4g to %.4g, ", from, to)
	switch {
	case from >= -0.1 && to <= 1.1: // images in [-1,1] would have darker pixels
		return text + "a little outside, as resizing and half precision leave them: save numpy.clip(x, 0, 1)"
	case from >= 0 && to <= 255:
		return text + "like levels of 8 bits: save them as uint8, or divide by 255"
	case from >= -1.001 && to <= 1.001:
		return text + "as if scaled to [-1,1]: save (x + 1)/2 and give the model preprocess: {mean: 0.5, std: 0.5}"
	case from < -20 || to > 20:
		return text + "which is no scale that is known: save images in [0,1], or levels as uint8"
	}
	for _, n := range normalised.Usual {
		if !n.Fits(low, high) {
			continue
		}
		list := func(v []float64) string { return strings.ReplaceAll(fmt.Sprint(v), " ", ", ") }
		return text + fmt.Sprintf("as if normalised by %s mean and std: save x·std + mean, and give the model "+
			"preprocess: {mean: %s, std: %s}", n.Of, list(n.Mean), list(n.Std))
	}
	return text + "as if normalised by a mean and std: save x·std + mean, and give the model its mean and std as " +
		"preprocess"
}
