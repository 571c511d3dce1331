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
	"selfheal/internal/number"
	"selfheal/internal/vector"
)

// subject is what scoring a classifier needs to know of it, beside its answers. A merge of shards has it
// from their journals, and opens nothing.
type subject struct {
	Model   string        `json:"model"`
	Classes int           `json:"classes"`
	Shape   attacks.Shape `json:"shape"`
	Notices []string      `json:"notices,omitempty"` // of what was done to the network when it was opened
	Control *looped       `json:"control,omitempty"` // nil: the network alone
}

// looped is what is known of a closed loop around a network.
type looped struct {
	Name   string         `json:"name"`
	Solver control.Solver `json:"solver"`
	Passes float64        `json:"passes"` // of the network alone, that an answer costs
	Places map[int]string `json:"places"` // the layers' stages, as the config calls them
}

// String names the classifier in messages.
func (s subject) String() string {
	if s.Control == nil {
		return "model " + s.Model
	}
	return fmt.Sprintf("control %s on model %s", s.Control.Name, s.Model)
}

// defense is "none" or the control's name.
func (s subject) defense() string {
	if s.Control == nil {
		return config.None
	}
	return s.Control.Name
}

// attacked reports whether a mode's attacks are made on this very classifier; otherwise
// it is given what was made on the undefended network.
func (s subject) attacked(mode string) bool { return s.Control == nil || mode != result.Oblivious }

// classifier is what is judged: a network alone or under a controller. What is attacked may
// know the controller or not.
type classifier struct {
	subject
	net  *control.Network
	loop *controller // nil: the network alone
}

// alone is a network without a controller.
func alone(n *control.Network) classifier {
	return classifier{net: n, subject: subject{Model: n.Name, Classes: n.Classes(), Shape: n.Shape(),
		Notices: n.Graph.Notices}}
}

// under is a network under a controller.
func under(loop *controller, n *control.Network) classifier {
	c := alone(n)
	c.loop, c.Control = loop, &looped{loop.Name, loop.Solver, loop.Passes(), loop.places}
	return c
}

// state is what an answer keeps for an image, in bytes.
func (c classifier) state() int64 {
	if c.loop == nil {
		return 4 * int64(c.Classes)
	}
	return c.loop.state
}

// logits asks the classifier.
func (c classifier) logits(ctx context.Context, image []float32) ([]float32, error) {
	z := make([]float32, c.Classes)
	if c.loop == nil {
		return z, c.net.Logits(ctx, image, z)
	}
	return z, c.loop.Logits(ctx, image, z)
}

// solve asks a controlled classifier, with what its loop did; where swept is set also from
// sweep to sweep, which costs a pass each. Greedy control has no sweeps.
func (c classifier) solve(ctx context.Context, image []float32, swept bool) (*control.Outcome, error) {
	if swept && c.loop.Solver.Iterates() {
		return c.loop.RunTraced(ctx, image)
	}
	return c.loop.Run(ctx, image)
}

// oracle is what an attack asks: a classifier, as far as the attacker knows it, and what its
// answers cost.
type oracle struct {
	attacks.Oracle
	of      classifier // that judges
	exact   *oracle    // the same in the judge's arithmetic; nil where this one is
	cost    control.Cost
	state   int64 // that a gradient keeps for an image, in bytes, with the attack's own
	prepare func(attacks.Loss) error
	close   func()
}

// knowledge says what a white-box mode's attacker knows of the controls.
var knowledge = map[string]control.Knowledge{
	result.WhiteboxDetached: control.Detached, result.WhiteboxThrough: control.Through,
}

// oracleOf is what an attacker of a mode asks of a classifier. Close it before the classifier.
func oracleOf(c classifier, mode string) (*oracle, error) {
	state := attackState(c.net.Shape())
	if c.loop == nil {
		return &oracle{Oracle: c.net, of: c, cost: control.Cost{Logits: 1, Forward: 1, Backward: 1}, state: state,
			prepare: c.net.Prepare, close: func() {}}, nil
	}
	knows := knowledge[mode]
	d, err := c.loop.WhiteBox(knows)
	if err != nil {
		return nil, err
	}
	o := &oracle{Oracle: d, of: c, state: state + c.loop.state, prepare: d.Prepare, close: d.Close}
	if knows == control.Through && c.loop.Solver.Iterates() {
		o.state += 4 * c.loop.TapeValues()
	}
	if o.cost, err = d.Cost(); err != nil {
		d.Close()
		return nil, err
	}
	return o, nil
}

