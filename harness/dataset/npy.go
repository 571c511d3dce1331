package dataset

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

	"selfheal/internal/memory"
	"selfheal/internal/number"
)

// header is the beginning of a NumPy .npy file.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
type header struct {
	name  string // NumPy's name of the values' type
	kind  byte   // 'f' float, 'i' signed, 'u' unsigned, 'b' bool
	width int    // bytes of a value
	order binary.ByteOrder
	shape []int
	n     int // number of values
	bytes int // length of the header itself
}

const (
	npyMagic     = "\x93NUMPY"
	maxNPYHeader = 1 << 16
	maxNPYDims   = 32
	maxNPYValues = 1 << 40
	maxArray     = 8 << 30 // bounds the bytes that readNPY returns
)

var (
	npyDescr   = regexp.MustCompile(`['"]descr['"]\s*:\s*['"]([<>|=]?)([a-zA-Z][0-9]{0,4})['"]`)
	npyFortran = regexp.MustCompile(`['"]fortran_order['"]\s*:\s*(True|False)`)
	npyShape   = regexp.MustCompile(`['"]shape['"]\s*:\s*\(\s*((?:[0-9]+L?\s*,\s*)*(?:[0-9]+L?)?)\s*\)`)

	npyNames = map[string]string{"f4": "float32", "f8": "float64", "i1": "int8", "i2": "int16", "i4": "int32",
		"i8": "int64", "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64", "b1": "bool"}
)

// readHeader reads and checks the header and leaves r at the first value.
func readHeader(r io.Reader) (h header, err error) {
	cut := errors.New("its header is cut short")
	start := make([]byte, len(npyMagic)+4)
	if _, err := io.ReadFull(r, start); err != nil || string(start[:len(npyMagic)]) != npyMagic {
		return h, errors.New("it does not begin like a NumPy array")
	}
	version, length := start[len(npyMagic)], int(binary.LittleEndian.Uint16(start[len(npyMagic)+2:]))
	switch version {
	case 1:
	case 2, 3:
		more := make([]byte, 2)
		if _, err := io.ReadFull(r, more); err != nil {
			return h, cut
		}
		length |= int(binary.LittleEndian.Uint16(more)) << 16
		h.bytes = len(more)
	default:
		return h, fmt.Errorf("its NumPy format version %d is unknown", version)
	}
	if length > maxNPYHeader {
		return h, fmt.Errorf("its header claims %d bytes, more than any array needs", length)
	}
	h.bytes += len(start) + length
	raw := make([]byte, length)
	if _, err := io.ReadFull(r, raw); err != nil {
		return h, cut
	}
	return h, h.parse(string(raw))
}

func (h *header) parse(text string) error {
	descr, fortran, shape := npyDescr.FindStringSubmatch(text), npyFortran.FindStringSubmatch(text),
		npyShape.FindStringSubmatch(text)
	if descr == nil || fortran == nil || shape == nil {
		return fmt.Errorf("its header can't be read: %q (plain arrays of numbers only)", shorten(text))
	}
	kind := descr[2]
	h.name, h.kind, h.width = npyNames[kind], kind[0], int(kind[len(kind)-1]-'0')
	switch {
	case h.kind == 'O':
		return errors.New("it holds Python objects, which are not read; save numbers")
	case h.name == "":
		return fmt.Errorf("it holds values of type %s; uint8, float32, float64 and integers are read", descr[1]+kind)
	}
	h.order = binary.LittleEndian
	if descr[1] == ">" {
		h.order = binary.BigEndian
	}
	h.n = 1
	for _, dim := range strings.FieldsFunc(shape[1], func(r rune) bool { return r < '0' || r > '9' }) {
		v, err := strconv.Atoi(dim)
		if err != nil || v > maxNPYValues || v > 0 && h.n > maxNPYValues/v || len(h.shape) == maxNPYDims {
			return fmt.Errorf("its shape (%s) is larger than any array that is read", shorten(shape[1]))
		}
		h.n *= v
		h.shape = append(h.shape, v)
	}
	if fortran[1] == "True" && len(h.shape) > 1 {
		return errors.New("it is in Fortran order; save numpy.ascontiguousarray of it")
	}
	return nil
}

// value returns the value at the start of b, as exactly as a float64 can hold it.
func (h *header) value(b []byte) float64 {
	var u uint64
	switch h.width {
	case 1:
		u = uint64(b[0])
	case 2:
		u = uint64(h.order.Uint16(b))
	case 4:
		u = uint64(h.order.Uint32(b))
	case 8:
		u = h.order.Uint64(b)
	}
	switch {
	case h.kind == 'f' && h.width == 4:
		return float64(math.Float32frombits(uint32(u)))
	case h.kind == 'f':
		return math.Float64frombits(u)
	case h.kind == 'i':
		spare := 64 - 8*h.width
		return float64(int64(u<<spare) >> spare)
	}
	return float64(u)
}

// WriteNPY writes values, which come in parts in row-major order, as a float32 .npy file.
func WriteNPY(w io.Writer, shape []int, values iter.Seq[[]float32]) error {
	tuple, left := strings.ReplaceAll(strings.Trim(fmt.Sprint(shape), "[]"), " ", ", "), 1
	if len(shape) == 1 {
		tuple += ","
	}
	for _, v := range shape {
		left *= v
	}
	dict := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", tuple)
	const prefix = len(npyMagic) + 4
	dict += strings.Repeat(" ", (64-(prefix+len(dict)+1)%64)%64) + "\n" // values begin at a multiple of 64
	b := bufio.NewWriter(w)
	b.WriteString(npyMagic + "\x01\x00")
	b.Write(binary.LittleEndian.AppendUint16(nil, uint16(len(dict))))
	b.WriteString(dict)
	var buf [4]byte
	for part := range values {
		left -= len(part)
		for _, v := range part {
			binary.LittleEndian.PutUint32(buf[:], math.Float32bits(v))
			b.Write(buf[:])
		}
	}
	if left != 0 {
		return fmt.Errorf("dataset: an array of shape %v has %d values too few", shape, left)
	}
	return b.Flush()
}

// readNPY reads a .npy file of float32 or float64 values in row-major order; float64 is rounded to float32. It checks
// the values no further and does not read beyond the array.
func readNPY(r io.Reader) (shape []int, values []float32, err error) {
	h, err := readHeader(r)
	switch {
	case err != nil:
		return nil, nil, err
	case h.kind != 'f':
		return nil, nil, fmt.Errorf("it holds %s values, float32 is needed", h.name)
	case h.n > maxArray/4:
		return nil, nil, fmt.Errorf("its %d values need more than %s of memory", h.n, number.Bytes(maxArray))
	}
	if err := memory.Room(4 * int64(h.n)); err != nil {
		return nil, nil, err
	}
	buf := make([]byte, min(h.n, 1<<16)*h.width)
	values = make([]float32, 0, h.n) // memory is used only as values are read
	for len(values) < h.n {
		part := buf[:min(len(buf), (h.n-len(values))*h.width)]
		if _, err := io.ReadFull(r, part); err != nil {
			return nil, nil, fmt.Errorf("it is cut short: %d values are promised, about %d are there", h.n, len(values))
		}
		for value := range slices.Chunk(part, h.width) {
			values = append(values, float32(h.value(value)))
		}
	}
	return h.shape, values, nil
}
