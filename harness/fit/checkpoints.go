package fit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"selfheal/control/train"
	"selfheal/harness/folder"
	"selfheal/harness/progress"
	"selfheal/internal/atomicfile"
)

// trainingSuffix names the folder of a training, beside the embedding that it makes.
const trainingSuffix = ".training"

// trainingFolder is there while a training is on its way. It has two checkpoints in turn: while one
// is written, and should it be damaged later, there is the other.
type trainingFolder struct {
	dir  string
	lock *folder.Lock
	next int // the checkpoint to write
}

// openTraining locks a training's folder.
func openTraining(embedding string) (*trainingFolder, error) {
	dir := embedding + trainingSuffix
	in, name := atomicfile.At(dir)
	if err := in.Make(name); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	lock, err := folder.LockFolder(dir, "fit")
	if err != nil {
		return nil, err
	}
	return &trainingFolder{dir: dir, lock: lock}, nil
}

// checkpoint is the path of one of both.
func (w *trainingFolder) checkpoint(i int) string {
	return filepath.Join(w.dir, fmt.Sprintf("checkpoint-%d", i))
}

// find reads the latest checkpoint of a training, or else of what other training there is one.
func (w *trainingFolder) find(id []byte, p *progress.Progress) (ours *train.Checkpoint, other []byte, err error) {
	var damaged []string
	for i := range 2 {
		c, err := train.ReadCheckpoint(w.checkpoint(i))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, train.ErrDamaged):
			damaged = append(damaged, w.checkpoint(i))
		case err != nil:
			return nil, nil, err
		case !bytes.Equal(c.About, id):
			other = c.About
		case ours == nil || c.Done() > ours.Done():
			ours, w.next = c, 1-i
		}
	}
	for _, path := range damaged {
		p.Report(progress.CheckpointDamaged{Path: path, Spared: ours != nil})
	}
	return ours, other, nil
}

// save writes a checkpoint in place of the last but one.
func (w *trainingFolder) save(t *train.Trainer, id []byte) error {
	err := t.Save(w.checkpoint(w.next), id)
	w.next = 1 - w.next
	return err
}

// clean removes checkpoints and what a kill inside a write has left of one.
func (w *trainingFolder) clean(all bool) error {
	entries, err := os.ReadDir(w.dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".checkpoint-") || all && strings.HasPrefix(e.Name(), "checkpoint-") {
			err = errors.Join(err, os.Remove(filepath.Join(w.dir, e.Name())))
		}
	}
	return err
}

// close removes the folder if no checkpoint is in it, and lets other fits in. One that comes meanwhile and makes
// a lock anew keeps it, as only empty folders are removed.
func (w *trainingFolder) close() {
	if names, err := fs.Glob(os.DirFS(w.dir), "checkpoint-*"); err == nil && len(names) == 0 {
		_ = os.Remove(w.lock.Path)
		_ = os.Remove(w.dir)
	}
	w.lock.Free()
}
