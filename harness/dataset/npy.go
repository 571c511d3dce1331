package dataset

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// header is the beginning of a NumPy .npy file.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
type header struct {
	kind  byte // 'f' float, 'i' signed, 'u' unsigned, 'b' bool
	width int  // bytes of a value
	order binary.ByteOrder
	shape []int
	bytes int // length of the header itself
}

const (
	npyMagic     = "\x93NUMPY"
	maxNPYHeader = 1 << 16
	maxNPYDims   = 32
	maxNPYValues = 1 << 40
)

var (
	npyDescr   = regexp.MustCompile(`['"]descr['"]\s*:\s*['"]([<>|=]?)([a-zA-Z])([0-9]{0,4})['"]`)
	npyFortran = regexp.MustCompile(`['"]fortran_order['"]\s*:\s*(True|False)`)
	npyShape   = regexp.MustCompile(`['"]shape['"]\s*:\s*\(([0-9,\sL]*)\)`)
)

// readHeader reads and checks the header and leaves r at the first value.
func readHeader(r io.Reader) (header, error) {
	var h header
	start := make([]byte, len(npyMagic)+4)
	if _, err := io.ReadFull(r, start); err != nil || string(start[:len(npyMagic)]) != npyMagic {
		return h, errors.New("it does not begin like a NumPy array")
	}
	version := start[len(npyMagic)]
	length := int(binary.LittleEndian.Uint16(start[len(npyMagic)+2:]))
	h.bytes = len(start)
	switch version {
	case 1:
	case 2, 3:
		more := make([]byte, 2)
		if _, err := io.ReadFull(r, more); err != nil {
			return h, errors.New("its header is cut short")
		}
		length |= int(binary.LittleEndian.Uint16(more)) << 16
		h.bytes += 2
	default:
		return h, fmt.Errorf("its NumPy format version %d is unknown", version)
	}
	if length > maxNPYHeader {
		return h, fmt.Errorf("its header claims %d bytes, more than any array needs", length)
	}
	h.bytes += length
	raw := make([]byte, length)
	if _, err := io.ReadFull(r, raw); err != nil {
		return h, errors.New("its header is cut short")
	}
	return h, h.parse(string(raw))
}

func (h *header) parse(text string) error {
	descr, fortran, shape := npyDescr.FindStringSubmatch(text), npyFortran.FindStringSubmatch(text),
		npyShape.FindStringSubmatch(text)
	if descr == nil || fortran == nil || shape == nil {
		return fmt.Errorf("its header can't be read: %q (plain arrays of numbers only)", shorten(text))
	}
	h.order = binary.LittleEndian
	if descr[1] == ">" {
		h.order = binary.BigEndian
	}
	h.kind = descr[2][0]
	h.width, _ = strconv.Atoi(descr[3])
	switch widths := map[byte]string{'f': "48", 'i': "1248", 'u': "1248", 'b': "1"}[h.kind]; {
	case h.kind == 'O':
		return errors.New("it holds Python objects, which are not read; save numbers")
	case widths == "" || !strings.Contains(widths, descr[3]) || len(descr[3]) != 1:
		return fmt.Errorf("it holds values of type %s; uint8, float32, float64 and integers are read",
			descr[1]+descr[2]+descr[3])
	}
	total := 1
	for _, dim := range strings.Split(shape[1], ",") {
		if dim = strings.TrimRight(strings.TrimSpace(dim), "L"); dim == "" {
			continue
		}
		v, err := strconv.ParseInt(dim, 10, 64)
		if err != nil || v > maxNPYValues || v > 0 && total > maxNPYValues/int(v) || len(h.shape) == maxNPYDims {
			return fmt.Errorf("its shape (%s) is larger than any array that is read", shorten(shape[1]))
		}
		total *= int(v)
		h.shape = append(h.shape, int(v))
	}
	if fortran[1] == "True" && len(h.shape) > 1 {
		return errors.New("it is in Fortran order; save numpy.ascontiguousarray of it")
	}
	return nil
}

// values is how many values the shape holds.
func (h header) values() int {
	n := 1
	for _, v := range h.shape {
		n *= v
	}
	return n
}

// name is NumPy's name of the type of the values.
func (h header) name() string {
	if h.kind == 'b' {
		return "bool"
	}
	return map[byte]string{'f': "float", 'i': "int", 'u': "uint"}[h.kind] + strconv.Itoa(8*h.width)
}

// float returns the value at the start of b, for kind 'f'.
func (h header) float(b []byte) float32 {
	if h.width == 4 {
		return math.Float32frombits(h.order.Uint32(b))
	}
	return float32(math.Float64frombits(h.order.Uint64(b)))
}

// integer returns the value at the start of b, for the kinds 'i', 'u' and 'b';
// ok is false when it does not fit.
func (h header) integer(b []byte) (v int64, ok bool) {
	var buf [8]byte // the value in little-endian order
	copy(buf[:], b[:h.width])
	if h.order == binary.BigEndian {
		slices.Reverse(buf[:h.width])
	}
	u := binary.LittleEndian.Uint64(buf[:])
	if h.kind == 'i' {
		spare := 64 - 8*h.width
		return int64(u<<spare) >> spare, true
	}
	return int64(u), u <= math.MaxInt64
}

// WriteNPY writes values in row-major order as a float32 .npy file.
func WriteNPY(w io.Writer, shape []int, values []float32) error {
	var dims []string
	n := 1
	for _, v := range shape {
		dims = append(dims, strconv.Itoa(v))
		n *= v
	}
	if n != len(values) {
		return fmt.Errorf("dataset: a shape of %v holds %d values, not %d", shape, n, len(values))
	}
	tuple := strings.Join(dims, ", ")
	if len(dims) == 1 {
		tuple += ","
	}
	dict := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", tuple)
	const prefix = len(npyMagic) + 4
	dict += strings.Repeat(" ", (64-(prefix+len(dict)+1)%64)%64) + "\n" // values begin at a multiple of 64
	b := bufio.NewWriter(w)
	b.WriteString(npyMagic + "\x01\x00")
	b.Write(binary.LittleEndian.AppendUint16(nil, uint16(len(dict))))
	b.WriteString(dict)
	var buf [4]byte
	for _, v := range values {
		binary.LittleEndian.PutUint32(buf[:], math.Float32bits(v))
		b.Write(buf[:])
	}
	return b.Flush()
}

// ReadNPY reads a .npy file of float32 or float64 values in row-major order (float64 is rounded to float32).
// The values are not checked otherwise. What follows the array in r is not read.
func ReadNPY(r io.Reader) (shape []int, values []float32, err error) {
	h, err := readHeader(r)
	if err != nil {
		return nil, nil, err
	}
	if h.kind != 'f' {
		return nil, nil, fmt.Errorf("it holds %s values, float32 is needed", h.name())
	}
	n := h.values()
	if n > maxMemory/4 {
		return nil, nil, fmt.Errorf("its %d values need more than %d GiB of memory", n, maxMemory>>30)
	}
	buf := make([]byte, min(n, 1<<16)*h.width)
	for len(values) < n { // grows with what is read, not with what the header claims
		part := buf[:min(len(buf), (n-len(values))*h.width)]
		if _, err := io.ReadFull(r, part); err != nil {
			return nil, nil, fmt.Errorf("it is cut short: %d values are promised, about %d are there", n, len(values))
		}
		for ; len(part) > 0; part = part[h.width:] {
			values = append(values, h.float(part))
		}
	}
	return h.shape, values, nil
}
