package harness_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/open"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

// modes is one small suite in every mode.
const modes = testplan.Bundled + `
controls:
  greedy:
    solver: {method: greedy}
    layers: [{at: input, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}}]
  msa:
    solver: {method: msa, outer: 1, inner: 2, learning_rate: 0.003}
    layers: [{at: input, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}},
             {at: last, embedding: {kind: onnx, path: models/zoo/hidden_ae.onnx}}]
  linear:
    solver: {method: greedy}
    layers: [{at: input, embedding: {kind: linear, fit: train, rank: 40}},
             {at: last, embedding: {kind: linear, fit: train, rank: 8}}]
attacks:
  pgd: {kind: pgd, norm: linf, epsilon: 8/255, steps: 8, loss: margin}
  fog: {kind: corruption, names: [fog], severities: [3]}
suites:
  oblivious: {dataset: test, models: [standard], controls: [greedy, msa], attacks: [pgd], mode: oblivious}
  detached: {dataset: test, models: [standard], controls: [greedy, msa], attacks: [pgd], mode: whitebox-detached}
  through: {dataset: test, models: [standard], controls: [greedy, msa], attacks: [pgd], mode: whitebox-through}
  all: {dataset: test, models: [standard], controls: [greedy, msa], attacks: [pgd, fog],
    modes: [whitebox-through, oblivious, whitebox-detached]}
`

// Each mode's attacker knows more than the one before, and its cells say what was done.
func TestModes(t *testing.T) {
	f, records, _ := runFor(t, testplan.Plan(t, modes, 2, 16))
	if len(f.Cells) != 3*3*2+13 {
		t.Fatalf("%d cells", len(f.Cells))
	}
	cell := func(suite, defense string) result.Cell {
		i := slices.IndexFunc(f.Cells,
			func(c result.Cell) bool { return c.Suite == suite && c.Defense == defense && c.Attack == "pgd" })
		if i < 0 {
			t.Fatalf("no cell of %s, %s", suite, defense)
		}
		return f.Cells[i]
	}
	for _, defense := range []string{"greedy", "msa"} {
		o, d, w := cell("oblivious", defense), cell("detached", defense), cell("through", defense)
		if o.Correct < d.Correct || d.Correct < w.Correct || o.Correct == w.Correct {
			t.Errorf("%s: %d oblivious, %d detached, %d through", defense, o.Correct, d.Correct, w.Correct)
		}
		if len(o.Steps) != 0 || o.VerdictOnly {
			t.Errorf("%s: the oblivious cell was crafted itself: %+v", defense, o)
		}
		for _, c := range []result.Cell{d, w} {
			if len(c.Steps) != 1 || !c.VerdictOnly || c.Recipe != "pgd/1" ||
				math.Abs(c.Steps[0].Robust-c.Accuracy) > 1e-12 || c.MaxNorm > 8.0/255*(1+1e-5) {
				t.Errorf("%s, %s: %+v", defense, c.Mode, c)
			}
		}
		if masked := hasWarning(o, result.WarnMaskedByControl); masked != (o.CI95[0] > w.CI95[1]) {
			t.Errorf("%s: oblivious %v, through %v, warned %v", defense, o.CI95, w.CI95, masked)
		}
		for _, c := range []result.Cell{o, d, w} {
			if hasWarning(c, result.WarnOptimisationLoop) != (defense == "msa") {
				t.Errorf("%s, %s: warnings %+v", defense, c.Mode, c.Warnings)
			}
		}
	}
	if a, b := cell("detached", "none"), cell("through", "none"); a.Verdicts != b.Verdicts {
		t.Errorf("the undefended network: %s and %s", a.Verdicts, b.Verdicts)
	}
	together(t, f)
	for _, r := range records {
		if (r.Attack == "none") != (r.CleanMargin == nil) || (r.FirstSuccess == nil) != (r.Queries == nil) &&
			(r.Mode != result.Oblivious || r.Defense == "none") {
			t.Errorf("%+v", r)
		}
		if r.Queries != nil && *r.Queries < 1 {
			t.Errorf("image %d of %s/%s was broken after %d passes", r.Image, r.Suite, r.Defense, *r.Queries)
		}
	}
}

// together checks the suite that has all modes: an attack on a control gives what it gives in the suite of its mode
// alone, and cells that do not depend on the attacker stand there once, under the first mode.
func together(t *testing.T, f *result.File) {
	t.Helper()
	seen := map[string]int{}
	for _, c := range f.Cells {
		if c.Suite != "all" {
			continue
		}
		mode := c.Mode
		if seen[c.Attack]++; c.Attack == "fog:fog:3" {
			continue
		}
		i := slices.IndexFunc(f.Cells, func(b result.Cell) bool {
			return b.Suite != "all" && b.Mode == mode && b.Row == c.Row && b.Column == c.Column
		})
		if b := f.Cells[i]; b.Verdicts != c.Verdicts || len(b.Steps) != len(c.Steps) || b.VerdictOnly != c.VerdictOnly {
			t.Errorf("%s, %s: %+v alone, %+v with other modes", c.Defense, mode, b, c)
		}
	}
	if seen["none"] != 3 || seen["pgd"] != 7 || seen["fog:fog:3"] != 3 {
		t.Errorf("%v cells", seen)
	}
	of := f.Suites[len(f.Suites)-1]
	if of.Mode != result.Oblivious || !slices.Equal(of.Modes, []string{result.Oblivious, result.WhiteboxDetached,
		result.WhiteboxThrough}) {
		t.Errorf("%+v", of)
	}
}

