// Package jpeg decodes JPEG files (ITU-T T.81; sequential and progressive Huffman coding, 8 bits) to the same RGB
// pixels that Pillow and OpenCV read by libjpeg: networks were trained on those. The standard leaves the rounding of
// the cosine transform and the interpolation of colours open; Go's own decoder differs there by many levels. [Size]
// reads a picture's size alone, [Decode] the picture, and [Picture.Row] its pixels; [Lossy] compresses a picture in
// memory.
package jpeg

import (
	"fmt"
	"image"
	"slices"
)

// fault describes damage of a file. The decoder panics with it, and [decoder.parse] returns it as an error.
type fault string

func (f fault) Error() string { return string(f) }

const errTruncated = fault("the JPEG file is cut short")

// Markers (T.81, table B.1).
const (
	sof0, sof1, sof2, sof15 = 0xc0, 0xc1, 0xc2, 0xcf // baseline, extended and progressive frames come first
	dht, dqt, dri           = 0xc4, 0xdb, 0xdd
	rst0, rst7              = 0xd0, 0xd7
	soi, eoi, sos           = 0xd8, 0xd9, 0xda
	app0, app14             = 0xe0, 0xee
	tem, fill               = 0x01, 0xff
)

// mostScans bounds the scans of a file: each passes over the whole picture, however short it is.
const mostScans = 256

// component is a colour of the frame.
type component struct {
	id     byte
	h, v   int // blocks of an MCU, across and down
	table  byte
	quant  *[64]uint16 // as it was at the component's first scan
	width  int         // in blocks of the component's own size
	height int
	stride int         // in blocks, including those that fill the last MCU
	coeffs [][64]int16 // in row order, not zigzag
	dc, ac *huffman
	last   int32 // the last block's DC coefficient
}

type decoder struct {
	data        []byte
	at          int
	frame       byte
	size        image.Point
	mcus        image.Point
	components  []component
	quants      [4]*[64]uint16
	tables      [2][4]*huffman // of DC and of AC coefficients
	restart     int
	jfif, adobe bool
	transform   byte
	scans       int
	bits        uint32
	nbits       int
	eobRun      int
	first, end  int // range of a scan's coefficients
	high, low   uint
	onlyHeaders bool
}

// Size returns the size of a file's picture.
func Size(data []byte) (image.Point, error) {
	d := &decoder{data: data, onlyHeaders: true}
	err := d.parse()
	return d.size, err
}

// Decode reads a file's picture.
func Decode(data []byte) (*Picture, error) {
	d := &decoder{data: data}
	if err := d.parse(); err != nil {
		return nil, err
	}
	return d.picture()
}

// parse reads segment after segment.
func (d *decoder) parse() (err error) {
	defer func() {
		switch wrong := recover().(type) {
		case nil:
		case fault:
			err = wrong
		default:
			panic(wrong)
		}
	}()
	if len(d.data) < 2 || d.data[0] != fill || d.data[1] != soi {
		panic(fault("no JPEG file"))
	}
	d.at = 2
	for !d.onlyHeaders || d.frame == 0 {
		switch marker, ok := d.marker(); {
		case !ok && d.frame == sof2 || (!ok || marker == eoi) && !d.complete():
			panic(errTruncated)
		case !ok || marker == eoi:
			return nil
		case marker < rst0 && marker != tem || marker > rst7:
			d.read(marker, d.segment())
		}
	}
	return nil
}

// complete reports whether every component has had a scan.
func (d *decoder) complete() bool {
	return len(d.components) > 0 && !slices.ContainsFunc(d.components, func(c component) bool { return c.quant == nil })
}

// marker finds the next marker and skips the bytes before it.
func (d *decoder) marker() (marker byte, ok bool) {
	for ; d.at+1 < len(d.data); d.at++ {
		if d.data[d.at] == fill && d.data[d.at+1] != fill && d.data[d.at+1] != 0 {
			d.at += 2
			return d.data[d.at-1], true
		}
	}
	return 0, false
}

