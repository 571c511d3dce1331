package vnnlib

import (
	"context"
	"math"
	"runtime"

	"selfheal/internal/lists"
	"selfheal/models/bounds"
)

// prove proves that no case holds, or returns a counterexample.
func (q *question) prove(ctx context.Context) (found *Result, proven bool, err error) {
	if q.bounds == nil {
		return nil, false, nil
	}
	for _, b := range q.of.boxes {
		if b.region().Check(q.of.inputs) != nil { // beyond float32
			return nil, false, nil
		}
		root, err := q.bounds.Root(ctx, b.region())
		if err != nil {
			return nil, false, err
		}
		// As many constraints at a time as the memory allows.
		most := max(1, min(q.bounds.RowsAtOnce(), mostRows/q.of.outputs))
		for cases := b.cases; len(cases) > 0; {
			n, rows := 0, 0
			for n < len(cases) && (n == 0 || rows+len(cases[n].constraints) <= most) {
				rows += len(cases[n].constraints)
				n++
			}
			whole, err := q.impossible(ctx, root, cases[:n], most)
			if err != nil || whole == nil {
				return nil, false, err
			}
			proven := none(cases[:n], whole.Bounds)
			switch {
			case proven || rows > most:
			case b.few():
				found, proven, err = q.branch(ctx, b, cases[:n], whole)
			case q.bounds.Cuttable():
				proven, err = q.split(ctx, root, cases[:n])
			}
			if !proven || err != nil {
				return found, false, err
			}
			cases = cases[n:]
		}
	}
	return nil, true, nil
}

// split rules out one case after another by the signs of ReLUs' values.
func (q *question) split(ctx context.Context, root *bounds.Root, cases []conjunction) (proven bool, err error) {
	for _, c := range cases {
		_, proven, err = root.Branch(ctx, dense([]conjunction{c}, q.of.outputs), c.limits(), runtime.GOMAXPROCS(0),
			q.count)
		if !proven || err != nil {
			return false, err
		}
	}
	return true, nil
}

// few reports whether so few inputs vary that the box is cut.
func (b *box) few() bool {
	return len(lists.Indices(len(b.lower), func(i int) bool { return b.lower[i] < b.upper[i] })) <= mostCut
}

// mostRows bounds the numbers in constraints' dense rows.
const mostRows = 1 << 22

// impossible bounds the constraints of some cases of one box; for a single case only the first most ones. A case
// cannot hold if one of its constraints cannot. It returns nil if a case has no constraints.
func (q *question) impossible(ctx context.Context, root *bounds.Root, cases []conjunction, most int) (*bounds.Part,
	error) {
	asked := make([]conjunction, len(cases))
	for i, c := range cases {
		if len(c.constraints) == 0 {
			return nil, nil
		}
		asked[i] = conjunction{c.box, c.constraints[:min(most, len(c.constraints))]}
	}
	return root.Part(ctx, dense(asked, q.of.outputs), func(proven []bounds.Bound) bool { return none(asked, proven) })
}

// none reports whether no case can hold by the proven bounds of their constraints.
func none(cases []conjunction, proven []bounds.Bound) bool {
	for _, c := range cases {
		if !(c.short(proven) < 0) {
			return false
		}
		proven = proven[min(len(c.constraints), len(proven)):]
	}
	return true
}

// limits returns the numbers that bounds of the constraints' rows must exceed to rule the case out.
func (c conjunction) limits() []float64 {
	return lists.Map(c.constraints, func(one constraint) float64 { return one.bound })
}

// short returns how much the bounds of a case's constraints, or of the first ones, lack to rule it out. A bound rules
// it out if it is above the constraint's.
func (c conjunction) short(proven []bounds.Bound) float64 {
	least := math.Inf(1)
	for i, one := range c.constraints[:min(len(c.constraints), len(proven))] {
		least = min(least, one.bound-proven[i].Least())
	}
	return least
}
