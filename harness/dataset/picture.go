package dataset

import (
	"bytes"
	"errors"
	"fmt"
	stdimage "image"
	"image/color"
	"image/png"
	"io"
	"io/fs"
	"slices"

	xwebp "golang.org/x/image/webp"

	"selfheal/harness/result"
	"selfheal/internal/jpeg"
	"selfheal/internal/webp"
)

// values writes the pixels of bytes into out.
func values(bytes []byte, out []float32) {
	for i, b := range bytes {
		out[i] = value(b)
	}
}

// ReadImage reads a PNG, JPEG or WebP file like an image folder's image for a network of so many channels and, unless
// by is nil, resizes and crops it. It returns pixels in [0,1], row-major CHW, and their shape.
func ReadImage(fsys fs.FS, name string, channels int, by *result.Transform) (pixels []float32, shape [3]int,
	err error) {
	levels, shape, err := decodeFile(fsys, name, channels == 1, nil)
	if err == nil && by != nil {
		if levels, shape, err = (&scratch{levels: levels}).resize(shape, *by, nil); err != nil {
			err = fmt.Errorf("%s %w", name, err)
		}
	}
	pixels = make([]float32, len(levels))
	values(levels, pixels)
	return pixels, shape, err
}

// maxPixels bounds the pixels of an image file. A small file may claim many, and a decoder takes up to 24 bytes for
// each.
const maxPixels = 1 << 25

// maxJPEG bounds a JPEG file, in bytes, as it is read as a whole.
const maxJPEG = 1 << 28

// unreadable is the error about a file that is missing or not an image. A set only leaves out this image.
type unreadable struct{ error }

func (e unreadable) Unwrap() error { return e.error }

func decodeFile(fsys fs.FS, name string, grey bool, buf []byte) ([]byte, [3]int, error) {
	f, err := openFile(fsys, name)
	if err != nil {
		return nil, [3]int{}, unreadable{err}
	}
	defer f.Close()
	return decode(f, name, grey, buf)
}

// decode reads a PNG, JPEG or WebP file, channels first, into buf if it is large enough. Pixels are as Pillow's
// convert("RGB") gives them, by which torchvision loads images, or as convert("L") if grey is set. So a grey image
// has three equal channels in RGB, transparency is dropped, 16-bit channels keep their upper half, an animation is
// its first frame, and EXIF data turn no image. The error is [unreadable].
func decode(f file, name string, grey bool, buf []byte) ([]byte, [3]int, error) {
	w, h, rows, err := decoder(f)
	if err != nil {
		return nil, [3]int{}, unreadable{fmt.Errorf("%s is no readable PNG, JPEG or WebP: %w", name, err)}
	}
	if h < 1 || w < 1 || h > maxPixels/w {
		return nil, [3]int{}, unreadable{fmt.Errorf("%s has %d×%d pixels, more than this program reads", name, w, h)}
	}
	row, err := rows()
	if err != nil {
		return nil, [3]int{}, unreadable{fmt.Errorf("%s can't be decoded: %w", name, err)}
	}
	plane := h * w
	if grey {
		buf = slices.Grow(buf[:0], plane)[:plane]
		colours := make([]uint8, 2*w)
		for y := range h {
			luma := buf[y*w : (y+1)*w]
			row(y, luma, colours[:w], colours[w:])
			for x, r := range luma {
				luma[x] = lumaOf(r, colours[x], colours[w+x])
			}
		}
		return buf, [3]int{1, h, w}, nil
	}
	buf = slices.Grow(buf[:0], 3*plane)[:3*plane]
	for y := range h {
		i := y * w
		row(y, buf[i:i+w], buf[plane+i:plane+i+w], buf[2*plane+i:2*plane+i+w])
	}
	return buf, [3]int{3, h, w}, nil
}

// lumaOf returns Pillow's luma, ITU-R 601-2's, rounded. For a grey pixel it is the level itself.
func lumaOf(r, g, b uint8) uint8 {
	return uint8((int(r)*19595 + int(g)*38470 + int(b)*7471 + 1<<15) >> 16)
}

// rowReader reads the pixels of row y, from the upper edge.
type rowReader = func(y int, r, g, b []uint8)

// decoder reads a file's header and returns a function that decodes the rest.
func decoder(f file) (w, h int, decode func() (rowReader, error), err error) {
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
	if a, ok := webp.Animated(f, f.size); ok {
		return a.Canvas.X, a.Canvas.Y, func() (rowReader, error) { return firstFrame(a) }, nil
	}
	// image.Decode would use any decoder that some package registers; other formats would not be read as Pillow reads
	// them.
	config, pixels := png.DecodeConfig, png.Decode
	if string(start[:]) == "RI" {
		config, pixels = xwebp.DecodeConfig, xwebp.Decode
	}
	head, err := config(io.NewSectionReader(f, 0, f.size))
	if err == nil && head.ColorModel == color.Gray16Model {
		err = errors.New("it is grey of 16 bits, of which Pillow makes white wherever a level is above 255 of 65535; " +
			"save it in 8 bits")
	}
	return head.Width, head.Height, func() (rowReader, error) {
		im, err := pixels(io.NewSectionReader(f, 0, f.size))
		if err != nil {
			return nil, err
		}
		if im.Bounds().Dx() != head.Width || im.Bounds().Dy() != head.Height {
			return nil, errors.New("it has another size than its header says")
		}
		return rows(im), nil
	}, err
}

// rows returns a function that reads the rows of im. It is fast for the types to which nearly every WebP and PNG
// decodes; others go through the colour model.
func rows(im stdimage.Image) rowReader {
	at := im.Bounds().Min
	switch im := im.(type) {
	case *stdimage.NYCbCrA: // transparency is dropped
		return rows(&im.YCbCr)
	case *stdimage.YCbCr:
		return func(y int, r, g, b []uint8) { webp.Row(im, y, r, g, b) }
	case *stdimage.NRGBA64: // the upper bytes; the colour model would multiply them by the transparency
		return func(y int, r, g, b []uint8) {
			row := im.Pix[im.PixOffset(at.X, at.Y+y):]
			for x := range r {
				r[x], g[x], b[x] = row[8*x], row[8*x+2], row[8*x+4]
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

// firstFrame decodes an animation's first frame. The canvas around a smaller frame is black, whatever background the
// file names: so does libwebp's animation decoder, through which Pillow reads the file.
func firstFrame(a webp.Animation) (rowReader, error) {
	still, inside, err := a.First(maxJPEG)
	if err != nil {
		return nil, err
	}
	im, err := xwebp.Decode(bytes.NewReader(still))
	if err != nil {
		return nil, err
	}
	if im.Bounds().Size() != inside.Size() {
		return nil, errors.New("its first frame has another size than its header says")
	}
	frame := rows(im)
	return func(y int, r, g, b []uint8) {
		clear(r)
		clear(g)
		clear(b)
		if y >= inside.Min.Y && y < inside.Max.Y {
			from, to := inside.Min.X, inside.Max.X
			frame(y-inside.Min.Y, r[from:to], g[from:to], b[from:to])
		}
	}, nil
}
