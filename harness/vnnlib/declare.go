package vnnlib

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"selfheal/models/onnx"
)

// tensor is a declared input or output in a file of VNN-LIB's version 2: (declare-input X float32 [1,3]).
type tensor struct {
	name, element string
	shape         []int
	kind          byte // 'X', 'Y', or 'H' for one between layers
	first, values int  // its first value among those of its kind, and their number
}

// elements are the element types that a declaration may name.
var elements = []string{"Real", "float32", "float16", "bfloat16", "float64"}

// version reads (vnnlib-version <2.0>).
func (p *parser) version() {
	word := p.word()
	major, _, ok := strings.Cut(strings.Trim(word, "<>"), ".")
	if n, err := strconv.Atoi(major); !ok || err != nil || n < 1 || n > 2 || !strings.HasPrefix(word, "<") {
		p.fail("is of version %.40q; <1.0> and <2.0> are known", word)
	}
	p.close("a version")
}

// network reads a network's declaration with its tensors.
func (p *parser) network() {
	name := p.word()
	if p.tensors != nil {
		p.fail("declares a second network, %.40s; one can be asked about", name)
	}
	p.tensors, p.names, p.values = []tensor{}, map[string]int{}, map[byte]int{}
	for p.more() {
		if word := p.word(); word != "(" {
			p.fail("declares %.40q in a network", word)
		}
		switch what := p.word(); what {
		case "declare-input", "declare-output", "declare-hidden":
			p.tensor(what)
		default:
			p.fail("unknown declaration %.40q", what)
		}
	}
}

func (p *parser) of(kind byte) []tensor {
	return slices.DeleteFunc(slices.Clone(p.tensors), func(t tensor) bool { return t.kind != kind })
}

// sizeOf returns the size of a network's inputs and of the outputs asked about: the first one, or all that are
// declared.
func (p *parser) sizeOf(net *onnx.Graph, in []onnx.Value) size {
	values := func(v onnx.Value) int { return int(v.Shape.Items()) }
	inputs, outputs := onnx.Each(in, values), onnx.Each(net.Outputs, values)
	if p.tensors == nil {
		return newSize(inputs, outputs[:1])
	}
	asked, answers := len(p.of('X')), len(p.of('Y'))
	if asked != len(inputs) {
		p.fail("declares %d inputs, the network has %d", asked, len(inputs))
	}
	if answers == 0 || answers > 1 && answers != len(outputs) {
		p.fail("declares %d outputs, the network has %d", answers, len(outputs))
	}
	return newSize(inputs, outputs[:min(max(answers, 1), len(outputs))])
}

// fits compares the declared tensors with the network's.
func (p *parser) fits() {
	for _, kind := range []struct {
		of          byte
		what        string
		values      []int
		declaration []bool
	}{{'X', "input", p.size.each[0], p.inputs}, {'Y', "output", p.size.each[1], p.outputs}} {
		for i, t := range p.of(kind.of) {
			if t.values != kind.values[i] {
				p.fail("%.40s has %d values, the network's %s %d", t.name, t.values, kind.what, kind.values[i])
				return
			}
			for k := range t.values {
				kind.declaration[t.first+k] = true
			}
		}
	}
}

// tensor reads the rest of a tensor's declaration.
func (p *parser) tensor(what string) {
	t := tensor{name: p.word(), element: p.word(), kind: map[string]byte{"declare-input": 'X', "declare-output": 'Y',
		"declare-hidden": 'H'}[what]}
	if p.named(t.name) != nil {
		p.fail("%.40s is declared twice", t.name)
	}
	if !slices.Contains(elements, t.element) {
		p.fail("%.40s has elements of the type %.40q; %s are known", t.name, t.element, strings.Join(elements, ", "))
	}
	t.shape = p.indices()
	if slices.Contains(t.shape, 0) {
		p.fail("%.40s has a dimension of 0", t.name)
	}
	if t.kind == 'H' {
		p.word() // the node's name
	} else if t.kind == 'X' && p.skip("initialized") {
		p.fail("%.40s has its value from the file; inputs are to vary", t.name)
	}
	t.values = 1
	for _, d := range t.shape {
		t.values = min(t.values*min(d, mostAtoms), mostAtoms)
	}
	if len(p.tensors) == mostTensors {
		p.fail("declares more than %d tensors", mostTensors)
	}
	t.first = p.values[t.kind]
	p.values[t.kind] += t.values
	p.names[t.name] = len(p.tensors)
	p.tensors = append(p.tensors, t)
	p.close("a tensor's declaration")
}

