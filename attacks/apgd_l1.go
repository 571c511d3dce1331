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

// sparse is the ℓ1 form of dense. It has no momentum.
func (r *ascent) sparse(s stage, _ int) {
	sparseStep(r.im.Pixels, r.cur, r.grad, r.next, r.pace.length, r.pace.topShare, s.eps)
}

// adaptSparse is the ℓ1 form of adaptDense. At each checkpoint the number of moved values follows the sparsity of the
// best perturbation (Croce & Hein 2021, section 3.3). If that has become sparser, the step is reset to epsilon and the
// search goes back to the best point; otherwise the step shrinks by 1.5, down to ε/10.
func (r *ascent) adaptSparse(s stage, i int) {
	if period := max(int(.04*float64(s.steps)), 1); (i+1)%period != 0 {
		return
	}
	p, d, eps := &r.pace, float32(len(r.im.Pixels)), float32(s.eps)
	now := float32(vector.Changed(r.im.Pixels, r.best))
	p.topShare = now / d / 1.5
	if r.sparsest {
		p.topShare = (max(float32(int(now/1.5)), 1) - .5) / d
	}
	if now/p.before < .95 {
		p.length = eps
		r.restartFromBest()
	} else {
		p.length = max(p.length/1.5, eps/10)
	}
	p.before = now
}
