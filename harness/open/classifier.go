package open

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/memory"
	"selfheal/internal/number"
	"selfheal/models/onnx"
)

// Info describes a classifier for its cells, beside its answers. A merge reads it from the journals.
type Info struct {
	Model   string        `json:"model"`
	Classes int           `json:"classes"`
	Shape   attacks.Shape `json:"shape"`
	Notices []string      `json:"notices,omitempty"` // notices about changes to the network when it was opened
	Control *ControlInfo  `json:"control,omitempty"` // nil for an undefended network
}

// ControlInfo describes a closed loop around a network.
type ControlInfo struct {
	Name   string         `json:"name"`
	Solver control.Solver `json:"solver"`
	Passes float64        `json:"passes"` // cost of an answer, in passes of the undefended network
	Places map[int]string `json:"places"` // names of the layers' places by stage, as the config writes them
}

// String names the classifier in messages.
func (s Info) String() string {
	if s.Control == nil {
		return "model " + s.Model
	}
	return fmt.Sprintf("control %s on model %s", s.Control.Name, s.Model)
}

// Defense returns the control's name, or "none".
func (s Info) Defense() string {
	if s.Control == nil {
		return cell.None
	}
	return s.Control.Name
}

// Classifier is a network, undefended or under a controller, in the form that is judged. The attacker may know the
// controller or not.
type Classifier struct {
	Info
	Net  *control.Network // nil in a merge, which opens no network
	Loop *Controller      // nil for an undefended network
}

// Alone returns the undefended network.
func Alone(n *control.Network) Classifier {
	return Classifier{Net: n, Info: Info{Model: n.Name, Classes: n.Classes(), Shape: n.Shape(),
		Notices: n.Graph.Notices}}
}

// Under returns a network under a controller.
func Under(loop *Controller, n *control.Network) Classifier {
	c := Alone(n)
	if n.File() != nil && !loop.ByFile() {
		c.Notices = onnx.Each(c.Notices, func(s string) string {
			return strings.Replace(s, NoticeByFile, NoticeByCopy, 1)
		})
	}
	c.Loop, c.Control = loop, &ControlInfo{loop.Name, loop.Solver, loop.Passes(), loop.Places}
	return c
}

// State returns the memory that an answer keeps for an image, in bytes.
func (c Classifier) State() int64 {
	if c.Loop == nil {
		return 4 * int64(c.Classes)
	}
	return c.Loop.State
}

// Logits returns the classifier's answer. If the scores were taken out of its file, the file's own label is asked too
// and must agree.
func (c Classifier) Logits(ctx context.Context, image []float32) ([]float32, error) {
	z := make([]float32, c.Classes)
	if c.Loop != nil {
		return z, c.Loop.Logits(ctx, image, z)
	}
	err := c.Net.Answer(ctx, image, z)
	if file, ok := c.Net.File().(*Original); ok && err == nil {
		err = file.labelled(image, z)
	}
	return z, err
}

// NotFinite is the error about an answer from which no margin follows.
type NotFinite struct {
	Who   Info
	Image int
}

// Error says what to do.
func (e NotFinite) Error() string {
	hint := ""
	if e.Who.Control != nil {
		hint = "; where the network alone is finite, a smaller learning_rate of an msa or pmp solver may help"
	}
	return fmt.Sprintf("%s gives numbers that are not finite on image %d%s", e.Who, e.Image, hint)
}

// Oracle answers an attack's questions about a classifier, as far as the attacker knows it, and counts their cost.
type Oracle struct {
	attacks.Oracle
	Of Classifier // the classifier that is judged
	// Exact returns the same oracle in the judge's arithmetic and makes it on first use. It is nil if this one
	// already has it.
	Exact   func() (*Oracle, error)
	Cost    control.Cost
	State   int64 // memory that a gradient keeps for an image, in bytes, with the attack's own
	Prepare func(attacks.Loss) error
	Plant   func() (*control.Planted, error) // the classifier with planted perturbations; close it before the oracle
	Close   func()
}

// Exactly returns the oracle in the judge's arithmetic.
func (o *Oracle) Exactly() (*Oracle, error) {
	if o.Exact == nil {
		return o, nil
	}
	return o.Exact()
}

// knowledge is the attacker's knowledge of the controls in each white-box mode.
var knowledge = map[string]control.Knowledge{
	result.WhiteboxDetached: control.Detached, result.WhiteboxThrough: control.Through,
}

