package control

import (
	"context"
	"math"
)

// numbers computes with one image's values on the network's pool. Freed vectors are used again, for this image and
// others.
type numbers struct {
	c   *Controller
	ctx context.Context
}

func (n *numbers) vector(size int) []float32 {
	if v, ok := n.c.freed[size].Get().(*[]float32); ok {
		return *v
	}
	return make([]float32, size)
}

func (n *numbers) free(v []float32) {
	if v != nil {
		boxed := v
		n.c.freed[len(v)].Put(&boxed)
	}
}

// release frees a path and the other vectors. It keeps the path's image, controls and logits.
func (n *numbers) release(p *path[[]float32], others ...[]float32) {
	for t := range n.c.stages {
		p.leave(n.c, n, t)
	}
	for _, v := range others {
		n.free(v)
	}
}

func (n *numbers) ask(q question, t int, z []float32, p *[]float32) ([]float32, error) {
	s, in := n.c.stages[t], [][]float32{z}
	if p != nil {
		in = append(in, *p)
	}
	size := s.size
	if q == segment {
		size = s.next
	}
	if q == segment && t == len(n.c.stages)-1 {
		truth, err := n.c.net.Task.of(n.ctx)
		if err != nil {
			return nil, err
		}
		in = append(in, truth...)
	}
	out := n.vector(size)
	return out, n.c.net.pool.Run(n.ctx, s.passes[q].program, in, [][]float32{out})
}

func (n *numbers) sum(terms ...term[[]float32]) []float32 {
	out := n.vector(len(terms[0].value))
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

// addCosts returns a look that adds up the costs of a path: Σ_t ½‖E_t(z_t) − z_t‖² + (c/2)‖u_t‖², and in the norm Σ_t
// ‖u_t‖².
func (o *Outcome) addCosts(c float64) look[[]float32] {
	return func(t int, e, z, u []float32) {
		residual, norm := 0.0, 0.0
		for i := range z {
			d := float64(e[i]) - float64(z[i])
			residual += d * d
			norm += float64(u[i]) * float64(u[i])
		}
		loss := residual/2 + c/2*norm
		o.Objective += loss
		o.Norm += norm
		o.Layers = append(o.Layers, LayerCost{T: t, Norm: math.Sqrt(norm), Loss: loss})
	}
}

func (o *Outcome) end(p *path[[]float32]) *Outcome {
	o.Logits, o.Controls, o.Norm = p.x[len(p.u)], p.u, math.Sqrt(o.Norm)
	return o
}
