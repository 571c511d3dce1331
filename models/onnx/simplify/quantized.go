package simplify

import (
	"cmp"
	"math"
	"slices"

	"selfheal/models/onnx"
)

// NoticeQuantized tells the user what the gradients of a quantised network are.
const NoticeQuantized = "quantised: gradients pass straight through the rounding"

// quantization holds the inputs of a QuantizeLinear or a DequantizeLinear beside its
// data: one scale and zero point, or one along an axis.
type quantization struct {
	scale []float32
	zero  []int64
	kind  onnx.DType // of the integers
	shape onnx.Shape // in which the values broadcast against the data
	axis  int64

	guessed bool // the kind
}

func (q *quantization) bytes() bool { return q.kind == onnx.Int8 || q.kind == onnx.Uint8 }

// span are the least and the largest integer less its zero point.
func (q *quantization) span() (lo, hi float64) {
	least, most, _ := onnx.QuantizedRange(q.kind)
	if q.guessed {
		least = math.MinInt8
	}
	return float64(least - slices.Max(q.zero)), float64(most - slices.Min(q.zero))
}

// onIntegers reports whether exporters leave an operator between integers, beside expansions.
func onIntegers(op string) bool {
	return onnx.TraitsOf(op).Relabels || op == "MaxPool" || op == "Transpose"
}

// movable reports whether ONNX Runtime takes roundings past an operator, which moves values.
func movable(op string) bool { return onIntegers(op) || op == "Slice" || op == "Expand" }

// regrouped reports whether ONNX Runtime computes a QDQ graph otherwise than its operators say, by more than the
// rounding of floats: it quantises the float weights and biases of operators between quantised tensors
// (WeightBiasQuantization), makes one rounding of two that follow each other (DoubleQDQPairsRemover), and may round
// what meets quantised weights in a matrix product (DQMatMulToMatMulNBits).
func regrouped(g *onnx.Graph) bool {
	made := g.Producers()
	behind := func(tensor string) string { // what moves values
		for by := made[tensor]; by != nil && movable(by.Op); by = made[tensor] {
			tensor = by.Input(0)
		}
		return tensor
	}
	dequantized := func(tensor string) *onnx.Node {
		if n := made[tensor]; n != nil && n.Op == "DequantizeLinear" {
			return n
		}
		return nil
	}
	return slices.ContainsFunc(g.Nodes, func(n *onnx.Node) bool {
		switch n.Op {
		case "Conv", "ConvTranspose", "Gemm":
			float := func(i int) bool { return n.Input(i) != "" && dequantized(n.Input(i)) == nil }
			return dequantized(behind(n.Input(0))) != nil && (float(1) || float(2))
		case "MatMul":
			return (dequantized(n.Input(0)) == nil) != (dequantized(n.Input(1)) == nil)
		case "QuantizeLinear":
			before := dequantized(behind(n.Input(0))) // roundings are brought together past these
			return before != nil && slices.ContainsFunc([]int{1, 2}, func(i int) bool {
				a, b := g.Consts[before.Input(i)], g.Consts[n.Input(i)]
				return before.Input(i) != n.Input(i) && (a == nil || b == nil || !slices.Equal(a.Ints, b.Ints) ||
					!slices.Equal(a.Floats, b.Floats))
			})
		}
		return false
	})
}

// quantized brings the operators of QDQ graphs into one form. Constants are computed here, so that the weights of a
// Conv are floats. Data becomes
//
//	q = DequantizeLinear(QuantizeLinear(x / scale, 1, zero), 1, 0 or zero)
//	y = (q − zero) · scale
//
// with every integer held as an equal float: operators that exporters leave between the two (MaxPool, Reshape) need no
// integer kernels, and no gradient rule meets an integer tensor. The values equal the two operators', bit for
// bit. ONNX Runtime would replace operators between a DequantizeLinear and a QuantizeLinear by integer ones, which
// round differently in a segment than in the whole; it does not see through the scaling. It reports false where n is
// another operator.
func quantized(s *simplifier, n *onnx.Node) bool {
	if n.Op != "QuantizeLinear" && n.Op != "DequantizeLinear" {
		return false
	}
	s.g.Notice(NoticeQuantized)
	s.g.Rounds = true
	q := quantizationOf(s, n)
	if !s.dynamic[n.Inputs[0]] {
		s.steps[n.Outputs[0]] = q
	}
	if c, ok := s.g.Consts[n.Inputs[0]]; ok {
		return s.constant(n, q.folded(n.Op, c))
	}
	onnx.Require(s.TypeOf(n.Inputs[0]) == onnx.Float,
		"works on integers that no QuantizeLinear gives; export it in QDQ form")
	if n.Op == "QuantizeLinear" {
		s.integer(n.Outputs[0])
	}
	return s.write(n, q.write)
}

