package train

import "math"

// Adam's constants.
const (
	beta1, beta2 = 0.9, 0.999
	adamEpsilon  = 1e-8
)

// optimizer changes parameters by their gradients. Numbers are float32 and computed in float64.
type optimizer struct {
	Settings
	State optimizerState
}

// optimizerState has one slice for each parameter: the momentum v, or Adam's first and second moments.
type optimizerState struct {
	Count         int // number of updates so far
	First, Second [][]float32
}

func newOptimizer(s Settings, values [][]float32) *optimizer {
	out := &optimizer{Settings: s}
	for _, v := range values {
		out.State.First = append(out.State.First, make([]float32, len(v)))
		if s.Optimizer == Adam {
			out.State.Second = append(out.State.Second, make([]float32, len(v)))
		}
	}
	return out
}

// clip scales a gradient down to an ℓ2 norm, over all its numbers together, as PyTorch's clip_grad_norm_ does. A norm
// of 0 changes nothing.
func clip(gradient [][]float64, norm float64) {
	sum := 0.0
	for _, g := range gradient {
		for _, v := range g {
			sum += v * v
		}
	}
	if factor := norm / (math.Sqrt(sum) + 1e-6); norm > 0 && factor < 1 {
		for _, g := range gradient {
			for i := range g {
				g[i] *= factor
			}
		}
	}
}

// update changes values by their gradient, with the learning rate times factor.
func (o *optimizer) update(values [][]float32, gradient [][]float64, factor float64) {
	o.State.Count++
	rate := o.LearningRate * factor
	// Adam's bias corrections, for averages that began at 0.
	first := 1 - math.Pow(beta1, float64(o.State.Count))
	second := math.Sqrt(1 - math.Pow(beta2, float64(o.State.Count)))
	for i, v := range values {
		m := o.State.First[i]
		for k, g := range gradient[i] {
			g += o.WeightDecay * float64(v[k])
			if o.Optimizer != Adam {
				u := o.Momentum*float64(m[k]) + g
				m[k] = float32(u)
				v[k] = float32(float64(v[k]) - rate*u)
				continue
			}
			s := o.State.Second[i]
			a := beta1*float64(m[k]) + (1-beta1)*g
			b := beta2*float64(s[k]) + (1-beta2)*g*g
			m[k], s[k] = float32(a), float32(b)
			v[k] = float32(float64(v[k]) - rate/first*a/(math.Sqrt(b)/second+adamEpsilon))
		}
	}
}
