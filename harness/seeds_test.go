package harness_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testplan"
)

// seeded is one suite that gives images to controls and one whose attacks go through them.
// Epsilon is where some images stand under one seed and fall under another.
const seeded = testplan.Bundled + `
controls:
  greedy:
    solver: {method: greedy}
    layers: [{at: input, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}}]
attacks:
  square: {kind: square, norm: linf, epsilon: [4/255, 8/255], queries: 25}
suites:
  given: {dataset: test, models: [robust], controls: [greedy], attacks: [square]}
  through: {dataset: test, models: [robust], controls: [greedy], attacks: [square], mode: whitebox-through}
`

// A run with several seeds gives each cell what runs with one of them give it, and the
// cell itself is the first seed's.
func TestSeedsAreRunsOfTheirOwn(t *testing.T) {
	run := func(sets ...string) *result.File {
		f, records, out := runFor(t, testplan.Plan(t, seeded, 2, 16, append(sets, "datasets.test.limit=12")...))
		if len(records) != len(f.Cells)*12 {
			t.Fatalf("%d records of %d cells", len(records), len(f.Cells))
		}
		return must.Get(result.Read(filepath.Join(out, "results.json")))(t) // written whole
	}
	seeds := []uint64{11, 3}
	all := run("seed=null", "seeds=[11, 3]")
	var others []*result.File
	for _, s := range seeds {
		others = append(others, run(fmt.Sprintf("seed=%d", s)))
	}
	differ := false
	for i, c := range all.Cells {
		if c.Attack == config.None {
			if c.Seeds != nil {
				t.Errorf("%s, %s: clean images have seeds", c.Suite, c.Defense)
			}
			continue
		}
		if len(c.Seeds) != len(seeds) {
			t.Fatalf("%s, %s: %d seeds", c.Suite, c.Defense, len(c.Seeds))
		}
		if c.Verdicts != others[0].Cells[i].Verdicts {
			t.Errorf("%s, %s: the cell is not the first seed's", c.Suite, c.Defense)
		}
		for k, s := range c.Seeds {
			want := others[k].Cells[i]
			if s.Seed != seeds[k] || s.Verdicts != want.Verdicts || s.Correct != want.Correct ||
				s.Accuracy != want.Accuracy {
				t.Errorf("%s, %s, seed %d: %s, alone %s", c.Suite, c.Defense, s.Seed, s.Verdicts, want.Verdicts)
			}
			differ = differ || s.Verdicts != c.Verdicts
		}
	}
	if !differ {
		t.Error("no verdict depends on the seed: nothing was tested")
	}
	if all.Seed != 11 || all.ConfigSHA256 == others[0].ConfigSHA256 {
		t.Error("the file does not say that it has several seeds")
	}
}
