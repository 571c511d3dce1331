package train

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"slices"

	"selfheal/internal/atomicfile"
	"selfheal/internal/input"
)

// checkpoint is a training's state after a step.
type checkpoint struct {
	Key        string // what the training depends on
	Parameters []string
	Values     [][]float32
	Optimizer  optimizerState
	History    []Loss
}

// errOtherTraining is returned for a checkpoint of a training with other settings.
var errOtherTraining = errors.New("is of a training with other settings, data or models")

// Save writes the training's state, whole or not at all: beside its place and renamed.
// Key is a hash of what the training depends on.
func (t *Trainer) Save(path, key string) error {
	err := atomicfile.Fill(path, func(w io.Writer) error {
		return gob.NewEncoder(w).Encode(checkpoint{key, t.parameters, t.values, t.optimizer.State, t.history})
	})
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", path, err)
	}
	return nil
}

// Restore continues where a checkpoint left off, to the bit. An absent file is an
// [io/fs.ErrNotExist], one of another training [errOtherTraining].
func (t *Trainer) Restore(path, key string) error {
	f, err := input.Open(path)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	defer f.Close()
	var c checkpoint
	if err := gob.NewDecoder(f).Decode(&c); err != nil {
		return fmt.Errorf("checkpoint %s can't be read: %w", path, err)
	}
	if c.Key != key {
		return fmt.Errorf("checkpoint %s %w", path, errOtherTraining)
	}
	same := func(a, b []float32) bool { return len(a) == len(b) }
	if !slices.Equal(c.Parameters, t.parameters) || !slices.EqualFunc(c.Values, t.values, same) ||
		!c.Optimizer.fits(t.optimizer) || len(c.History) != c.Optimizer.Count || len(c.History) > t.Steps() {
		return fmt.Errorf("checkpoint %s %w", path, errOtherTraining)
	}
	t.values, t.optimizer.State, t.history = c.Values, c.Optimizer, c.History
	return nil
}
