// Package npy reads and writes NumPy's .npy files of numbers. [ReadHeader] and [Header.Value] read any kind of number,
// [Read] and [Write] float32.
package npy

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/x448/float16"

	"selfheal/internal/memory"
	"selfheal/internal/number"
)

// Header is the beginning of a NumPy .npy file.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
type Header struct {
	Name  string // NumPy's name of the values' type
	Kind  byte   // 'f' float, 'i' signed, 'u' unsigned, 'b' bool
	Width int    // bytes of a value
	Order binary.ByteOrder
	Shape []int
	N     int // number of values
	Bytes int // length of the header itself
}

const (
	Magic     = "\x93NUMPY"
	maxHeader = 1 << 16
	maxDims   = 32
	maxValues = 1 << 40
	maxArray  = 8 << 30 // bounds the bytes that Read returns
)

var (
	descrKey   = regexp.MustCompile(`['"]descr['"]\s*:\s*['"]([<>|=]?)([a-zA-Z][0-9]{0,4})['"]`)
	fortranKey = regexp.MustCompile(`['"]fortran_order['"]\s*:\s*(True|False)`)
	shapeKey   = regexp.MustCompile(`['"]shape['"]\s*:\s*\(\s*((?:[0-9]+L?\s*,\s*)*(?:[0-9]+L?)?)\s*\)`)

	names = map[string]string{"f2": "float16", "f4": "float32", "f8": "float64", "i1": "int8", "i2": "int16",
		"i4": "int32", "i8": "int64", "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64", "b1": "bool"}
)

// ReadHeader reads and checks the header and leaves r at the first value.
func ReadHeader(r io.Reader) (h Header, err error) {
	cut := errors.New("its header is cut short")
	start := make([]byte, len(Magic)+4)
	if _, err := io.ReadFull(r, start); err != nil || string(start[:len(Magic)]) != Magic {
		return h, errors.New("it does not begin like a NumPy array")
	}
	version, length := start[len(Magic)], int(binary.LittleEndian.Uint16(start[len(Magic)+2:]))
	switch version {
	case 1:
	case 2, 3:
		more := make([]byte, 2)
		if _, err := io.ReadFull(r, more); err != nil {
			return h, cut
		}
		length |= int(binary.LittleEndian.Uint16(more)) << 16
		h.Bytes = len(more)
	default:
		return h, fmt.Errorf("its NumPy format version %d is unknown", version)
	}
	if length > maxHeader {
		return h, fmt.Errorf("its header claims %d bytes, more than any array needs", length)
	}
	h.Bytes += len(start) + length
	raw := make([]byte, length)
	if _, err := io.ReadFull(r, raw); err != nil {
		return h, cut
	}
	return h, h.parse(string(raw))
}

func (h *Header) parse(text string) error {
	descr, fortran, shape := descrKey.FindStringSubmatch(text), fortranKey.FindStringSubmatch(text),
		shapeKey.FindStringSubmatch(text)
	if descr == nil || fortran == nil || shape == nil {
		return fmt.Errorf("its header can't be read: %.60q (plain arrays of numbers only)", strings.TrimSpace(text))
	}
	kind := descr[2]
	h.Name, h.Kind, h.Width = names[kind], kind[0], int(kind[len(kind)-1]-'0')
	switch {
	case h.Kind == 'O':
		return errors.New("it holds Python objects, which are not read; save numbers")
	case h.Name == "":
		return fmt.Errorf("it holds values of type %s; uint8, integers and floats of 16 to 64 bits are read",
			descr[1]+kind)
	}
	h.Order = binary.LittleEndian
	if descr[1] == ">" {
		h.Order = binary.BigEndian
	}
	h.N = 1
	for _, dim := range strings.FieldsFunc(shape[1], func(r rune) bool { return r < '0' || r > '9' }) {
		v, err := strconv.Atoi(dim)
		if err != nil || v > maxValues || v > 0 && h.N > maxValues/v || len(h.Shape) == maxDims {
			return fmt.Errorf("its shape (%.60s) is larger than any array that is read", shape[1])
		}
		h.N *= v
		h.Shape = append(h.Shape, v)
	}
	if fortran[1] == "True" && len(h.Shape) > 1 {
		return errors.New("it is in Fortran order; save numpy.ascontiguousarray of it")
	}
	return nil
}

