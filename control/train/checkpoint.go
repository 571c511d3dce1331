package train

import (
	"bufio"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"selfheal/internal/atomicfile"
	"selfheal/internal/fault"
	"selfheal/internal/input"
)

// Checkpoint is a training's state after a step, as a file has it.
type Checkpoint struct {
	About      []byte // what the training depends on, as [Trainer.Save] was told
	Parameters []string
	Values     [][]float32
	Statistics [][]float32 // of normalisations that learn
	Optimizer  optimizerState
	History    []Loss
}

// Done is how many steps were made.
func (c *Checkpoint) Done() int { return len(c.History) }

// ErrDamaged is returned for a file that is no whole checkpoint.
var ErrDamaged = errors.New("is no whole checkpoint")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Save writes the training's state, whole or not at all. When it returns, the state outlives a power cut. About says
// what the training depends on. The last four bytes are a checksum of the others.
func (t *Trainer) Save(path string, about []byte) error {
	dir, name := atomicfile.At(path)
	err := dir.FillSynced(name, func(w io.Writer) error {
		sum := crc32.New(castagnoli)
		err := gob.NewEncoder(io.MultiWriter(w, sum)).Encode(Checkpoint{about, t.parameters, t.values,
			t.running, t.optimizer.State, t.history})
		if err != nil {
			return err
		}
		return binary.Write(w, binary.BigEndian, sum.Sum32())
	})
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", path, err)
	}
	return nil
}

// ReadCheckpoint reads what Save has written. An absent file is an [io/fs.ErrNotExist], any other one an [ErrDamaged].
func ReadCheckpoint(path string) (*Checkpoint, error) {
	f, err := input.Open(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", path, fault.Reason(err))
	}
	defer f.Close()
	c, err := decode(f)
	if err != nil {
		return nil, fmt.Errorf("%s %w", path, ErrDamaged)
	}
	return c, nil
}

func decode(f *os.File) (*Checkpoint, error) {
	end, err := f.Seek(-crc32.Size, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	var want uint32
	if err := binary.Read(f, binary.BigEndian, &want); err != nil {
		return nil, err
	}
	sum, c := crc32.New(castagnoli), &Checkpoint{}
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, end)); err != nil || sum.Sum32() != want {
		return nil, ErrDamaged
	}
	return c, gob.NewDecoder(bufio.NewReader(io.NewSectionReader(f, 0, end))).Decode(c)
}

// Restore continues where a checkpoint left off, to the bit. One of another training is an error.
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
