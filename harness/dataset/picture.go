package dataset

import (
	"fmt"
	stdimage "image"
	"image/color"
	_ "image/jpeg" // registers the decoder
	_ "image/png"  // registers the decoder
	"io"
	"io/fs"
	"slices"

	_ "golang.org/x/image/webp" // registers the decoder
)

// values writes the pixels for which bytes stand into out.
func values(bytes []byte, out []float32) {
	for i, b := range bytes {
		out[i] = value(b)
	}
}

// ReadImage reads a PNG, JPEG or WebP file as an image folder's images are read: pixels in
// [0,1], row-major CHW, of three channels, and their shape.
func ReadImage(fsys fs.FS, name string) (pixels []float32, shape [3]int, err error) {
	levels, shape, err := decodeFile(fsys, name, nil)
	pixels = make([]float32, len(levels))
	values(levels, pixels)
	return pixels, shape, err
}

// maxPixels bounds one image file, height times width: a small file may claim many, and a decoder takes up to 24
// bytes for each.
const maxPixels = 1 << 25

// decodeFile is decode of a file of fsys.
func decodeFile(fsys fs.FS, name string, buf []byte) ([]byte, [3]int, error) {
	f, err := openFile(fsys, name)
	if err != nil {
		return nil, [3]int{}, err
	}
	defer f.Close()
	return decode(f, name, buf)
}

// decode reads a PNG, JPEG or WebP file as RGB, channels first, into buf if it is large enough. Gray images get three
// equal channels and transparency is dropped, as torchvision's loader does; 16-bit channels keep their upper
// half. JPEG leaves decoders some freedom. Colours are interpolated and converted as libjpeg does it; the transform's
// rounding is Go's.
func decode(f file, name string, buf []byte) ([]byte, [3]int, error) {
	head, kind, err := stdimage.DecodeConfig(io.NewSectionReader(f, 0, f.size))
	if err != nil {
		return nil, [3]int{}, fmt.Errorf("%s is no readable PNG, JPEG or WebP: %w", name, err)
	}
	h, w := head.Height, head.Width
	if h < 1 || w < 1 || h > maxPixels/w {
		return nil, [3]int{}, fmt.Errorf("%s has %d×%d pixels, more than this program reads", name, w, h)
	}
	im, _, err := stdimage.Decode(io.NewSectionReader(f, 0, f.size))
	if err != nil {
		return nil, [3]int{}, fmt.Errorf("%s can't be decoded: %w", name, err)
	}
	if im.Bounds().Dx() != w || im.Bounds().Dy() != h {
		return nil, [3]int{}, fmt.Errorf("%s decodes to another size than its header says", name)
	}
	plane := h * w
	buf = slices.Grow(buf[:0], 3*plane)[:3*plane]
	row := rows(im, kind == "webp")
	for y := range h {
		i := y * w
		row(y, buf[i:i+w], buf[plane+i:plane+i+w], buf[2*plane+i:2*plane+i+w])
	}
	return buf, [3]int{3, h, w}, nil
}

// rows returns a function that reads the pixels of im's row y, counted from its
// upper edge: of the types that nearly every JPEG, WebP and PNG decodes to
// directly, of others through the colour model.
func rows(im stdimage.Image, webp bool) func(y int, r, g, b []uint8) {
	at := im.Bounds().Min
	switch im := im.(type) {
	case *stdimage.NYCbCrA: // transparency is dropped
		return rows(&im.YCbCr, webp)
	case *stdimage.YCbCr:
		rgb := jpegRGB
		if webp {
			rgb = webpRGB
		}
		full := colours(im, webp)
		if full == nil {
			full = func(y int, cb, cr []uint8) {
				for x := range cb {
					c := im.COffset(at.X+x, at.Y+y)
					cb[x], cr[x] = im.Cb[c], im.Cr[c]
				}
			}
		}
		return func(y int, r, g, b []uint8) {
			luma := im.Y[im.YOffset(at.X, at.Y+y):]
			full(y, g, b) // which these rows hold until they are overwritten
			for x := range r {
				r[x], g[x], b[x] = rgb(luma[x], g[x], b[x])
			}
		}
	case *stdimage.RGBA: // an opaque PNG
		return func(y int, r, g, b []uint8) {
			row := im.Pix[im.PixOffset(at.X, at.Y+y):]
			for x := range r {
				r[x], g[x], b[x] = row[4*x], row[4*x+1], row[4*x+2]
			}
		}
	}
	return func(y int, r, g, b []uint8) {
		for x := range r {
			c := color.NRGBAModel.Convert(im.At(at.X+x, at.Y+y)).(color.NRGBA)
			r[x], g[x], b[x] = c.R, c.G, c.B
		}
	}
}
