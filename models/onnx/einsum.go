package onnx

import (
	"slices"
	"strings"
	"unicode"
)

// Einsum is an equation with one letter for every dimension of the operands and the result; it names the dimensions of
// "..." by letters too.
type Einsum struct {
	In   [][]rune
	Out  []rune
	Size map[rune]int64
}

// ellipsis is the first letter for the dimensions of "...", from a private range, so that it differs from the
// equation's letters.
const ellipsis = rune(0xE000)

// ParseEinsum reads a node's equation for operands of the given shapes, or refuses the node.
func ParseEinsum(n *Node, shapes []Shape) *Einsum {
	equation := strings.ReplaceAll(n.Str("equation", ""), " ", "")
	left, right, explicit := strings.Cut(equation, "->")
	terms := strings.Split(left, ",")
	operands := len(shapes)
	Require(len(terms) == operands, "its equation %.60q has %d operands, the node %d", equation, len(terms), operands)
	for _, t := range append(slices.Clone(terms), right) {
		other := func(l rune) bool { return l > unicode.MaxASCII || !unicode.IsLetter(l) }
		Require(!strings.ContainsFunc(strings.Replace(t, "...", "", 1), other), "its equation %.60q can't be read",
			equation)
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
	e := &Einsum{Size: map[rune]int64{}}
	for i, t := range terms {
		labels := expand(t, len(shapes[i])-len(strings.Replace(t, "...", "", 1)))
		Require(len(labels) == len(shapes[i]), "its equation %.60q has %d indices for an operand of shape %v", equation,
			len(labels), shapes[i])
		for k, l := range labels {
			d, seen := e.Size[l]
			Require(!slices.Contains(labels[:k], l), "its equation %.60q takes a diagonal (an index twice in one "+
				"operand), which is not supported", equation)
			Require(!seen || d == shapes[i][k], "its equation %.60q gives index %q the sizes %d and %d", equation, l, d,
				shapes[i][k])
			e.Size[l] = shapes[i][k]
		}
		e.In = append(e.In, labels)
	}
	if explicit {
		e.Out = expand(right, wide)
	} else { // the indices of "...", then those that occur once, in alphabetical order
		once := []rune{}
		for l := range e.Size {
			if l < ellipsis && strings.Count(left, string(l)) == 1 {
				once = append(once, l)
			}
		}
		slices.Sort(once)
		e.Out = append(expand("...", wide), once...)
	}
	for k, l := range e.Out {
		_, ok := e.Size[l]
		Require(ok && !slices.Contains(e.Out[:k], l), "its equation %.60q can't be read", equation)
	}
	return e
}

func einsumShape(_ *Inference, n *Node, in []Shape) []Shape {
	e := ParseEinsum(n, in)
	for l, d := range e.Size {
		Require(d >= 0 || slices.Contains(e.Out, l), "sums over the batch")
	}
	return []Shape{e.Sizes(e.Out)}
}

// Sizes returns the shape of a tensor with these indices.
func (e *Einsum) Sizes(labels []rune) Shape {
	return Each(labels, func(l rune) int64 { return e.Size[l] })
}
