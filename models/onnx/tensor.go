package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	pb "selfheal/models/onnx/onnxpb"
)

// elementSize is the width of the element types that are read, in bytes.
var elementSize = map[DType]int64{
	Float: 4, Int64: 8, Int32: 4, Int16: 2, Uint16: 2, Int8: 1, Uint8: 1, Bool: 1,
	Float16: 2, BFloat16: 2, Double: 8,
}

// maxRank bounds the dimensions of tensors that a file holds.
const maxRank = 32

// elements returns how many values a tensor of these dimensions has.
func elements(dims []int64) (int64, error) {
	if len(dims) > maxRank {
		return 0, fmt.Errorf("it has %d dimensions, more than %d", len(dims), maxRank)
	}
	n := int64(1)
	for _, d := range dims {
		if d < 0 || (d > 0 && n > math.MaxInt32/d) {
			return 0, fmt.Errorf("shape %v is not possible", dims)
		}
		n *= d
	}
	return n, nil
}

// dataSize returns the number of values of a tensor and of bytes that they take.
func dataSize(t *pb.TensorProto) (values, bytes int64, err error) {
	if values, err = elements(t.Dims); err != nil {
		return 0, 0, err
	}
	width := elementSize[DType(t.GetDataType())]
	if width == 0 {
		return 0, 0, fmt.Errorf("element type %s is not supported (floats, integers of 8 to 64 bits and booleans are)",
			pb.TensorProto_DataType(t.GetDataType()))
	}
	return values, values * width, nil
}

