package compare

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"selfheal/harness/cell"
	"selfheal/harness/result"
)

// day returns a moment on the n-th day.
func day(n int) time.Time { return time.Date(2026, 11, n, 3, 0, 0, 0, time.UTC) }

// under returns a model's cells on clean images, then under the attack pgd at the epsilons 0.1, 0.2 and so on.
func under(model, defense, mode string, verdicts ...string) (cells []result.Cell) {
	for i, v := range verdicts {
		c := result.Cell{ID: cell.Of("s", model, defense, "none", 0).In("test", mode)}.Judged(v)
		if norm, epsilon := "linf", float64(i)/10; i > 0 {
			c.Attack, c.Norm, c.Epsilon, c.Recipe = "pgd", &norm, cell.Epsilon(epsilon), "pgd/1"
		}
		cells = append(cells, c)
	}
	return cells
}

// net returns the cells of a model without a control.
func net(model string, verdicts ...string) []result.Cell {
	return under(model, "none", white, verdicts...)
}

// runOf returns a run on images whose ids are given, with the cells given. An image's checksum is its id's.
func runOf(folder string, ids []int, cells ...[]result.Cell) Run {
	f := &result.File{Schema: result.Schema, Created: day(1), ConfigSHA256: folder, Models: map[string]result.Model{},
		Datasets: map[string]result.Dataset{"test": {N: len(ids), SHA256: fmt.Sprint("hash of ", ids), Format: "npz"}},
		Attacks: map[string]result.Attack{"pgd": {Kind: "pgd", Title: "PGD-10", Recipe: "pgd/1",
			Parameters: result.Parameters{"steps": 10.0}}}, Cells: slices.Concat(cells...)}
	known := result.Images{IDs: ids}
	for _, id := range ids {
		known.Checksums += fmt.Sprintf("%08x", 1000+id)
	}
	f.Images = map[string]result.Images{"test": known}
	return Run{Folder: folder, Path: "/runs/" + folder, File: f}
}

func from(first, n int) (ids []int) {
	for i := range n {
		ids = append(ids, first+i)
	}
	return ids
}

// entry returns a model's entry in a run.
func entry(t *testing.T, g Group, run, model string) (int, Entry) {
	t.Helper()
	i := slices.IndexFunc(g.Entries, func(e Entry) bool { return e.Run == run && e.Model == model })
	if i < 0 {
		t.Fatalf("there is no %s in %s", model, run)
	}
	return i, g.Entries[i]
}

func pairOf(g Group, i, k int) *Pair {
	for n := range g.Pairs {
		if p := &g.Pairs[n]; p.A == min(i, k) && p.B == max(i, k) {
			return p
		}
	}
	return nil
}

const white = result.WhiteboxThrough
