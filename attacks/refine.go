package attacks

import (
	"cmp"
	"context"
	"math"
	"slices"

	"selfheal/internal/setting"
)

// refine lets an attack that follows a gradient to the smallest norm improve its result at the end. None of the papers
// has it: DDN's norms are 5 % apart, and the attacks in ℓ0 cut all values at one threshold.
var refine = Parameter{Setting: setting.Setting{Name: "refine", Type: setting.Whole,
	Within: setting.Interval{Max: math.MaxInt32}, Default: 0,
	Doc: "forward passes in place of the last steps, two for each, that bring the nearest point nearer: along the " +
		"line to the clean image, in ℓ0 by putting values back"}}

// refine moves the nearest misclassified point nearer, along the straight line to the clean image, with at most this
// many forward passes. It uses the rule of false position between a point that is classified right, or may be by
// rounding, and one that is not: the next point is where a linear margin would exceed rounding. The margin of an end
// that stays in place is halved each time (the Illinois rule).
func (r *nearest) refine(ctx context.Context, passes int) error {
	if r.adv == nil || r.distance == 0 {
		return nil
	}
	if r.Norm == L0 {
		return r.putBack(ctx, passes)
	}
	x0, from, x := r.im.Pixels, slices.Clone(r.adv), make([]float32, len(r.adv))
	right, wrong := end{0, r.start}, end{1, r.margin}
	before := false // whether the last point was misclassified
	for i := range passes {
		t := float32(right.at + (wrong.at-right.at)*right.share(wrong))
		for k, v := range x0 {
			x[k] = v + t*(from[k]-v)
		}
		found, ends, err := r.look(ctx, x)
		if err != nil || ends {
			return err
		}
		moved, stays := &right, &wrong
		if found {
			moved, stays = &wrong, &right
		}
		*moved = end{float64(t), r.beyond()}
		if i > 0 && found == before {
			stays.margin /= 2
		}
		before = found
	}
	return nil
}

// look asks about a point and records it. found is true if the point is misclassified by more than rounding.
func (r *nearest) look(ctx context.Context, x []float32) (found, ends bool, err error) {
	wrong, err := r.wrong(ctx, x)
	if err != nil {
		return false, false, err
	}
	return wrong && (!r.alone || r.beyond() > 0), r.meet(x, wrong), nil
}

// end is a point on a line; at is the fraction of the way from the clean image.
type end struct{ at, margin float64 }

// share returns the fraction of the way between the two ends at which a linear margin is 0. It stays a fiftieth away
// from both ends, so that the last step crosses to the other side; it is a half if the margins are not usable.
func (right end) share(wrong end) float64 {
	if s := right.margin / (right.margin - wrong.margin); s >= 0 && s <= 1 {
		return min(max(s, 0.02), 0.98)
	}
	return 0.5
}

// putBack sets changed values of the nearest misclassified point back to the clean image's, those that changed least
// first: half of them at once and, if that is too many, fewer. In ℓ0 the size of a change does not count. Before that,
// all changed values therefore go to the end of [0,1] on their side, if the point stays misclassified there.
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
	at, block := 0, 0 // values set back or found to be needed; how many to try next
	for range passes {
		found, ends, err := r.look(ctx, try)
		switch {
		case err != nil || ends:
			return err
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