// decodeTensor copies a TensorProto, checking that its data is as long as its
// shape says. Floats of another width become float32, with a notice.
func (g *Graph) decodeTensor(t *pb.TensorProto) (*Tensor, error) {
	if t == nil {
		return nil, errors.New("has no value")
	}
	if t.GetDataLocation() == pb.TensorProto_EXTERNAL {
		location := ""
		for _, e := range t.ExternalData {
			if e.GetKey() == "location" {
				location = e.GetValue()
			}
		}
		return nil, fmt.Errorf("its data lies in another file (%.80q), which a model in memory can't have: open the "+
			"model by its path", location)
	}
	out := &Tensor{DType: DType(t.GetDataType()), Shape: append(Shape{}, t.Dims...)}
	n, size, err := dataSize(t)
	if err != nil {
		return nil, err
	}
	raw := t.RawData
	if raw != nil && int64(len(raw)) != size {
		return nil, fmt.Errorf("shape %v needs %d bytes, the file holds %d", t.Dims, size, len(raw))
	}
	switch {
	case isWide(out.DType):
		kind := out.DType
		g.noticeFloat(kind)
		out.DType = Float
		var rounded bool
		if out.Floats, rounded, err = wideFloats(kind, t); err != nil {
			return nil, err
		}
		g.Inexact = g.Inexact || rounded
	case out.DType == Float && raw != nil:
		out.Floats = make([]float32, n)
		for i := range out.Floats {
			out.Floats[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
	case out.DType == Float:
		out.Floats = append([]float32{}, t.FloatData...)
	case raw != nil:
		out.Ints = rawInts(out.DType, raw, n)
	case out.DType == Int64:
		out.Ints = append([]int64{}, t.Int64Data...)
	default:
		out.Ints = make([]int64, len(t.Int32Data))
		for i, v := range t.Int32Data {
			out.Ints[i] = int64(v)
		}
	}
	if int64(out.Len()) != n {
		return nil, fmt.Errorf("shape %v needs %d values, the file holds %d", t.Dims, n, out.Len())
	}
	return out, notReserved(out.Ints...)
}

// notReserved refuses the few integers that stand for multiples of the batch size
// in shape arithmetic: a number of the file must not pass for one.
func notReserved(v ...int64) error {
	if i := BatchIndex(v); i >= 0 {
		return fmt.Errorf("holds the integer %d, which is not supported", v[i])
	}
	return nil
}

// rawInts reads n little-endian integers.
func rawInts(kind DType, raw []byte, n int64) []int64 {
	out := make([]int64, n)
	for i := range out {
		switch kind {
		case Int64:
			out[i] = int64(binary.LittleEndian.Uint64(raw[8*i:]))
		case Int32:
			out[i] = int64(int32(binary.LittleEndian.Uint32(raw[4*i:])))
		case Int16:
			out[i] = int64(int16(binary.LittleEndian.Uint16(raw[2*i:])))
		case Uint16:
			out[i] = int64(binary.LittleEndian.Uint16(raw[2*i:]))
		case Int8:
			out[i] = int64(int8(raw[i]))
		default:
			out[i] = int64(raw[i])
		}
	}
	return out
}

// clip shortens and quotes a text of the file for a message.
func clip(s string) string { return fmt.Sprintf("%.80q", s) }

// wideNames are the floating-point types that are converted to float32.
var wideNames = map[DType]string{Float16: "float16", BFloat16: "bfloat16", Double: "float64"}

func isWide(t DType) bool { return wideNames[t] != "" }

// isHalf reports whether computing in a type rounds more than float32 does.
func isHalf(t DType) bool { return t == Float16 || t == BFloat16 }

// noticeFloat tells that the file holds floats of another width. Gradients of
// rounded half-precision values would be zero almost everywhere, and ONNX
// Runtime's CPU kernels compute in float32 anyway where they take the type.
func (g *Graph) noticeFloat(kind DType) {
	g.Notice("its " + wideNames[kind] + " values are computed in float32")
}

// wideFloats reads a tensor of float16, bfloat16 or float64 as float32. The
// first two are exact; a float64 is rounded to the nearest, and is an error
// where it lies beyond float32.
func wideFloats(kind DType, t *pb.TensorProto) (out []float32, rounded bool, err error) {
	if kind == Double {
		return fromDoubles(t)
	}
	widen := halfToFloat
	if kind == BFloat16 {
		widen = func(bits uint16) float32 { return math.Float32frombits(uint32(bits) << 16) }
	}
	if t.RawData == nil {
		out = make([]float32, len(t.Int32Data))
		for i, v := range t.Int32Data { // the bits of each value, as the format has it
			if v < 0 || v > math.MaxUint16 {
				return nil, false, fmt.Errorf("value %d is %d, not the bits of a %s", i, v, wideNames[kind])
			}
			out[i] = widen(uint16(v))
		}
		return out, false, nil
	}
	out = make([]float32, len(t.RawData)/2)
	for i := range out {
		out[i] = widen(binary.LittleEndian.Uint16(t.RawData[2*i:]))
	}
	return out, false, nil
}

func fromDoubles(t *pb.TensorProto) (out []float32, rounded bool, err error) {
	n := len(t.DoubleData)
	if t.RawData != nil {
		n = len(t.RawData) / 8
	}
	out = make([]float32, n)
	for i := range out {
		var v float64
		if t.RawData != nil {
			v = math.Float64frombits(binary.LittleEndian.Uint64(t.RawData[8*i:]))
		} else {
			v = t.DoubleData[i]
		}
		out[i] = float32(v)
		if math.IsInf(float64(out[i]), 0) && !math.IsInf(v, 0) {
			return nil, false, fmt.Errorf("value %d is %g, beyond float32", i, v)
		}
		rounded = rounded || float64(out[i]) != v
	}
	return out, rounded, nil
}

// halfToFloat converts the bits of an IEEE 754 half-precision number. Every
// one has an equal in float32, subnormals, infinities and NaN included.
func halfToFloat(bits uint16) float32 {
	sign := uint32(bits>>15) << 31
	exponent, fraction := uint32(bits>>10&31), uint32(bits&1023)
	switch exponent {
	case 0: // zero or subnormal: fraction · 2⁻²⁴
		v := float32(fraction) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 31: // infinity or NaN
		return math.Float32frombits(sign | 255<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent-15+127)<<23 | fraction<<13)
}
