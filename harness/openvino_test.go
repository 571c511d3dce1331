package harness_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/config"
	"selfheal/harness/run"
	"selfheal/harness/shard"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/models/ort"
)

// halves is OpenVINO in bf16.
var halves = ort.Target{Provider: ort.ProviderOpenVINO, Precision: ort.BFloat16}

// precisions are those of attacks that this processor has on OpenVINO.
func precisions() []string {
	if halves.Check() != nil {
		return []string{config.Float32}
	}
	return []string{config.Float32, ort.BFloat16}
}

// OpenVINO agrees with the CPU provider in float32, and its results depend on neither batch nor workers nor threads.
func TestOpenVINOAgrees(t *testing.T) {
	t.Parallel()
	testinput.WithOpenVINO(t, func() {
		here := config.Runtime{Provider: config.CPU, Workers: 1, Batch: 16, Threads: 1}
		for _, precision := range precisions() {
			c := config.Runtime{Provider: ort.ProviderOpenVINO, Workers: 1, Batch: 16, Threads: 1, Precision: precision}
			if precision == config.Float32 {
				agree(t, compute(t, here, attacks.Losses()...), compute(t, c, attacks.Losses()...))
			}
			got := compute(t, c, attacks.Margin)
			for _, other := range [][3]int{{1, 1, 1}, {2, 5, 2}} {
				c.Workers, c.Batch, c.Threads = other[0], other[1], other[2]
				if !reflect.DeepEqual(compute(t, c, attacks.Margin), got) {
					t.Errorf("%s: other results with workers, batch and threads %d", precision, other)
				}
			}
		}
	})
}

// halved is a run of small attacks, white-box and not, that some images stand.
const halved = testplan.Bundled + `
controls: {pca: {solver: {method: greedy}, layers: [{at: last, embedding: {kind: linear, fit: train, rank: 4}}]}}
attacks:
  pgd: {kind: pgd, norm: linf, epsilon: 2/255, steps: 5}
  square: {kind: square, norm: l2, epsilon: 0.2, queries: 50}
suites:
  known: {dataset: test, models: [robust], controls: [pca], attacks: [pgd], mode: whitebox-detached}
  unknown: {dataset: test, models: [robust], controls: [pca], attacks: [square]}
`

// A run in bf16 says so, attacks again what stands, and comes to the same with any workers, batch and shards.
func TestBFloat16(t *testing.T) {
	t.Parallel()
	testinput.WithOpenVINO(t, func() {
		if err := halves.Check(); err != nil {
			t.Skip(err)
		}
		sets := []string{"runtime.provider=openvino", "runtime.precision=bf16"}
		p := testplan.Plan(t, halved, 2, 8, sets...)
		f, records, out := runFor(t, p)
		if e := f.Environment; e.Provider != ort.ProviderOpenVINO || e.Precision != ort.BFloat16 {
			t.Errorf("%+v", e)
		}
		if a := f.Attacks["pgd"]; a.Recipe != "pgd/1+bf16" {
			t.Errorf("the attack is %s", a.Recipe)
		}
		for _, c := range f.Cells {
			attacked := len(c.Steps) > 0
			if attacked && (c.Agreement == nil || c.Agreement.N != run.Sampled(c.Correct) || c.Correct == 0 ||
				c.Agreement.Agree < c.Agreement.N*9/10) || !attacked && c.Agreement != nil {
				t.Errorf("%s, %s, %s: %d stand, %+v", c.Suite, c.Defense, c.Attack, c.Correct, c.Agreement)
			}
			if named := strings.HasSuffix(c.Recipe, "+bf16"); named != (c.Attack != config.None) {
				t.Errorf("%s under %s: recipe %q", c.Defense, c.Attack, c.Recipe)
			}
		}
		if _, again, _ := runFor(t, testplan.Plan(t, halved, 1, 3, sets...)); !reflect.DeepEqual(again, records) {
			t.Error("other workers and batch, other records")
		}
		dir, shards := sharded(t, p, 2)
		must.Get(shard.Merge(context.Background(), shards, run.Options{Out: dir}))(t)
		sameEnd(t, "merged", out, dir)

		here, _, _ := runFor(t, testplan.Plan(t, halved, 2, 8, "runtime.provider=openvino"))
		if here.ConfigSHA256 == f.ConfigSHA256 || here.Attacks["pgd"].Recipe != "pgd/1" {
			t.Error("the precision is no part of the plan")
		}
		differ := 0
		for i, c := range here.Cells {
			for k := range c.Verdicts {
				if c.Verdicts[k] != f.Cells[i].Verdicts[k] {
					differ++
				}
			}
		}
		if differ > len(here.Cells) {
			t.Errorf("%d verdicts differ between precisions", differ)
		}
	})
}