// listener is a controlled network that is not attacked itself.
type listener struct {
	*control.Network
	loop *controller
}

// Logits are the loop's.
func (l listener) Logits(ctx context.Context, x, out []float32) error {
	return l.loop.Logits(ctx, x, out)
}

// listening is the oracle of a classifier that is not attacked itself.
func listening(who classifier) *oracle {
	o := &oracle{Oracle: who.net, of: who, state: who.state(), cost: control.Cost{Logits: 1}}
	if who.loop != nil {
		o.Oracle, o.cost.Logits = listener{who.net, who.loop}, who.Control.Passes
	}
	return o
}

// counted counts the passes that go through an oracle: what an attack really
// cost, whatever it says itself.
type counted struct {
	*oracle
	logits, gradients atomic.Int64
}

func (o *counted) Logits(ctx context.Context, x, out []float32) error {
	o.logits.Add(1)
	return o.Oracle.Logits(ctx, x, out)
}

// LogitsOf are those of the image that fill writes, for a classifier that is not attacked itself: to where a bare
// network takes it, or to x, which a closed loop reads.
func (o *counted) LogitsOf(ctx context.Context, fill func(x []float32), x, out []float32) error {
	if o.of.loop != nil {
		fill(x)
		return o.Logits(ctx, x, out)
	}
	o.logits.Add(1)
	return o.of.net.LogitsOf(ctx, fill, out)
}

func (o *counted) Gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation) error {
	o.gradients.Add(1)
	return o.Oracle.Gradient(ctx, x, loss, label, target, e)
}

// made is the passes made so far, forward and backward ones together, each of the
// oracle's own; an attack's Passes promises as many.
func (o *counted) made() int64 { return o.logits.Load() + 2*o.gradients.Load() }

// passes are the forward and backward passes made so far in units of the plain network's.
func (o *counted) passes() (forward, backward int64) {
	logits, gradients := float64(o.logits.Load()), float64(o.gradients.Load())
	return int64(math.Round(logits*o.cost.Logits + gradients*o.cost.Forward)),
		int64(math.Round(gradients * o.cost.Backward))
}

// watched is what an attack's gradients on one image looked like.
type watched struct {
	Asked     bool `json:"asked,omitempty"`      // by a component that takes gradients
	Zero      bool `json:"zero,omitempty"`       // a run began where the gradient was exactly 0
	NotFinite bool `json:"not_finite,omitempty"` // a gradient or loss was infinite or NaN
}

// vanished is the ℓ2 norm below which a gradient counts as 0: normalised by its norm
// plus 1e-12, as attacks do, it would give steps that are noticeably too short.
const vanished = 1e-11

// watch passes a component's questions about one image on, counts them and looks at the gradients
// that come back.
type watch struct {
	*counted
	made *aftermath
}

func (w *watch) Logits(ctx context.Context, x, out []float32) error {
	w.made.Logits++
	return w.counted.Logits(ctx, x, out)
}

func (w *watch) Gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation) error {
	err := w.counted.Gradient(ctx, x, loss, label, target, e)
	if err != nil {
		return err
	}
	seen := &w.made.Seen
	seen.Asked = true
	if !vector.Finite(e.Gradient) || !number.Finite(float64(e.Loss)) {
		seen.NotFinite = true
	}
	// A vanishing gradient matters where the attack has yet to begin: later the label
	// may rank third, where DLR is constant, and the image be broken anyway.
	if w.made.Gradients == 0 && attacks.L2.Length(e.Gradient) < vanished {
		seen.Zero = true
	}
	w.made.Gradients++
	return nil
}
