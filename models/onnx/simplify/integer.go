package simplify

import (
	"fmt"
	"maps"
	"slices"

	"selfheal/models/onnx"
)

// NoticeDynamic tells the user what the opened form of a dynamically quantised network leaves out.
const NoticeDynamic = "quantised dynamically: gradients are those of the network with rounded weights alone"

// An expansion writes an operator of another domain by standard ones. One on quantised values gets the form of QDQ
// graphs: its inputs are dequantised, a float operator computes, and the result is quantised again.
type expansion struct {
	s    *simplifier
	n    *onnx.Node
	made []*onnx.Node
}

// expansions are the operators on quantised values that ONNX Runtime's quantiser writes, by domain and name, beside
// QuantizeLinear and DequantizeLinear, and the classical ones. Inputs are called as their documentation does.
var expansions map[string]func(e *expansion)

func init() { // init breaks the cycle steps → expansions → visit → steps
	expansions = map[string]func(e *expansion){
		"QLinearConv": qLinearConv, "QLinearMatMul": qLinearMatMul,
		"ConvInteger": integerProduct("Conv", 0), "MatMulInteger": integerProduct("MatMul", -1),
		"DynamicQuantizeLinear": dynamicQuantizeLinear,
	}
	for _, op := range []string{"QuantizeLinear", "DequantizeLinear"} {
		expansions[microsoft+op] = func(e *expansion) {
			e.add(op, e.n.Attrs, e.n.Outputs, e.n.Inputs...)
		}
	}
	for op, expand := range map[string]func(e *expansion){
		"QLinearConv": qLinearConv, "QGemm": qGemm, "QLinearConcat": qLinearConcat, "QLinearSoftmax": qLinearSoftmax,
		"QLinearAdd": qLinearPair("Add"), "QLinearMul": qLinearPair("Mul"),
		"QLinearAveragePool": qLinearOne("AveragePool"), "QLinearGlobalAveragePool": qLinearOne("GlobalAveragePool"),
		"QLinearLeakyRelu": qLinearOne("LeakyRelu"), "QLinearSigmoid": qLinearOne("Sigmoid"),
		"DynamicQuantizeMatMul": dynamicQuantizeMatMul, "MatMulIntegerToFloat": matMulIntegerToFloat,
		"MatMulNBits": matMulNBits,
	} {
		expansions[microsoft+op] = expand
	}
	for op, expand := range classical {
		expansions[onnx.Classical+"."+op] = expand
	}
}

const microsoft = "com.microsoft."

func expansionOf(n *onnx.Node) func(e *expansion) {
	if n.Domain == "" {
		return expansions[n.Op]
	}
	return expansions[n.Domain+"."+n.Op]
}

// expanded writes an operator of another domain by others; it reports false where n is another operator.
func (s *simplifier) expanded(n *onnx.Node) bool {
	expand := expansionOf(n)
	if expand == nil {
		return false
	}
	onnx.Require(!slices.Contains(n.Outputs, ""), "has an output without a name")
	e := &expansion{s: s, n: n}
	expand(e)
	s.kernels = n.Domain != onnx.Classical
	e.visit()
	s.kernels = false
	return true
}

func (e *expansion) visit() {
	for _, made := range e.made {
		if made.Origin = e.n.Origin; e.n.Origin != nil { // its operator set is the graph's, not that of another domain
			origin := *e.n.Origin
			origin.Opset = e.s.from
			made.Origin = &origin
		}
		e.s.visit(made)
	}
}

// in is the node's i-th input; "" where it has none.
func (e *expansion) in(i int) string { return e.n.Input(i) }

func (e *expansion) add(op string, attrs onnx.Attrs, outputs []string, inputs ...string) {
	e.made = append(e.made, &onnx.Node{Name: e.n.Name, Op: op, Attrs: maps.Clone(attrs), Outputs: outputs,
		Inputs: slices.Clone(inputs)})
}

func (e *expansion) op(op string, attrs onnx.Attrs, inputs ...string) string {
	out := e.s.g.Take(e.n.Outputs[0] + "/" + op)
	e.add(op, attrs, []string{out}, inputs...)
	return out
}

func (e *expansion) constant(t *onnx.Tensor) string {
	return e.s.g.AddConst(e.n.Outputs[0]+"/const", t)
}

// floats dequantises a tensor: per tensor, or with a scale for each index of an axis.
func (e *expansion) floats(x, scale, zero string, axis int64) string {
	return e.op("DequantizeLinear", onnx.Attrs{"axis": axis}, x, scale, zero)
}

// data dequantises the node's input i, whose scale and zero point follow it.
func (e *expansion) data(i int) string {
	return e.s.integer(e.floats(e.in(i), e.in(i+1), e.in(i+2), 1))
}

// done quantises the result x by the scale that is input i and the zero point behind it. Without a scale the node gives
// floats.
func (e *expansion) done(x string, i int) {
	if e.in(i) == "" {
		e.add("Identity", nil, e.n.Outputs[:1], x)
		return
	}
	e.add("QuantizeLinear", nil, e.n.Outputs[:1], e.s.integer(x), e.in(i), e.in(i+1))
}

