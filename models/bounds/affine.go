package bounds

import (
	"math"
	"slices"

	"selfheal/models/onnx"
)

// affine describes an operator that is affine in one of its inputs, or in all of them together.
type affine struct {
	// inputs are the inputs that may depend on the network's input; the others must be constants. An operator with
	// joint inputs is affine in all of them together. nil: the first alone.
	inputs []int
	joint  bool
	// terms counts the products that are added up for one value of the output, and for one of the input's cotangent;
	// nil: one.
	terms func(g *onnx.Graph, n *onnx.Node) (forward, backward int64)
	exact bool // it moves values and computes none
	// weighs is set if the terms are products with a constant's values: a factor of 0 gives no term, since adding 0 is
	// exact.
	weighs bool
	only   func(n *onnx.Node) bool // reports whether the node's form is allowed; nil: any
	added  []int                   // constant inputs that are added, not multiplied
	// sized writes the operator with the absolute values of its coefficients, see [sizes]; nil: with those of its
	// constants.
	sized func(s *sizes, n *onnx.Node, in []string) string
}

// affineOperators is the table of affine operators. Backwards they use the gradient's rules.
var affineOperators map[string]affine

func init() {
	moves := affine{exact: true}
	sums := affine{inputs: []int{0, 1}, joint: true, added: []int{0, 1},
		sized: func(s *sizes, n *onnx.Node, in []string) string { return s.Op("Add", in...) }}
	pool := affine{terms: func(_ *onnx.Graph, n *onnx.Node) (forward, backward int64) {
		k := onnx.Shape(n.Ints("kernel_shape", nil)).Items()
		return k, k
	}}
	affineOperators = map[string]affine{
		"Conv":               {terms: convTerms, weighs: true, added: []int{2}},
		"ConvTranspose":      {terms: convTerms, weighs: true, added: []int{2}},
		"Gemm":               {terms: gemmTerms, weighs: true, added: []int{2}, sized: sizedGemm},
		"MatMul":             {inputs: []int{0, 1}, weighs: true, terms: matMulTerms},
		"BatchNormalization": {sized: sizedBatchNormalization},
		"Add":                sums, "Sub": sums,
		"Mul": {inputs: []int{0, 1}}, "Div": {},
		"Neg":      {exact: true, sized: func(_ *sizes, _ *onnx.Node, in []string) string { return in[0] }},
		"Identity": moves, "Transpose": moves, "Slice": moves, "Split": moves, "Expand": moves, "Tile": moves,
		"Gather": moves, "DepthToSpace": moves, "SpaceToDepth": moves, "Trilu": moves,
		"Pad":               {exact: true, added: []int{2}},
		"Concat":            {joint: true, exact: true},
		"AveragePool":       pool,
		"GlobalAveragePool": {terms: itemTerms},
		"CumSum":            {terms: itemTerms},
		"Resize": {terms: itemTerms, only: func(n *onnx.Node) bool {
			return n.Str("mode", "nearest") != "cubic" // cubic has negative coefficients
		}},
	}
}

// affineOf returns the row of a node that is affine in the tensors that depend on the network's input; ok is false for
// other nodes.
func affineOf(g *onnx.Graph, n *onnx.Node, active map[string]bool) (affine, bool) {
	row, ok := affineOperators[n.Op]
	if onnx.TraitsOf(n.Op).Relabels {
		row, ok = affine{exact: true}, true
	}
	if !ok || row.only != nil && !row.only(n) {
		return row, false
	}
	count := 0
	for i, in := range n.Inputs {
		if !active[in] {
			if _, ok := g.Consts[in]; !ok && in != "" {
				return row, false
			}
			continue
		}
		count++
		if n.Op != "Concat" && !slices.Contains(row.inputs, i) && (i > 0 || row.inputs != nil) {
			return row, false
		}
	}
	return row, count == 1 || row.joint
}

// convTerms counts the taps of a kernel times the channels of a group, of the input and of the output.
func convTerms(g *onnx.Graph, n *onnx.Node) (forward, backward int64) {
	w, group := g.Shapes[n.Inputs[1]], n.Int("group", 1)
	forward, backward = w[1:].Items(), w[0]/group*w[2:].Items()
	if n.Op == "ConvTranspose" {
		return backward, forward
	}
	return forward, backward
}

