package harness_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"selfheal/harness/cell"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/gate"
	"selfheal/harness/judge"
	"selfheal/harness/open"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testplan"
)

const carried = testplan.Bundled + `
save_adversarial: true
controls:
  pca: {solver: {method: greedy}, layers: [{at: last, embedding: {kind: linear, fit: train, rank: 4}}]}
attacks:
  pgd: {kind: pgd, norm: l2, epsilon: 1.5, steps: 6}
  ddn: {kind: ddn, norm: l2, epsilon: [0.2, 0.6], steps: 20}
  weather: {kind: corruption, names: [fog], severities: [3]}
suites:
  alone: {dataset: test, models: [standard, robust], controls: [pca], attacks: [pgd, ddn, weather], mode: oblivious}
  carried: {dataset: test, models: [standard, robust], controls: [pca], attacks: [pgd, ddn, weather], mode: transfer}
`

// In mode transfer every network is scored on the images made on each: on its own as in an oblivious suite, on
// another's as if somebody had taken the saved images to it.
func TestTransfer(t *testing.T) {
	p := testplan.Plan(t, carried, 2, 8)
	f, records, out := runFor(t, p)
	var order []string
	verdicts := map[cell.ID]string{}
	for _, c := range f.Cells {
		key := c.Key()
		key.Suite, key.Mode = "", ""
		if c.Suite == "alone" {
			if key.Source = ""; c.Source != "" {
				t.Errorf("a cell of mode %s has a source", c.Mode)
			}
			if c.Attack == "pgd" || c.Attack == "ddn" { // attacks on the network itself
				key.Source = c.Model
			}
			verdicts[key] = c.Verdicts
			continue
		}
		order = append(order, fmt.Sprintf("%s %s %s", c.Model, c.Source, c.Attack))
		want, known := verdicts[key]
		if known != (c.Source == c.Model || c.Source == "") || known && want != c.Verdicts {
			t.Errorf("%+v: %s, not %s", key, c.Verdicts, want)
		}
		verdicts[key] = c.Verdicts
		if own := c.Source == c.Model && c.Defense == "none"; own != (len(c.Steps) > 0) || c.Mode != result.Transfer {
			t.Errorf("%+v: %d steps in mode %s", key, len(c.Steps), c.Mode)
		}
	}
	var want []string
	for _, m := range []string{"standard", "robust"} {
		want = append(want, m+"  none")
		for _, source := range []string{"standard", "robust"} {
			for _, attack := range []string{"pgd", "ddn", "ddn"} {
				want = append(want, m+" "+source+" "+attack)
			}
			if source == m {
				want = append(want, m+"  weather:fog:3")
			}
		}
	}
	if got := slices.Compact(slices.Clone(order)); !slices.Equal(got, slices.Compact(want)) || len(order) != 32 ||
		len(f.Cells) != p.Cells() {
		t.Errorf("cells %q, of %d and %d", got, len(order), p.Cells())
	}
	for _, r := range records {
		if r.Suite == "carried" && r.Source != "" && r.Source != r.Model && (r.Queries != nil || r.Distance != nil) {
			t.Fatalf("a record of %s on the images of %s: %+v", r.Model, r.Source, r)
		}
	}
	for _, of := range [][2]string{{"standard", "robust"}, {"robust", "standard"}} {
		model, source := of[0], of[1]
		files := must.Get(filepath.Glob(filepath.Join(out, "adversarial", "carried_"+source+"_pgd_*")))(t)
		shape, saved := must.Get2(dataset.ReadArray(config.Folder("/"), files[0]))(t)
		u := must.Get(open.Use(context.Background(), p.Config, model, "", open.Options{}))(t)
		v := must.Get(judge.Verify(context.Background(), u, judge.Claim{Column: cell.Column{Attack: "pgd"},
			Shape: shape, Images: saved, Dataset: "test"}))(t)
		u.Close()
		key := cell.ID{Row: cell.Row{Model: model, Defense: cell.None},
			Column: cell.Column{Source: source, Attack: "pgd", Epsilon: 1.5}}
		if got := verdicts[key]; got != v.Verdicts || v.MaxNorm == 0 {
			t.Errorf("%s on the images of %s: %s, by verify %s", model, source, got, v.Verdicts)
		}
	}
	_, _, other := runFor(t, testplan.Plan(t, carried, 1, 3))
	identical(t, "another batch", out, other)
	base := must.Get(gate.NewBaseline(f, config.DefaultGate()))(t)
	if len(base.Cells) != len(f.Cells) {
		t.Errorf("the baseline has %d of %d cells", len(base.Cells), len(f.Cells))
	}
}

// A suite of one network has nothing to transfer to, pairs are of its models, and published numbers are about
// networks that were attacked themselves.
func TestTransferIsRefused(t *testing.T) {
	t.Parallel()
	for set, words := range map[string]string{
		"suites.carried.models=[robust]":                     "name two models or more",
		"suites.carried.pairs=[[robust, other]]":             "other is not one of the suite's models",
		"suites.carried.published={robust: {pgd: [1.5, 2]}}": "published numbers are of networks attacked themselves",
	} {
		_, err := config.Parse("test.yaml", []byte(carried), testplan.Repository(t), set)
		must.Refuse(t, err, words)
	}
}
