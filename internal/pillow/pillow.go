// Package pillow reads image files with the pixels that Python's Pillow gives.
package pillow

import (
	"bytes"
	"errors"
	"fmt"
	stdimage "image"
	"image/color"
	"image/png"
	"io"
	"slices"

	xwebp "golang.org/x/image/webp"

	"selfheal/internal/jpeg"
	"selfheal/internal/webp"
)

// MaxPixels bounds the pixels of an image file. A small file may claim many, and a decoder takes up to 24 bytes for
// each.
const MaxPixels = 1 << 25

// maxJPEG bounds a JPEG file, in bytes, as it is read as a whole.
const maxJPEG = 1 << 28

// Decode reads a PNG, JPEG or WebP file, channels first, into buf if it is large enough. Pixels are as Pillow's
// convert("RGB") gives them, by which torchvision loads images, or as convert("L") if grey is set. So a grey image
// has three equal channels in RGB, transparency is dropped, 16-bit channels keep their upper half, an animation is
// its first frame, and EXIF data turn no image. Size is the file's, in bytes.
func Decode(f io.ReaderAt, size int64, name string, grey bool, buf []byte) ([]byte, [3]int, error) {
	w, h, rows, err := decoder(f, size)
	if err != nil {
		return nil, [3]int{}, fmt.Errorf("%s is no readable PNG, JPEG or WebP: %w", name, err)
	}
	if h < 1 || w < 1 || h > MaxPixels/w {
		return nil, [3]int{}, fmt.Errorf("%s has %d×%d pixels, more than this program reads", name, w, h)
	}
	row, err := rows()
	if err != nil {
		return nil, [3]int{}, fmt.Errorf("%s can't be decoded: %w", name, err)
	}
	plane := h * w
	if grey {
		buf = slices.Grow(buf[:0], plane)[:plane]
		colours := make([]uint8, 2*w)
		for y := range h {
			luma := buf[y*w : (y+1)*w]
			row(y, luma, colours[:w], colours[w:])
			for x, r := range luma {
				luma[x] = Luma(r, colours[x], colours[w+x])
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

// Classes reads a mask, a PNG file whose pixels are classes: indices of its palette, or levels of grey of at most 8
// bits. They stand row by row, of so many pixels.
func Classes(f io.ReaderAt, size int64) (classes []float32, width int, err error) {
	head, err := png.DecodeConfig(io.NewSectionReader(f, 0, size))
	if err == nil && head.Height > MaxPixels/max(head.Width, 1) {
		err = fmt.Errorf("%d×%d pixels, more than this program reads", head.Width, head.Height)
	}
	var im stdimage.Image
	if err == nil {
		im, err = png.Decode(io.NewSectionReader(f, 0, size))
	}
	var pixels []uint8
	stride, step := 0, uint8(1) // from level to level
	switch im := im.(type) {
	case nil:
		return nil, 0, fmt.Errorf("is no readable PNG: %w", err)
	case *stdimage.Paletted:
		pixels, stride = im.Pix, im.Stride
	case *stdimage.Gray:
		pixels, stride = im.Pix, im.Stride
		var depth [1]byte // its bits; the decoder spreads their levels over 8
		if _, err := f.ReadAt(depth[:], 24); err == nil && depth[0] < 8 {
			step = 255 / (1<<depth[0] - 1)
		}
	default:
		return nil, 0, errors.New("has colours; a mask's pixels are a palette's indices or levels of grey, of at " +
			"most 8 bits")
	}
	classes = make([]float32, 0, head.Width*head.Height)
	for y := range head.Height {
		for _, v := range pixels[y*stride:][:head.Width] {
			classes = append(classes, float32(v/step))
		}
	}
	return classes, head.Width, nil
}

// Luma returns Pillow's luma, ITU-R 601-2's, rounded. For a grey pixel it is the level itself.
func Luma(r, g, b uint8) uint8 {
	return uint8((int(r)*19595 + int(g)*38470 + int(b)*7471 + 1<<15) >> 16)
}

// rowReader reads the pixels of row y, from the upper edge.
type rowReader = func(y int, r, g, b []uint8)

// decoder reads a file's header and returns a function that decodes the rest.
func decoder(f io.ReaderAt, bytes int64) (w, h int, decode func() (rowReader, error), err error) {
	var start [2]byte
	if _, err := f.ReadAt(start[:], 0); err == nil && string(start[:]) == "\xff\xd8" {
		if bytes > maxJPEG {
			return 0, 0, nil, fmt.Errorf("a JPEG file of %d bytes", bytes)
		}
		data := make([]byte, bytes)
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
	if a, ok := webp.Animated(f, bytes); ok {
		return a.Canvas.X, a.Canvas.Y, func() (rowReader, error) { return firstFrame(a) }, nil
	}
	// image.Decode would use any decoder that some package registers; other formats would not be read as Pillow reads
	// them.
	config, pixels := png.DecodeConfig, png.Decode
	if string(start[:]) == "RI" {
		config, pixels = xwebp.DecodeConfig, xwebp.Decode
	}
	head, err := config(io.NewSectionReader(f, 0, bytes))
	if err == nil && head.ColorModel == color.Gray16Model {
		err = errors.New("it is grey of 16 bits, of which Pillow makes white wherever a level is above 255 of 65535; " +
			"save it in 8 bits")
	}
	return head.Width, head.Height, func() (rowReader, error) {
		im, err := pixels(io.NewSectionReader(f, 0, bytes))
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
