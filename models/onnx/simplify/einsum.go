package simplify

import (
	"slices"

	"selfheal/models/onnx"
)

// lowerEinsum writes a contraction as MatMuls, from left to right, which have
// gradients and results that do not depend on the batch.
func lowerEinsum(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	onnx.Require(!slices.Contains(n.Inputs, ""), "has an input without a name")
	e := onnx.ParseEinsum(n, onnx.Each(n.Inputs, func(in string) onnx.Shape { return s.g.Shapes[in] }))
	c := contraction{e, b}
	t, labels := n.Inputs[0], e.In[0]
	for i := 1; i < len(n.Inputs); i++ {
		later := slices.Clone(e.Out) // indices that are still needed
		for _, in := range e.In[i+1:] {
			later = append(later, in...)
		}
		t, labels = c.contract(t, labels, n.Inputs[i], e.In[i], later)
	}
	t, labels = c.sumOut(t, labels, e.Out)
	return c.order(t, labels, e.Out)
}

type contraction struct {
	*onnx.Einsum
	*onnx.Builder
}

func (e contraction) sumOut(t string, labels, keep []rune) (string, []rune) {
	gone := without(labels, keep)
	if len(gone) == 0 {
		return t, labels
	}
	axes := onnx.Each(gone, func(l rune) int64 { return int64(slices.Index(labels, l)) })
	kept := without(labels, gone)
	return e.Reshape(e.Sum(t, axes), e.Sizes(kept)), kept
}

func without(labels, others []rune) []rune {
	return slices.DeleteFunc(slices.Clone(labels), func(l rune) bool { return slices.Contains(others, l) })
}

// order turns a tensor with dimensions from into one with dimensions to.
func (e contraction) order(t string, from, to []rune) string {
	return e.Transpose(t, onnx.Each(to, func(l rune) int64 { return int64(slices.Index(from, l)) })...)
}

// contract multiplies two operands and sums over the indices that both have and
// later does not, and returns the product and its indices.
func (e contraction) contract(x string, xl []rune, y string, yl, later []rune) (string, []rune) {
	x, xl = e.sumOut(x, xl, slices.Concat(yl, later))
	y, yl = e.sumOut(y, yl, slices.Concat(xl, later))
	rows, columns := without(xl, yl), without(yl, xl)
	both := without(xl, rows)
	sum := without(both, later)
	shared := without(both, sum)
	if len(sum) == 0 {
		return e.product(x, xl, y, yl, columns)
	}
	// As matrices [shared…, rows, sum] and [shared…, sum, columns].
	x = e.order(x, xl, slices.Concat(shared, rows, sum))
	y = e.order(y, yl, slices.Concat(shared, sum, columns))
	merged := func(labels []rune) onnx.Shape {
		d := e.Sizes(labels)
		if d.HasBatch() {
			return onnx.Shape{-d.Items()} // a multiple of the batch
		}
		return onnx.Shape{d.Items()}
	}
	left := merged(rows)
	if len(shared) == 0 && len(rows) > 0 {
		left = e.Sizes(rows) // MatMul takes them as they are
	}
	x = e.Reshape(x, slices.Concat(e.Sizes(shared), left, merged(sum)))
	y = e.Reshape(y, slices.Concat(e.Sizes(shared), merged(sum), merged(columns)))
	all := slices.Concat(shared, rows, columns)
	return e.Reshape(e.Op("MatMul", x, y), e.Sizes(all)), all
}

// product is contract where nothing is summed: y spread over the dimensions of x,
// and x over those that only y has, the columns.
func (e contraction) product(x string, xl []rune, y string, yl, columns []rune) (string, []rune) {
	var order []rune
	var spread onnx.Shape
	for _, l := range xl {
		if slices.Contains(yl, l) {
			order, spread = append(order, l), append(spread, e.Size[l])
		} else if len(order) > 0 || len(columns) > 0 { // leading 1s go without saying
			spread = append(spread, 1)
		}
	}
	y = e.order(y, yl, append(order, columns...))
	y = e.Reshape(y, append(spread, e.Sizes(columns)...))
	x = e.Reshape(x, append(e.Sizes(xl), slices.Repeat(onnx.Shape{1}, len(columns))...))
	return e.Op("Mul", x, y), slices.Concat(xl, columns)
}