// A baseline that needs only verdicts has those of full strength for fewer passes.
func TestVerdictsAloneAreCheaper(t *testing.T) {
	saved := 0 // files of images, by the last run
	run := func(sets ...string) (*result.File, int64) {
		sets = append(sets, "suites.small.controls=[]", "suites.small.attacks=[apgd-linf, apgd-l1, pgd-l2]",
			"suites.small.models=[standard]")
		f, _, out := runSmall(t, 2, 16, sets...)
		saved = len(must.Get(filepath.Glob(filepath.Join(out, "adversarial", "*.npy")))(t))
		var passes int64
		for _, c := range f.Cells {
			for _, s := range c.Steps {
				passes += s.Forward + s.Backward
			}
		}
		return f, passes
	}
	full, fullPasses := run()
	alone, passes := run("save_adversarial=false")
	for i, c := range alone.Cells {
		if c.Verdicts != full.Cells[i].Verdicts {
			t.Errorf("%s: verdicts alone %s, at full strength %s", c.Attack, c.Verdicts, full.Cells[i].Verdicts)
		}
		if c.VerdictOnly != (c.Attack != cell.None) || full.Cells[i].VerdictOnly {
			t.Errorf("%s: verdict only %v, at full strength %v", c.Attack, c.VerdictOnly, full.Cells[i].VerdictOnly)
		}
	}
	if float64(passes) > 0.9*float64(fullPasses) || saved != 0 {
		t.Errorf("%d passes and %d files for verdicts alone, %d passes at full strength", passes, saved, fullPasses)
	}
	kept, same := run("suites.small.verdict_only=true")
	if len(kept.Cells) != len(alone.Cells) || same != passes || saved != len(kept.Cells)-1 {
		t.Errorf("%d cells, %d passes and %d files where the images are kept, %d passes where they are not",
			len(kept.Cells), same, saved, passes)
	}
	for i, c := range kept.Cells {
		if a := alone.Cells[i]; c.Verdicts != a.Verdicts || c.MaxNorm != a.MaxNorm || c.VerdictOnly != a.VerdictOnly {
			t.Errorf("%s: %+v where the images are kept, %+v where they are not", c.Attack, c, a)
		}
	}
}

// White-box results are the same too, bit for bit, whatever the batch and the workers.
func TestWhiteboxDoesNotDependOnBatchOrWorkers(t *testing.T) {
	run := func(workers, batch int) string {
		_, _, out := runFor(t, testplan.Plan(t, modes, workers, batch, "default_suites=[detached, through]",
			"datasets.test.limit=3", "attacks.pgd.norm=l2", "attacks.pgd.epsilon=0.5"))
		return out
	}
	alone := run(1, 1)
	for _, c := range [][2]int{{2, 2}} {
		identical(t, fmt.Sprint(c), alone, run(c[0], c[1]))
	}
}

// On a trained network with trained embeddings, the gradient through greedy controls differentiates the whole
// controlled loss: central differences of the judge's own answer, in random directions, agree to a hundredth. (For an
// iterating solver, differences say nothing on a network of ReLUs: the adjoints jump wherever one flips, and with
// them the answer. See the goldens of package control.)
func TestThroughControlGradientOnBundledNetwork(t *testing.T) {
	testinput.Runtime(t)
	p := testplan.Plan(t, modes, 2, 8, "default_suites=[through]", "datasets.test.limit=4", "datasets.train.limit=100",
		"suites.through.controls=[greedy, linear]",
		"controls.greedy.layers=[{at: input, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}}, "+
			"{at: last, embedding: {kind: onnx, path: models/zoo/hidden_ae.onnx}}]")
	r := openerOf(t, p.Config)
	b := must.Get(r.Job(t.Context(), p.Jobs[0]))(t)
	defer b.Close()
	set, net := b.Set, b.Net
	ctx := context.Background()
	for _, name := range p.Jobs[0].Suite.Controls {
		c := must.Get(r.Controller(ctx, net, p.Config.Control(name), true))(t)
		at := must.Get(open.OracleOf(open.Under(c, net), result.WhiteboxThrough))(t)
		for k, im := range every(t, set) {
			rng := rand.New(rand.NewPCG(uint64(k), 1))
			// An image of no class: confident answers have a flat loss.
			x := make([]float32, len(im.Pixels))
			for i, v := range im.Pixels {
				x[i] = 0.8*v + 0.2*rng.Float32()
			}
			var e attacks.Evaluation
			must.Do(t, at.Gradient(ctx, x, attacks.Margin, im.Label, -1, &e))
			value := func(direction []float64, h float64) float64 {
				y := make([]float32, len(x))
				for i := range y {
					y[i] = x[i] + float32(h*direction[i])
				}
				z := must.Get(at.Of.Logits(ctx, y))(t)
				return -attacks.LogitMargin(z, im.Label)
			}
			direction, length, slope := make([]float64, len(x)), 0.0, 0.0
			size := attacks.L2.Length(e.Gradient)
			// Random, with a part of the gradient, whose slope stands out of the answer's rounding. This may hide an
			// error across the gradient, which the goldens would show.
			for i, g := range e.Gradient {
				direction[i] = rng.NormFloat64()/math.Sqrt(float64(len(x))) + float64(g)/size
				length += direction[i] * direction[i]
			}
			for i, g := range e.Gradient {
				direction[i] /= math.Sqrt(length)
				slope += direction[i] * float64(g)
			}
			const h = 2e-3
			if difference := (value(direction, h) - value(direction,
				-h)) / (2 * h); math.Abs(difference-slope) > 1e-2*math.Abs(slope) {
				t.Errorf("%s, image %d: slope %.5g by the gradient, %.5g by differences", name, im.ID, slope,
					difference)
			}
		}
		at.Close()
		c.Close()
	}
}
