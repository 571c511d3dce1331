// Package vnnlib answers questions of the neural-network verification competition: VNN-LIB files, which ask for an
// input of a network that a property forbids.
package vnnlib

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"selfheal/internal/number"
)

// Size is a network's: how many values its input and its output have.
type Size struct{ Inputs, Outputs int }

// A disjunction of conjunctions grows by multiplication.
const (
	mostCases = 100_000
	mostAtoms = 10_000_000 // of all cases together
	mostTerms = 2_000_000  // of the file
)

// Term is a variable's coefficient.
type Term struct {
	Index  int
	Factor float64
}

// atom is Σ x·X + Σ y·Y ≤ bound.
type atom struct {
	x, y   []Term
	bound  float64
	strict bool
}

// parser reads a file's assertions.
type parser struct {
	*tokens
	size            Size
	inputs, outputs []bool // declared
	cases           [][]*atom
	atoms, terms    int
}

// Parse reads the text of a VNN-LIB file, plain or packed by gzip, about a network of a size. It ends with ctx. Errors
// name the line.
func Parse(ctx context.Context, from io.Reader, of Size) (*Property, error) {
	t, err := tokensOf(ctx, from)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: t, size: of, inputs: make([]bool, of.Inputs), outputs: make([]bool, of.Outputs),
		cases: [][]*atom{nil}}
	for p.peek() != "" {
		if err := p.command(); err != nil {
			if ended := p.ended(); ended != nil {
				return nil, ended
			}
			return nil, fmt.Errorf("line %d: %w", p.at, err)
		}
	}
	if err := p.ended(); err != nil {
		return nil, err
	}
	return p.property(ctx)
}

// errOpen is a text that ends too early.
var errOpen = errors.New("a parenthesis is not closed")

// close takes the parenthesis that ends what is called so.
func (p *parser) close(what string) error {
	switch word := p.take(); word {
	case ")":
		return nil
	case "":
		return errOpen
	default:
		return fmt.Errorf("%s is followed by %.40q", what, word)
	}
}

func (p *parser) command() error {
	if word := p.take(); word == ")" {
		return errors.New("a parenthesis closes nothing")
	} else if word != "(" {
		return fmt.Errorf("wants a command in parentheses, not %.40q", word)
	}
	switch name := p.take(); name {
	case "declare-const", "declare-fun":
		variable := p.take()
		if name == "declare-fun" && !(p.skip("(") && p.skip(")")) {
			return fmt.Errorf("%s declares a function of something", variable)
		}
		sort := p.take()
		if err := p.declare(variable, sort); err != nil {
			return err
		}
		return p.close(name)
	case "assert":
		cases, err := p.formula(1)
		if err == nil {
			err = p.close(name)
		}
		if err == nil {
			p.cases, err = p.product(p.cases, cases)
		}
		return err
	case "set-logic", "set-info", "set-option", "check-sat", "get-model", "exit":
		for depth := 1; depth > 0; {
			switch p.take() {
			case "(":
				depth++
			case ")":
				depth--
			case "":
				return errOpen
			}
		}
		return nil
	case "":
		return errOpen
	default:
		return fmt.Errorf("unknown command %.40q", name)
	}
}

// variable reads X_3 or Y_0.
func variable(word string) (kind byte, index int, ok bool) {
	kinds, digits, found := strings.Cut(word, "_")
	if !found || kinds != "X" && kinds != "Y" || digits != "0" && strings.HasPrefix(digits, "0") {
		return 0, 0, false
	}
	index, err := strconv.Atoi(digits)
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
	known, what := p.inputs, "inputs"
	if kind == 'Y' {
		known, what = p.outputs, "outputs"
	}
	if index >= len(known) {
		return fmt.Errorf("declares %.40s; the network has %d %s", name, len(known), what)
	}
	if known[index] {
		return fmt.Errorf("%s is declared twice", name)
	}
	known[index] = true
	return nil
}