// Value returns the value at the start of b, as exactly as a float64 can hold it.
func (h *Header) Value(b []byte) float64 {
	var u uint64
	switch h.Width {
	case 1:
		u = uint64(b[0])
	case 2:
		u = uint64(h.Order.Uint16(b))
	case 4:
		u = uint64(h.Order.Uint32(b))
	case 8:
		u = h.Order.Uint64(b)
	}
	switch {
	case h.Kind == 'f' && h.Width == 2:
		return float64(float16.Frombits(uint16(u)).Float32())
	case h.Kind == 'f' && h.Width == 4:
		return float64(math.Float32frombits(uint32(u)))
	case h.Kind == 'f':
		return math.Float64frombits(u)
	case h.Kind == 'i':
		spare := 64 - 8*h.Width
		return float64(int64(u<<spare) >> spare)
	}
	return float64(u)
}

// Write writes values, which come in parts in row-major order, as a float32 .npy file.
func Write(w io.Writer, shape []int, values iter.Seq[[]float32]) error {
	tuple, left := strings.ReplaceAll(strings.Trim(fmt.Sprint(shape), "[]"), " ", ", "), 1
	if len(shape) == 1 {
		tuple += ","
	}
	for _, v := range shape {
		left *= v
	}
	dict := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", tuple)
	const prefix = len(Magic) + 4
	dict += strings.Repeat(" ", (64-(prefix+len(dict)+1)%64)%64) + "\n" // values begin at a multiple of 64
	b := bufio.NewWriter(w)
	b.WriteString(Magic + "\x01\x00")
	b.Write(binary.LittleEndian.AppendUint16(nil, uint16(len(dict))))
	b.WriteString(dict)
	for part := range values {
		left -= len(part)
		_ = binary.Write(b, binary.LittleEndian, part)
	}
	if left != 0 {
		return fmt.Errorf("npy: an array of shape %v has %d values too few", shape, left)
	}
	return b.Flush()
}

// Read reads a .npy file of float32 or float64 values in row-major order; float64 is rounded to float32. It checks
// the values no further and does not read beyond the array.
func Read(r io.Reader) (shape []int, values []float32, err error) {
	return read(r, func(kind byte) bool { return kind == 'f' })
}

// ReadNumbers is [Read] for values of any kind, which it rounds to float32.
func ReadNumbers(r io.Reader) (shape []int, values []float32, err error) {
	return read(r, func(byte) bool { return true })
}

func read(r io.Reader, may func(kind byte) bool) (shape []int, values []float32, err error) {
	h, err := ReadHeader(r)
	switch {
	case err != nil:
	case !may(h.Kind):
		err = fmt.Errorf("it holds %s values, float32 is needed", h.Name)
	case h.N > maxArray/4:
		err = fmt.Errorf("its %d values need more than %s of memory", h.N, number.Bytes(maxArray))
	default:
		err = memory.Room(4 * int64(h.N))
	}
	if err != nil {
		return nil, nil, err
	}
	buf := make([]byte, min(h.N, 1<<16)*h.Width)
	values = make([]float32, 0, h.N) // memory is used only as values are read
	for len(values) < h.N {
		part := buf[:min(len(buf), (h.N-len(values))*h.Width)]
		if _, err := io.ReadFull(r, part); err != nil {
			return nil, nil, fmt.Errorf("it is cut short: %d values are promised, about %d are there", h.N, len(values))
		}
		for value := range slices.Chunk(part, h.Width) {
			values = append(values, float32(h.Value(value)))
		}
	}
	return h.Shape, values, nil
}
