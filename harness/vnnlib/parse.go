// Package vnnlib answers questions of the neural-network verification competition: VNN-LIB files, which ask for an
// input of a network that a property forbids.
package vnnlib

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"selfheal/internal/input"
)

// Property is what a VNN-LIB file asks for: an input in one of the cases. Without one the property holds.
type Property struct {
	Inputs, Outputs int // declared: X_0 …, Y_0 …
	Cases           []Case
}

// Case is a conjunction: a box of inputs, and linear constraints on the outputs.
type Case struct {
	Lower, Upper []float64
	Constraints  []Constraint
}

// Constraint is Σ Row·Y ≤ Bound, or < where it is strict.
type Constraint struct {
	Row    []float64
	Bound  float64
	Strict bool
}

// What a file may hold at most. A disjunction of conjunctions grows by multiplication.
const (
	mostCases = 100_000
	mostAtoms = 10_000_000
)

// atom is Σ x·X + Σ y·Y ≤ bound.
type atom struct {
	x, y   map[int]float64
	bound  float64
	strict bool
}

// parser reads a file's assertions.
type parser struct {
	inputs, outputs map[int]bool
	cases           [][]atom // a disjunction of conjunctions
	atoms           int
}

// mostBytes bounds a file, also unpacked.
const mostBytes = 1 << 30

