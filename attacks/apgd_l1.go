package attacks

import "selfheal/internal/vector"

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

// sparse is the ℓ1 form of dense. It has no momentum, and at each checkpoint the number of moved values follows the
// sparsity of the best perturbation (Croce & Hein 2021, section 3.3). If that has become sparser, the step is reset to
// epsilon and the search goes back to the best point; otherwise the step shrinks by 1.5, down to ε/10.
func (r *ascent) sparse(s stage) (step, adapt func(i int)) {
	x, d, eps := r.im.Pixels, float32(len(r.im.Pixels)), float32(s.eps)
	length, topShare, before := eps, float32(r.Sparsity), d
	if r.LargeRadii || r.warm { // the start sets the sparsity
		before = float32(vector.Changed(x, r.cur))
		topShare = before / d / 1.5
	}
	period := max(int(.04*float64(s.steps)), 1)
	step = func(int) { sparseStep(x, r.cur, r.grad, r.next, length, topShare, s.eps) }
	return step, func(i int) {
		if (i+1)%period != 0 {
			return
		}
		now := float32(vector.Changed(x, r.best))
		topShare = now / d / 1.5
		if r.sparsest {
			topShare = (max(float32(int(now/1.5)), 1) - .5) / d
		}
		if now/before < .95 {
			length = eps
			r.restartFromBest()
		} else {
			length = max(length/1.5, eps/10)
		}
		before = now
	}
}
