package vnnlib

import (
	"context"

	"selfheal/models/bounds"
)

// kinksTried is at how many kinks a cut is tried.
const kinksTried = 1

// split reports whether a case does not hold: its inputs are cut in two by the sign of a ReLU's value, and the halves
// again (Bunel et al. 2020, "Branch and Bound for Piecewise Linear Neural Network Verification"), bounded by β-CROWN.
// Of the kinks whose relaxation costs the bounds most it takes that which leaves least to prove (filtered smart
// branching; De Palma et al. 2021, "Improved Branch and Bound for Neural Network Verification via Lagrangian
// Decomposition").
func (q *question) split(ctx context.Context, b *box, c conjunction) (found *Result, proven bool, err error) {
	enough := func(proven []bounds.Bound) bool { return none([]conjunction{c}, proven) }
	whole, err := q.bounds.Whole(ctx, b.region(), dense([]conjunction{c}, q.of.outputs), enough)
	if err != nil || enough(whole.Bounds) {
		return nil, err == nil, err
	}
	examine := func(ctx context.Context, p *bounds.Part) (best []*bounds.Part, _ *Result, err error) {
		kinks := p.Kinks()
		if len(kinks) == 0 {
			return nil, nil, errOpen
		}
		least := 0.0
		for i, k := range kinks[:min(len(kinks), kinksTried)] {
			var halves []*bounds.Part
			short := 0.0
			for _, above := range []bool{false, true} {
				half, err := p.Cut(ctx, k, above, enough)
				if err != nil {
					return nil, nil, err
				}
				if !enough(half.Bounds) {
					halves, short = append(halves, half), short+c.short(half.Bounds)
				}
			}
			if i == 0 || short < least {
				best, least = halves, short
			}
			if len(halves) == 0 {
				break
			}
		}
		return best, nil, nil
	}
	return (&tree[*bounds.Part]{examine: examine}).grow(ctx, whole)
}

// short is what the bounds of a case's constraints lack to rule it out.
func (c conjunction) short(proven []bounds.Bound) float64 {
	least := c.constraints[0].bound - proven[0].Least()
	for i, one := range c.constraints {
		least = min(least, one.bound-proven[i].Least())
	}
	return least
}
