// Package webp reads what the decoder of golang.org/x/image leaves out: the first frame of an animation, and colours as
// libwebp upsamples and converts them, with which Pillow reads the images that networks are trained on.
package webp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"io"
)

// Animation is an animated file.
type Animation struct {
	file   io.ReaderAt
	size   int64
	Canvas image.Point // width and height
}

// Animated returns a file of so many bytes as an animation if its header says so (VP8X, with the bit of animations).
func Animated(file io.ReaderAt, size int64) (a Animation, ok bool) {
	const bit = 1 << 1
	var head [30]byte
	_, err := file.ReadAt(head[:], 0)
	ok = err == nil && string(head[:4]) == "RIFF" && string(head[8:16]) == "WEBPVP8X" && head[20]&bit != 0
	return Animation{file, size, image.Pt(1+uint24(head[24:]), 1+uint24(head[27:]))}, ok
}

func uint24(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }

// chunk is a RIFF file's, without its header.
type chunk struct {
	kind  string
	start int64
	size  int64
}

// nextChunk reads the header of the chunk at an offset of a file of so many bytes.
func nextChunk(r io.ReaderAt, at, size int64) (c chunk, next int64, err error) {
	var head [8]byte
	if _, err := r.ReadAt(head[:], at); err != nil {
		return c, 0, errors.New("it ends within its first frame")
	}
	c = chunk{string(head[:4]), at + 8, int64(binary.LittleEndian.Uint32(head[4:]))}
	if c.size > size-c.start {
		return c, 0, errors.New("a chunk is larger than the file")
	}
	return c, c.start + c.size + c.size%2, nil
}

// First returns the first frame, of at most so many bytes, as a still file, and where it lies on the canvas.
func (a Animation) First(most int64) (still []byte, inside image.Rectangle, err error) {
	const first = 12 // bytes before the first chunk
	c, next, err := nextChunk(a.file, first, a.size)
	for err == nil && c.kind != "ANMF" {
		c, next, err = nextChunk(a.file, next, a.size)
	}
	if err == nil && c.size > most {
		err = errors.New("its first frame is larger than this program reads")
	}
	if err != nil {
		return nil, inside, err
	}
	data := make([]byte, c.size)
	if n, err := a.file.ReadAt(data, c.start); n < len(data) {
		if err == io.EOF {
			err = errors.New("the file ends before it")
		}
		return nil, inside, err
	}
	const header = 16 // of a frame: place, size, duration, flags
	if len(data) < header {
		return nil, inside, errors.New("its first frame is cut short")
	}
	at := image.Pt(2*uint24(data), 2*uint24(data[3:]))
	inside = image.Rectangle{Min: at, Max: at.Add(image.Pt(1+uint24(data[6:]), 1+uint24(data[9:])))}
	if !inside.In(image.Rectangle{Max: a.Canvas}) {
		return nil, inside, errors.New("its first frame leaves the canvas")
	}
	still, err = stillOf(data[header:], data[6:12])
	return still, inside, err
}

// stillOf makes a still WebP file of a frame's chunks. size has each side less 1 in three bytes. It keeps the
// transparency.
func stillOf(frame, size []byte) ([]byte, error) {
	const alpha = 1 << 4
	body := []byte("WEBP")
	add := func(kind string, data []byte) {
		body = append(body, kind...)
		body = append(binary.LittleEndian.AppendUint32(body, uint32(len(data))), data...)
		body = append(body, make([]byte, len(data)%2)...)
	}
	r := bytes.NewReader(frame)
	for at := int64(0); ; {
		c, next, err := nextChunk(r, at, r.Size())
		if err != nil {
			return nil, err
		}
		data := frame[c.start : c.start+c.size]
		switch c.kind {
		case "ALPH":
			add("VP8X", append([]byte{alpha, 0, 0, 0}, size...))
			add(c.kind, data)
		case "VP8 ", "VP8L":
			add(c.kind, data)
			return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(body))), body...), nil
		}
		at = next
	}
}
