package simplify

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"selfheal/models/onnx"
)

// NoticeQuantized tells the user what the gradients of a quantised network are.
const NoticeQuantized = "quantised: gradients pass straight through the rounding"

// quantization is what a QuantizeLinear or a DequantizeLinear has beside its
// data: one scale and zero point, or one along an axis.
type quantization struct {
	scale []float32
	zero  []int64
	kind  onnx.DType // of the integers
	shape onnx.Shape // in which the values broadcast against the data
	axis  int64
}

// quantized brings the operators of QDQ graphs into one form. Constants are
// computed here, so that the weights of a Conv are floats. Data becomes
//
//	q = DequantizeLinear(QuantizeLinear(x / scale, 1, zero), 1, 0 or zero)
//	y = (q − zero) · scale
//
// with every integer held as an equal float: operators that exporters leave
// between the two (MaxPool, Reshape) need no integer kernels, and no gradient
// rule meets an integer tensor. The values are those of the two operators,
// bit for bit. ONNX Runtime would replace operators between a DequantizeLinear
// and a QuantizeLinear by integer ones, which round differently in a segment
// than in the whole; it does not see through the scaling. It reports false
// where n is another operator.
func (s *simplifier) quantized(n *onnx.Node) (bool, error) {
	if n.Op != "QuantizeLinear" && n.Op != "DequantizeLinear" {
		return false, nil
	}
	s.g.Notice(NoticeQuantized)
	q, err := s.quantization(n)
	if err != nil {
		return true, err
	}
	if c, ok := s.g.Consts[n.Inputs[0]]; ok {
		return true, s.foldQuantized(n, q, c)
	}
	if t := s.TypeOf(n.Inputs[0]); t != onnx.Float {
		return true, errors.New("works on integers that no QuantizeLinear gives; export it in QDQ form")
	}
	if n.Op == "QuantizeLinear" {
		return true, s.quantize(n, q)
	}
	return true, s.dequantize(n, q)
}

// quantization reads a node's scale and zero point and checks them against its data.
func (s *simplifier) quantization(n *onnx.Node) (*quantization, error) {
	if n.Int("block_size", 0) != 0 {
		return nil, errors.New("quantises in blocks, which is not supported")
	}
	x := s.g.Shapes[n.Inputs[0]]
	if x == nil {
		return nil, fmt.Errorf("the shape of %q is not known", n.Inputs[0])
	}
	scale, err := s.FloatsOf(n, 1)
	if err != nil {
		return nil, err
	}
	for _, v := range scale {
		if !(v > 0) || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("scale %v is not above 0", v)
		}
	}
	q := &quantization{scale: scale, zero: make([]int64, len(scale)), kind: onnx.Uint8, shape: onnx.Shape{},
		axis: n.Int("axis", 1)}
	switch zero, ok := s.g.Consts[n.Input(2)]; {
	case ok:
		q.kind, q.zero = zero.DType, zero.Ints
	case n.Input(2) != "":
		return nil, fmt.Errorf("its input %q must be constant", n.Input(2))
	case n.Op == "QuantizeLinear":
		if t := onnx.DType(n.Int("output_dtype", 0)); t != 0 {
			q.kind = t
		}
	default:
		if c, ok := s.g.Consts[n.Inputs[0]]; ok {
			q.kind = c.DType
		}
	}
	if len(q.zero) != len(scale) || len(scale) == 0 {
		return nil, fmt.Errorf("it has %d scales and %d zero points", len(scale), len(q.zero))
	}
	if len(scale) > 1 {
		a, err := onnx.Axis(n, "axis", 1, len(x))
		if err != nil {
			return nil, err
		}
		if x[a] != int64(len(scale)) {
			return nil, fmt.Errorf("it has %d scales for axis %d of %v", len(scale), a, x)
		}
		q.axis, q.shape = int64(a), append(onnx.Shape{x[a]}, slices.Repeat(onnx.Shape{1}, len(x)-a-1)...)
	}
	lo, hi, ok := onnx.QuantizedRange(q.kind)
	if n.Op == "DequantizeLinear" && q.kind == onnx.Int32 { // a bias
		lo, hi, ok = math.MinInt32, math.MaxInt32, true
	}
	if !ok {
		return nil, fmt.Errorf("ONNX element type %d is not supported as quantised values (8 and 16 bits are)", q.kind)
	}
	for _, z := range q.zero {
		if z < lo || z > hi {
			return nil, fmt.Errorf("zero point %d is out of range", z)
		}
	}
	return q, nil
}

// at is the index of the scale of the data's i-th value.
func (q *quantization) at(i int, x onnx.Shape) int {
	if len(q.scale) == 1 {
		return 0
	}
	inner := x[q.axis+1:].Items()
	return int(int64(i) / inner % x[q.axis])
}

