package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"selfheal/internal/must"
)

type unit struct {
	ID   int
	Text string
	At   *Vector `json:",omitempty"`
}

// keys are the keys of the blocks that tests write, in turn.
var keys = []string{"first", "zweiter\n\"block\""}

// reopened opens a journal and returns its content by block.
func reopened(t testing.TB, dir string) (j *Journal, units []unit, damaged int) {
	t.Helper()
	j, damaged, err := Open(dir)
	must.Do(t, err)
	t.Cleanup(func() { j.Close() })
	for _, key := range keys {
		must.Do(t, j.Block(key).Read(func(line []byte) error {
			var u unit
			err := json.Unmarshal(line, &u)
			units = append(units, u)
			return err
		}))
	}
	return j, units, damaged
}

// written makes a folder with a journal of n units, and returns its lines.
func written(t testing.TB, n int) (dir string, lines []byte) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "journal")
	j, _, _ := reopened(t, dir)
	for i := range n {
		must.Do(t, j.Block(keys[i/2%2]).Append(unit{ID: i, Text: strings.Repeat("ä\n", i)}))
	}
	must.Do(t, j.Close())
	return dir, must.Get(os.ReadFile(filepath.Join(dir, File)))(t)
}

func ids(units []unit) (ids []int) {
	for _, u := range units {
		ids = append(ids, u.ID)
	}
	return ids
}

// Blocks keep their lines apart and in order, and go on where they were.
func TestBlocks(t *testing.T) {
	dir, _ := written(t, 7)
	j, units, damaged := reopened(t, dir)
	if want := []int{0, 1, 4, 5, 2, 3, 6}; damaged != 0 || !slices.Equal(ids(units), want) {
		t.Errorf("%v, %d damaged, want %v", ids(units), damaged, want)
	}
	must.Do(t, j.Block(keys[0]).Append(unit{ID: 7}))
	must.Do(t, j.Block("third").Append(unit{ID: 8}))
	if j.Block("fourth").Written() || !j.Block("third").Written() {
		t.Error("a block that was not written to has a line")
	}
	must.Do(t, j.Close())
	if _, units, _ = reopened(t, dir); !slices.Equal(ids(units), []int{0, 1, 4, 5, 7, 2, 3, 6}) {
		t.Errorf("%v", ids(units))
	}
}

// Wherever a write is torn, the lines before it stand, nothing counts as damaged, and what is appended then is found.
func TestTornEnd(t *testing.T) {
	dir, lines := written(t, 4)
	for cut := range len(lines) {
		must.Do(t, os.WriteFile(filepath.Join(dir, File), lines[:cut], 0o644))
		whole := strings.Count(string(lines[:cut]), "{")
		if cut > 0 && lines[cut-1] != '\n' && strings.LastIndex(string(lines[:cut]), "{") >
			strings.LastIndex(string(lines[:cut]), "\n") {
			whole-- // the torn one
		}
		j, units, damaged := reopened(t, dir)
		if damaged != 0 || len(units) != whole {
			t.Fatalf("cut at %d: %d damaged, %v, want %d", cut, damaged, ids(units), whole)
		}
		must.Do(t, j.Block(keys[1]).Append(unit{ID: 9}))
		must.Do(t, j.Close())
		if _, units, damaged = reopened(t, dir); damaged != 0 || len(units) != whole+1 || units[whole].ID != 9 {
			t.Fatalf("cut at %d, then appended: %d damaged, %v", cut, damaged, ids(units))
		}
	}
}

// Whichever byte is changed, what is lost is counted: two lines at most, or those of a block whose
// key is lost; no line comes back with another content, and the block can be written again.
func TestDamagedMiddle(t *testing.T) {
	dir, lines := written(t, 4)
	_, want, _ := reopened(t, dir)
	for at := range lines {
		for _, flip := range []byte{1, 0x80, lines[at], lines[at] ^ '\n'} {
			bad := slices.Clone(lines)
			if bad[at] ^= flip; bad[at] == lines[at] {
				continue
			}
			must.Do(t, os.WriteFile(filepath.Join(dir, File), bad, 0o644))
			j, units, damaged := reopened(t, dir)
			for _, u := range units {
				if !slices.Contains(want, u) {
					t.Fatalf("byte %d: %+v was never written", at, u)
				}
			}
			lost := len(want) - len(units)
			torn := at == len(lines)-1 // the last line's end: it reads as torn
			if lost < 1 || lost > 3 || damaged < 1 && !torn {
				t.Fatalf("byte %d: %d lines lost, %d damaged", at, lost, damaged)
			}
			must.Do(t, j.Block(keys[0]).Append(unit{ID: 9}))
			must.Do(t, j.Close())
			if _, again, _ := reopened(t, dir); !slices.Contains(again, unit{ID: 9}) || len(again) != len(units)+1 {
				t.Fatalf("byte %d: %v, then %v", at, ids(units), ids(again))
			}
		}
	}
}

