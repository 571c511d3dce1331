package attacks

import (
	"slices"
	"testing"

	"selfheal/attacks/corruption"
	"selfheal/internal/must"
)

// A corrupted image follows from the image, its id, the corruption and the seed, and the clean one stays as it is.
func TestCorruption(t *testing.T) {
	im := Image{ID: 7, Pixels: make([]float32, 3*32*32)}
	for i := range im.Pixels {
		im.Pixels[i] = float32(i*37%256) / 255
	}
	clean, seen := slices.Clone(im.Pixels), map[string]string{}
	deterministic := []string{"defocus_blur", "zoom_blur", "brightness", "contrast", "pixelate", "jpeg_compression"}
	for _, name := range corruption.Names() {
		c := Corruption{Name: name, Severity: 3}
		must.Do(t, c.Check(Shape{C: 3, H: 32, W: 32}))
		first, other := must.Get(c.Apply(im, 1))(t), im
		other.ID = 8
		random := !slices.Contains(deterministic, name)
		if !slices.Equal(first, must.Get(c.Apply(im, 1))(t)) {
			t.Errorf("%s: a second time it is another image", name)
		}
		if slices.Equal(first, must.Get(c.Apply(im, 2))(t)) == random ||
			slices.Equal(first, must.Get(c.Apply(other, 1))(t)) == random {
			t.Errorf("%s: random: %v", name, random)
		}
		if !slices.Equal(clean, im.Pixels) || slices.Equal(clean, first) {
			t.Errorf("%s: the clean image changed, or nothing did", name)
		}
		if before, twice := seen[string(levels(first))]; twice {
			t.Errorf("%s and %s are one", name, before)
		}
		seen[string(levels(first))] = name
	}
	if err := (Corruption{Name: "fog", Severity: 1}).Check(Shape{C: 1, H: 28, W: 28}); err == nil {
		t.Error("grey images of 28 pixels are taken")
	}
}

func levels(pixels []float32) []byte {
	out := make([]byte, len(pixels))
	for i, v := range pixels {
		out[i] = byte(v*255 + .5)
	}
	return out
}
