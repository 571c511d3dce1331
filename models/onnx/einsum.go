package onnx

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// einsum is an equation with one letter for every dimension of the operands
// and the result; the dimensions of "..." have got letters of their own.
type einsum struct {
	in   [][]rune
	out  []rune
	size map[rune]int64
}

// ellipsis is the first letter of the dimensions that "..." stands for, of a
// private range: it meets none of the equation's.
const ellipsis = rune(0xE000)

// parseEinsum reads a node's equation for operands of the given shapes.
func parseEinsum(n *Node, shapes []Shape) (*einsum, error) {
	equation := strings.ReplaceAll(n.Str("equation", ""), " ", "")
	left, right, explicit := strings.Cut(equation, "->")
	terms := strings.Split(left, ",")
	if len(terms) != len(shapes) {
		return nil, fmt.Errorf("its equation %.60q has %d operands, the node %d", equation, len(terms), len(shapes))
	}
	for _, t := range append(slices.Clone(terms), right) {
		if strings.ContainsFunc(strings.Replace(t, "...", "", 1), func(l rune) bool { return l > unicode.MaxASCII || !unicode.IsLetter(l) }) {
			return nil, fmt.Errorf("its equation %.60q can't be read", equation)
		}
	}
	wide := 0 // the most dimensions that "..." stands for
	for i, t := range terms {
		if before, after, ok := strings.Cut(t, "..."); ok {
			wide = max(wide, len(shapes[i])-len(before)-len(after))
		}
	}
	expand := func(term string, dims int) []rune {
		extra := []rune{}
		for i := wide - max(dims, 0); i < wide; i++ {
			extra = append(extra, ellipsis+rune(i))
		}
		return []rune(strings.Replace(term, "...", string(extra), 1))
	}
	e := &einsum{size: map[rune]int64{}}
	for i, t := range terms {
		labels := expand(t, len(shapes[i])-len(strings.Replace(t, "...", "", 1)))
		if len(labels) != len(shapes[i]) {
			return nil, fmt.Errorf("its equation %.60q has %d indices for an operand of shape %v", equation, len(labels), shapes[i])
		}
		for k, l := range labels {
			switch d, ok := e.size[l]; {
			case slices.Contains(labels[:k], l):
				return nil, fmt.Errorf("its equation %.60q takes a diagonal (an index twice in one operand), which is not supported", equation)
			case ok && d != shapes[i][k]:
				return nil, fmt.Errorf("its equation %.60q gives index %q the sizes %d and %d", equation, l, d, shapes[i][k])
			}
			e.size[l] = shapes[i][k]
		}
		e.in = append(e.in, labels)
	}
	if explicit {
		e.out = expand(right, wide)
	} else { // the indices of "...", then those that occur once, in alphabetical order
		once := []rune{}
		for l := range e.size {
			if l < ellipsis && strings.Count(left, string(l)) == 1 {
				once = append(once, l)
			}
		}
		slices.Sort(once)
		e.out = append(expand("...", wide), once...)
	}
	for k, l := range e.out {
		if _, ok := e.size[l]; !ok || slices.Contains(e.out[:k], l) {
			return nil, fmt.Errorf("its equation %.60q can't be read", equation)
		}
	}
	return e, nil
}

func einsumShape(_ *inference, n *Node, in []Shape) ([]Shape, error) {
	e, err := parseEinsum(n, in)
	if err != nil {
		return nil, err
	}
	return []Shape{e.shape(e.out)}, nil
}

func (e *einsum) shape(labels []rune) Shape {
	s := make(Shape, len(labels))
	for i, l := range labels {
		s[i] = e.size[l]
	}
	return s
}

