package control

import (
	"context"
	"fmt"
	"math"

	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// Solver says how the controls are found.
type Solver struct {
	Method         Method
	Outer          int     // sweeps; paper: 3
	Inner          int     // ascent steps a layer and sweep; paper: 10; pmp makes 1
	Regularization float64 // c of (c/2)‖u‖²; paper: 0.001
	LearningRate   float64 // of the ascent on the Hamiltonian, per image
	Momentum       float64 // of the ascent, in [0,1)
}

// Method is a way to find the controls.
type Method int

// The methods.
const (
	Greedy Method = iota // u_t = E_t(x_t) − x_t along the controlled path
	MSA                  // the method of successive approximations, Algorithm 1
	PMP                  // Pontryagin's maximum principle with one ascent step a layer and sweep
)

// String returns the config's name of the method.
func (m Method) String() string { return [...]string{"greedy", "msa", "pmp"}[m] }

// Layer places an embedding at the input of segment T.
type Layer struct {
	T         int
	Embedding *onnx.Graph
}

// Controller is a network in a closed loop. It is safe for concurrent use.
type Controller struct {
	Name   string
	Solver Solver
	net    *Network
	stages []*stage
	first  int // the first controlled stage
	last   int // the last controlled stage
}

// NewController compiles the closed loop of a network cut into a chain. Only a
// solver that needs gradients asks for gradient rules.
func NewController(chain *Chain, name string, solver Solver, layers []Layer) (*Controller, error) {
	net := chain.net
	if len(layers) == 0 {
		return nil, errNoLayers
	}
	embeddings := map[int]*onnx.Graph{}
	c := &Controller{Name: name, Solver: solver, net: net, first: len(chain.Segments)}
	for _, l := range layers {
		if embeddings[l.T] != nil {
			return nil, fmt.Errorf("control %s has two layers at boundary %d of model %s", name, l.T, net.Name)
		}
		embeddings[l.T] = l.Embedding
		c.first, c.last = min(c.first, l.T), max(c.last, l.T)
	}
	for t, s := range chain.Segments {
		// The sweep goes from the last controlled stage down to the first: behind
		// them p is 0, before them nothing reads it.
		swept := solver.Method != Greedy && t >= c.first && t <= c.last
		st, err := newStage(net, s, embeddings[t], swept, t == c.last)
		if st != nil {
			c.stages = append(c.stages, st)
		}
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("control %s, model %s, segment %d: %w", name, net.Name, t, err)
		}
	}
	return c, nil
}

// Close frees the loop's programs, not the network's.
func (c *Controller) Close() {
	for _, s := range c.stages {
		s.close()
	}
}

// Outcome is what the closed loop gives for one image.
type Outcome struct {
	Logits    []float32
	Controls  [][]float32 // u_t; nil where stage t has no embedding
	Objective float64     // Σ_t ½‖E_t(z_t) − z_t‖² + (c/2)‖u_t‖² along the final path
	Greedy    float64     // the same for the greedy start
	Norm      float64     // sqrt(Σ_t ‖u_t‖²)
}

// Run heals one image: it solves for its controls and returns the controlled
// network's answer. The result depends on the image alone.
//
// The loop is the paper's Algorithm 1, with the controlled state z_t = x_t + u_t
// wherever the print mixes x_t and z_t: greedy start, then Outer sweeps of a
// forward pass that keeps every x_t and a backward pass that, from the last
// stage to the first, ascends the Hamiltonian in u_t with x_t and p_{t+1} held
// and then moves the adjoint, p_t = ∇_x H(x_t, u_t, p_{t+1}), p_T = 0.
func (c *Controller) Run(ctx context.Context, image []float32) (*Outcome, error) {
	r := &run{c: c, ctx: ctx, out: &Outcome{Controls: make([][]float32, len(c.stages))}}
	r.states = make([][]float32, len(c.stages)+1)
	r.controlled = make([][]float32, len(c.stages))
	r.states[0] = image
	for t, s := range c.stages {
		r.states[t+1] = make([]float32, s.next)
		r.controlled[t] = make([]float32, s.size)
		if s.embed != nil {
			r.out.Controls[t] = make([]float32, s.size)
		}
	}
	if err := r.forward(true, true, c.Solver.Method == Greedy); err != nil {
		return nil, err
	}
	r.out.Greedy = r.objective
	if c.Solver.Method != Greedy {
		inner := c.Solver.Inner
		if c.Solver.Method == PMP {
			inner = 1
		}
		for sweep := range c.Solver.Outer {
			if sweep > 0 { // the greedy start was a forward pass with the present controls
				if err := r.forward(false, false, false); err != nil {
					return nil, err
				}
			}
			if err := r.backward(inner); err != nil {
				return nil, err
			}
		}
		if err := r.forward(false, true, true); err != nil {
			return nil, err
		}
	}
	r.out.Objective = r.objective
	r.out.Logits = r.states[len(c.stages)]
	r.out.Norm = math.Sqrt(r.norm)
	return r.out, nil
}

