package vnnlib

import (
	"context"
	"math"
	"runtime"
	"slices"

	"selfheal/models/bounds"
)

// prove reports whether no case holds, or a counterexample that was met on the way.
func (q *question) prove(ctx context.Context) (found *Result, proven bool, err error) {
	if q.bounds == nil {
		return nil, false, nil
	}
	for _, b := range q.of.boxes {
		if b.region().Check(q.of.inputs) != nil { // beyond float32
			return nil, false, nil
		}
		// As many constraints at a time as the memory allows.
		most := max(1, min(q.bounds.RowsAtOnce(), mostRows/q.of.outputs))
		for cases := b.cases; len(cases) > 0; {
			n, rows := 0, 0
			for n < len(cases) && (n == 0 || rows+len(cases[n].constraints) <= most) {
				rows += len(cases[n].constraints)
				n++
			}
			impossible, err := q.impossible(ctx, b, cases[:n], most)
			every := slices.ContainsFunc(cases[:n], func(c conjunction) bool { return len(c.constraints) == 0 })
			switch {
			case err != nil || impossible || every || rows > most:
			case b.few():
				found, impossible, err = q.branch(ctx, b, cases[:n])
			case q.bounds.Cuttable():
				impossible, err = q.split(ctx, b, cases[:n])
			}
			if !impossible || err != nil {
				return found, false, err
			}
			cases = cases[n:]
		}
	}
	return nil, true, nil
}

// split rules out one case after the other by the signs of ReLUs' values.
func (q *question) split(ctx context.Context, b *box, cases []conjunction) (proven bool, err error) {
	root, err := q.bounds.Root(ctx, b.region())
	if err != nil {
		return false, err
	}
	for _, c := range cases {
		_, proven, err = root.Branch(ctx, dense([]conjunction{c}, q.of.outputs), runtime.GOMAXPROCS(0), c.short,
			q.count)
		if !proven || err != nil {
			return false, err
		}
	}
	return true, nil
}

// few reports whether so few inputs vary that the box is cut.
func (b *box) few() bool {
	varying := 0
	for i := range b.lower {
		if b.lower[i] < b.upper[i] {
			varying++
		}
	}
	return varying <= mostCut
}

// mostRows is how many numbers constraints have as dense rows, at most.
const mostRows = 1 << 22

// impossible reports whether it is proven that none of some cases of one box holds. A case cannot hold if one of its
// constraints cannot. A single case's constraints beyond most are left out.
func (q *question) impossible(ctx context.Context, b *box, cases []conjunction, most int) (bool, error) {
	var asked []conjunction
	for _, c := range cases {
		if len(c.constraints) == 0 {
			return false, nil
		}
		asked = append(asked, conjunction{b, c.constraints[:min(most, len(c.constraints))]})
	}
	none := func(proven []bounds.Bound) bool { return none(asked, proven) }
	proven, err := q.bounds.Rows(ctx, bounds.AlphaCROWN, b.region(), dense(asked, q.of.outputs), none)
	return err == nil && none(proven), err
}

// none reports whether none of some cases can hold, of whose constraints bounds are proven.
func none(cases []conjunction, proven []bounds.Bound) bool {
	for _, c := range cases {
		if !(c.short(proven) < 0) {
			return false
		}
		proven = proven[len(c.constraints):]
	}
	return true
}

// short is what bounds of a case's constraints lack to rule it out: only a bound that is above the constraint's rules
// the case out.
func (c conjunction) short(proven []bounds.Bound) float64 {
	least := math.Inf(1)
	for i, one := range c.constraints {
		least = min(least, one.bound-proven[i].Least())
	}
	return least
}
