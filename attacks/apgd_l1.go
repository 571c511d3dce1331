package attacks

import (
	"context"
	"math"

	"selfheal/internal/vector"
)

// sparseSteps is the working space of APGD's steps in ℓ1.
type sparseSteps struct {
	l1Projector
	magnitudes []float32 // |gradient|
	near       []float32 // those that may be the magnitude looked for
	delta      []float32 // perturbation before projection
}

// step moves from by length along the signs of the gradient's largest entries,
// length shared equally among them, and writes the projection to out. topShare
// is the share of entries to keep; entries equal to the smallest kept one are
// kept too, and zeros never move.
func (s *sparseSteps) step(x, from, grad, out []float32, length, topShare float32, eps float64) {
	d := len(x)
	if len(s.delta) < d {
		s.magnitudes, s.delta = make([]float32, d), make([]float32, d)
	}
	vector.Magnitudes(grad, s.magnitudes)
	at := int(min(max((1-topShare)*float32(d), 0), float32(d-1)))
	threshold := s.smallest(s.magnitudes, at)
	each := length / (float32(vector.CountFrom(s.magnitudes, threshold)) + 1e-10)
	vector.SparseStep(x, from, grad, threshold, each, s.delta)
	s.project(x, s.delta, out, eps)
}

// sparseStage is the ℓ1 part of stage: no momentum, and at each checkpoint the
// number of moved values follows the sparsity of the best perturbation (Croce &
// Hein 2021, section 3.3). Where that has become sparser the step is reset to
// epsilon and the search goes back to the best point; otherwise the step
// shrinks by 1.5, down to ε/10.
func (r *ascent) sparseStage(ctx context.Context, s stage, stop bool) error {
	x, d := r.im.Pixels, float32(len(r.im.Pixels))
	eps := float32(s.eps)
	length := eps
	topShare, before := float32(r.Sparsity), d
	if r.LargeRadii || r.warm { // the start sets the sparsity
		before = float32(vector.Changed(x, r.cur))
		topShare = before / d / 1.5
	}
	period := max(int(.04*float64(s.steps)), 1)
	for i := range s.steps {
		r.l1.step(x, r.cur, r.grad, r.next, length, topShare, s.eps)
		r.prev, r.cur, r.next = r.cur, r.next, r.prev
		r.res.Iterations++
		if err := r.evaluate(ctx); err != nil || stop && r.adv != nil {
			return err
		}
		r.improve()
		if (i+1)%period != 0 {
			continue
		}
		now := float32(vector.Changed(x, r.best))
		topShare = now / d / 1.5
		if r.sparsest {
			topShare = (max(float32(int(now/1.5)), 1) - .5) / d
		}
		sparser := now/before < .95
		if sparser {
			length = eps
			r.restartFromBest()
		} else {
			length /= 1.5
		}
		length = min(max(length, eps/10), eps)
		before = now
	}
	return nil
}

// smallest returns the k-th smallest value (0-based) of v, whose values are ≥ 0 and therefore
// ordered like their bits: 11 or 10 bits at a time, from the highest on, values are counted by
// them, and only those that share them with the k-th are looked at again.
func (s *sparseSteps) smallest(v []float32, k int) float32 {
	found, above := uint32(0), 31 // the bits of the k-th from this one on
	for _, shift := range [...]int{20, 10, 0} {
		var counts [1 << 11]int32
		mask := uint32(1)<<(above-shift) - 1
		for _, e := range v {
			counts[math.Float32bits(e)>>shift&mask]++
		}
		class := 0
		for ; int(counts[class]) <= k; class++ {
			k -= int(counts[class])
		}
		found, above = found|uint32(class)<<shift, shift
		near := s.near[:0]
		for _, e := range v {
			if math.Float32bits(e)>>shift == found>>shift {
				near = append(near, e)
			}
		}
		s.near, v = near, near
	}
	return math.Float32frombits(found)
}

func medianOfThree(a, b, c float32) float32 { return max(min(a, b), min(max(a, b), c)) }