// run is the state of one image's loop.
type run struct {
	c          *Controller
	ctx        context.Context
	out        *Outcome
	states     [][]float32 // x_t, and the logits at T
	controlled [][]float32 // z_t = x_t + u_t
	objective  float64     // of the last forward pass that took the cost
	norm       float64     // Σ_t ‖u_t‖², likewise
}

func (r *run) exec(p *ort.Program, out []float32, in ...[]float32) error {
	return r.c.net.pool.Run(r.ctx, p, in, [][]float32{out})
}

// forward runs x_{t+1} = F_t(x_t + u_t). With greedy it chooses u_t = E_t(x_t) − x_t
// on the way, with cost it adds up the running costs, and without whole it stops
// at the last controlled state: a sweep, whose p is 0 from there on, reads no other.
func (r *run) forward(greedy, cost, whole bool) error {
	if cost {
		r.objective, r.norm = 0, 0
	}
	for t, s := range r.c.stages {
		x, z, u := r.states[t], r.controlled[t], r.out.Controls[t]
		copy(z, x)
		if u != nil {
			e := make([]float32, s.size)
			if greedy {
				if err := r.exec(s.embed, e, x); err != nil {
					return err
				}
				for i := range u {
					u[i] = e[i] - x[i]
				}
			}
			for i := range z {
				z[i] = x[i] + u[i]
			}
			if cost {
				if err := r.exec(s.embed, e, z); err != nil {
					return err
				}
				r.addCost(e, z, u)
			}
		}
		if t == r.c.last && !whole {
			return nil
		}
		if err := r.exec(s.forward, r.states[t+1], z); err != nil {
			return err
		}
	}
	return nil
}

// addCost adds the running cost ½‖e − z‖² + (c/2)‖u‖² of one stage, e = E(z).
func (r *run) addCost(e, z, u []float32) {
	residual, norm := 0.0, 0.0
	for i := range z {
		d := float64(e[i]) - float64(z[i])
		residual += d * d
		norm += float64(u[i]) * float64(u[i])
	}
	r.objective += residual/2 + r.c.Solver.Regularization/2*norm
	r.norm += norm
}

// backward makes one sweep of adjoints and ascents, from the last controlled
// stage, behind which p = 0, to the first, before which no control reads p.
func (r *run) backward(inner int) error {
	var p []float32 // p_{t+1}; nil stands for 0
	for t := r.c.last; t >= r.c.first; t-- {
		s, x, z, u := r.c.stages[t], r.states[t], r.controlled[t], r.out.Controls[t]
		dz := make([]float32, s.size)
		gradient := func() error {
			if p == nil {
				return r.exec(s.residual, dz, z)
			}
			return r.exec(s.adjoint, dz, z, p)
		}
		if u != nil {
			c, rate, momentum := float32(r.c.Solver.Regularization), float32(r.c.Solver.LearningRate), float32(r.c.Solver.Momentum)
			v := make([]float32, s.size)
			for range inner {
				if err := gradient(); err != nil {
					return err
				}
				for i := range u {
					v[i] = momentum*v[i] + dz[i] - c*u[i] // ∇_u H = ∇_z H − c·u
					u[i] += rate * v[i]
					z[i] = x[i] + u[i]
				}
			}
		}
		if t == r.c.first {
			return nil
		}
		if err := gradient(); err != nil { // p_t, at the new z_t
			return err
		}
		p = dz
	}
	return nil
}

// Passes is the cost of one controlled pass in units of a plain one, by FLOPs.
func (c *Controller) Passes() float64 {
	var whole, part, embed, sweep int64 // forward to the end, to the last control; every E once; one backward sweep
	inner := int64(c.Solver.Inner)
	if c.Solver.Method == PMP {
		inner = 1
	}
	for t, s := range c.stages {
		whole += s.flops
		embed += s.embedCost
		if t < c.last {
			part += s.flops
		}
		if t < c.first || t > c.last {
			continue
		}
		gradients := int64(0)
		if s.embed != nil {
			gradients = inner
		}
		if t > c.first {
			gradients++
		}
		sweep += gradients * s.sweepCost
	}
	total := whole + 2*embed // choosing the greedy controls and their cost
	if c.Solver.Method != Greedy {
		outer := int64(c.Solver.Outer)
		total = (part + 2*embed) + (outer-1)*part + outer*sweep + (whole + embed)
	}
	return float64(total) / float64(c.net.FLOPs())
}