// integer notes that the file holds a tensor as integers.
func (s *simplifier) integer(x string) string {
	if s.g.Integers == nil {
		s.g.Integers = map[string]bool{}
	}
	s.g.Integers[x] = true
	return x
}

// carry notes what is known of an operator's input that holds of its output too.
func (s *simplifier) carry(n *onnx.Node) {
	x, y := n.Input(0), n.Outputs[0]
	if s.g.Integers[x] && onIntegers(n.Op) {
		s.integer(y)
		if a := s.sums[x]; a != nil {
			s.sums[y] = a
		}
	}
	if movable(n.Op) {
		if q := s.steps[x]; q != nil && len(q.scale) == 1 {
			s.steps[y] = q
		}
		s.dynamic[y] = s.dynamic[x]
	}
}

// quantizationOf reads a node's scale and zero point and checks them against its data.
func quantizationOf(s *simplifier, n *onnx.Node) *quantization {
	onnx.Require(n.Int("block_size", 0) == 0, "quantises in blocks, which is not supported")
	x := s.g.Shapes[n.Inputs[0]]
	onnx.Require(x != nil, "the shape of %q is not known", n.Inputs[0])
	scale := onnx.Sure(s.FloatsOf(n, 1))
	for _, v := range scale {
		onnx.Require(v > 0 && !math.IsInf(float64(v), 0), "scale %v is not above 0", v)
	}
	q := &quantization{scale: scale, zero: make([]int64, len(scale)), kind: onnx.Uint8, shape: onnx.Shape{},
		axis: n.Axis()}
	data, constant := s.g.Consts[n.Inputs[0]]
	switch zero := s.g.Consts[n.Input(2)]; {
	case zero != nil:
		q.kind, q.zero = zero.DType, zero.Ints
	case n.Input(2) != "":
		onnx.Refuse("its input %q must be constant", n.Input(2))
	case n.Op == "QuantizeLinear":
		q.kind = cmp.Or(onnx.DType(n.Int("output_dtype", 0)), q.kind)
	case constant:
		q.kind = data.DType
	case s.steps[n.Inputs[0]] != nil:
		q.kind = s.steps[n.Inputs[0]].kind
	default:
		q.guessed = true
	}
	count := len(scale)
	onnx.Require(len(q.zero) == count && count > 0, "it has %d scales and %d zero points", count, len(q.zero))
	if count > 1 {
		a := n.AxisOf(len(x))
		onnx.Require(x[a] == int64(count), "it has %d scales for axis %d of %v", count, a, x)
		q.axis, q.shape = int64(a), onnx.PerAxis(n, x, x[a])
	}
	lo, hi, ok := onnx.QuantizedRange(q.kind)
	if n.Op == "DequantizeLinear" && q.kind == onnx.Int32 { // a bias
		lo, hi, ok = math.MinInt32, math.MaxInt32, true
	}
	onnx.Require(ok, "ONNX element type %d is not supported as quantised values (8 and 16 bits are)", q.kind)
	for _, z := range q.zero {
		onnx.Require(z >= lo && z <= hi, "zero point %d is out of range", z)
	}
	return q
}

// at is the index of the scale of the data's i-th value.
func (q *quantization) at(i int, x onnx.Shape) int {
	if len(q.scale) == 1 {
		return 0
	}
	inner := x[q.axis+1:].Items()
	return int(int64(i) / inner % x[q.axis])
}