// product combines two disjunctions of conjunctions into one.
func (p *parser) product(a, b [][]*atom) ([][]*atom, error) {
	if len(a)*len(b) > mostCases {
		return nil, fmt.Errorf("has more than %d cases", mostCases)
	}
	if len(a) == 1 && len(b) == 1 { // the usual one, which must not be quadratic
		return [][]*atom{append(a[0], b[0]...)}, nil
	}
	var out [][]*atom
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
func (p *parser) formula(depth int) ([][]*atom, error) {
	if depth > mostDepth {
		return nil, fmt.Errorf("parentheses are nested more than %d deep", mostDepth)
	}
	if word := p.take(); word == "" {
		return nil, errOpen
	} else if word != "(" {
		return nil, fmt.Errorf("wants a formula, not %.40q", word)
	}
	switch name := p.take(); name {
	case "and":
		all := [][]*atom{nil}
		for !p.skip(")") {
			cases, err := p.formula(depth + 1)
			if err == nil {
				all, err = p.product(all, cases)
			}
			if err != nil {
				return nil, err
			}
		}
		return all, nil
	case "or":
		var all [][]*atom
		for !p.skip(")") {
			cases, err := p.formula(depth + 1)
			if err != nil {
				return nil, err
			}
			if all = append(all, cases...); len(all) > mostCases {
				return nil, fmt.Errorf("has more than %d cases", mostCases)
			}
		}
		return all, nil
	case "<=", ">=", "<", ">", "=":
		return p.comparison(name, depth)
	case "":
		return nil, errOpen
	default:
		return nil, fmt.Errorf("unknown operator %.40q", name)
	}
}

// comparison reads a comparison of two linear terms.
func (p *parser) comparison(name string, depth int) ([][]*atom, error) {
	a, err := p.linear(depth + 1)
	if err != nil {
		return nil, err
	}
	b, err := p.linear(depth + 1)
	if err != nil {
		return nil, err
	}
	if err := p.close("a comparison of two values"); err != nil {
		return nil, err
	}
	less, err := a.less(b, name == "<")
	if err != nil {
		return nil, err
	}
	more, err := b.less(a, name == ">")
	switch {
	case err != nil:
		return nil, err
	case name == "<=" || name == "<":
		return [][]*atom{{less}}, nil
	case name == "=":
		return [][]*atom{{less, more}}, nil
	}
	return [][]*atom{{more}}, nil
}

// sum is a linear term: a constant and coefficients, a variable's in several parts perhaps.
type sum struct {
	x, y     []Term
	constant float64
}

// add is s + by·o.
func (s sum) add(o sum, by float64) sum {
	scaled := func(to, from []Term) []Term {
		for _, t := range from {
			to = append(to, Term{t.Index, by * t.Factor})
		}
		return to
	}
	return sum{scaled(s.x, o.x), scaled(s.y, o.y), s.constant + by*o.constant}
}

// errBeyond is a number that float64 can't hold.
var errBeyond = errors.New("comes to a number that is not finite in float64")

// less is s ≤ o, or s < o where it is strict.
func (s sum) less(o sum, strict bool) (*atom, error) {
	d := sum{}.add(s, 1).add(o, -1)
	a := &atom{bound: 0 - d.constant, strict: strict} // not −0
	for _, part := range []struct {
		from []Term
		to   *[]Term
	}{{d.x, &a.x}, {d.y, &a.y}} {
		slices.SortStableFunc(part.from, func(a, b Term) int { return cmp.Compare(a.Index, b.Index) })
		for _, t := range part.from {
			if last := len(*part.to) - 1; last >= 0 && (*part.to)[last].Index == t.Index {
				(*part.to)[last].Factor += t.Factor
			} else {
				*part.to = append(*part.to, t)
			}
		}
		for _, t := range *part.to {
			if !number.Finite(t.Factor) {
				return nil, errBeyond
			}
		}
		*part.to = slices.Clip(slices.DeleteFunc(*part.to, func(t Term) bool { return t.Factor == 0 }))
	}
	if !number.Finite(a.bound) {
		return nil, errBeyond
	}
	return a, nil
}

// linear reads a linear term.
func (p *parser) linear(depth int) (s sum, err error) {
	word := p.take()
	switch {
	case word == "":
		return s, errOpen
	case depth > mostDepth:
		return s, fmt.Errorf("parentheses are nested more than %d deep", mostDepth)
	case word == ")":
		return s, errors.New("compares fewer than two values")
	case word != "(":
		return p.value(word)
	}
	name := p.take()
	switch name {
	case "+", "-", "*":
	case ")":
		return s, errors.New("wants a linear term, not empty parentheses")
	case "":
		return s, errOpen
	default:
		return s, fmt.Errorf("unknown operator %.40q", name)
	}
	count := 0
	for ; !p.skip(")"); count++ {
		part, err := p.linear(depth + 1)
		switch {
		case err != nil:
			return s, err
		case count == 0:
			s = part
		case name == "+":
			s = s.add(part, 1)
		case name == "-":
			s = s.add(part, -1)
		default:
			if s, err = s.times(part); err != nil {
				return s, err
			}
		}
		if !number.Finite(s.constant) {
			return s, errBeyond
		}
	}
	if count == 0 {
		return s, fmt.Errorf("wants a value behind %s", name)
	}
	if name == "-" && count == 1 {
		s = sum{}.add(s, -1)
	}
	return s, nil
}

// times is a product, of which one factor must be a constant.
func (s sum) times(o sum) (sum, error) {
	if len(s.x)+len(s.y) > 0 && len(o.x)+len(o.y) > 0 {
		return s, errors.New("multiplies variables; constraints are linear")
	}
	if len(o.x)+len(o.y) > 0 {
		s, o = o, s
	}
	s = sum{}.add(s, o.constant)
	for _, t := range slices.Concat(s.x, s.y) {
		if !number.Finite(t.Factor) {
			return s, errBeyond
		}
	}
	return s, nil
}

// value reads a number or a variable.
func (p *parser) value(word string) (s sum, err error) {
	if p.terms++; p.terms > mostTerms {
		return s, fmt.Errorf("has more than %d values", mostTerms)
	}
	if kind, index, ok := variable(word); ok {
		switch {
		case kind == 'X' && index < len(p.inputs) && p.inputs[index]:
			s.x = []Term{{index, 1}}
		case kind == 'Y' && index < len(p.outputs) && p.outputs[index]:
			s.y = []Term{{index, 1}}
		default:
			return s, fmt.Errorf("%.40s is not declared", word)
		}
		return s, nil
	}
	s.constant, err = strconv.ParseFloat(word, 64)
	if err != nil || !number.Finite(s.constant) || strings.ContainsAny(word, "xXpP_") {
		return s, fmt.Errorf("wants a number or a variable, not %.40q", word)
	}
	return s, nil
}
