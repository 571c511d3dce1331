package control

import (
	"context"
	"fmt"
	"slices"
)

// Point is a solver's progress on one image: the controls found so far and their outcome.
type Point struct {
	Sweep int  // sweep of the last step, from 1; 0 is the greedy start
	Layer int  // segment whose control the last step moved; −1 at the greedy start
	Step  int  // ascent steps at this layer in this sweep
	Done  bool // the sweep is complete, or this is the greedy start
	// Passes is the cost of a solver that stops here, in plain forward passes, by FLOPs.
	Passes float64
	// Outcome is the result with these controls. Its objective is NaN or infinite once the solver has diverged. Do
	// not change its controls; Greedy and Sweeps are not set.
	Outcome
}

// Detail says how many points [Controller.Trace] reports.
type Detail int

// The details.
const (
	EachSweep Detail = iota // the greedy start and the end of every sweep
	EachStep                // and every ascent step
)

// Trace solves for one image's controls as [Controller.Run] does and calls see with the points on the way. The last
// point is Run's outcome, bit for bit. Each point costs a forward pass with its embeddings, which Passes do not
// count.
func (c *Controller) Trace(ctx context.Context, image []float32, d Detail, see func(Point) error) error {
	p := newPath[[]float32](c)
	p.x[0] = image
	t := &tracer{numbers: numbers{c, ctx}, path: p, detail: d, see: see, asked: make(counting, len(c.stages)),
		layer: -1}
	ended := func() error { // called at the greedy start and after a sweep, which has a step at the first layer
		err := t.point(true)
		t.sweep, t.layer = t.sweep+1, -1
		return err
	}
	if err := p.forward(c, t, true, false, nil); err != nil {
		return err
	}
	if err := ended(); err != nil {
		return err
	}
	return p.sweeps(c, t, ended) // every point runs the pass that [solve] ends with
}

// tracer computes as [numbers] does and counts the cost. The questions tell it which step is under way.
type tracer struct {
	numbers
	path        *path[[]float32] // the solver's own
	detail      Detail
	see         func(Point) error
	asked       counting
	sweep       int
	layer, step int
	stepping    bool // an ascent step has begun and its point is not reported yet
}

// ask sees a step begin. An ascent begins a step or, once a layer has made all of its steps, moves the adjoint; the
// step before is then over.
func (t *tracer) ask(q question, i int, z []float32, p *[]float32) ([]float32, error) {
	if q == ascent {
		if t.stepping && t.detail == EachStep {
			if err := t.point(false); err != nil {
				return nil, err
			}
		}
		if i != t.layer {
			t.layer, t.step = i, 0
		}
		t.stepping = t.c.stages[i].controlled() && t.step < t.c.Solver.steps()
		if t.stepping {
			t.step++
		}
	}
	t.asked[i][q]++
	return t.numbers.ask(q, i, z, p)
}

// free keeps the value, as points give the solver's controls to see.
func (t *tracer) free([]float32) {}

// point runs the network with the present controls and reports the outcome.
func (t *tracer) point(done bool) error {
	t.stepping = false
	c := t.c
	p, o := newPath[[]float32](c), &Outcome{}
	copy(p.u, t.path.u)
	p.x[c.first] = slices.Clone(t.path.x[c.first]) // no control comes before
	err := p.forward(c, &t.numbers, false, !c.ByFile(), o.addCosts(c.Solver.Regularization))
	if err == nil {
		err = t.end(p)
	}
	if err != nil {
		return err
	}
	// The cost of the rest of the answer: the greedy pass has reached the last controlled state, later controls no
	// state.
	flops, from := t.asked.flops(c), c.first
	if t.sweep == 0 {
		from = c.last
	}
	for _, s := range c.stages[from:] {
		flops += s.passes[segment].flops
	}
	return t.see(Point{Sweep: t.sweep, Layer: t.layer, Step: t.step, Done: done,
		Passes: float64(flops) / float64(c.net.FLOPs()), Outcome: *o.end(p)})
}

// RunTraced is [Controller.Run], bit for bit, and also sets Sweeps to the costs at the greedy start and after every
// sweep. Each sweep costs one more forward pass with its embeddings.
func (c *Controller) RunTraced(ctx context.Context, image []float32) (*Outcome, error) {
	var o Outcome
	var sweeps []SweepCost
	err := c.Trace(ctx, image, EachSweep, func(p Point) error {
		o, sweeps = p.Outcome, append(sweeps, SweepCost{p.Objective, p.Layers})
		return nil
	})
	if err != nil {
		return nil, err
	}
	o.Greedy, o.Sweeps = sweeps[0].Objective, sweeps
	return &o, nil
}

// WithSolver returns the same closed loop with another solver. It shares c's programs, so close only c. It returns an
// error for an iterating solver if c was made for the greedy one, because c then has no gradients.
func (c *Controller) WithSolver(s Solver) (*Controller, error) {
	if !c.Solver.Iterates() && s.Iterates() {
		return nil, fmt.Errorf("control %s, model %s: a loop made for the greedy solver has no gradients for %v",
			c.Name, c.net.Name, s.Method)
	}
	with := *c
	with.Solver = s
	return &with, nil
}
