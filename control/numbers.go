package control

import (
	"context"
	"math"

	"selfheal/models/ort"
)

// numbers computes with one image's values, on the network's pool.
type numbers struct {
	c      *Controller
	ctx    context.Context
	wanted bool // running costs are
	// Of the greedy start and of the final path.
	greedy, final cost
}

// cost adds up Σ_t ½‖E_t(z_t) − z_t‖² + (c/2)‖u_t‖² and Σ_t ‖u_t‖² along a path.
type cost struct {
	taken           bool
	objective, norm float64
	layers          []LayerCost
}

func (n *numbers) run(p *ort.Program, size int, in ...[]float32) ([]float32, error) {
	out := make([]float32, size)
	return out, n.c.net.pool.Run(n.ctx, p, in, [][]float32{out})
}

func (n *numbers) embed(t int, z []float32) ([]float32, error) {
	s := n.c.stages[t]
	return n.run(s.embed, s.size, z)
}

func (n *numbers) segment(t int, z []float32) ([]float32, error) {
	s := n.c.stages[t]
	return n.run(s.forward, s.next, z)
}

func (n *numbers) ascent(t int, z []float32, p *[]float32) ([]float32, error) {
	s := n.c.stages[t]
	if p == nil {
		return n.run(s.ascent, s.size, z)
	}
	return n.run(s.ascent, s.size, z, *p)
}

func (n *numbers) sum(terms ...term[[]float32]) []float32 {
	out := make([]float32, len(terms[0].value))
	for k, t := range terms {
		switch v := t.value[:len(out)]; {
		case k == 0 && t.weight == 1:
			copy(out, v)
		case k == 0:
			for i, x := range v {
				out[i] = t.weight * x
			}
		default:
			for i, x := range v {
				out[i] += float32(t.weight * x)
			}
		}
	}
	return out
}

func (n *numbers) costs() bool { return n.wanted }

func (n *numbers) running(final bool, e, z, u []float32) {
	residual, norm := 0.0, 0.0
	for i := range z {
		d := float64(e[i]) - float64(z[i])
		residual += d * d
		norm += float64(u[i]) * float64(u[i])
	}
	to := &n.greedy
	if final {
		to = &n.final
	}
	to.taken = true
	loss := residual/2 + n.c.Solver.Regularization/2*norm
	to.objective += loss
	to.norm += norm
	to.layers = append(to.layers, LayerCost{Norm: math.Sqrt(norm), Loss: loss})
}

// outcome sums up a solved path.
func (n *numbers) outcome(p *path[[]float32]) *Outcome {
	if !n.final.taken {
		n.final = n.greedy
	}
	layers := n.final.layers
	for t, s := range n.c.stages { // paths visit the controlled stages in order
		if s.embedding != nil {
			layers[0].T, layers = t, layers[1:]
		}
	}
	return &Outcome{Logits: p.x[len(n.c.stages)], Controls: p.u, Objective: n.final.objective,
		Greedy: n.greedy.objective, Norm: math.Sqrt(n.final.norm), Layers: n.final.layers}
}