func gemmTerms(g *onnx.Graph, n *onnx.Node) (forward, backward int64) {
	w := g.Shapes[n.Inputs[1]]
	if n.Int("transB", 0) == 1 {
		return w[1], w[0]
	}
	return w[0], w[1]
}

// matMulTerms returns the common dimension and the constant's other one; for a batch of its own, the
// larger.
func matMulTerms(g *onnx.Graph, n *onnx.Node) (forward, backward int64) {
	x, y := g.Shapes[n.Inputs[0]], g.Shapes[n.Inputs[1]]
	_, right := g.Consts[n.Inputs[1]]
	switch {
	case right && len(y) == 2:
		return y[0], y[1]
	case !right && len(x) == 2:
		return x[1], x[0]
	}
	most := max(1, slices.Max(slices.Concat(x, y, g.Shapes[n.Outputs[0]])))
	return most, most
}

// itemTerms bounds the terms of an operator that adds up values of an item.
func itemTerms(g *onnx.Graph, n *onnx.Node) (forward, backward int64) {
	x, y := g.Shapes[n.Inputs[0]].Items(), g.Shapes[n.Outputs[0]].Items()
	if n.Op == "CumSum" {
		return x, x
	}
	return 16 + x/y, 16 + y/x
}

// sizes writes affine operators with the absolute values of their coefficients, |f|. For an input with values up to X
// the outputs are at most |f|(X), and at most |f|(X) + |f(0)| with the constants that are added.
type sizes struct {
	*onnx.Builder
	added bool // include the constants that are added
	count bool // replace each coefficient other than 0 by 1
}

// write appends the node in this form, for the given inputs.
func (s *sizes) write(row affine, n *onnx.Node, in []string, active map[string]bool) []string {
	for i, name := range n.Inputs {
		if active[name] || name == "" {
			continue
		}
		in[i] = name
		t, ok := s.G.Consts[name]
		if !ok || t.DType != onnx.Float {
			continue
		}
		in[i] = s.Const(s.coefficients(t))
		if !s.added && (n.Op == "Concat" || slices.Contains(row.added, i)) {
			in[i] = s.Const(onnx.Filled(0, t.Shape...))
		}
	}
	if row.sized != nil {
		return []string{row.sized(s, n, in)}
	}
	return s.Multi(n.Op, n.Attrs, len(n.Outputs), in...)
}

func (s *sizes) coefficients(t *onnx.Tensor) *onnx.Tensor {
	return onnx.FloatTensor(t.Shape, onnx.Each(t.Floats, func(v float32) float32 {
		if s.count && v != 0 {
			return 1
		}
		return max(v, -v)
	}))
}

func sizedGemm(s *sizes, n *onnx.Node, in []string) string {
	attrs := onnx.Attrs{"transA": n.Int("transA", 0), "transB": n.Int("transB", 0)}
	for _, name := range []string{"alpha", "beta"} {
		if s.count {
			break
		}
		attrs[name] = float32(math.Abs(float64(n.Float(name, 1))))
	}
	return s.OpWith("Gemm", attrs, in...)
}

// sizedBatchNormalization writes |s·r|·X + |s·r·μ| + |b|.
func sizedBatchNormalization(s *sizes, n *onnx.Node, in []string) string {
	parameter := func(i, c int) float64 { return float64(s.G.Consts[n.Inputs[i]].Floats[c]) }
	scale := make([]float32, s.G.Consts[n.Inputs[1]].Len())
	offset := slices.Clone(scale)
	for c := range scale {
		f := math.Abs(parameter(1, c) / math.Sqrt(parameter(4, c)+float64(n.Float("epsilon", 1e-5))))
		scale[c], offset[c] = float32(f), float32(f*math.Abs(parameter(3, c))+math.Abs(parameter(2, c)))
	}
	column := append(onnx.Shape{int64(len(scale))}, slices.Repeat(onnx.Shape{1}, len(s.Shape(in[0]))-2)...)
	y := s.Op("Mul", in[0], s.Const(onnx.FloatTensor(column, scale)))
	if s.added {
		y = s.Op("Add", y, s.Const(onnx.FloatTensor(column, offset)))
	}
	return y
}
