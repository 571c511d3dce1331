package train

import (
	"errors"
	"fmt"
	"slices"

	"selfheal/internal/fault"
	"selfheal/internal/lists"
	"selfheal/internal/sealed"
)

// Checkpoint is a training's state after a step, as a file has it.
type Checkpoint struct {
	About      []byte // identifies the training; [Trainer.Save] was given it
	Parameters []string
	State
	Epochs []Epoch
	Good   *State // after the last epoch that went well, of a watched training
}

// State is all that a step changes.
type State struct {
	Values     [][]float32 // of the parameters
	Average    [][]float32 // of the values over the steps, if there is one
	Statistics [][]float32 // of normalisations that learn
	Optimizer  optimizerState
	History    []Loss
}

// state returns a copy of the trainer's present state.
func (t *Trainer) state() State {
	copies := func(list [][]float32) [][]float32 { return lists.Map(list, slices.Clone[[]float32]) }
	o := t.optimizer.State
	return State{copies(t.values), copies(t.average), copies(t.running),
		optimizerState{o.Count, copies(o.First), copies(o.Second)}, slices.Clone(t.history)}
}

// restore continues from a state, which it takes over.
func (t *Trainer) restore(s State) {
	t.values, t.average, t.running, t.settled = s.Values, s.Average, s.Statistics, nil
	t.optimizer.State, t.history = s.Optimizer, s.History
}

// Done returns how many steps were made.
func (c *Checkpoint) Done() int { return len(c.History) }

// ErrDamaged is returned for a file that is not a whole checkpoint.
var ErrDamaged = errors.New("is no whole checkpoint")

// Save writes the training's state, whole or not at all, and syncs it. about identifies the training and its
// settings.
func (t *Trainer) Save(path string, about []byte) error {
	now := State{t.values, t.average, t.running, t.optimizer.State, t.history}
	err := sealed.Write(path, Checkpoint{about, t.parameters, now, t.epochs, t.good})
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", path, err)
	}
	return nil
}

// ReadCheckpoint reads a file that Save has written. For an absent file it returns an [io/fs.ErrNotExist], for a
// damaged one [ErrDamaged]. A file larger than the free memory is also an error.
func ReadCheckpoint(path string) (*Checkpoint, error) {
	c := &Checkpoint{}
	switch err := sealed.Read(path, c); {
	case errors.Is(err, sealed.ErrDamaged):
		return nil, fmt.Errorf("%s %w", path, ErrDamaged)
	case err != nil:
		return nil, fmt.Errorf("checkpoint %s: %w", path, fault.Reason(err))
	}
	return c, nil
}

// Restore continues from a checkpoint, to the same bits. It returns an error for the checkpoint of another training.
func (t *Trainer) Restore(c *Checkpoint) error {
	if !slices.Equal(c.Parameters, t.parameters) || !t.fits(&c.State) || c.Good != nil && !t.fits(c.Good) {
		return errors.New("the checkpoint is of another embedding, optimiser or number of steps")
	}
	t.restore(c.State)
	t.epochs, t.good = c.Epochs, c.Good
	return nil
}

// fits reports whether a state may be this training's.
func (t *Trainer) fits(s *State) bool {
	same := func(a, b [][]float32) bool {
		return slices.EqualFunc(a, b, func(a, b []float32) bool { return len(a) == len(b) })
	}
	return same(s.Values, t.values) && same(s.Average, t.average) && same(s.Statistics, t.running) &&
		same(s.Optimizer.First, t.optimizer.State.First) && same(s.Optimizer.Second, t.optimizer.State.Second) &&
		len(s.History) == s.Optimizer.Count && len(s.History) <= t.Steps()
}
