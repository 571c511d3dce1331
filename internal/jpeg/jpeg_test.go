package jpeg

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/internal/must"
)

// rows returns the pixels of a picture, row after row, red, green and blue of each.
func rows(p *Picture) []byte {
	var out []byte
	r, g, b := make([]byte, p.Size.X), make([]byte, p.Size.X), make([]byte, p.Size.X)
	for y := range p.Size.Y {
		p.Row(y, r, g, b)
		for x := range r {
			out = append(out, r[x], g[x], b[x])
		}
	}
	return out
}

// The pixels are Pillow's, to the bit (scripts/goldens/jpeg_samples.py wrote both).
func TestDecode(t *testing.T) {
	names := must.Get(filepath.Glob("testdata/*.jpg"))(t)
	if len(names) < 15 {
		t.Fatalf("%d samples", len(names))
	}
	for _, name := range names {
		data := must.Get(os.ReadFile(name))(t)
		p, err := Decode(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		reference := must.Get(os.ReadFile(strings.TrimSuffix(name, "jpg") + "png"))(t)
		want := must.Get(png.Decode(bytes.NewReader(reference)))(t)
		if size := must.Get(Size(data))(t); size != want.Bounds().Max || p.Size != size {
			t.Errorf("%s: size %v, then %v, want %v", name, size, p.Size, want.Bounds().Max)
			continue
		}
		wrong, worst := 0, 0
		for i, v := range rows(p) {
			c := color.NRGBAModel.Convert(want.At(i/3%p.Size.X, i/3/p.Size.X)).(color.NRGBA)
			if off := int(v) - int([3]byte{c.R, c.G, c.B}[i%3]); off != 0 {
				wrong, worst = wrong+1, max(worst, off, -off)
			}
		}
		if wrong > 0 {
			t.Errorf("%s: %d values differ from Pillow's, by up to %d", name, wrong, worst)
		}
	}
}

// Lossy loses exactly what Pillow loses when it writes a picture.
func TestLossy(t *testing.T) {
	sources := must.Get(filepath.Glob("testdata/lossy-*.source"))(t)
	if len(sources) < 4 {
		t.Fatalf("%d sources", len(sources))
	}
	for _, source := range sources {
		var quality int
		must.Get(fmt.Sscanf(source, "testdata/lossy-%d.source", &quality))(t)
		im := must.Get(png.Decode(bytes.NewReader(must.Get(os.ReadFile(source))(t))))(t)
		size := im.Bounds().Size()
		rgb := make([]byte, 0, 3*size.X*size.Y)
		for i := range size.X * size.Y {
			c := color.NRGBAModel.Convert(im.At(i%size.X, i/size.X)).(color.NRGBA)
			rgb = append(rgb, c.R, c.G, c.B)
		}
		file := must.Get(os.ReadFile(strings.TrimSuffix(source, "source") + "jpg"))(t)
		want := rows(must.Get(Decode(file))(t)) // Pillow reads the same: see TestDecode
		if got := rows(Lossy(rgb, size.X, size.Y, quality)); !bytes.Equal(got, want) {
			t.Errorf("%s: %v", source, size)
		}
	}
}

// A file that ends anywhere before its last marker is an error; a sequential one may lack only that marker.
func TestTruncated(t *testing.T) {
	for name, lacks := range map[string]int{"420": 2, "progressive": 0, "restart": 2} {
		data := must.Get(os.ReadFile("testdata/" + name + ".jpg"))(t)
		for n := range len(data) {
			if _, err := Decode(data[:n]); (err == nil) != (n >= len(data)-lacks) {
				t.Errorf("%s, %d bytes of %d: %v", name, n, len(data), err)
			}
		}
		_, err := Decode(data[:len(data)/2])
		if !errors.Is(err, errTruncated) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	good := must.Get(os.ReadFile("testdata/420.jpg"))(t)
	frame := bytes.Index(good, []byte{0xff, 0xc0})
	for want, edit := range map[string]func(b []byte){
		"no JPEG file": func(b []byte) { b[0] = 0 },
		"frame type 0xc9: only baseline, extended and progressive": func(b []byte) { b[frame+1] = 0xc9 },
		"12 bits: only 8 are read":                                 func(b []byte) { b[frame+4] = 12 },
		"0×35 pixels of 3 components":                              func(b []byte) { b[frame+8] = 0 },
		"the frame's header is damaged":                            func(b []byte) { b[frame+9] = 4 },
		"a component of the frame is damaged":                      func(b []byte) { b[frame+11] = 0x50 },
		"two components of the frame have one name":                func(b []byte) { b[frame+13] = b[frame+10] },
		"a colour's size is no whole fraction of the picture's": func(b []byte) {
			b[frame+11], b[frame+14] = 0x31, 0x21
		},
		"a quantization table is missing": func(b []byte) { b[frame+12] = 3 },
	} {
		b := bytes.Clone(good)
		edit(b)
		_, err := Decode(b)
		must.Refuse(t, err, want)
	}
}

func FuzzDecode(f *testing.F) {
	for _, name := range must.Get(filepath.Glob("testdata/*.jpg"))(f) {
		f.Add(must.Get(os.ReadFile(name))(f))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		size, err := Size(data)
		if err != nil || size.X*size.Y > 1<<20 {
			return
		}
		p, err := Decode(data)
		if err == nil && (p.Size != size || len(rows(p)) != 3*size.X*size.Y || size == (image.Point{})) {
			t.Errorf("size %v, then %v", size, p.Size)
		}
	})
}