// OracleOf returns the oracle of a classifier for the attacker of a mode. Close it before the classifier.
func OracleOf(c Classifier, mode string) (*Oracle, error) {
	state := attackState(c.Net.Shape())
	if c.Loop == nil {
		one := float64(control.QuestionPasses(c.Net.Votes()))
		return &Oracle{Oracle: c.Net, Of: c, Cost: control.Cost{Logits: one, Forward: one, Backward: one}, State: state,
			Prepare: c.Net.Prepare, Plant: c.Net.Planted, Close: func() {}}, nil
	}
	knows := knowledge[mode]
	d, err := c.Loop.WhiteBox(knows)
	if err != nil {
		return nil, err
	}
	o := &Oracle{Oracle: d, Of: c, State: state + c.Loop.State, Prepare: d.Prepare, Plant: d.Planted,
		Close: d.Close}
	if knows == control.Through && c.Loop.Solver.Iterates() {
		o.State = number.Sum(o.State, number.Product(4, c.Loop.TapeValues()))
		if err := memory.Room(o.State); err != nil {
			d.Close()
			return nil, Wrong(fmt.Errorf("a gradient through the controls of one image %w: give the %s solver fewer "+
				"sweeps (outer) or ascent steps (inner)", err, c.Loop.Solver.Method))
		}
	}
	if o.Cost, err = d.Cost(); err != nil {
		d.Close()
		return nil, err
	}
	return o, nil
}

// answering is a controlled network as an oracle without gradients.
type answering struct {
	*control.Network
	loop *Controller
}

// Logits writes the loop's answer.
func (a answering) Logits(ctx context.Context, x, out []float32) error {
	return a.loop.Logits(ctx, x, out)
}

// Answering returns an oracle without gradients, for callers that do not attack.
func Answering(who Classifier) *Oracle {
	o := &Oracle{Oracle: who.Net, Of: who, State: who.State(), Cost: control.Cost{Logits: 1},
		Close: func() {}}
	if who.Loop != nil {
		o.Oracle, o.Cost.Logits = answering{who.Net, who.Loop}, who.Control.Passes
	}
	return o
}

// Counted counts the passes through an oracle, whatever number an attack states. Nothing else counts passes.
type Counted struct {
	*Oracle
	logits, gradients atomic.Int64
	parent            *Counted // counts them too; may be nil
}

// Along implements [attacks.Other]; passes along the other gradient are counted too.
func (o *Counted) Along(gradient string) (attacks.Oracle, error) {
	by, err := attacks.Along(o.Oracle.Oracle, gradient)
	if by == nil || err != nil {
		return nil, err
	}
	other := *o.Oracle
	other.Oracle = by
	return o.Child(&other), nil
}

// Child returns a counter of questions to an oracle that the parent counts too.
func (o *Counted) Child(on *Oracle) *Counted { return &Counted{Oracle: on, parent: o} }

// Add adds passes that were made elsewhere.
func (o *Counted) Add(logits, gradients int64) {
	for ; o != nil; o = o.parent {
		o.logits.Add(logits)
		o.gradients.Add(gradients)
	}
}

func (o *Counted) Logits(ctx context.Context, x, out []float32) error {
	o.Add(1, 0)
	return o.Oracle.Logits(ctx, x, out)
}

// Counts returns the answers and gradients so far.
func (o *Counted) Counts() (logits, gradients int64) { return o.logits.Load(), o.gradients.Load() }

// Sample gives logits of the image that fill writes, for a classifier that is not attacked. fill writes to the pool's
// memory for an undefended network ([control.Network.Sample]) and to x for a closed loop.
func (o *Counted) Sample(ctx context.Context, fill func(x []float32), x, out []float32) error {
	if o.Of.Loop != nil {
		fill(x)
		return o.Logits(ctx, x, out)
	}
	o.Add(1, 0)
	return o.Of.Net.Sample(ctx, fill, out)
}

func (o *Counted) Gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation) error {
	o.Add(0, 1)
	return o.Oracle.Gradient(ctx, x, loss, label, target, e)
}

// Made returns the passes so far, a gradient counting as two, like an attack's Passes.
func (o *Counted) Made() int64 { return o.logits.Load() + 2*o.gradients.Load() }

// Passes returns the forward and backward passes so far, in units of the undefended network's.
func (o *Counted) Passes() (forward, backward int64) {
	logits, gradients := float64(o.logits.Load()), float64(o.gradients.Load())
	return int64(math.Round(logits*o.Cost.Logits + gradients*o.Cost.Forward)),
		int64(math.Round(gradients * o.Cost.Backward))
}
