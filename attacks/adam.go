package attacks

import "math"

// adam is the optimiser of Kingma & Ba 2015 with their β₁ = 0.9 and β₂ = 0.999, applied to one perturbation.
type adam struct {
	mean, square []float32 // exponential averages of the gradients and of their squares
	scale        []float32 // √ of the unbiased mean square, plus 1e-8, at the last step
	steps        int
}

const beta1, beta2 = 0.9, 0.999

func newAdam(n int) *adam {
	return &adam{mean: make([]float32, n), square: make([]float32, n), scale: make([]float32, n)}
}

// step moves delta by k times a step of Adam against the gradient and returns the largest scale.
func (a *adam) step(delta, gradient []float32, k, rate float64) (largest float32) {
	a.steps++
	by := float32(rate / (1 - math.Pow(beta1, float64(a.steps))))
	unbias := float32(1 / math.Sqrt(1-math.Pow(beta2, float64(a.steps))))
	kk := float32(k)
	mean, square, scale := a.mean[:len(delta)], a.square[:len(delta)], a.scale[:len(delta)]
	for i, g := range gradient[:len(delta)] {
		g *= kk
		mean[i] += (1 - beta1) * (g - mean[i])
		square[i] = beta2*square[i] + (1-beta2)*g*g
		scale[i] = float32(math.Sqrt(float64(square[i])))*unbias + 1e-8
		delta[i] -= by * mean[i] / scale[i]
		largest = max(largest, scale[i])
	}
	return largest
}
