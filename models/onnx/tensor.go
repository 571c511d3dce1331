package onnx

import (
	"encoding/binary"
	"math"

	"github.com/x448/float16"

	pb "selfheal/models/onnx/onnxpb"
)

// elementSize maps the element types that can be read to their widths in bytes.
var elementSize = map[DType]int64{
	Float: 4, Int64: 8, Int32: 4, int16Type: 2, uint16Type: 2, Int8: 1, Uint8: 1, Bool: 1,
	Float16: 2, bfloat16Type: 2, Double: 8,
}

// maxRank bounds the number of dimensions of a file's tensors.
const maxRank = 32

// dataSize returns the number of values in a tensor and the number of bytes that they take.
func dataSize(t *pb.TensorProto) (values, bytes int64) {
	Require(len(t.Dims) <= maxRank, "it has %d dimensions, more than %d", len(t.Dims), maxRank)
	values = 1
	for _, d := range t.Dims {
		Require(d == 0 || d > 0 && values <= math.MaxInt32/d, "shape %v is not possible", t.Dims)
		values *= d
	}
	width := elementSize[DType(t.GetDataType())]
	Require(width > 0, "element type %s is not supported (floats, integers of 8 to 64 bits and booleans are); export "+
		"the network in floats, or quantised to 8 bits", pb.TensorProto_DataType(t.GetDataType()))
	return values, values * width
}

// heldBytes returns the bytes that tensors take as 4-byte floats and 8-byte integers, if the file has their data.
func heldBytes(tensors []*pb.TensorProto) (sum int64) {
	for _, t := range tensors {
		kind, width := DType(t.GetDataType()), int64(8)
		if kind == Float || kind == Double || isHalf(kind) {
			width = 4
		}
		sum += width * int64(len(t.RawData)) / max(1, elementSize[kind])
	}
	return sum
}

// tensor copies a TensorProto and checks that its data has the length of its shape. Floats of another width become
// float32, with a notice.
func (d *decoder) tensor(t *pb.TensorProto) *Tensor {
	Require(t != nil, "has no value")
	if t.GetDataLocation() == pb.TensorProto_EXTERNAL {
		location := ""
		for _, e := range t.ExternalData {
			if e.GetKey() == "location" {
				location = e.GetValue()
			}
		}
		Refuse("its data lies in another file (%.80q), which a model in memory can't have: open the model by its path",
			location)
	}
	kind, raw := DType(t.GetDataType()), t.RawData
	n, size := dataSize(t)
	Require(raw == nil || int64(len(raw)) == size, "shape %v needs %d bytes, the file holds %d", t.Dims, size, len(raw))
	out := &Tensor{DType: d.asFloat(kind, false), Shape: append(Shape{}, t.Dims...)}
	if d.skeleton && kind == Float && raw == nil && len(t.FloatData) == 0 && n >= skeletonLeast {
		return out
	}
	switch kind {
	case Float:
		out.Floats = floats(raw, t.FloatData)
	case Double:
		out.Floats = d.rounded(values(raw, t.DoubleData))
	case Float16, bfloat16Type:
		out.Floats = widened(kind, t)
	default:
		out.Ints = integers[kind](t)
	}
	Require(int64(out.Len()) == n, "shape %v needs %d values, the file holds %d", t.Dims, n, out.Len())
	notReserved(out.Ints...)
	return out
}

// floats is a faster values for float32.
func floats(raw []byte, field []float32) []float32 {
	if raw == nil {
		return append([]float32{}, field...)
	}
	out := make([]float32, len(raw)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return out
}

// values copies a tensor's data: the raw bytes if there are any, otherwise the typed field.
func values[T float64 | integer](raw []byte, field []T) []T {
	if raw == nil {
		return append([]T{}, field...)
	}
	out := make([]T, len(raw)/binary.Size(T(0)))
	Sure(binary.Decode(raw, binary.LittleEndian, out))
	return out
}

type integer interface {
	int64 | int32 | int16 | uint16 | int8 | uint8
}

var integers = map[DType]func(t *pb.TensorProto) []int64{
	Int64: func(t *pb.TensorProto) []int64 { return values(t.RawData, t.Int64Data) },
	Int32: short[int32], int16Type: short[int16], uint16Type: short[uint16], Int8: short[int8], Uint8: short[uint8],
	Bool: short[uint8],
}

// short reads integers of types that use the int32 field.
func short[T integer](t *pb.TensorProto) []int64 {
	if t.RawData == nil {
		return converted[int64](t.Int32Data)
	}
	return converted[int64](values[T](t.RawData, nil))
}

func converted[To, From integer](v []From) []To {
	return Each(v, func(x From) To { return To(x) })
}

// notReserved refuses the few integers that stand for multiples of the batch size in shape arithmetic: a number from
// the file must not be mistaken for one.
func notReserved(v ...int64) {
	if i := BatchIndex(v); i >= 0 {
		Refuse("holds the integer %d, which is not supported", v[i])
	}
}

// wideNames are the floating-point types that are converted to float32.
var wideNames = map[DType]string{Float16: "float16", bfloat16Type: "bfloat16", Double: "float64"}

// isHalf reports whether arithmetic in a type rounds more than float32's.
func isHalf(t DType) bool { return t == Float16 || t == bfloat16Type }

// asFloat returns Float for a floating-point type of another width, with a notice, and any other type unchanged.
// Gradients of rounded half-precision values would be zero almost everywhere, and ONNX Runtime's CPU kernels that take
// such types compute in float32 anyway.
func (d *decoder) asFloat(kind DType, computes bool) DType {
	if wideNames[kind] == "" {
		return kind
	}
	d.g.Notice("its " + wideNames[kind] + " values are computed in float32")
	d.g.Inexact = d.g.Inexact || computes && isHalf(kind)
	return Float
}

// widened reads a tensor of float16 or bfloat16, exactly.
func widened(kind DType, t *pb.TensorProto) []float32 {
	var bits []uint16
	for i, v := range t.Int32Data { // the bits of each value, as in the format
		if t.RawData == nil && (v < 0 || v > math.MaxUint16) {
			Refuse("value %d is %d, not the bits of a %s", i, v, wideNames[kind])
		}
		bits = append(bits, uint16(v))
	}
	return Each(values(t.RawData, bits), func(b uint16) float32 {
		if kind == bfloat16Type {
			return math.Float32frombits(uint32(b) << 16)
		}
		return float16.Frombits(b).Float32()
	})
}

// rounded returns the nearest float32 of each float64. A value beyond float32 is an error.
func (d *decoder) rounded(v []float64) []float32 {
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(x)
		if math.IsInf(float64(out[i]), 0) && !math.IsInf(x, 0) {
			Refuse("value %d is %g, beyond float32", i, x)
		}
		d.g.Inexact = d.g.Inexact || float64(out[i]) != x
	}
	return out
}
