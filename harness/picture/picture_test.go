package picture

import (
	"bytes"
	"image"
	"image/png"
	"math"
	"testing"

	"selfheal/attacks"
	"selfheal/internal/must"
)

// Pictures hold pixels to 8 bits, whatever their shape. Values outside [0,1] are clipped.
func TestEncode(t *testing.T) {
	for _, s := range []attacks.Shape{{C: 1, H: 2, W: 3}, {C: 3, H: 3, W: 2}} {
		pixels := make([]float32, s.Size())
		for i := range pixels {
			pixels[i] = float32(i)/float32(len(pixels)-1)*1.2 - 0.1
		}
		data := must.Get(Encode(s, pixels))(t)
		img, err := png.Decode(bytes.NewReader(data))
		if err != nil || img.Bounds() != image.Rect(0, 0, s.W, s.H) {
			t.Fatalf("%v: %v, %v", s, img.Bounds(), err)
		}
		if _, grey := img.(*image.Gray); grey != (s.C == 1) {
			t.Errorf("%v: decoded as %T", s, img)
		}
		for i := range s.H * s.W {
			r, g, b, _ := img.At(i%s.W, i/s.W).RGBA()
			for c, v := range []uint32{r, g, b} {
				want := math.Round(255 * min(max(float64(pixels[min(c, s.C-1)*s.H*s.W+i]), 0), 1))
				if float64(v>>8) != want {
					t.Errorf("%v: pixel %d, channel %d is %d, want %v", s, i, c, v>>8, want)
				}
			}
		}
	}
}
