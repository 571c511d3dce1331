package harness_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/forecast"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/harness/run"
	"selfheal/harness/shard"
	"selfheal/internal/must"
	"selfheal/internal/testplan"
	"selfheal/models/bounds"
	"selfheal/models/onnx"
)

// side is that of the images of these tests.
const side = 4

// linear begins a config: of a network that answers 1 where an image is brighter than a half, with a ReLU that changes
// nothing, and of six images; FOLDER is a folder, where an embedding lies that has no bounds.
func linear(t *testing.T, more string) string {
	t.Helper()
	dir := t.TempDir()
	b := &onnx.Builder{G: onnx.NewGraph("brightness")}
	x := b.Op("Relu", b.Op("Flatten", b.Input("x", onnx.Shape{onnx.Batch, 1, side, side})))
	weights := make([]float32, 2*side*side)
	for i := range weights {
		weights[i] = float32(2*(i%2) - 1)
	}
	const half = side * side / 2
	b.Output("logits", b.Op("Add", b.Op("MatMul", x, b.Const(onnx.FloatTensor(onnx.Shape{side * side, 2}, weights))),
		b.Const(onnx.FloatVector([]float32{half, -half}))))
	must.Do(t, b.Err())
	must.Do(t, os.WriteFile(filepath.Join(dir, "brightness.onnx"), must.Get(b.G.Encode())(t), 0o644))
	e := &onnx.Builder{G: onnx.NewGraph("rooted")}
	e.Output("roots", e.Op("Sqrt", e.Input("z", onnx.Shape{onnx.Batch, 1, side, side})))
	must.Do(t, e.Err())
	must.Do(t, os.WriteFile(filepath.Join(dir, "rooted.onnx"), must.Get(e.G.Encode())(t), 0o644))
	testplan.Archive(t, filepath.Join(dir, "images.npz"), 6, attacks.Shape{C: 1, H: side, W: side})
	return fmt.Sprintf(`
version: 1
datasets: {test: {format: npz, path: %[1]s/images.npz}}
models: {brightness: {path: %[1]s/brightness.onnx}}
`, dir) + strings.ReplaceAll(more, "FOLDER", dir)
}

// bounding is of certificates beside attacks in the same balls.
const bounding = `
controls:
  kept: {solver: {method: greedy}, layers: [{at: input, embedding: {kind: identity}}]}
  solved:
    solver: {method: msa, outer: 1, inner: 1, learning_rate: 0.1}
    layers: [{at: input, embedding: {kind: identity}}]
  rooted: {solver: {method: greedy}, layers: [{at: input, embedding: {kind: onnx, path: FOLDER/rooted.onnx}}]}
attacks:
  pgd: {kind: pgd, norm: linf, epsilon: [0.02, 0.05, 0.1], steps: 10}
  short: {kind: pgd, norm: l2, epsilon: [0.1, 0.2], steps: 40}
  alpha: {kind: bounds, norm: linf, epsilon: [0.02, 0.05, 0.1]}
  intervals: {kind: bounds, method: ibp, norm: linf, epsilon: 0.02}
  l2: {kind: bounds, method: crown, norm: l2, epsilon: [0.1, 0.2]}
  l1: {kind: bounds, norm: l1, epsilon: [0.3, 1]}
suites:
  all:
    {dataset: test, models: [brightness], controls: [kept, solved, rooted],
     attacks: [pgd, alpha, intervals, short, l2, l1]}
`