// lowerEinsum writes a contraction as MatMuls, from left to right, which have
// gradients and results that do not depend on the batch.
func lowerEinsum(s *simplifier, b *Builder, n *Node) (string, error) {
	if slices.Contains(n.Inputs, "") {
		return "", errors.New("has an input without a name")
	}
	shapes := []Shape{}
	for _, in := range n.Inputs {
		shapes = append(shapes, s.g.Shapes[in])
	}
	e, err := parseEinsum(n, shapes)
	if err != nil {
		return "", err
	}
	for l, d := range e.size {
		if d < 0 && !slices.Contains(e.out, l) {
			return "", errors.New("sums over the batch")
		}
	}
	t, labels := n.Inputs[0], e.in[0]
	for i := 1; i < len(n.Inputs); i++ {
		later := slices.Clone(e.out) // indices that are still needed
		for _, in := range e.in[i+1:] {
			later = append(later, in...)
		}
		t, labels = e.contract(b, t, labels, n.Inputs[i], e.in[i], later)
	}
	t, labels = e.sumOut(b, t, labels, e.out)
	return e.order(b, t, labels, e.out), nil
}

// sumOut sums over the indices that are not in keep.
func (e *einsum) sumOut(b *Builder, t string, labels, keep []rune) (string, []rune) {
	axes, kept := []int64{}, []rune{}
	for i, l := range labels {
		if slices.Contains(keep, l) {
			kept = append(kept, l)
		} else {
			axes = append(axes, int64(i))
		}
	}
	if len(axes) == 0 {
		return t, labels
	}
	return b.Reshape(b.Sum(t, axes), e.shape(kept)), kept
}

// order turns a tensor with dimensions from into one with dimensions to.
func (e *einsum) order(b *Builder, t string, from, to []rune) string {
	perm := make([]int64, len(to))
	for i, l := range to {
		perm[i] = int64(slices.Index(from, l))
	}
	if slices.IsSorted(perm) {
		return t
	}
	return b.OpWith("Transpose", Attrs{"perm": perm}, t)
}

// contract multiplies two operands and sums over the indices that both have and
// later does not, and returns the product and its indices.
func (e *einsum) contract(b *Builder, x string, xl []rune, y string, yl, later []rune) (string, []rune) {
	x, xl = e.sumOut(b, x, xl, slices.Concat(yl, later))
	y, yl = e.sumOut(b, y, yl, slices.Concat(xl, later))
	var shared, sum, rows, columns []rune
	for _, l := range xl {
		switch {
		case !slices.Contains(yl, l):
			rows = append(rows, l)
		case slices.Contains(later, l):
			shared = append(shared, l)
		default:
			sum = append(sum, l)
		}
	}
	for _, l := range yl {
		if !slices.Contains(xl, l) {
			columns = append(columns, l)
		}
	}
	if len(sum) == 0 {
		return e.product(b, x, xl, y, yl, columns)
	}
	// As matrices [shared…, rows, sum] and [shared…, sum, columns].
	x = e.order(b, x, xl, slices.Concat(shared, rows, sum))
	y = e.order(b, y, yl, slices.Concat(shared, sum, columns))
	merged := func(labels []rune) Shape {
		d := e.shape(labels)
		if d.HasBatch() {
			return Shape{-d.Items()} // a multiple of the batch
		}
		return Shape{d.Items()}
	}
	left := merged(rows)
	if len(shared) == 0 && len(rows) > 0 {
		left = e.shape(rows) // MatMul takes them as they are
	}
	x = b.Reshape(x, slices.Concat(e.shape(shared), left, merged(sum)))
	y = b.Reshape(y, slices.Concat(e.shape(shared), merged(sum), merged(columns)))
	all := slices.Concat(shared, rows, columns)
	return b.Reshape(b.Op("MatMul", x, y), e.shape(all)), all
}

// product is contract where nothing is summed: y spread over the dimensions of x,
// and x over those that only y has, the columns.
func (e *einsum) product(b *Builder, x string, xl []rune, y string, yl, columns []rune) (string, []rune) {
	var order []rune
	var spread Shape
	for _, l := range xl {
		if slices.Contains(yl, l) {
			order, spread = append(order, l), append(spread, e.size[l])
		} else if len(order) > 0 || len(columns) > 0 { // leading 1s go without saying
			spread = append(spread, 1)
		}
	}
	y = e.order(b, y, yl, append(order, columns...))
	y = b.Reshape(y, append(spread, e.shape(columns)...))
	x = b.Reshape(x, append(e.shape(xl), slices.Repeat(Shape{1}, len(columns))...))
	return b.Op("Mul", x, y), slices.Concat(xl, columns)
}
