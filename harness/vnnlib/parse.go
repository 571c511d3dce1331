// Package vnnlib answers questions of the neural-network verification competition: is there an input of a network
// that fulfils a VNN-LIB property? [Ask] answers one question, [Category.Ask] a folder of them. A proof and an attack
// run at the same time. The answer sat comes with a counterexample that the network's own file confirms, unsat with a
// proof; at the deadline the answer is timeout.
package vnnlib

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"selfheal/internal/number"
)

// size is the number of values of a network's inputs and outputs, in all and of each.
type size struct {
	inputs, outputs int
	each            [2][]int
}

func newSize(inputs, outputs []int) size {
	of := size{each: [2][]int{inputs, outputs}}
	for _, n := range inputs {
		of.inputs += n
	}
	for _, n := range outputs {
		of.outputs += n
	}
	return of
}

// Bounds, as a disjunction of conjunctions grows by multiplication.
const (
	mostCases = 100_000
	mostAtoms = 10_000_000 // of all cases together
	mostTerms = 2_000_000  // of the file

	mostTensors = 100_000
)

// term is a variable's coefficient.
type term struct {
	index  int
	factor float64
}

// atom is Σ x·X + Σ y·Y ≤ bound.
type atom struct {
	x, y   []term
	bound  float64
	strict bool
}

// parser reads a file's assertions. Its first error ends the text.
type parser struct {
	*tokens
	size            size
	command         string         // the command after the head
	inputs, outputs []bool         // declared
	tensors         []tensor       // of version 2
	names           map[string]int // index of each tensor by name
	values          map[byte]int   // number of values by kind
	cases           [][]*atom
	atoms, terms    int
	failed          error // the first error
}

// parserOf reads the head of a VNN-LIB file, which may be packed by gzip: up to the first variable or formula, or to
// the end of the network's declaration. It ends with ctx. Errors name the line.
func parserOf(ctx context.Context, from io.Reader) (*parser, error) {
	t, err := tokensOf(ctx, from)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: t, cases: [][]*atom{nil}}
	for p.failed == nil && p.peek() != "" && p.tensors == nil && p.command == "" {
		switch name := p.begin(); name {
		case "declare-const", "declare-fun", "assert":
			p.command = name
		default:
			p.run(name)
		}
	}
	return p, nil
}

// rest reads the part after [parserOf], about a network of a size.
func (p *parser) rest(ctx context.Context, of size) (*property, error) {
	p.size, p.inputs, p.outputs = of, make([]bool, of.inputs), make([]bool, of.outputs)
	if p.failed == nil {
		p.fits()
	}
	if p.command != "" {
		p.run(p.command)
	}
	for p.failed == nil && p.peek() != "" {
		p.run(p.begin())
	}
	if err := cmp.Or(p.ended(), p.failed); err != nil {
		return nil, err
	}
	return p.property(ctx)
}

func (p *parser) fail(format string, args ...any) {
	if p.failed == nil {
		p.failed = fmt.Errorf("line %d: %w", p.at, fmt.Errorf(format, args...))
	}
}

// word takes the next word or parenthesis, which must exist; "" after an error.
func (p *parser) word() (word string) {
	if p.failed == nil {
		if word = p.take(); word == "" {
			p.fail("a parenthesis is not closed")
		}
	}
	return word
}

// more reports whether the open parenthesis goes on. Otherwise it closes it.
func (p *parser) more() bool { return p.failed == nil && !p.skip(")") }

// close takes the closing parenthesis of what.
func (p *parser) close(what string) {
	if word := p.word(); word != ")" {
		p.fail("%s is followed by %.40q", what, word)
	}
}

// begin reads the beginning of a command up to its name.
func (p *parser) begin() (name string) {
	switch word := p.word(); word {
	case "(":
	case ")":
		p.fail("a parenthesis closes nothing")
	default:
		p.fail("wants a command in parentheses, not %.40q", word)
	}
	return p.word()
}