// segment returns the content of a marker's segment.
func (d *decoder) segment() []byte {
	if d.at+2 > len(d.data) {
		panic(errTruncated)
	}
	n := int(d.data[d.at])<<8 | int(d.data[d.at+1])
	if n < 2 {
		panic(fault("a segment has no length"))
	}
	if d.at+n > len(d.data) {
		panic(errTruncated)
	}
	d.at += n
	return d.data[d.at-n+2 : d.at]
}

func (d *decoder) read(marker byte, b []byte) {
	switch {
	case marker == dqt:
		d.readQuant(b)
	case marker == dht:
		d.readHuffman(b)
	case marker == dri:
		if len(b) != 2 {
			panic(fault("a restart interval has 2 bytes"))
		}
		d.restart = int(b[0])<<8 | int(b[1])
	case marker == sof0 || marker == sof1 || marker == sof2:
		d.frame = marker
		d.readFrame(b)
	case marker > sof2 && marker <= sof15:
		panic(fault(fmt.Sprintf("frame type %#x: only baseline, extended and progressive Huffman coding are read",
			marker)))
	case marker == sos:
		d.readScan(b)
	case marker == app0 && len(b) >= 5 && string(b[:5]) == "JFIF\x00":
		d.jfif = true
	case marker == app14 && len(b) >= 12 && string(b[:5]) == "Adobe":
		d.adobe, d.transform = true, b[11]
	}
}

func (d *decoder) readQuant(b []byte) {
	for len(b) > 0 {
		wide, id := int(b[0]>>4), b[0]&15
		n := 64 * (wide + 1)
		if wide > 1 || id > 3 || len(b) < 1+n {
			panic(fault("a quantization table is damaged"))
		}
		table := new([64]uint16)
		for i := range 64 {
			v := uint16(b[1+i])
			if wide == 1 {
				v = uint16(b[1+2*i])<<8 | uint16(b[2+2*i])
			}
			table[zigzag[i]] = v
		}
		d.quants[id], b = table, b[1+n:]
	}
}

func (d *decoder) readFrame(b []byte) {
	if len(d.components) > 0 {
		panic(fault("the file has two frames"))
	}
	if len(b) < 6 || len(b) != 6+3*int(b[5]) {
		panic(fault("the frame's header is damaged"))
	}
	if b[0] != 8 {
		panic(fault(fmt.Sprintf("%d bits: only 8 are read", b[0])))
	}
	d.size = image.Pt(int(b[3])<<8|int(b[4]), int(b[1])<<8|int(b[2]))
	if n := b[5]; d.size.X == 0 || d.size.Y == 0 || n != 1 && n != 3 && n != 4 {
		panic(fault(fmt.Sprintf("%d×%d pixels of %d components", d.size.X, d.size.Y, n)))
	}
	for b = b[6:]; len(b) > 0; b = b[3:] {
		c := component{id: b[0], h: int(b[1] >> 4), v: int(b[1] & 15), table: b[2]}
		if c.h < 1 || c.h > 4 || c.v < 1 || c.v > 4 || c.table > 3 {
			panic(fault("a component of the frame is damaged"))
		}
		if slices.ContainsFunc(d.components, func(other component) bool { return other.id == c.id }) {
			panic(fault("two components of the frame have one name"))
		}
		d.components = append(d.components, c)
	}
	if len(d.components) == 1 { // a scan of one component has no MCUs
		d.components[0].h, d.components[0].v = 1, 1
	}
	most := d.most()
	d.mcus = image.Pt(ceil(d.size.X, 8*most.X), ceil(d.size.Y, 8*most.Y))
	for i := range d.components {
		c := &d.components[i]
		c.width, c.height = ceil(ceil(d.size.X*c.h, most.X), 8), ceil(ceil(d.size.Y*c.v, most.Y), 8)
		c.stride = d.mcus.X * c.h
	}
}

// most returns the largest number of blocks, across and down, of a component in an MCU.
func (d *decoder) most() (most image.Point) {
	for _, c := range d.components {
		most.X, most.Y = max(most.X, c.h), max(most.Y, c.v)
	}
	return most
}

func ceil(a, b int) int { return (a + b - 1) / b }

// zigzag maps a file's order of coefficients to their places in a block (T.81, figure A.6).
var zigzag = [64]uint8{
	0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21,
	28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61,
	54, 47, 55, 62, 63,
}