// foldQuantized computes a node whose data is constant.
func (s *simplifier) foldQuantized(n *onnx.Node, q *quantization, c *onnx.Tensor) error {
	out := &onnx.Tensor{DType: onnx.Float, Shape: c.Shape}
	if n.Op == "QuantizeLinear" {
		if c.DType != onnx.Float {
			return errors.New("quantises integers")
		}
		lo, hi, _ := onnx.QuantizedRange(q.kind)
		out.DType, out.Ints = q.kind, make([]int64, len(c.Floats))
		for i, v := range c.Floats {
			k := q.at(i, c.Shape)
			r := math.RoundToEven(float64(v / q.scale[k]))
			// Bounded first: a float far outside has no int64.
			out.Ints[i] = min(max(int64(min(max(r, -1<<32), 1<<32))+q.zero[k], lo), hi)
		}
	} else {
		if c.DType != q.kind {
			return fmt.Errorf("its data is of ONNX element type %d, its zero point of %d", c.DType, q.kind)
		}
		out.Floats = make([]float32, len(c.Ints))
		for i, v := range c.Ints {
			k := q.at(i, c.Shape)
			out.Floats[i] = float32(v-q.zero[k]) * q.scale[k]
		}
	}
	s.g.Consts[n.Outputs[0]], s.g.Shapes[n.Outputs[0]] = out, out.Shape
	return nil
}

// emit appends a node that stands for a part of from.
func emit(b *onnx.Builder, from *onnx.Node, op, output string, attrs onnx.Attrs, inputs ...string) {
	b.Append(&onnx.Node{Op: op, Inputs: inputs, Outputs: []string{output}, Attrs: attrs, Origin: from.Origin})
}

// temporary returns a new tensor's name.
func (s *simplifier) temporary(hint string) string {
	name := s.g.Fresh(hint)
	s.g.Shapes[name] = nil // taken
	return name
}

func (s *simplifier) quantize(n *onnx.Node, q *quantization) error {
	b, y := &onnx.Builder{G: s.g}, n.Outputs[0]
	scaled := n.Inputs[0]
	if slices.ContainsFunc(q.scale, func(v float32) bool { return v != 1 }) {
		scaled = s.temporary(y + "/scaled")
		scale := s.g.AddConst(y+"/scale", onnx.FloatTensor(q.shape, q.scale))
		emit(b, n, "Div", scaled, nil, n.Inputs[0], scale)
	}
	// Where nothing but DequantizeLinear reads it, the zero point is taken off again at once.
	zero := s.zeroPoint(y, q)
	plain := slices.ContainsFunc(s.reads[y], func(c *onnx.Node) bool { return c.Op != "DequantizeLinear" }) ||
		s.g.IsOutput(y)
	back := zero
	if plain {
		back = s.zeroPoint(y, &quantization{zero: make([]int64, len(zero.zero)), kind: q.kind})
	} else {
		s.offsets[y] = q.zero
	}
	rounded := s.temporary(y + "/rounded")
	emit(b, n, "QuantizeLinear", rounded, onnx.Attrs{"axis": q.axis}, scaled, zero.one, zero.name)
	emit(b, n, "DequantizeLinear", y, onnx.Attrs{"axis": q.axis}, rounded, back.one, back.name)
	return b.Err()
}

// unitScale is a zero point as a constant, beside scales of 1.
type unitScale struct {
	one, name string
	zero      []int64
}

// zeroPoint stores zero points: one where all are equal.
func (s *simplifier) zeroPoint(hint string, q *quantization) unitScale {
	zero, shape := q.zero, onnx.Shape{int64(len(q.zero))}
	if slices.Max(zero) == slices.Min(zero) {
		zero, shape = zero[:1], onnx.Shape{}
	}
	return unitScale{
		one:  s.g.AddConst(hint+"/one", onnx.FloatTensor(shape, slices.Repeat([]float32{1}, len(zero)))),
		name: s.g.AddConst(hint+"/zero", &onnx.Tensor{DType: q.kind, Shape: shape, Ints: zero}),
		zero: zero,
	}
}

func (s *simplifier) dequantize(n *onnx.Node, q *quantization) error {
	b, x, y := &onnx.Builder{G: s.g}, n.Inputs[0], n.Outputs[0]
	shift, shifted := make([]float32, len(q.zero)), false
	for i, z := range q.zero {
		off := int64(0)
		switch have := s.offsets[x]; {
		case len(have) == 1:
			off = have[0]
		case len(have) == len(q.zero):
			off = have[i]
		case len(have) > 0:
			return fmt.Errorf("has %d zero points, the QuantizeLinear before it %d", len(q.zero), len(have))
		}
		shift[i] = float32(z - off)
		shifted = shifted || shift[i] != 0
	}
	if shifted {
		centred := s.temporary(y + "/centred")
		emit(b, n, "Sub", centred, nil, x, s.g.AddConst(y+"/shift", onnx.FloatTensor(q.shape, shift)))
		x = centred
	}
	emit(b, n, "Mul", y, nil, x, s.g.AddConst(y+"/scale", onnx.FloatTensor(q.shape, q.scale)))
	return b.Err()
}