// Read reads a VNN-LIB file, also one packed by gzip. Errors name the file.
func Read(path string) (*Property, error) {
	data, err := input.Read(path, mostBytes)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		packed, err := gzip.NewReader(bytes.NewReader(data))
		if err == nil {
			data, err = io.ReadAll(io.LimitReader(packed, mostBytes+1))
		}
		if err == nil && len(data) > mostBytes {
			err = errors.New("is larger than 1 GB")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	p, err := Parse(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// Parse reads the text of a VNN-LIB file. Errors name the line.
func Parse(text string) (*Property, error) {
	r := &reader{text: text, line: 1}
	p := &parser{inputs: map[int]bool{}, outputs: map[int]bool{}, cases: [][]atom{nil}}
	for {
		t, ok, err := r.term(0)
		if err != nil {
			return nil, err
		}
		if !ok {
			return p.property()
		}
		if err := p.command(t); err != nil {
			return nil, fmt.Errorf("line %d: %w", t.line, err)
		}
	}
}

func (p *parser) command(t term) error {
	if len(t.list) == 0 {
		return errors.New("wants a command in parentheses")
	}
	switch name := t.list[0].word; {
	case name == "declare-const" && len(t.list) == 3:
		return p.declare(t.list[1].word, t.list[2].word)
	case name == "declare-fun" && len(t.list) == 4 && len(t.list[2].list) == 0:
		return p.declare(t.list[1].word, t.list[3].word)
	case name == "assert" && len(t.list) == 2:
		cases, err := p.formula(t.list[1])
		if err != nil {
			return err
		}
		p.cases, err = p.product(p.cases, cases)
		return err
	case slices.Contains([]string{"set-logic", "set-info", "set-option", "check-sat", "get-model", "exit"}, name):
		return nil
	default:
		return fmt.Errorf("unknown command %.40q", name)
	}
}

// variable reads X_3 or Y_0.
func variable(word string) (kind byte, index int, ok bool) {
	kinds, number, found := strings.Cut(word, "_")
	if !found || kinds != "X" && kinds != "Y" || number != "0" && strings.HasPrefix(number, "0") {
		return 0, 0, false
	}
	index, err := strconv.Atoi(number)
	return kinds[0], index, err == nil && index >= 0
}

func (p *parser) declare(name, sort string) error {
	kind, index, ok := variable(name)
	if !ok {
		return fmt.Errorf("declares %.40q; inputs are X_0, X_1, … and outputs Y_0, Y_1, …", name)
	}
	if sort != "Real" {
		return fmt.Errorf("%s is declared as %.40q, not Real", name, sort)
	}
	known := p.inputs
	if kind == 'Y' {
		known = p.outputs
	}
	if known[index] {
		return fmt.Errorf("%s is declared twice", name)
	}
	known[index] = true
	return nil
}

// product combines two disjunctions of conjunctions into one.
func (p *parser) product(a, b [][]atom) ([][]atom, error) {
	if len(a)*len(b) > mostCases {
		return nil, fmt.Errorf("has more than %d cases", mostCases)
	}
	if len(a) == 1 && len(b) == 1 { // the usual one, which must not be quadratic
		return [][]atom{append(a[0], b[0]...)}, nil
	}
	var out [][]atom
	for _, one := range a {
		for _, other := range b {
			if p.atoms += len(one) + len(other); p.atoms > mostAtoms {
				return nil, fmt.Errorf("has more than %d constraints", mostAtoms)
			}
			out = append(out, slices.Concat(one, other))
		}
	}
	return out, nil
}

// formula reads and, or, and comparisons.
func (p *parser) formula(t term) ([][]atom, error) {
	if len(t.list) == 0 {
		return nil, fmt.Errorf("wants a formula, not %.40q", t.word)
	}
	switch name := t.list[0].word; name {
	case "and":
		all := [][]atom{nil}
		for _, inner := range t.list[1:] {
			cases, err := p.formula(inner)
			if err == nil {
				all, err = p.product(all, cases)
			}
			if err != nil {
				return nil, err
			}
		}
		return all, nil
	case "or":
		var all [][]atom
		for _, inner := range t.list[1:] {
			cases, err := p.formula(inner)
			if err != nil {
				return nil, err
			}
			if all = append(all, cases...); len(all) > mostCases {
				return nil, fmt.Errorf("has more than %d cases", mostCases)
			}
		}
		return all, nil
	case "<=", ">=", "<", ">", "=":
		if len(t.list) != 3 {
			return nil, fmt.Errorf("%s compares %d values, not two", name, len(t.list)-1)
		}
		return p.comparison(name, t.list[1], t.list[2])
	default:
		return nil, fmt.Errorf("unknown operator %.40q", name)
	}
}

// comparison reads a comparison of two linear terms. That of an input is taken as not strict: boxes have their border.
func (p *parser) comparison(name string, left, right term) ([][]atom, error) {
	a, err := p.linear(left, 0)
	if err != nil {
		return nil, err
	}
	b, err := p.linear(right, 0)
	if err != nil {
		return nil, err
	}
	less, more := a.less(b), b.less(a)
	less.strict, more.strict = name == "<", name == ">"
	switch name {
	case "<=", "<":
		return [][]atom{{less}}, nil
	case ">=", ">":
		return [][]atom{{more}}, nil
	}
	return [][]atom{{less, more}}, nil
}

// sum is a linear term: a constant and coefficients.
type sum struct {
	x, y     map[int]float64
	constant float64
}

func (s *sum) add(o sum, by float64) {
	s.constant += by * o.constant
	for _, part := range []struct {
		to   *map[int]float64
		from map[int]float64
	}{{&s.x, o.x}, {&s.y, o.y}} {
		for i, v := range part.from {
			if *part.to == nil {
				*part.to = map[int]float64{}
			}
			(*part.to)[i] += by * v
		}
	}
}

// less is s ≤ o.
func (s sum) less(o sum) atom {
	var d sum
	d.add(s, 1)
	d.add(o, -1)
	for _, part := range []map[int]float64{d.x, d.y} {
		maps.DeleteFunc(part, func(_ int, v float64) bool { return v == 0 })
	}
	return atom{x: d.x, y: d.y, bound: 0 - d.constant} // not −0
}

func (p *parser) linear(t term, depth int) (s sum, err error) {
	if t.word != "" {
		if kind, index, ok := variable(t.word); ok {
			switch {
			case kind == 'X' && p.inputs[index]:
				s.x = map[int]float64{index: 1}
			case kind == 'Y' && p.outputs[index]:
				s.y = map[int]float64{index: 1}
			default:
				return s, fmt.Errorf("%s is not declared", t.word)
			}
			return s, nil
		}
		s.constant, err = strconv.ParseFloat(t.word, 64)
		if err != nil || math.IsNaN(s.constant) || math.IsInf(s.constant, 0) {
			return s, fmt.Errorf("wants a number or a variable, not %.40q", t.word)
		}
		return s, nil
	}
	if len(t.list) < 2 {
		return s, errors.New("wants a linear term, not empty parentheses")
	}
	parts := make([]sum, len(t.list)-1)
	for i, inner := range t.list[1:] {
		if parts[i], err = p.linear(inner, depth+1); err != nil {
			return s, err
		}
	}
	switch name := t.list[0].word; {
	case name == "+":
		for _, part := range parts {
			s.add(part, 1)
		}
	case name == "-" && len(parts) == 1:
		s.add(parts[0], -1)
	case name == "-":
		s.add(parts[0], 1)
		for _, part := range parts[1:] {
			s.add(part, -1)
		}
	case name == "*":
		s = parts[0]
		for _, part := range parts[1:] {
			if (s.x != nil || s.y != nil) && (part.x != nil || part.y != nil) {
				return s, errors.New("multiplies variables; constraints are linear")
			}
			a, b := s, part
			if b.x == nil && b.y == nil {
				a, b = b, a
			}
			s = sum{}
			s.add(b, a.constant)
		}
	default:
		return s, fmt.Errorf("unknown operator %.40q", name)
	}
	return s, nil
}

// property turns the assertions into boxes and constraints.
func (p *parser) property() (*Property, error) {
	for _, known := range []map[int]bool{p.inputs, p.outputs} {
		for i := range len(known) {
			if !known[i] {
				return nil, fmt.Errorf("%d variables are declared, and number %d is missing", len(known), i)
			}
		}
	}
	if len(p.inputs) == 0 || len(p.outputs) == 0 {
		return nil, errors.New("declares no inputs X_0, … or no outputs Y_0, …")
	}
	out := &Property{Inputs: len(p.inputs), Outputs: len(p.outputs)}
	if len(p.inputs)*len(p.cases) > mostAtoms {
		return nil, fmt.Errorf("has %d cases of %d inputs", len(p.cases), len(p.inputs))
	}
	for _, atoms := range p.cases {
		c := Case{Lower: slices.Repeat([]float64{math.Inf(-1)}, out.Inputs),
			Upper: slices.Repeat([]float64{math.Inf(1)}, out.Inputs)}
		empty := false
		for _, a := range atoms {
			switch {
			case len(a.x) == 0:
				row := make([]float64, out.Outputs)
				for i, v := range a.y {
					row[i] = v
				}
				c.Constraints = append(c.Constraints, Constraint{row, a.bound, a.strict})
			case len(a.x) == 1 && len(a.y) == 0:
				for i, v := range a.x {
					if v > 0 {
						c.Upper[i] = min(c.Upper[i], a.bound/v+0)
					} else {
						c.Lower[i] = max(c.Lower[i], a.bound/v+0)
					}
				}
			default:
				return nil, errors.New("has a constraint on several inputs, or on inputs and outputs: " +
					"inputs lie in a box")
			}
		}
		for i := range c.Lower {
			if math.IsInf(c.Lower[i], 0) || math.IsInf(c.Upper[i], 0) {
				return nil, fmt.Errorf("input X_%d has no lower or no upper bound", i)
			}
			empty = empty || c.Lower[i] > c.Upper[i]
		}
		if !empty {
			out.Cases = append(out.Cases, c)
		}
	}
	return out, nil
}
