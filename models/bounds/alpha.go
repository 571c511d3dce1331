package bounds

import (
	"context"
	"math"
	"slices"
)

// slopes are the lower slopes of stages that are each row's own, as steps from the upper ones.
type slopes struct {
	at               []float32 // for each row a point of the input, where its bound was taken
	steps, gradients [][]float32
}

// Steps of Adam (Kingma and Ba 2015), and its step size, which falls by a factor at each: auto_LiRPA's defaults.
const (
	alphaSteps   = 20
	alphaRate    = 0.5
	alphaDecay   = 0.98
	beta1, beta2 = 0.9, 0.999
	alphaEpsilon = 1e-8
	alphaMargin  = 1e-6 // of slopes from their range's ends, which rounding must not leave
)

// optimise gives the best bounds of rows of the output that it finds by their free slopes, from CROWN's on. The
// gradient is that at the point of the input where the bound before was taken: the bound is the least value there is,
// so that its gradient is that of the value at the point where it is taken.
func (p *proof) optimise(ctx context.Context, wrong, rows []float32, enough func([]Bound) bool) ([]Bound, error) {
	free, all := p.Network.free.free, len(p.stages)
	count := len(rows) / p.Classes()
	own := &slopes{make([]float32, count*p.size(p.input)), make([][]float32, all), make([][]float32, all)}
	mean, square := make([][]float64, all), make([][]float64, all)
	for _, s := range free {
		own.steps[s.index] = slices.Repeat(p.known[s.index].ports[stepPort], count)
		size := len(own.steps[s.index])
		mean[s.index], square[s.index] = make([]float64, size), make([]float64, size)
	}
	rate, decay1, decay2 := alphaRate, 1.0, 1.0
	var best []Bound
	for step := range alphaSteps + 2 { // the first says where bounds are taken, the last what the steps have brought
		bounds, err := p.run(ctx, p.Network.free, p.output.segment, wrong, rows, own)
		if err != nil {
			return nil, err
		}
		if step == 0 {
			best = slices.Clone(bounds)
		}
		for k, b := range bounds {
			if b.Least() > best[k].Least() {
				best[k] = b
			}
		}
		if enough != nil && enough(best) {
			break
		}
		if step == 0 {
			continue
		}
		decay1, decay2 = decay1*beta1, decay2*beta2
		for _, s := range free {
			r, steps := p.known[s.index], own.steps[s.index]
			m, v := mean[s.index], square[s.index]
			for i, g := range own.gradients[s.index] {
				j := i % len(r.lower)
				if !s.bends(float64(r.lower[j]), float64(r.upper[j])) {
					continue
				}
				m[i] = beta1*m[i] + (1-beta1)*float64(g)
				v[i] = beta2*v[i] + (1-beta2)*float64(g)*float64(g)
				slope := float64(r.ports[slopePort][j])
				alpha := slope + float64(steps[i]) + rate*m[i]/(1-decay1)/(math.Sqrt(v[i]/(1-decay2))+alphaEpsilon)
				steps[i] = float32(min(max(alpha, s.free[0]+alphaMargin), s.free[1]-alphaMargin) - slope)
			}
		}
		rate *= alphaDecay
	}
	return best, nil
}
