package run

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/plan"
	"selfheal/harness/planted"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/internal/must"
	"selfheal/internal/sameend"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/opened"
)

// stoppedAt runs a plan and stops it at each of some lines of its log. It comes to the end of the run in a folder.
func stoppedAt(t *testing.T, p *plan.Plan, end string, lines ...string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "stopped")
	for _, line := range lines {
		ctx, stop := context.WithCancel(t.Context())
		to := progress.New(&stopper{at: line, stop: stop}, progress.TextLog, false)
		_, err := Run(ctx, p, Options{Out: dir, Progress: to})
		must.Refuse(t, err, "canceled")
	}
	must.Get(Run(t.Context(), p, Options{Out: dir}))(t)
	must.Do(t, sameend.Check(end, dir))
}

// A run plants perturbations in images that its attacks took passes for, undefended and through controls. AutoAttack's
// quick version finds them and one step does not, which the cell says. The cell also says why nothing can be planted.
// A run that is stopped on its way comes to the same end.
func TestPlanted(t *testing.T) {
	testinput.Runtime(t)
	planted.Share = 1e4
	defer func() { planted.Share = 0.1 }()
	const config = testplan.Bundled + `
controls:
  pca: {solver: {method: greedy}, layers: [{at: last, embedding: {kind: linear, fit: train, rank: 4}}]}
attacks:
  quick: {kind: autoattack, version: quick, norm: linf, epsilon: 4/255}
  fgsm: {kind: fgsm, norm: linf, epsilon: 4/255}
  turn: {kind: spatial, rotation: 10, translation: 2}
suites:
  all: {dataset: test, models: [robust], controls: [pca], attacks: [quick, fgsm, turn], modes: [whitebox-through]}
`
	p, end := testplan.Plan(t, config, 2, 8, "datasets.test.limit=6"), filepath.Join(t.TempDir(), "end")
	f := must.Get(Run(t.Context(), p, Options{Out: end}))(t)
	for _, c := range f.Cells {
		missed := slices.ContainsFunc(c.Warnings, func(w result.Warning) bool {
			return w.ID == result.WarnPlantedMissed.ID
		})
		switch p := c.Planted; {
		case c.Attack == "none" || c.Attack == "turn":
			if p != nil {
				t.Errorf("%s: planted %+v", c.Name(), *p)
			}
		case p == nil || p.N < 3 || p.Random > 0 || p.Why != "":
			t.Errorf("%s: planted %+v", c.Name(), p)
		case c.Attack == "quick" && (p.Found < p.N-1 || missed),
			c.Attack == "fgsm" && c.Defense == "none" && (p.Found > p.N/2 || !missed):
			t.Errorf("%s: planted %+v, warned %v", c.Name(), *p, missed)
		case missed != slices.Contains(c.Masking, result.WarnPlantedMissed.ID):
			t.Errorf("%s: masking %q", c.Name(), c.Masking)
		}
	}

	stoppedAt(t, p, end, "fgsm", "turn") // each begins after an attack whose images were planted

	b := &onnx.Builder{G: onnx.NewGraph("averages")} // a convolution of all positions, and their mean
	w := &onnx.Tensor{DType: onnx.Float, Shape: onnx.Shape{10, 3, 3, 3}, Floats: make([]float32, 270)}
	for i := range w.Floats {
		w.Floats[i] = float32(i*i%13) - 6
	}
	x := b.Input("x", onnx.Shape{onnx.Batch, 3, 32, 32})
	b.Output("y", b.Op("Flatten", b.Op("GlobalAveragePool", b.Op("Relu", b.Op("Conv", x, b.Const(w))))))
	path := filepath.Join(t.TempDir(), "averages.onnx")
	must.Do(t, os.WriteFile(path, must.Get(must.Get(b.Done())(t).Encode())(t), 0o600))
	p = testplan.Plan(t, config, 2, 8, "datasets.test.limit=60", "models.other.path="+path,
		"suites.all.models=[other]", "suites.all.attacks=[fgsm]", "suites.all.controls=[]",
		"suites.all.modes=[oblivious]")
	f = must.Get(Run(t.Context(), p, Options{Out: filepath.Join(t.TempDir(), "run")}))(t)
	if p := f.Cells[1].Planted; p == nil || p.N > 0 || !strings.Contains(p.Why, "no last linear layer") {
		t.Errorf("planted %+v", p)
	}
}

// Version adaptive goes on with the components that need signs where standard misses planted perturbations, and breaks
// by slopes what a network hides that rounds its logits. A network that hides nothing is spared them.
func TestAdaptive(t *testing.T) {
	testinput.Runtime(t)
	const config = testplan.Bundled + `
attacks:
  adaptive: {kind: autoattack, version: adaptive, norm: linf, epsilon: 4/255}
suites:
  all: {dataset: test, models: [robust], attacks: [adaptive]}
`
	g := must.Get(opened.Graph(&onnx.File{Data: must.Get(os.ReadFile("../../models/zoo/preact_robust.onnx"))(t)},
		simplify.Options{}, nil))(t)
	b := &onnx.Builder{G: onnx.NewGraph("rounded")}
	y := b.Op("Mul", b.Call(g, b.Input("x", g.Inputs[0].Shape)), b.Float(0.5))
	b.Output("y", b.Op("Round", y))
	path := filepath.Join(t.TempDir(), "rounded.onnx")
	must.Do(t, os.WriteFile(path, must.Get(must.Get(b.Done())(t).Encode())(t), 0o600))
	for model, hides := range map[string]bool{"robust": false, "other": true} {
		p := testplan.Plan(t, config, 2, 8, "datasets.test.limit=6", "models.other.path="+path,
			"suites.all.models=["+model+"]")
		end := filepath.Join(t.TempDir(), "run")
		c := must.Get(Run(t.Context(), p, Options{Out: end}))(t).Cells[1]
		within := "signs of hidden gradients"
		if hides { // the gradient alone gives it away
			within = "apgd-margin-slopes"
		}
		stoppedAt(t, p, end, within) // which comes to the same end
		names := lists.Map(c.Steps, func(s result.Step) string { return s.Attack })
		if slices.Contains(names, "apgd-margin-slopes") != hides || (c.Accuracy < c.Steps[3].Robust) != hides {
			t.Errorf("%s: %q, %d stand", model, names, c.Correct)
		}
	}
}