func (p *parser) run(name string) {
	switch name {
	case "vnnlib-version":
		p.version()
	case "declare-network":
		p.network()
	case "declare-const", "declare-fun":
		variable := p.word()
		if name == "declare-fun" && !(p.skip("(") && p.skip(")")) {
			p.fail("%s declares a function of something", variable)
		}
		p.declare(variable, p.word())
		p.close(name)
	case "assert":
		cases := p.formula(1)
		p.close(name)
		p.cases = p.product(p.cases, cases)
	case "set-logic", "set-info", "set-option", "check-sat", "get-model", "exit":
		for depth := 1; depth > 0 && p.failed == nil; {
			switch p.word() {
			case "(":
				depth++
			case ")":
				depth--
			}
		}
	default:
		p.fail("unknown command %.40q", name)
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

func (p *parser) declare(name, sort string) {
	kind, index, ok := variable(name)
	if p.tensors != nil {
		p.fail("declares %.40q beside a network's tensors", name)
		return
	}
	known, what := p.inputs, "inputs"
	if kind == 'Y' {
		known, what = p.outputs, "outputs"
	}
	switch {
	case !ok:
		p.fail("declares %.40q; inputs are X_0, X_1, … and outputs Y_0, Y_1, …", name)
	case sort != "Real":
		p.fail("%s is declared as %.40q, not Real", name, sort)
	case index >= len(known):
		p.fail("declares %.40s; the network has %d %s", name, len(known), what)
	case known[index]:
		p.fail("%s is declared twice", name)
	default:
		known[index] = true
	}
}

// product combines two disjunctions of conjunctions into one.
func (p *parser) product(a, b [][]*atom) (out [][]*atom) {
	if len(a)*len(b) > mostCases {
		p.fail("has more than %d cases", mostCases)
		return nil
	}
	if len(a) == 1 && len(b) == 1 { // the usual case, which must not be quadratic
		return [][]*atom{append(a[0], b[0]...)}
	}
	for _, one := range a {
		for _, other := range b {
			if p.atoms += len(one) + len(other); p.atoms > mostAtoms {
				p.fail("has more than %d constraints", mostAtoms)
				return nil
			}
			out = append(out, slices.Concat(one, other))
		}
	}
	return out
}

const tooDeep = "parentheses are nested more than %d deep"

func (p *parser) formula(depth int) (cases [][]*atom) {
	if depth > mostDepth {
		p.fail(tooDeep, mostDepth)
	}
	if word := p.word(); word != "(" {
		p.fail("wants a formula, not %.40q", word)
	}
	switch name := p.word(); name {
	case "and":
		cases = [][]*atom{nil}
		for p.more() {
			cases = p.product(cases, p.formula(depth+1))
		}
	case "or":
		for p.more() {
			if cases = append(cases, p.formula(depth+1)...); len(cases) > mostCases {
				p.fail("has more than %d cases", mostCases)
			}
		}
	case "<=", ">=", "<", ">", "=", "==", "!=":
		return p.comparison(name, depth)
	default:
		p.fail("unknown operator %.40q", name)
	}
	return cases
}

func (p *parser) comparison(name string, depth int) [][]*atom {
	a, b := p.linear(depth+1), p.linear(depth+1)
	p.close("a comparison of two values")
	less, more := p.less(a, b, name == "<" || name == "!="), p.less(b, a, name == ">" || name == "!=")
	switch name {
	case "<=", "<":
		return [][]*atom{{less}}
	case "=", "==":
		return [][]*atom{{less, more}}
	case "!=":
		return [][]*atom{{less}, {more}}
	}
	return [][]*atom{{more}}
}

// sum is a linear term: a constant and coefficients. A variable may occur several times.
type sum struct {
	x, y     []term
	constant float64
}

func (s sum) add(o sum, by float64) sum {
	scaled := func(to, from []term) []term {
		for _, t := range from {
			to = append(to, term{t.index, by * t.factor})
		}
		return to
	}
	return sum{scaled(s.x, o.x), scaled(s.y, o.y), s.constant + by*o.constant}
}

func (s sum) varies() bool { return len(s.x)+len(s.y) > 0 }

// finite refuses a number that float64 does not hold.
func (p *parser) finite(v float64) {
	if !number.Finite(v) {
		p.fail("comes to a number that is not finite in float64")
	}
}

// less returns s ≤ o or, if strict is set, s < o.
func (p *parser) less(s, o sum, strict bool) *atom {
	d := sum{}.add(s, 1).add(o, -1)
	p.finite(d.constant)
	return &atom{p.merged(d.x), p.merged(d.y), 0 - d.constant, strict} // avoids −0
}

// merged adds up the coefficients of each variable, and leaves out zeros.
func (p *parser) merged(terms []term) (out []term) {
	slices.SortStableFunc(terms, func(a, b term) int { return cmp.Compare(a.index, b.index) })
	for _, t := range terms {
		if last := len(out) - 1; last >= 0 && out[last].index == t.index {
			out[last].factor += t.factor
		} else {
			out = append(out, t)
		}
	}
	for _, t := range out {
		p.finite(t.factor)
	}
	return slices.Clip(slices.DeleteFunc(out, func(t term) bool { return t.factor == 0 }))
}

func (p *parser) linear(depth int) (s sum) {
	word := p.word()
	switch {
	case depth > mostDepth:
		p.fail(tooDeep, mostDepth)
	case word == ")":
		p.fail("compares fewer than two values")
	case word != "(":
		return p.value(word)
	}
	name := p.word()
	switch name {
	case "+", "-", "*":
	case ")":
		p.fail("wants a linear term, not empty parentheses")
	default:
		p.fail("unknown operator %.40q", name)
	}
	count, by := 0, 1.0 // constants of a product, whose variables are multiplied once
	for ; p.more(); count++ {
		switch part := p.linear(depth + 1); {
		case count == 0:
			s = part
		case name == "+":
			s = s.add(part, 1)
		case name == "-":
			s = s.add(part, -1)
		case part.varies() && s.varies():
			p.fail("multiplies variables; constraints are linear")
		case part.varies():
			s, by = part, by*s.constant
		default:
			by *= part.constant
		}
		p.finite(s.constant)
		p.finite(by)
	}
	switch {
	case count == 0:
		p.fail("wants a value behind %s", name)
	case name == "-" && count == 1:
		by = -1
	}
	if by == 1 {
		return s
	}
	s = sum{}.add(s, by)
	p.finite(s.constant)
	for _, t := range slices.Concat(s.x, s.y) {
		p.finite(t.factor)
	}
	return s
}

func (p *parser) value(word string) (s sum) {
	if p.terms++; p.terms > mostTerms {
		p.fail("has more than %d values", mostTerms)
	}
	if t := p.named(word); t != nil {
		return p.element(t)
	}
	kind, index, ok := variable(word)
	switch {
	case !ok:
		var err error
		s.constant, err = strconv.ParseFloat(word, 64)
		if err != nil || !number.Finite(s.constant) || strings.ContainsAny(word, "xXpP_") {
			p.fail("wants a number or a variable, not %.40q", word)
		}
	case p.tensors != nil:
		p.fail("%.40s is not declared", word)
	case kind == 'X' && index < len(p.inputs) && p.inputs[index]:
		s.x = []term{{index, 1}}
	case kind == 'Y' && index < len(p.outputs) && p.outputs[index]:
		s.y = []term{{index, 1}}
	default:
		p.fail("%.40s is not declared", word)
	}
	return s
}
