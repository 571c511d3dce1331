package pillow

import (
	"bytes"
	"encoding/base64"
	stdimage "image"
	"image/color"
	"image/png"
	"slices"
	"testing"

	"selfheal/internal/must"
)

// Reading an opaque PNG's pixels directly agrees with the colour model, also off the origin.
func TestRows(t *testing.T) {
	im := stdimage.NewRGBA(stdimage.Rect(2, 3, 10, 9))
	for i := range im.Pix {
		im.Pix[i] = uint8(67 * i)
		if i%4 == 3 {
			im.Pix[i] = 255
		}
	}
	fast, slow := rows(im), rows(struct{ stdimage.Image }{im})
	for y := range im.Rect.Dy() {
		var got, want [3][8]uint8
		fast(y, got[0][:], got[1][:], got[2][:])
		slow(y, want[0][:], want[1][:], want[2][:])
		if got != want {
			t.Fatalf("row %d: %d and %d", y, got, want)
		}
	}
}

// The classes of a mask are a palette's indices or the levels of grey.
func TestClasses(t *testing.T) {
	indexed := stdimage.NewPaletted(stdimage.Rect(0, 0, 3, 2), color.Palette{color.White, color.Black, color.White})
	grey := stdimage.NewGray(indexed.Rect)
	want := []float32{0, 1, 2, 2, 1, 0}
	for i, v := range want {
		indexed.Pix[i], grey.Pix[i] = uint8(v), uint8(v)
	}
	read := func(im stdimage.Image) ([]float32, int, error) {
		var file bytes.Buffer
		must.Do(t, png.Encode(&file, im))
		return Classes(bytes.NewReader(file.Bytes()), int64(file.Len()))
	}
	for _, im := range []stdimage.Image{indexed, grey} {
		if got, width := must.Get2(read(im))(t); !slices.Equal(got, want) || width != 3 {
			t.Errorf("%T: %v, rows of %d", im, got, width)
		}
	}
	bits := must.Get(base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAMAAAACAQAAAAC1D1u3AAAADElEQVR4nGNw" +
		"YDgAAAGEAQEKf5BQAAAAAElFTkSuQmCC"))(t) // grey of 1 bit, by Pillow
	if got, _ := must.Get2(Classes(bytes.NewReader(bits), int64(len(bits))))(t); !slices.Equal(got,
		[]float32{0, 1, 0, 1, 1, 0}) {
		t.Errorf("1 bit: %v", got)
	}
	_, _, err := read(stdimage.NewNRGBA(indexed.Rect))
	must.Refuse(t, err, "has colours")
	_, _, err = Classes(bytes.NewReader([]byte("GIF")), 3)
	must.Refuse(t, err, "no readable PNG")
}
