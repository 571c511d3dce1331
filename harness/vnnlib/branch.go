package vnnlib

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync/atomic"

	"gonum.org/v1/gonum/floats"

	"selfheal/internal/tree"
	"selfheal/models/bounds"
)

// A box is cut along its inputs if at most mostCut of them vary. A cut is tried along so many candidates.
const (
	mostCut    = 20
	candidates = 5
)

// part is a part of a box, with the cases that may hold in it.
type part struct {
	lower, upper []float64
	cases        []conjunction
	of           *bounds.Part // its bounds
	moved        []float64    // by how much the range of each input moves the bounds
	short        float64      // how much the bounds lack, summed over the cases
}

// boxTree cuts a box in two along one input, and its parts again (Wang et al. 2018, "Formal Security Analysis of
// Neural Networks using Symbolic Intervals").
type boxTree struct {
	q   *question
	box *box
	met atomic.Pointer[Result] // a counterexample
}

// branch proves that no case of a box holds, or returns a counterexample. root has the bounds of the whole box.
func (q *question) branch(ctx context.Context, b *box, cases []conjunction, root *bounds.Part) (found *Result,
	proven bool, err error) {
	t := &boxTree{q: q, box: b}
	whole, found, err := t.left(part{lower: b.lower, upper: b.upper, cases: cases}, root)
	if found != nil || err != nil || len(whole.cases) == 0 {
		return found, err == nil && found == nil, err
	}
	proven, err = (&tree.Tree[part]{Examine: t.examine, Workers: runtime.GOMAXPROCS(0),
		Count: q.count}).Grow(ctx, whole)
	return t.met.Load(), proven, err
}

// examine cuts a part in two along an input and returns the undecided ones of the two. It tries the inputs whose
// ranges move the bounds most, and takes the one that leaves least to prove.
func (t *boxTree) examine(ctx context.Context, parts []part) (best []part, err error) {
	p := parts[0]
	least := math.Inf(1)
	tried := 0
	for tried < candidates {
		at := floats.MaxIdx(p.moved)
		if !(p.moved[at] > 0) {
			break
		}
		p.moved[at] = 0
		middle := p.lower[at]/2 + p.upper[at]/2
		if low, high := float32(p.lower[at]), float32(p.upper[at]); float32(middle) == low || float32(middle) == high {
			continue // no float32 lies between
		}
		tried++
		short := 0.0
		var halves []part
		for side := range 2 {
			half := part{lower: slices.Clone(p.lower), upper: slices.Clone(p.upper), cases: p.cases}
			if side == 0 {
				half.upper[at] = middle
			} else {
				half.lower[at] = middle
			}
			half, found, err := t.bound(ctx, half, p.of)
			if err != nil {
				return nil, err
			}
			if found != nil {
				t.met.Store(found)
				return nil, tree.ErrDone
			}
			if len(half.cases) > 0 {
				halves, short = append(halves, half), short+half.short
			}
		}
		if tried == 1 || short < least { // the first one also if nothing finite is known
			best, least = halves, short
		}
		if len(halves) == 0 {
			break
		}
	}
	if tried == 0 {
		return nil, tree.ErrOpen
	}
	return best, nil
}

// leastMove is added to the effect of an input: a cut may help even if the bound does not depend on it, because of a
// kink bounded by its lower line.
const leastMove = 1e-6

// bound rules out cases of a part by α-CROWN, and asks the network about the points where the bounds of the others
// are least.
func (t *boxTree) bound(ctx context.Context, p part, whole *bounds.Part) (part, *Result, error) {
	rows := dense(p.cases, t.q.of.outputs)
	none := func(proven []bounds.Bound) bool { return none(p.cases, proven) }
	known, err := t.q.bounds.Part(ctx, bounds.Box(p.lower, p.upper), rows, whole, none)
	if err != nil {
		return p, nil, err
	}
	return t.left(p, known)
}

// left returns a part with the cases that its bounds leave open.
func (t *boxTree) left(p part, known *bounds.Part) (_ part, found *Result, err error) {
	proven, coefficients := known.Bounds, known.Coefficients
	inputs, first := t.q.of.inputs, 0
	var left []conjunction
	var points []float32
	p.of, p.moved = known, make([]float64, inputs)
	region, hull := bounds.Box(p.lower, p.upper), newHull(p)
	for _, c := range p.cases {
		nearest := first // to being ruled out
		for i, one := range c.constraints {
			if proven[first+i].Least()-one.bound > proven[nearest].Least()-c.constraints[nearest-first].bound {
				nearest = first + i
			}
		}
		lacks := c.constraints[nearest-first].bound - proven[nearest].Least()
		begin := first
		if first += len(c.constraints); lacks < 0 {
			continue
		}
		if coefficients != nil {
			of := &bounds.Part{Bounds: proven[begin:first], Coefficients: coefficients[begin*inputs : first*inputs]}
			if !hull.add(of.Linears(region, c.limits()), p) {
				continue
			}
		} else {
			hull.whole(p)
		}
		p.short += lacks
		left = append(left, c)
		for i := range inputs {
			a := 1.0 // if nothing is known
			if coefficients != nil {
				a = float64(coefficients[nearest*inputs+i])
			}
			p.moved[i] += math.Abs(a) + leastMove
			end := p.lower[i]
			if a < 0 {
				end = p.upper[i]
			}
			points = append(points, min(max(float32(end), t.box.low[i]), t.box.high[i]))
		}
	}
	p.cases, p.lower, p.upper = left, hull.lower, hull.upper
	for i := range p.moved {
		p.moved[i] *= p.upper[i] - p.lower[i]
	}
	if len(left) > 0 && t.box.apart < 0 {
		found, err = t.q.try(left, points)
	}
	return p, found, err
}

// try asks the network about a point for each case.
func (q *question) try(cases []conjunction, points []float32) (*Result, error) {
	y, _, err := q.run(points, make([]float32, len(cases)*q.of.outputs))
	if err != nil {
		return nil, err
	}
	for k, c := range cases {
		if c.holds(func(i int) float64 { return float64(y[k*q.of.outputs+i]) }) {
			found, err := q.confirm(c, points[k*q.of.inputs:(k+1)*q.of.inputs])
			if found != nil || err != nil {
				return found, err
			}
		}
	}
	return nil, nil
}

// dense returns the constraints of cases as rows.
func dense(cases []conjunction, outputs int) (rows []float64) {
	for _, c := range cases {
		for _, one := range c.constraints {
			row := make([]float64, outputs)
			for _, t := range one.row {
				row[t.index] = t.factor
			}
			rows = append(rows, row...)
		}
	}
	return rows
}
