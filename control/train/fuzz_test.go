package train

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"selfheal/internal/must"
)

// Any bytes as a checkpoint are refused, or have the sizes that the trainer needs.
func FuzzRestore(f *testing.F) {
	fresh := func() *Trainer {
		values := [][]float32{{1, 2}, {3}}
		s := Settings{Epochs: 1, Batch: 1, Optimizer: Adam}
		return &Trainer{settings: s, parameters: []string{"w", "b"}, values: values, optimizer: newOptimizer(s, values),
			data: Data{Labels: []int{0, 1}}}
	}
	dir := f.TempDir()
	good := fresh()
	good.history, good.optimizer.State.Count = []Loss{{CrossEntropy: 1}}, 1
	must.Do(f, good.Save(filepath.Join(dir, "good"), []byte("about")))
	saved := must.Get(os.ReadFile(filepath.Join(dir, "good")))(f)
	f.Add(saved[:len(saved)-crc32.Size])
	var few bytes.Buffer // values without names
	state := State{Values: good.values, Optimizer: good.optimizer.State}
	must.Do(f, gob.NewEncoder(&few).Encode(Checkpoint{State: state}))
	f.Add(few.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		path, tr := filepath.Join(t.TempDir(), "checkpoint"), fresh()
		data = binary.BigEndian.AppendUint32(data, crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
		must.Do(t, os.WriteFile(path, data, 0o644))
		if must.Survive(t, func() error {
			c, err := ReadCheckpoint(path)
			if err == nil {
				err = tr.Restore(c)
			}
			return err
		}) == nil {
			tr.optimizer.update(tr.values, [][]float64{{1, 1}, {1}}, 1)
			if len(tr.values[0]) != 2 || len(tr.values[1]) != 1 || tr.Done() > tr.Steps() {
				t.Fatalf("%v after %d of %d steps are taken", tr.values, tr.Done(), tr.Steps())
			}
		}
	})
}
