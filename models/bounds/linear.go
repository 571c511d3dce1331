package bounds

import "math"

// Linear is a lower bound of a row of the output minus its limit: Σ A·x + At0 over the inputs x of a region. If it is
// above 0, the row is above its limit.
type Linear struct {
	A   []float32
	At0 float64
}

// Far bounds the error of a float64 sum of a few terms, per unit of their size.
const Far = 1e-12

// far is [Far] for this many terms.
func far(terms int) float64 { return max(Far, float64(terms)*0x1p-52) }

// Linears returns the linear bounds of the rows of a part, with their limits. The region is a box or a ball.
func (p *Part) Linears(region Region, limits []float64) []Linear {
	all, n := make([]Linear, len(limits)), len(p.Coefficients)/len(p.Bounds)
	for i, b := range p.Bounds[:len(limits)] {
		l := Linear{p.Coefficients[i*n : (i+1)*n], b.Least() - limits[i]}
		l.At0 -= region.least(l.A, nil)
		size := math.Abs(l.At0)
		for j, a := range l.A {
			size += math.Abs(float64(a)) * max(math.Abs(float64(region.Lower[j])), math.Abs(float64(region.Upper[j])))
		}
		l.At0 -= far(n) * size
		all[i] = l
	}
	return all
}

// Least returns the least value on a box.
func (l Linear) Least(lower, upper []float64) float64 {
	sum := l.At0
	for j, v := range l.A {
		a := float64(v)
		sum += a * end(lower[j], upper[j], a)
	}
	return sum
}

// end returns the end of [lower, upper] at which a·x is least.
func end(lower, upper, a float64) float64 {
	if a < 0 {
		return upper
	}
	return lower
}

// The search for weights: by bisection for two bounds, by rounds for more.
const (
	halvings     = 40
	weightRounds = 30
	mostPairs    = 10
)

// Apart reports whether some weighted sum of linear bounds is above 0 on all of a box, so that they are never all at
// most 0. The least value of the sum is a concave function of the weights; the values of the bounds at its minimum are
// its gradient.
func Apart(all []Linear, lower, upper []float64) bool {
	w := &weightSearch{all: all, lower: lower, upper: upper, weights: make([]float64, len(all)),
		values: make([]float64, len(all)), x: make([]float64, len(lower))}
	pairs := 0
	for i := range all {
		for j := range i {
			if pairs++; pairs > mostPairs {
				break
			}
			clear(w.weights)
			for low, high, k := 0.0, 1.0, 0; k < halvings; k++ {
				middle := low/2 + high/2
				w.weights[i], w.weights[j] = middle, 1-middle
				if w.positive() {
					return true
				}
				if w.values[i] > w.values[j] {
					low = middle
				} else {
					high = middle
				}
			}
		}
	}
	for i := range w.weights {
		w.weights[i] = 1 / float64(len(all))
	}
	for k := 0; k < weightRounds && len(all) > 2; k++ {
		if w.positive() {
			return true
		}
		most, total := 0.0, 0.0
		for _, v := range w.values {
			most = max(most, math.Abs(v))
		}
		for i, v := range w.values {
			w.weights[i] *= math.Exp(v / most)
			total += w.weights[i]
		}
		for i := range w.weights {
			w.weights[i] /= total
		}
	}
	return false
}

// weightSearch is the search for the weights of a sum of bounds.
type weightSearch struct {
	all             []Linear
	lower, upper    []float64
	weights, values []float64 // the bounds' values at the sum's minimum
	x               []float64
}

// positive reports whether the sum is above 0 throughout. It is false for NaN.
func (w *weightSearch) positive() bool {
	for j := range w.x {
		a := 0.0
		for i, l := range w.all {
			a += w.weights[i] * float64(l.A[j])
		}
		w.x[j] = end(w.lower[j], w.upper[j], a)
	}
	sum, size := 0.0, 0.0
	for i, l := range w.all {
		value, terms := l.At0, math.Abs(l.At0)
		for j, a := range l.A {
			value += float64(a) * w.x[j]
			terms += math.Abs(float64(a) * w.x[j])
		}
		w.values[i] = value
		sum, size = sum+w.weights[i]*value, size+w.weights[i]*terms
	}
	return sum > Far*size && !math.IsInf(sum, 0)
}
