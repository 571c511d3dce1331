package control

import (
	"context"
	"fmt"
	"sync"

	"selfheal/models/onnx"
)

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
	first  int                // the first controlled stage
	last   int                // the last controlled stage
	freed  map[int]*sync.Pool // pools of freed vectors, by length
}

// NewController compiles the closed loop of a chain with one layer or more. It needs gradient rules only for an
// iterating solver.
func NewController(chain *Chain, name string, solver Solver, layers []Layer) (*Controller, error) {
	net := chain.net
	embeddings := map[int]*onnx.Graph{}
	c := &Controller{Name: name, Solver: solver, net: net, first: len(chain.Segments), freed: map[int]*sync.Pool{}}
	for _, l := range layers {
		if embeddings[l.T] != nil {
			return nil, fmt.Errorf("control %s has two layers at boundary %d of model %s", name, l.T, net.Name)
		}
		embeddings[l.T] = l.Embedding
		c.first, c.last = min(c.first, l.T), max(c.last, l.T)
	}
	for t, f := range chain.Segments {
		s := &stage{plain: graphs{f, embeddings[t]}, last: t == c.last}
		c.stages = append(c.stages, s)
		if err := s.compile(net, solver.Iterates() && t >= c.first && t <= c.last); err != nil {
			c.Close()
			return nil, fmt.Errorf("control %s, model %s, segment %d: %w", name, net.Name, t, err)
		}
		c.freed[s.size], c.freed[s.next] = &sync.Pool{}, &sync.Pool{}
	}
	return c, nil
}

// Close frees the loop's programs but not the network's.
func (c *Controller) Close() {
	for _, s := range c.stages {
		s.passes.close()
	}
}

// Outcome is the result of the closed loop for one image.
type Outcome struct {
	Logits    []float32
	Controls  [][]float32 // u_t; nil if stage t has no embedding
	Objective float64     // Σ_t ½‖E_t(z_t) − z_t‖² + (c/2)‖u_t‖² along the final path
	Greedy    float64     // the same for the greedy start
	Norm      float64     // sqrt(Σ_t ‖u_t‖²)
	Layers    []LayerCost // along the final path, from the first controlled stage to the last
	Sweeps    []SweepCost // the greedy start and each sweep; only [Controller.RunTraced] sets it
}

// LayerCost is the size and the running loss of one control on one image.
type LayerCost struct {
	T    int     // the stage whose input is controlled
	Norm float64 // ‖u_t‖
	Loss float64 // the running loss, ½‖E_t(z_t) − z_t‖² + (c/2)‖u_t‖²
}

// SweepCost is the objective at a solver's greedy start or after a sweep.
type SweepCost struct {
	Objective float64 // Σ_t of the layers' running losses
	Layers    []LayerCost
}

// Run heals one image: it solves for its controls and returns the controlled network's answer.
func (c *Controller) Run(ctx context.Context, image []float32) (*Outcome, error) {
	greedy, final, weight := &Outcome{}, &Outcome{}, c.Solver.Regularization
	n := &numbers{c, ctx}
	p, err := solve(c, n, image, !c.ByFile(), greedy.addCosts(weight), final.addCosts(weight))
	if err == nil {
		err = n.end(p)
	}
	if err != nil {
		return nil, err
	}
	n.release(p)
	if !c.Solver.Iterates() {
		final = greedy
	}
	final.Greedy = greedy.Objective
	return final.end(p), nil
}

// Logits writes the controlled network's answer into out: [Controller.Run] without the costs.
func (c *Controller) Logits(ctx context.Context, image, out []float32) error {
	n := &numbers{c, ctx}
	p, err := solve(c, n, image, !c.ByFile(), nil, nil)
	if err == nil {
		err = n.end(p)
	}
	if err == nil {
		logits := p.x[len(p.x)-1]
		copy(out, logits)
		n.release(p, append(p.u, logits)...)
	}
	return err
}
