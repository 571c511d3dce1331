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
	near       []float32 // those of the magnitude looked for
	delta      []float32 // perturbation before projection
}

// toBall projects the point p onto the ℓ1 ball of radius eps around x ∩ [0,1], in place.
func (s *sparseSteps) toBall(x, p []float32, eps float64) {
	s.grow(len(x))
	s.projectPoint(x, s.delta, p, eps)
}

func (s *sparseSteps) grow(n int) {
	if len(s.delta) < n {
		s.magnitudes, s.delta = make([]float32, n), make([]float32, n)
	}
}

// step moves from by length along the signs of the gradient's largest entries,
// length shared equally among them, and writes the projection to out. topShare
// is the share of entries to keep; entries equal to the smallest kept one are
// kept too, and zeros never move.
func (s *sparseSteps) step(x, from, grad, out []float32, length, topShare float32, eps float64) {
	d := len(x)
	s.grow(d)
	magnitudes := s.magnitudes[:d]
	vector.Magnitudes(grad, magnitudes)
	at := int(min(max((1-topShare)*float32(d), 0), float32(d-1)))
	threshold := s.smallest(magnitudes, at)
	each := length / (float32(vector.CountFrom(magnitudes, threshold)) + 1e-10)
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
		if err := r.evaluate(ctx); err != nil || stop && r.broken {
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

// smallest returns the k-th smallest value (0-based) of v, whose values are ≥ 0
// and therefore ordered like their bits: values are counted by their upper bits,
// and only those that share them with the k-th are searched.
func (s *sparseSteps) smallest(v []float32, k int) float32 {
	const shift = 20 // what is left: 8 bits of the exponent and 3 of the fraction
	var counts [1 << (31 - shift)]int32
	for _, e := range v {
		counts[math.Float32bits(e)>>shift&(1<<(31-shift)-1)]++
	}
	class, below := 0, 0
	for ; below+int(counts[class]) <= k; class++ {
		below += int(counts[class])
	}
	s.near = s.near[:0]
	for _, e := range v {
		if math.Float32bits(e)>>shift == uint32(class) {
			s.near = append(s.near, e)
		}
	}
	return selectSmallest(s.near, k-below)
}

// selectSmallest returns the k-th smallest value (0-based) of v, which it
// reorders, in expected linear time.
func selectSmallest(v []float32, k int) float32 {
	left, right := 0, len(v)-1
	for left < right {
		pivot := medianOfThree(v[left], v[(left+right)/2], v[right])
		i, j := left, right
		for i <= j {
			for v[i] < pivot {
				i++
			}
			for v[j] > pivot {
				j--
			}
			if i <= j {
				v[i], v[j] = v[j], v[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			right = j
		case k >= i:
			left = i
		default:
			return v[k]
		}
	}
	return v[k]
}

func medianOfThree(a, b, c float32) float32 { return max(min(a, b), min(max(a, b), c)) }