// channelsFirst turns an image whose channels stand last, where the node says so, and turns the result back.
func (e *expansion) channelsFirst(x string, compute func(x string) string) string {
	if e.n.Int("channels_last", 0) == 0 {
		return compute(x)
	}
	rank := int64(len(e.s.g.Shapes[e.in(0)]))
	onnx.Require(rank > 2, "has channels last, and its input has the shape %v", e.s.g.Shapes[e.in(0)])
	first, last := []int64{0, rank - 1}, []int64{0}
	for i := int64(1); i < rank-1; i++ {
		first, last = append(first, i), append(last, i+1)
	}
	y := compute(e.op("Transpose", onnx.Attrs{"perm": first}, x))
	return e.op("Transpose", onnx.Attrs{"perm": append(last, 1)}, y)
}

// attrs are the node's attributes but some.
func (e *expansion) attrs(without ...string) onnx.Attrs {
	a := maps.Clone(e.n.Attrs)
	for _, name := range without {
		delete(a, name)
	}
	return a
}

// bias dequantises input b, a bias of int32. Its scale is the product of those of what it is added to, inputs x and w,
// and of by.
func (e *expansion) bias(b, x, w int, by float32) string {
	one := onnx.Sure(e.s.FloatsOf(e.n, x))
	scale := slices.Clone(onnx.Sure(e.s.FloatsOf(e.n, w)))
	onnx.Require(len(one) == 1, "has %d scales of its data", len(one))
	for i := range scale {
		scale[i] *= by * one[0]
	}
	return e.floats(e.in(b), e.constant(onnx.FloatTensor(e.s.g.Consts[e.in(w)].Shape, scale)), "", 0)
}

// x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B
func qLinearConv(e *expansion) {
	y := e.channelsFirst(e.data(0), func(x string) string {
		inputs := []string{x, e.floats(e.in(3), e.in(4), e.in(5), 0)}
		if e.in(8) != "" {
			inputs = append(inputs, e.bias(8, 1, 4, 1))
		}
		return e.op("Conv", e.attrs("channels_last"), inputs...)
	})
	e.done(y, 6)
}

// a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point
func qLinearMatMul(e *expansion) {
	e.done(e.op("MatMul", nil, e.data(0), e.columns(3, 4, 5)), 6)
}

// columns dequantises a matrix with one scale, or one for each column.
func (e *expansion) columns(b, scale, zero int) string {
	return e.floats(e.in(b), e.in(scale), e.in(zero), -1)
}

// A, a_scale, a_zero_point, B, b_scale, b_zero_point, C, y_scale, y_zero_point
func qGemm(e *expansion) {
	alpha := float32(1)
	if v, ok := e.n.Attrs["alpha"].(float32); ok {
		alpha = v
	}
	inputs := []string{e.data(0), e.floats(e.in(3), e.in(4), e.in(5), 1-e.n.Int("transB", 0))}
	if e.in(6) != "" { // C is of alpha·a_scale·b_scale
		inputs = append(inputs, e.bias(6, 1, 4, alpha))
	}
	e.done(e.op("Gemm", e.attrs(), inputs...), 7)
}

// A, A_scale, A_zero_point, B, B_scale, B_zero_point, C_scale, C_zero_point
func qLinearPair(op string) func(e *expansion) {
	return func(e *expansion) { e.done(e.op(op, nil, e.data(0), e.data(3)), 6) }
}

// X, x_scale, x_zero_point, y_scale, y_zero_point
func qLinearOne(op string) func(e *expansion) {
	return func(e *expansion) {
		y := e.channelsFirst(e.data(0), func(x string) string { return e.op(op, e.attrs("channels_last"), x) })
		e.done(y, 3)
	}
}

// Y_scale, Y_zero_point, then each input with its own
func qLinearConcat(e *expansion) {
	var parts []string
	for i := 2; i+2 < len(e.n.Inputs); i += 3 {
		parts = append(parts, e.data(i))
	}
	e.done(e.op("Concat", e.n.Attrs, parts...), 0)
}

// X, X_scale, x_zero_point, y_scale, y_zero_point
func qLinearSoftmax(e *expansion) {
	rank, first := int64(len(e.s.g.Shapes[e.in(0)])), int64(-1)
	old := e.n.Int("opset", 13) < 13
	if old {
		first = 1
	}
	axis := e.n.Int("axis", first)
	onnx.Require(!old || axis == -1 || axis == rank-1, "takes several axes as one, as before operator set 13")
	e.done(e.op("Softmax", onnx.Attrs{"axis": axis}, e.data(0)), 3)
}

