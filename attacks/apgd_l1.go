package attacks

import (
	"context"

	"selfheal/internal/vector"
)

// sparseStep moves from along the signs of the gradient's largest entries and writes the projection to out. The entries
// share length equally. topShare is the fraction of entries to keep; ties with the smallest kept entry are kept too,
// and zeros never move.
func sparseStep(x, from, grad, out []float32, length, topShare float32, eps float64) {
	d := len(x)
	at := int(min(max((1-topShare)*float32(d), 0), float32(d-1)))
	threshold := vector.Smallest(grad[:d], at)
	each := length / (float32(vector.CountFrom(grad[:d], threshold)) + 1e-10)
	vector.SparseStep(x, from, grad, threshold, each, out)
	projectL1(x, out, out, eps)
}

// sparseStage is the ℓ1 form of stage. It has no momentum, and at each checkpoint the number of moved values follows
// the sparsity of the best perturbation (Croce & Hein 2021, section 3.3). If that has become sparser, the step is reset
// to epsilon and the search goes back to the best point; otherwise the step shrinks by 1.5, down to ε/10.
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
		sparseStep(x, r.cur, r.grad, r.next, length, topShare, s.eps)
		r.prev, r.cur, r.next = r.cur, r.next, r.prev
		r.res.Iterations++
		if err := r.evaluate(ctx); err != nil || stop && r.adv != nil {
			return err
		}
		r.improve()
		if r.givesUp(s, i) {
			return nil
		}
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

func medianOfThree(a, b, c float32) float32 { return max(min(a, b), min(max(a, b), c)) }
