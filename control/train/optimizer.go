package train

import (
	"fmt"
	"math"
)

// Method is an optimiser.
type Method int

// The optimisers, as PyTorch defines them.
const (
	SGD  Method = iota // with momentum: v ← μ·v + g, p ← p − lr·v
	Adam               // Kingma & Ba 2015, β = 0.9 and 0.999, ε = 1e-8, bias corrected
)

// Adam's constants.
const (
	beta1, beta2 = 0.9, 0.999
	adamEpsilon  = 1e-8
)

// Optimizer says how parameters follow their gradients.
type Optimizer struct {
	Method       Method
	LearningRate float64 // default 0.001 with Adam, 0.01 with SGD
	Momentum     float64 // SGD only; default 0.9
	WeightDecay  float64 // decay·p is added to the gradient, with both methods; default 0
}

// Schedule is how the learning rate moves over a training of so many steps.
type Schedule int

// The schedules.
const (
	Constant Schedule = iota
	Cosine            // lr·(1 + cos(π·k/K))/2 at step k of K: down to 0 (Loshchilov & Hutter 2017)
	Steps             // a tenth after half of the steps, a hundredth after three quarters
)

// Rate is the factor of the learning rate at step k, from 0, of all.
func (s Schedule) Rate(k, all int) float64 {
	switch s {
	case Cosine:
		return (1 + math.Cos(math.Pi*float64(k)/float64(max(all, 1)))) / 2
	case Steps:
		switch {
		case 4*k >= 3*all:
			return 0.01
		case 2*k >= all:
			return 0.1
		}
	}
	return 1
}

// optimizer is an Optimizer with its state: float32 numbers, computed in float64.
type optimizer struct {
	Optimizer
	State optimizerState
}

// optimizerState has one slice a parameter: the momentum v, or Adam's first and second moments.
type optimizerState struct {
	Count         int // updates made
	First, Second [][]float32
}

func newOptimizer(o Optimizer, values [][]float32) *optimizer {
	out := &optimizer{Optimizer: o}
	for _, v := range values {
		out.State.First = append(out.State.First, make([]float32, len(v)))
		if o.Method == Adam {
			out.State.Second = append(out.State.Second, make([]float32, len(v)))
		}
	}
	return out
}

// update moves values along their gradient with the learning rate times factor.
func (o *optimizer) update(values [][]float32, gradient [][]float64, factor float64) {
	o.State.Count++
	rate := o.LearningRate * factor
	// Adam's bias corrections: what averages that began at 0 still lack.
	first := 1 - math.Pow(beta1, float64(o.State.Count))
	second := math.Sqrt(1 - math.Pow(beta2, float64(o.State.Count)))
	for i, v := range values {
		m := o.State.First[i]
		for k, g := range gradient[i] {
			g += o.WeightDecay * float64(v[k])
			if o.Method == SGD {
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

// fits is an error for a state that belongs to other parameters.
func (s optimizerState) fits(o *optimizer) error {
	same := func(a, b [][]float32) bool {
		if len(a) != len(b) {
			return false
		}
		for i := range a {
			if len(a[i]) != len(b[i]) {
				return false
			}
		}
		return true
	}
	if !same(s.First, o.State.First) || !same(s.Second, o.State.Second) {
		return fmt.Errorf("it belongs to other parameters")
	}
	return nil
}
