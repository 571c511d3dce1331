package webp

import (
	"bytes"
	"image"
	"os"
	"path/filepath"
	"slices"
	"testing"

	xwebp "golang.org/x/image/webp"

	"selfheal/internal/must"
)

// The first frame of an animation is a still file of the size that its header says, and lies on the canvas. A cut file
// has none.
func TestFirst(t *testing.T) {
	files := must.Get(filepath.Glob("../../harness/dataset/testdata/levels/first-*.webp"))(t)
	inner := 0
	for _, path := range files {
		data := must.Get(os.ReadFile(path))(t)
		a, ok := Animated(bytes.NewReader(data), int64(len(data)))
		if !ok {
			t.Fatalf("%s is no animation", path)
		}
		still, inside := must.Get2(a.First(1 << 20))(t)
		im := must.Get(xwebp.Decode(bytes.NewReader(still)))(t)
		if im.Bounds().Size() != inside.Size() || !inside.In(image.Rectangle{Max: a.Canvas}) {
			t.Errorf("%s: a frame of %v at %v of %v", path, im.Bounds(), inside, a.Canvas)
		}
		if inside.Size() != a.Canvas {
			inner++
		}
		if _, ok := Animated(bytes.NewReader(still), int64(len(still))); ok {
			t.Errorf("%s: its first frame is animated", path)
		}
		_, _, err := a.First(10)
		must.Refuse(t, err, "larger than this program reads")
		for end := range 2 * len(data) / 3 {
			a, ok := Animated(bytes.NewReader(data[:end]), int64(end))
			if ok && end < bytes.Index(data, []byte("ANMF"))+100 {
				_, _, err := a.First(1 << 20)
				must.Refuse(t, err)
			}
		}
	}
	if len(files) != 6 || inner != 2 {
		t.Errorf("%d files, %d with a smaller frame", len(files), inner)
	}
}

// Colours between those of two pixels are three quarters of the nearer in each direction; grey has three equal values.
func TestRow(t *testing.T) {
	im := image.NewYCbCr(image.Rect(0, 0, 4, 4), image.YCbCrSubsampleRatio420)
	for i := range im.Y {
		im.Y[i] = uint8(16 + 8*i)
	}
	for i := range im.Cb {
		im.Cb[i], im.Cr[i] = 128, 128
	}
	r, g, b := make([]uint8, 4), make([]uint8, 4), make([]uint8, 4)
	Row(im, 1, r, g, b)
	// 1.164·(Y − 16), BT.601's black to white
	if want := []uint8{37, 47, 56, 65}; !slices.Equal(r, want) || !slices.Equal(g, want) || !slices.Equal(b, want) {
		t.Errorf("grey is %v %v %v", r, g, b)
	}
	near, far, out := []uint8{0, 160}, []uint8{80, 240}, make([]uint8, 4)
	colours(near, far, out)
	if want := []uint8{20, 60, 140, 180}; !slices.Equal(out, want) {
		t.Errorf("colours %v, want %v", out, want)
	}
}