// named returns the tensor with a name, or nil.
func (p *parser) named(name string) *tensor {
	if i, ok := p.names[name]; ok {
		return &p.tensors[i]
	}
	return nil
}

// mostRank bounds the dimensions of a tensor.
const mostRank = 16

// indices reads [1,3,32,32]; [] is a scalar.
func (p *parser) indices() (all []int) {
	if word := p.word(); word != "[" {
		p.fail("wants [ before numbers, not %.40q", word)
	}
	for p.failed == nil && !p.skip("]") {
		if len(all) > 0 && !p.skip(",") {
			p.fail("wants a comma between numbers, not %.40q", p.peek())
		}
		word := p.word()
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 || len(all) == mostRank {
			p.fail("%.40q is not an index", word)
		}
		all = append(all, n)
	}
	return all
}

// element returns an element of a tensor, whose values are in row-major order.
func (p *parser) element(t *tensor) (s sum) {
	var at []int
	if p.peek() == "[" {
		at = p.indices()
	}
	if len(at) != len(t.shape) {
		p.fail("%.40s has %d dimensions, not %d", t.name, len(t.shape), len(at))
		return s
	}
	index := 0 // in the tensor
	for i, k := range at {
		if k >= t.shape[i] {
			p.fail("%.40s has no index %d in dimension %d, which has %d", t.name, k, i, t.shape[i])
			return s
		}
		index = index*t.shape[i] + k
	}
	switch t.kind {
	case 'X':
		s.x = []term{{t.first + index, 1}}
	case 'Y':
		s.y = []term{{t.first + index, 1}}
	default:
		p.fail("%.40s lies between layers; inputs and outputs can be asked about", t.name)
	}
	return s
}

// point reads the inputs of a counterexample from the form of [Result.String].
func (p *property) point(text string) (x []float32, ok bool) {
	read := func(word string) bool {
		v, err := strconv.ParseFloat(word, 32)
		x = append(x, float32(v))
		return err == nil
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("() \t\r\n", r) })
	if len(words) == 0 || words[0] != string(sat) {
		return nil, false
	}
	words = words[1:]
	if p.tensors == nil {
		for i := range p.inputs {
			if len(words) < 2 || words[0] != fmt.Sprintf("X_%d", i) || !read(words[1]) {
				return nil, false
			}
			words = words[2:]
		}
		return x, true
	}
	for _, t := range p.tensors {
		if t.kind == 'H' {
			continue
		}
		end := 3 + t.values
		if len(words) < end || words[0] != t.name {
			return nil, false
		}
		for _, word := range words[3:end] {
			if t.kind == 'X' && !read(word) {
				return nil, false
			}
		}
		words = words[end:]
	}
	return x, len(x) == p.inputs
}

// assigned writes a counterexample in version 2's form: each tensor, followed by its values.
func (r Result) assigned(out *strings.Builder) {
	for _, t := range r.tensors {
		shape := strings.ReplaceAll(fmt.Sprint(t.shape), " ", ",")
		if t.kind == 'H' {
			continue
		}
		fmt.Fprintf(out, "%s %s %s\n", t.name, t.element, shape)
		if t.kind == 'X' {
			for _, v := range r.x[t.first:][:t.values] {
				fmt.Fprintf(out, "%.9g\n", v)
			}
			continue
		}
		for _, v := range r.y[t.first:][:t.values] {
			fmt.Fprintf(out, "%.*g\n", digits(v), v)
		}
	}
}
