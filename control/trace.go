package control

import (
	"context"
	"fmt"
	"slices"
)

// Point is where a solver stands on one image: the controls that it has found so far, and what they give.
type Point struct {
	Sweep int  // of the last step, from 1; 0 is the greedy start
	Layer int  // the segment whose control the last step moved; −1 at the greedy start
	Step  int  // ascent steps made there in this sweep
	Done  bool // the sweep is complete, or this is the greedy start
	// Passes is what a solver costs that stops here, in plain forward passes, by FLOPs.
	Passes float64
	// Outcome is what these controls give: the objective of their own path is NaN or infinite once the solver has
	// diverged. The controls are not to be changed; Greedy and Sweeps are not set.
	Outcome
}

// Detail says how closely [Controller.Trace] follows a solver.
type Detail int

// The details.
const (
	EachSweep Detail = iota // the greedy start and the end of every sweep
	EachStep                // every ascent step besides
)

// Trace solves for one image's controls as [Controller.Run] does and tells see of the points on the way; the last one
// is Run's outcome, bit for bit. Looking costs a forward pass with its embeddings a point, which Passes do not count.
func (c *Controller) Trace(ctx context.Context, image []float32, d Detail, see func(Point) error) error {
	p := newPath[[]float32](c)
	p.x[0] = image
	t := &tracer{numbers: numbers{c, ctx}, path: p, detail: d, see: see, asked: make(counting, len(c.stages)),
		layer: -1}
	ended := func() error { // the greedy start, or a sweep: with a step at the first layer
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
	return p.sweeps(c, t, ended) // every point makes the pass that [solve] ends with
}

// tracer computes as [numbers] does, counts what that costs and knows which step is being made from what it is asked.
type tracer struct {
	numbers
	path        *path[[]float32] // the solver's own
	detail      Detail
	see         func(Point) error
	asked       counting
	sweep       int
	layer, step int
	stepping    bool // an ascent step has been asked for, whose point is not told yet
}

// An ascent begins a step, or moves the adjoint once a layer has made all of its steps. The step before is over by now.
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

// Points hand the solver's controls out.
func (t *tracer) free([]float32) {}

// point sends the present controls through the network and tells what comes of them.
func (t *tracer) point(done bool) error {
	t.stepping = false
	c := t.c
	p, o := newPath[[]float32](c), &Outcome{}
	copy(p.u, t.path.u)
	p.x[c.first] = slices.Clone(t.path.x[c.first]) // no control comes before
	err := p.forward(c, &t.numbers, false, !c.ByFile(), o.tally(c.Solver.Regularization))
	if err == nil {
		err = t.end(p)
	}
	if err != nil {
		return err
	}
	// The rest of an answer is still to pay: the greedy pass has come to the last controlled state, later controls to
	// no state.
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

// RunTraced is [Controller.Run], to the same bits, with the costs at the greedy start and after every sweep in Sweeps.
// Each sweep costs a forward pass with its embeddings more.
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

// WithSolver returns the same closed loop with another solver. It shares c's programs: only c is to be closed. A loop
// made for the greedy solver has no gradients, which every other one needs: that is an error.
func (c *Controller) WithSolver(s Solver) (*Controller, error) {
	if !c.Solver.Iterates() && s.Iterates() {
		return nil, fmt.Errorf("control %s, model %s: a loop made for the greedy solver has no gradients for %v",
			c.Name, c.net.Name, s.Method)
	}
	with := *c
	with.Solver = s
	return &with, nil
}