// On a network that is linear in its images, and under controls that keep them, bounds prove exactly the images that no
// attack can break: in every norm, with any workers, batches and shards, and under every seed the same.
func TestBoundsOfALinearNetwork(t *testing.T) {
	text := linear(t, "seeds: [1, 2]\n"+bounding)
	f, records, one := runFor(t, testplan.Plan(t, text, 1, 4))
	_, _, two := runFor(t, testplan.Plan(t, text, 2, 16))
	identical(t, "two workers", one, two)
	dir, shards := sharded(t, testplan.Plan(t, text, 1, 4), 3)
	must.Get(shard.Merge(t.Context(), shards, run.Options{Out: dir}))(t)
	sameEnd(t, "merged", one, dir)
	dual := map[string]float64{"linf": side * side, "l2": side, "l1": 1}
	counts := map[int]int{}
	for _, r := range records {
		a := f.Attacks[r.Attack]
		if a.Kind != "bounds" {
			if r.Bound != nil || r.Slack != nil {
				t.Errorf("%s has a bound", r.Attack)
			}
			continue
		}
		if r.Defense == "rooted" {
			if r.Verdict != 0 || r.Bound != nil {
				t.Errorf("proven of what has no bounds: %+v", r)
			}
			continue
		}
		loose := r.Attack == "intervals" && r.Defense != "none" // x + (E(x) − x)
		want := *r.CleanMargin - 2*dual[*a.Norm]**r.Epsilon
		most := 1e-4 // that the bound is off by
		if r.Defense != "none" {
			most = 1e-3 // as the ReLU of a loop bends, by slack, where pixels may be 0
		}
		if r.Bound == nil || math.Abs(*r.Bound-want) > most && !(loose && *r.Bound < want) ||
			!(*r.Slack > 0 && *r.Slack < 10*most) {
			t.Errorf("%+v: a bound of %g and a slack of %g, not %g", r, *r.Bound, *r.Slack, want)
			continue
		}
		if (r.Verdict == 1) != (*r.Bound > *r.Slack) || r.Norm != 0 || float64(r.Margin) != *r.CleanMargin {
			t.Errorf("%+v", r)
		}
		counts[r.Verdict]++
	}
	if counts[0] < 10 || counts[1] < 10 {
		t.Errorf("%v are proven: nothing was tested", counts)
	}
	for _, c := range f.Cells {
		proves := f.Attacks[c.Attack].Proves()
		if proves && (len(c.Steps) > 0 || c.MaxNorm != 0 || len(c.Seeds) > 0) {
			t.Errorf("%+v", c)
		}
		noBounds := slices.ContainsFunc(c.Warnings, func(w result.Warning) bool { return w.ID == "not-bounded" })
		if noBounds != (proves && c.Defense == "rooted") {
			t.Errorf("%s, %s: %v", c.Attack, c.Defense, c.Warnings)
		}
		for _, o := range f.Cells { // what is proven, and what the attack leaves
			if proves && c.Defense != "rooted" && (c.Attack != "intervals" || c.Defense == "none") &&
				f.Attacks[o.Attack].Kind == "pgd" && o.Defense == c.Defense &&
				*o.Norm == *c.Norm && *o.Epsilon == *c.Epsilon && o.Verdicts != c.Verdicts {
				t.Errorf("%s leaves %s, %s proves %s at %g", o.Attack, o.Verdicts, c.Attack, c.Verdicts, *c.Epsilon)
			}
		}
	}
	must.Have(t, must.Get(forecast.Describe(testplan.Plan(t, text, 1, 4), nil, nil))(t),
		"bounds/1, l1, epsilon 0.3: no passes, bounds for each defense\n")
}

// A network without bounds is refused before anything runs.
func TestUnboundedNetworksAreRefused(t *testing.T) {
	text := testplan.Bundled + `
attacks: {b: {kind: bounds, norm: linf, epsilon: 0.01}, aa: {kind: autoattack, norm: linf, epsilon: 0.01, prove: true}}
suites: {s: {dataset: test, models: [robust], attacks: [%s]}}
`
	path := planted(t, "rooted", func(b *onnx.Builder, x string) string { return b.Op("Sqrt", x) },
		func(_ *onnx.Builder, z string) string { return z })
	for _, attack := range []string{"b", "aa"} {
		p := testplan.Plan(t, fmt.Sprintf(text, attack), 1, 4, "models.robust.path="+path)
		_, err := run.Run(t.Context(), p, run.Options{Out: filepath.Join(t.TempDir(), "out")})
		misconfigured(t, err, "model robust: no bounds for: Sqrt")
	}
}

// The methods that configs name are the bounds'.
func TestMethodsOfBounds(t *testing.T) {
	t.Parallel()
	kind := must.Get(attacks.Lookup("bounds"))(t)
	want := []string{string(bounds.AlphaCROWN), string(bounds.CROWN), string(bounds.IBP)}
	if got := kind.Parameters[0]; got.Name != "method" || !slices.Equal(got.Choices, want) {
		t.Errorf("%s is one of %v, not %v", got.Name, got.Choices, want)
	}
}

// AutoAttack has the same verdicts where bounds decide images, which only the first component attacks.
func TestProve(t *testing.T) {
	text := linear(t, `
attacks: {aa: {kind: autoattack, norm: linf, epsilon: 0.05}}
suites: {s: {dataset: test, models: [brightness], attacks: [aa]}}
`)
	want, _, _ := runFor(t, testplan.Plan(t, text, 1, 4))
	p := testplan.Plan(t, text, 1, 4, "attacks.aa.prove=true")
	f, records, out := runFor(t, p)
	got := f.Cells[1]
	if got.Verdicts != want.Cells[1].Verdicts || !strings.Contains(got.Verdicts, "1") ||
		f.ConfigSHA256 == want.ConfigSHA256 { // as it runs the network as its file has it
		t.Errorf("verdicts %s, not %s", got.Verdicts, want.Cells[1].Verdicts)
	}
	proof := got.Steps[1]
	if proof.Attack != "bounds" || proof.Attacked != 3 || proof.Proven != 3 || len(got.Steps) != 5 ||
		got.Steps[2].Attacked != 0 || got.Steps[4].Attacked != 0 || got.Steps[4].Robust != 0.5 {
		t.Errorf("%+v", got.Steps)
	}
	for _, r := range records {
		if r.Attack == "aa" && r.Verdict == 1 && float64(r.Margin) != *r.CleanMargin {
			t.Errorf("%+v", r)
		}
	}
	var said bytes.Buffer // run again, it continues from the journal
	again := must.Get(run.Run(t.Context(), p, run.Options{Out: out, Progress: progress.New(&said, progress.TextLog,
		false)}))(t)
	if again.Cells[1].Verdicts != got.Verdicts {
		t.Error("a finished run is another one")
	}
}