// folded returns an operator's result for constant data.
func (q *quantization) folded(op string, c *onnx.Tensor) *onnx.Tensor {
	if op == "DequantizeLinear" {
		onnx.Require(c.DType == q.kind, "its data is of ONNX element type %d, its zero point of %d", c.DType, q.kind)
		floats := make([]float32, len(c.Ints))
		for i, v := range c.Ints {
			k := q.at(i, c.Shape)
			floats[i] = float32(v-q.zero[k]) * q.scale[k]
		}
		return onnx.FloatTensor(c.Shape, floats)
	}
	onnx.Require(c.DType == onnx.Float, "quantises integers")
	lo, hi, _ := onnx.QuantizedRange(q.kind)
	ints := make([]int64, len(c.Floats))
	for i, v := range c.Floats {
		k := q.at(i, c.Shape)
		r := math.RoundToEven(float64(v / q.scale[k]))
		// Bounded first: a float far outside has no int64.
		ints[i] = min(max(int64(min(max(r, -1<<32), 1<<32))+q.zero[k], lo), hi)
	}
	return &onnx.Tensor{DType: q.kind, Shape: c.Shape, Ints: ints}
}

// write is the lowering of a node whose data is not constant.
func (q *quantization) write(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	x, y := n.Inputs[0], n.Outputs[0]
	if n.Op == "DequantizeLinear" {
		return q.dequantize(b, x, s.offsets[x])
	}
	if slices.Max(q.scale) != 1 || slices.Min(q.scale) != 1 {
		x = b.Op("Div", x, b.Const(onnx.FloatTensor(q.shape, q.scale)))
	}
	round := func(op string, zero []int64) {
		shape := onnx.Shape{int64(len(zero))}
		if slices.Max(zero) == slices.Min(zero) { // one serves for all
			zero, shape = zero[:1], onnx.Shape{}
		}
		ones := b.Const(onnx.FloatTensor(shape, slices.Repeat([]float32{1}, len(zero))))
		zeros := b.Const(&onnx.Tensor{DType: q.kind, Shape: shape, Ints: zero})
		x = b.OpWith(op, onnx.Attrs{"axis": q.axis}, x, ones, zeros)
	}
	round("QuantizeLinear", q.zero)
	other := func(c *onnx.Node) bool { return c.Op != "DequantizeLinear" && expansionOf(c) == nil }
	if s.g.IsOutput(y) || slices.ContainsFunc(s.reads[y], other) {
		round("DequantizeLinear", []int64{0})
	} else { // the zero point is taken off again at once
		round("DequantizeLinear", q.zero)
		s.offsets[y] = q.zero
	}
	return x
}

// dequantize appends the product of x, which is without the zero points off already, and the scales.
func (q *quantization) dequantize(b *onnx.Builder, x string, off []int64) string {
	count := len(q.zero)
	switch len(off) {
	case 0:
		off = make([]int64, count)
	case 1: // one serves for all
		off = slices.Repeat(off, count)
	}
	onnx.Require(len(off) == count, "has %d zero points, the QuantizeLinear before it %d", count, len(off))
	shift := make([]float32, count)
	for i, z := range q.zero {
		shift[i] = float32(z - off[i])
	}
	if slices.Max(shift) != 0 || slices.Min(shift) != 0 {
		x = b.Op("Sub", x, b.Const(onnx.FloatTensor(q.shape, shift)))
	}
	return b.Op("Mul", x, b.Const(onnx.FloatTensor(q.shape, q.scale)))
}

// Unrounded is a simplified network without the rounding and clipping of its activations, its weights rounded as they
// are: nil where it rounds none.
func Unrounded(g *onnx.Graph) (_ *onnx.Graph, err error) {
	defer onnx.Refused(&err)
	g = g.Clone()
	made, changed := g.Producers(), false
	for i, n := range g.Nodes { // as quantized has written them: with scales of 1
		q := made[n.Inputs[0]]
		if n.Op != "DequantizeLinear" || q == nil || q.Op != "QuantizeLinear" {
			continue
		}
		x, on, off := q.Inputs[0], g.Consts[q.Input(2)].Ints, g.Consts[n.Input(2)].Ints
		if changed = true; slices.Equal(on, off) {
			g.Nodes[i] = &onnx.Node{Op: "Identity", Inputs: []string{x}, Outputs: n.Outputs}
			continue
		}
		shape := onnx.PerAxis(q, g.Shapes[x], int64(len(on)))
		shift := g.AddConst(n.Outputs[0]+"/zero", floats(shape, on))
		g.Nodes[i] = &onnx.Node{Op: "Add", Inputs: []string{x, shift}, Outputs: n.Outputs}
	}
	if !changed {
		return nil, nil
	}
	g.Prune()
	return g, g.Verify()
}
