package dataset

import (
	"errors"
	"fmt"
	stdimage "image"
	"image/color"
	_ "image/png" // registers the decoder
	"io"
	"io/fs"
	"slices"

	_ "golang.org/x/image/webp" // registers the decoder

	"selfheal/harness/result"
	"selfheal/internal/jpeg"
)

// values writes the pixels for which bytes stand into out.
func values(bytes []byte, out []float32) {
	for i, b := range bytes {
		out[i] = value(b)
	}
}

// ReadImage reads a PNG, JPEG or WebP file as an image folder's images are read, and resizes and crops it unless by is
// nil: pixels in [0,1], row-major CHW, of three channels, and their shape.
func ReadImage(fsys fs.FS, name string, by *result.Transform) (pixels []float32, shape [3]int, err error) {
	levels, shape, err := decodeFile(fsys, name, nil)
	if err == nil && by != nil {
		if levels, shape, err = (&scratch{levels: levels}).resize(shape, *by, nil); err != nil {
			err = fmt.Errorf("%s %w", name, err)
		}
	}
	pixels = make([]float32, len(levels))
	values(levels, pixels)
	return pixels, shape, err
}

// maxPixels bounds one image file, height times width: a small file may claim many, and a decoder takes up to 24
// bytes for each.
const maxPixels = 1 << 25

// maxJPEG bounds a JPEG file, which is read as a whole, in bytes.
const maxJPEG = 1 << 28

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
// half. The pixels of JPEG and WebP files, which leave decoders some freedom, are those of Pillow.
func decode(f file, name string, buf []byte) ([]byte, [3]int, error) {
	w, h, rows, err := decoder(f, name)
	if err != nil {
		return nil, [3]int{}, fmt.Errorf("%s is no readable PNG, JPEG or WebP: %w", name, err)
	}
	if h < 1 || w < 1 || h > maxPixels/w {
		return nil, [3]int{}, fmt.Errorf("%s has %d×%d pixels, more than this program reads", name, w, h)
	}
	row, err := rows()
	if err != nil {
		return nil, [3]int{}, fmt.Errorf("%s can't be decoded: %w", name, err)
	}
	plane := h * w
	buf = slices.Grow(buf[:0], 3*plane)[:3*plane]
	for y := range h {
		i := y * w
		row(y, buf[i:i+w], buf[plane+i:plane+i+w], buf[2*plane+i:2*plane+i+w])
	}
	return buf, [3]int{3, h, w}, nil
}

// rowReader reads the pixels of a row, counted from the upper edge.
type rowReader = func(y int, r, g, b []uint8)

// decoder reads a file's header and returns what decodes the rest.
func decoder(f file, name string) (w, h int, decode func() (rowReader, error), err error) {
	var start [2]byte
	if _, err := f.ReadAt(start[:], 0); err == nil && string(start[:]) == "\xff\xd8" {
		if f.size > maxJPEG {
			return 0, 0, nil, fmt.Errorf("a JPEG file of %d bytes", f.size)
		}
		data := make([]byte, f.size)
		if _, err := f.ReadAt(data, 0); err != nil && err != io.EOF {
			return 0, 0, nil, err
		}
		size, err := jpeg.Size(data)
		return size.X, size.Y, func() (rowReader, error) {
			p, err := jpeg.Decode(data)
			if err != nil {
				return nil, err
			}
			return p.Row, nil
		}, err
	}
	head, _, err := stdimage.DecodeConfig(io.NewSectionReader(f, 0, f.size))
	return head.Width, head.Height, func() (rowReader, error) {
		im, _, err := stdimage.Decode(io.NewSectionReader(f, 0, f.size))
		if err != nil {
			return nil, err
		}
		if im.Bounds().Dx() != head.Width || im.Bounds().Dy() != head.Height {
			return nil, errors.New("it has another size than its header says")
		}
		return rows(im), nil
	}, err
}

// rows returns a function that reads the rows of im: of the types that nearly every WebP and PNG decodes to
// directly, of others through the colour model.
func rows(im stdimage.Image) rowReader {
	at := im.Bounds().Min
	switch im := im.(type) {
	case *stdimage.NYCbCrA: // transparency is dropped
		return rows(&im.YCbCr)
	case *stdimage.YCbCr:
		return func(y int, r, g, b []uint8) { webpRow(im, y, r, g, b) }
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
