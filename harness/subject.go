package harness

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/config"
	"selfheal/harness/result"
)

// subject is a classifier of a job: a network alone or under a controller. What is
// judged is always the classifier; what is attacked may know it or not.
type subject struct {
	what       string // for messages
	defense    string // "none" or the control's name
	controller *controller
	classes    int
	classifier
}

// attacked reports whether a mode's attacks are made on this very subject; otherwise
// it is given what was made on the undefended network.
func (s subject) attacked(mode string) bool { return s.controller == nil || mode != result.Oblivious }

// logits asks the classifier.
func (s subject) logits(ctx context.Context, image []float32) ([]float32, error) {
	z := make([]float32, s.classes)
	return z, s.ask(ctx, image, z)
}

// classifier is a network with or without its controller.
type classifier struct {
	ask func(ctx context.Context, image, logits []float32) error
	// solve is ask with what the closed loop did; nil for a plain network.
	solve func(ctx context.Context, image []float32) (*control.Outcome, error)
	// follow is solve with the costs of every sweep; nil where nobody asks for them.
	follow func(ctx context.Context, image []float32) (*control.Outcome, error)
	state  int64 // that it keeps for an image, in bytes
}

func plain(n *control.Network) subject {
	return subject{what: "model " + n.Name, defense: config.None, classes: n.Classes(),
		classifier: classifier{ask: n.Logits, state: 4 * int64(n.Classes())}}
}

func controlled(n *control.Network, c *controller) subject {
	return subject{what: fmt.Sprintf("control %s on model %s", c.Name, n.Name), defense: c.Name, controller: c, classes: n.Classes(),
		classifier: classifier{ask: c.Logits, solve: c.Run, state: c.state}}
}

// followed is the subject for whoever wants to know the sweeps of its control, which cost
// passes; greedy control has none.
func (s subject) followed() subject {
	if s.controller != nil && s.controller.Solver.Method != control.Greedy {
		s.follow = s.controller.RunTraced
	}
	return s
}

// target is what an attack asks: an oracle and what its answers cost.
type target struct {
	attacks.Oracle
	subject subject
	cost    control.Cost
	state   int64 // that a gradient keeps for an image, in bytes, beside the attack's own
	prepare func(attacks.Loss) error
	close   func()
}

// knowledge says what a mode's attacker knows of the controls.
var knowledge = map[string]control.Knowledge{
	result.WhiteboxDetached: control.Detached, result.WhiteboxThrough: control.Through,
}

// undefended is the target of an attack on the network alone.
func undefended(n *control.Network, s subject) *target {
	return &target{Oracle: n, subject: s, cost: control.Cost{Logits: 1, Forward: 1, Backward: 1}, prepare: n.Prepare, close: func() {}}
}

// defended is the target of a white-box attack on a controlled network.
func defended(s subject, mode string) (*target, error) {
	c := s.controller
	d, err := c.WhiteBox(knowledge[mode])
	if err != nil {
		return nil, err
	}
	t := &target{Oracle: d, subject: s, state: c.state, prepare: d.Prepare, close: d.Close}
	if knowledge[mode] == control.Through && c.Solver.Method != control.Greedy {
		t.state += 4 * c.TapeValues()
	}
	if t.cost, err = d.Cost(); err != nil {
		d.Close()
		return nil, err
	}
	return t, nil
}

// counted counts the passes that go through a target: what an attack really
// cost, whatever it says itself.
type counted struct {
	*target
	logits, gradients atomic.Int64
}

func (o *counted) Logits(ctx context.Context, x, out []float32) error {
	o.logits.Add(1)
	return o.Oracle.Logits(ctx, x, out)
}

func (o *counted) Gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int, e *attacks.Evaluation) error {
	o.gradients.Add(1)
	return o.Oracle.Gradient(ctx, x, loss, label, target, e)
}

// made is the passes made so far, forward and backward ones together, each of the
// target's own; an attack's Passes promises as many.
func (o *counted) made() int64 { return o.logits.Load() + 2*o.gradients.Load() }

// passes are the forward and backward passes made so far in units of the plain network's.
func (o *counted) passes() (forward, backward int64) {
	logits, gradients := float64(o.logits.Load()), float64(o.gradients.Load())
	return int64(math.Round(logits*o.cost.Logits + gradients*o.cost.Forward)), int64(math.Round(gradients * o.cost.Backward))
}
