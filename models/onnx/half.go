package onnx

import (
	"encoding/binary"
	"fmt"
	"math"

	pb "selfheal/models/onnx/onnxpb"
)

// wideNames are the floating-point types that are converted to float32.
var wideNames = map[DType]string{Float16: "float16", BFloat16: "bfloat16", Double: "float64"}

func isWide(t DType) bool { return wideNames[t] != "" }

// noticeFloat tells that the file holds floats of another width. Gradients of
// rounded half-precision values would be zero almost everywhere, and ONNX
// Runtime's CPU kernels compute in float32 anyway where they take the type.
func (g *Graph) noticeFloat(kind DType) {
	g.Notice("its " + wideNames[kind] + " values are computed in float32")
}

// wideFloats reads a tensor of float16, bfloat16 or float64 as float32. The
// first two are exact; a float64 is rounded to the nearest, and is an error
// where it lies beyond float32.
func wideFloats(kind DType, t *pb.TensorProto) ([]float32, error) {
	if kind == Double {
		return fromDoubles(t)
	}
	widen := halfToFloat
	if kind == BFloat16 {
		widen = func(bits uint16) float32 { return math.Float32frombits(uint32(bits) << 16) }
	}
	if t.RawData == nil {
		out := make([]float32, len(t.Int32Data))
		for i, v := range t.Int32Data { // the bits of each value, as the format has it
			if v < 0 || v > math.MaxUint16 {
				return nil, fmt.Errorf("value %d is %d, not the bits of a %s", i, v, wideNames[kind])
			}
			out[i] = widen(uint16(v))
		}
		return out, nil
	}
	out := make([]float32, len(t.RawData)/2)
	for i := range out {
		out[i] = widen(binary.LittleEndian.Uint16(t.RawData[2*i:]))
	}
	return out, nil
}

func fromDoubles(t *pb.TensorProto) ([]float32, error) {
	n := len(t.DoubleData)
	if t.RawData != nil {
		n = len(t.RawData) / 8
	}
	out := make([]float32, n)
	for i := range out {
		var v float64
		if t.RawData != nil {
			v = math.Float64frombits(binary.LittleEndian.Uint64(t.RawData[8*i:]))
		} else {
			v = t.DoubleData[i]
		}
		out[i] = float32(v)
		if math.IsInf(float64(out[i]), 0) && !math.IsInf(v, 0) {
			return nil, fmt.Errorf("value %d is %g, beyond float32", i, v)
		}
	}
	return out, nil
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
