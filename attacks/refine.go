package attacks

import (
	"cmp"
	"context"
	"math"
	"slices"

	"selfheal/internal/setting"
)

// refine is what attacks that follow a gradient to the smallest norm may do behind their steps, which none of their
// papers has: DDN's norms are 5 % apart, and the attacks in ℓ0 cut all values at one threshold.
var refine = Parameter{Setting: setting.Setting{Name: "refine", Type: setting.Whole,
	Within: setting.Interval{Max: math.MaxInt32}, Default: 0,
	Doc: "forward passes behind the steps that bring the nearest point nearer: halving its way to the clean image, " +
		"in ℓ0 putting values back"}}

// refine brings the nearest misclassified point nearer by at most so many forward passes, along the straight line to
// the clean image. The lower end of the line that is halved is a point that was classified right.
func (r *nearest) refine(ctx context.Context, passes int) error {
	if r.adv == nil || r.distance == 0 {
		return nil
	}
	if r.Norm == L0 {
		return r.putBack(ctx, passes)
	}
	x0, from, x := r.im.Pixels, slices.Clone(r.adv), make([]float32, len(r.adv))
	right, wrong := float32(0), float32(1)
	for range passes {
		t := (right + wrong) / 2
		for i, v := range x0 {
			x[i] = v + t*(from[i]-v)
		}
		found, err := r.wrong(ctx, x)
		switch {
		case err != nil:
			return err
		case !found:
			right = t
		case r.meet(x, true):
			return nil
		default:
			wrong = t
		}
	}
	return nil
}

// putBack takes changed values of the nearest misclassified point back to the clean image's, those that changed least
// first: half of them at once and, where that is too many, fewer. How far a value changes does not count in ℓ0, so
// before that all go to the end of [0,1] on their side, if the point stays misclassified there.
func (r *nearest) putBack(ctx context.Context, passes int) error {
	x0, x := r.im.Pixels, slices.Clone(r.adv)
	var changed []int
	for i, v := range x0 {
		if x[i] != v {
			changed = append(changed, i)
		}
	}
	slices.SortStableFunc(changed, func(i, j int) int { return cmp.Compare(abs32(x[i]-x0[i]), abs32(x[j]-x0[j])) })
	try := slices.Clone(x)
	for _, i := range changed {
		try[i] = 0
		if x[i] > x0[i] {
			try[i] = 1
		}
	}
	at, block := 0, 0 // values put back or found to be needed; how many to try next
	for range passes {
		found, err := r.wrong(ctx, try)
		switch {
		case err != nil:
			return err
		case found && r.meet(try, true):
			return nil
		case found:
			copy(x, try)
			at += block
		case block == 1:
			at++
		}
		switch {
		case block == 0:
			block = (len(changed) + 1) / 2
		case !found:
			block = (block + 1) / 2
		}
		if block = min(block, len(changed)-at); block == 0 {
			return nil
		}
		copy(try, x)
		for _, i := range changed[at : at+block] {
			try[i] = x0[i]
		}
	}
	return nil
}
