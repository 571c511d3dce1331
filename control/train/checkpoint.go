package train

import (
	"errors"
	"fmt"
	"slices"

	"selfheal/internal/fault"
	"selfheal/internal/sealed"
)

// Checkpoint is a training's state after a step, as a file has it.
type Checkpoint struct {
	About      []byte // identifies the training; [Trainer.Save] was given it
	Parameters []string
	Values     [][]float32
	Statistics [][]float32 // of normalisations that learn
	Optimizer  optimizerState
	History    []Loss
}

// Done returns how many steps were made.
func (c *Checkpoint) Done() int { return len(c.History) }

// ErrDamaged is returned for a file that is not a whole checkpoint.
var ErrDamaged = errors.New("is no whole checkpoint")

// Save writes the training's state, whole or not at all, and syncs it. about identifies the training and its
// settings.
func (t *Trainer) Save(path string, about []byte) error {
	err := sealed.Write(path, Checkpoint{about, t.parameters, t.values, t.running, t.optimizer.State, t.history})
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
	same := func(a, b [][]float32) bool {
		return slices.EqualFunc(a, b, func(a, b []float32) bool { return len(a) == len(b) })
	}
	if !slices.Equal(c.Parameters, t.parameters) || !same(c.Values, t.values) || !same(c.Statistics, t.running) ||
		!same(c.Optimizer.First, t.optimizer.State.First) || !same(c.Optimizer.Second, t.optimizer.State.Second) ||
		len(c.History) != c.Optimizer.Count || len(c.History) > t.Steps() {
		return errors.New("the checkpoint is of another embedding, optimiser or number of steps")
	}
	t.values, t.running, t.optimizer.State, t.history = c.Values, c.Statistics, c.Optimizer, c.History
	return nil
}