func TestVectors(t *testing.T) {
	dir := t.TempDir()
	j, _, _ := reopened(t, dir)
	images := must.Get(j.Vectors("images", 2))(t)
	want := [][]float32{{1, float32(math.Inf(-1))}, {0.1, 0}, {5, 6}}
	var at [3]Vector
	for i, v := range want[:2] {
		at[i] = must.Get(images.Put(v))(t)
		must.Do(t, j.Block("v").Append(unit{ID: i, At: &at[i]}))
	}
	if again := must.Get(j.Vectors("images", 2))(t); again != images {
		t.Error("the file was opened twice")
	}
	must.Do(t, j.Close())
	path := filepath.Join(dir, "images.f32")
	must.Do(t, os.WriteFile(path, append(must.Get(os.ReadFile(path))(t), 7), 0o644)) // a torn third one
	j, _, _ = reopened(t, dir)
	images = must.Get(j.Vectors("images", 2))(t)
	at[2] = must.Get(images.Put(want[2]))(t)
	for i, w := range want {
		if got := must.Get(images.Get(at[i]))(t); !slices.Equal(got, w) {
			t.Errorf("vector %d: %v, want %v", i, got, w)
		}
	}
	for _, bad := range []Vector{{at[0].At, at[1].Sum}, {at[2].At + 4, at[2].Sum}, {-4, 0}} {
		if _, err := images.Get(bad); !errors.Is(err, ErrNoVector) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	must.Do(t, images.Remove())
	if _, err := must.Get(j.Vectors("images", 2))(t).Get(at[0]); !errors.Is(err, ErrNoVector) {
		t.Errorf("after its file was removed: %v", err)
	}
	_, err := images.Put([]float32{1})
	must.Refuse(t, err, "a vector of 1 values, not of 2")
}

// After a write that failed nothing is written.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	j, _, _ := reopened(t, dir)
	block := j.Block(keys[0])
	must.Do(t, block.Append(unit{ID: 1}))
	file := j.lines
	j.lines = must.Get(os.OpenFile("/dev/full", os.O_WRONLY, 0))(t)
	must.Refuse(t, block.Append(unit{ID: 2}), "no space left on device")
	j.lines = file
	must.Refuse(t, block.Append(unit{ID: 3}), "no space left on device")
	_, err := must.Get(j.Vectors("v", 1))(t).Put([]float32{1})
	must.Refuse(t, err, "no space left on device")
	if _, units, damaged := reopened(t, dir); damaged != 0 || len(units) != 1 {
		t.Errorf("%v, %d damaged", ids(units), damaged)
	}
}

func TestManyWriters(t *testing.T) {
	dir := t.TempDir()
	j, _, _ := reopened(t, dir)
	vectors := must.Get(j.Vectors("v", 2))(t)
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := range 50 {
				at, err := vectors.Put([]float32{float32(w), float32(i)})
				if err == nil {
					err = j.Block(keys[w%2]).Append(unit{ID: 50*w + i, Text: fmt.Sprint(w, i), At: &at})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	must.Do(t, j.Close())
	j, units, damaged := reopened(t, dir)
	if damaged != 0 || len(units) != 400 {
		t.Fatalf("%d units, %d damaged", len(units), damaged)
	}
	vectors = must.Get(j.Vectors("v", 2))(t)
	for _, u := range units {
		if v := must.Get(vectors.Get(*u.At))(t); v[0] != float32(u.ID/50) || v[1] != float32(u.ID%50) {
			t.Errorf("unit %d: %v", u.ID, v)
		}
	}
}