// x, w, x_zero_point, w_zero_point. Its x holds the floats that a DynamicQuantizeLinear has left, or integers that a
// QuantizeLinear gives. axis belongs to weights with several zero points.
func integerProduct(op string, axis int64) func(e *expansion) {
	return func(e *expansion) {
		one := e.constant(onnx.Scalar(1))
		ones := one
		if zero := e.s.g.Consts[e.in(3)]; zero != nil && len(zero.Ints) > 1 {
			ones = e.constant(onnx.FloatTensor(zero.Shape, slices.Repeat([]float32{1}, len(zero.Ints))))
		}
		x, w := e.floats(e.in(0), one, e.in(2), 1), e.floats(e.in(1), ones, e.in(3), axis)
		e.add(op, e.n.Attrs, []string{e.s.integer(e.n.Outputs[0])}, x, w)
	}
}

// dynamicQuantizeLinear leaves x as it is, with the scale 1 and the zero point 0: ONNX Runtime takes the scale over the
// whole batch, so that an image's answer depends on its neighbours. The file itself is asked one image at a time.
func dynamicQuantizeLinear(e *expansion) {
	g := e.s.g
	onnx.Require(len(e.n.Outputs) == 3, "has %d outputs", len(e.n.Outputs))
	e.dynamic()
	e.s.dynamic[e.in(0)] = true
	scale, zero := onnx.Scalar(1), &onnx.Tensor{DType: onnx.Uint8, Shape: onnx.Shape{}, Ints: []int64{0}}
	for i, t := range []*onnx.Tensor{1: scale, 2: zero} {
		if t != nil && e.n.Outputs[i] != "" {
			g.Consts[e.n.Outputs[i]], g.Shapes[e.n.Outputs[i]] = t, t.Shape
		}
	}
	e.add("Identity", nil, e.n.Outputs[:1], e.in(0))
}

func (e *expansion) dynamic() {
	e.s.g.Notice(NoticeDynamic)
	e.s.g.Inexact = true
}

// A, B, b_scale, b_zero_point, bias
func dynamicQuantizeMatMul(e *expansion) {
	e.dynamic()
	e.biased(e.op("MatMul", nil, e.in(0), e.columns(1, 2, 3)), 4)
}

// A, B, a_scale, b_scale, a_zero_point, b_zero_point, bias
func matMulIntegerToFloat(e *expansion) {
	e.biased(e.op("MatMul", nil, e.floats(e.in(0), e.in(2), e.in(4), 1), e.columns(1, 3, 5)), 6)
}

func (e *expansion) biased(y string, i int) {
	if e.in(i) != "" {
		y = e.op("Add", nil, y, e.in(i))
	}
	e.add("Identity", nil, e.n.Outputs[:1], y)
}

// matMulNBits: A, B, scales, zero_points, g_idx, bias. B holds N rows of blocks along K, of so many bits each value,
// the low ones first.
func matMulNBits(e *expansion) {
	rows, inner := e.n.Int("N", 0), e.n.Int("K", 0)
	bits, block := e.n.Int("bits", 4), e.n.Int("block_size", 0)
	onnx.Require(bits == 2 || bits == 4 || bits == 8, "has weights of %d bits", bits)
	onnx.Require(e.in(4) == "", "reorders its blocks (g_idx), which is not supported")
	onnx.Require(rows > 0 && inner > 0 && block > 0, "lacks N, K or block_size")
	onnx.Must(onnx.Shape{inner, rows}.Check())
	onnx.Require(block >= 16 && block <= onnx.MaxDimension && block%16 == 0, "has blocks of %d values", block)
	packed, scales := e.s.g.Consts[e.in(1)], onnx.Sure(e.s.FloatsOf(e.n, 2))
	blocks, perByte := (inner+block-1)/block, 8/bits
	size := block / perByte
	onnx.Require(packed != nil && int64(len(packed.Ints)) == rows*blocks*size && int64(len(scales)) == rows*blocks,
		"its weights are no constants of N rows of K values")
	value := func(data []int64, i int64) int64 { return data[i/perByte] >> (i % perByte * bits) & (1<<bits - 1) }
	zero := func(int64, int64) float32 { return float32(int64(1) << (bits - 1)) }
	if e.in(3) != "" {
		given := e.s.g.Consts[e.in(3)]
		onnx.Require(given != nil, "its zero points must be constant")
		perRow := (blocks + perByte - 1) / perByte
		switch {
		case int64(len(given.Floats)) == rows*blocks:
			zero = func(row, k int64) float32 { return given.Floats[row*blocks+k] }
		case int64(len(given.Ints)) == rows*perRow:
			zero = func(row, k int64) float32 { return float32(value(given.Ints[row*perRow:], k)) }
		default:
			onnx.Refuse("has zero points of the shape %v", given.Shape)
		}
	}
	w := make([]float32, inner*rows) // [K N]
	for row := range rows {
		for k := range inner {
			at := row*blocks + k/block
			q := value(packed.Ints[at*size:], k%block)
			w[k*rows+row] = (float32(q) - zero(row, k/block)) * scales[at]
		}
	}
	e.s.g.Notice(fmt.Sprintf("weights of %d bits are dequantised", bits))
	e.s.g.Inexact = true
	e.biased(e.op("MatMul", nil, e.in(0), e.constant(onnx.FloatTensor(onnx.Shape{inner, rows}, w))), 5)
}
