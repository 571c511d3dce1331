package harness_test

import (
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"selfheal/harness/folder"
	"selfheal/harness/result"
	"selfheal/harness/run"
	"selfheal/internal/atomicfile"
	"selfheal/internal/must"
	"selfheal/internal/number"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

// studied is a suite with a solver study of two controls.
const studied = testplan.Bundled + `
controls:
  msa:
    solver: {method: msa, outer: 2, inner: 3, learning_rate: 0.002}
    layers:
      - {at: input, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}}
      - {at: last, embedding: {kind: onnx, path: models/zoo/hidden_ae.onnx}}
  pmp:
    solver: {method: pmp, outer: 4}
    layers: [{at: input, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}}]
attacks:
  pgd: {kind: pgd, norm: linf, epsilon: 8/255, steps: 5}
suites:
  small:
    dataset: test
    models: [robust]
    controls: [msa]
    mode: oblivious
    attacks: [pgd]
    solver: {images: 3, controls: [msa, pmp], attack: pgd, outer: [1, 2], inner: [1], learning_rate: [0.01, 1000000],
             momentum: [0]}
`

var whole struct {
	sync.Once
	*result.File
}

// wholeStudy returns the results.json of a run of studied, made once for all tests.
func wholeStudy(t *testing.T) *result.File {
	t.Helper()
	testinput.Runtime(t)
	whole.Do(func() {
		_, _, out := runFor(t, testplan.Plan(t, studied, 2, 16, "datasets.test.limit=3"))
		whole.File = must.Get(result.Read(filepath.Join(out, "results.json")))(t)
	})
	return whole.File
}

func TestSolverStudy(t *testing.T) {
	f := wholeStudy(t)
	if len(f.Solver) != 2 || f.Solver[0].Control != "msa" || f.Solver[1].Control != "pmp" {
		t.Fatalf("%d studies", len(f.Solver))
	}
	kinds := []string{result.CleanImages, result.AdversarialImages}
	for _, s := range f.Solver {
		if s.N != 3 || s.Attack != "pgd" || s.Norm != "linf" || s.Epsilon != 8./255 || s.Recipe != "pgd/1" ||
			len(s.Baseline) != 2 {
			t.Errorf("%s: %+v", s.Control, s)
		}
		if s.Defaults != (result.SolverSettings{Method: "msa", Outer: 3, Inner: 10, Regularization: 0.001,
			LearningRate: 0.003, Momentum: 0.5}) {
			t.Errorf("%s: defaults %+v", s.Control, s.Defaults)
		}
		// Three methods on two kinds of images, from the same start.
		want := 6
		if s.Control == "msa" { // its rate is not the default one
			want = 8
		}
		if len(s.Curves) != want || len(s.Costs) != 4 {
			t.Fatalf("%s: %d curves, %d costs", s.Control, len(s.Curves), len(s.Costs))
		}
		for i, c := range s.Curves {
			if c.Images != kinds[i%2] || c.Settings.Method != []string{"greedy", "msa", "pmp", "msa"}[i/2] ||
				c.Default != (i > 5) || c.Default != (c.Settings.LearningRate == 0.003 && s.Control == "msa") {
				t.Errorf("%s: curve %d is of %s on %s images", s.Control, i, c.Settings.Method, c.Images)
			}
			if *c.Points[0].Objective != *s.Curves[i%2].Points[0].Objective || !c.Points[0].Done ||
				!c.Points[len(c.Points)-1].Done {
				t.Errorf("%s: curve %d begins elsewhere", s.Control, i)
			}
			for _, cost := range s.Costs {
				if cost.Method == c.Settings.Method && cost.Passes != c.Points[len(c.Points)-1].Passes ||
					cost.Milliseconds <= 0 || cost.Images != 3 {
					t.Errorf("%s: cost %+v, the curve ends at %v passes", s.Control, cost,
						c.Points[len(c.Points)-1].Passes)
				}
			}
		}
		for _, r := range s.Runs {
			if len(r.Outcomes) != 2 || r.Own != (r.Settings == s.Solver) {
				t.Errorf("%s: run %+v", s.Control, r)
			}
			for i, o := range r.Outcomes {
				if o.Images != kinds[i] || len(o.Sweeps) != 1+r.Settings.Outer ||
					math.Abs(o.Accuracy-float64(o.Correct)/3) > 1e-12 {
					t.Errorf("%s: outcome %+v of %+v", s.Control, o, r.Settings)
				}
			}
		}
	}
	var why []string
	for _, r := range f.Solver[0].Runs {
		why = append(why, r.Why)
	}
	// The control's own value stands in every sweep: c has none, pmp no inner.
	want := "own default outer outer inner inner learning_rate learning_rate learning_rate " +
		"momentum momentum"
	if got := strings.Join(why, " "); got != want {
		t.Errorf("runs %s, want %s", got, want)
	}
	if slices.ContainsFunc(f.Solver[1].Runs,
		func(r result.SolverRun) bool { return r.Why == result.SetInner || r.Why == result.DefaultRate }) {
		t.Errorf("pmp with the default rate: %+v", f.Solver[1].Runs)
	}
	own, msa := f.Solver[0].Runs[0], f.Solver[0].Curves[2:4]
	for i, o := range own.Outcomes { // the run is the end of its curve
		if last := msa[i].Points[len(msa[i].Points)-1]; *o.Final().Objective != *last.Objective ||
			o.Correct != last.Correct || own.Passes != last.Passes {
			t.Errorf("%s: the run ends at %+v, its curve at %+v", o.Images, o, last)
		}
	}
	// No solver survives this rate: nothing is a number.
	wild := f.Solver[0].Runs[8]
	if o := wild.Outcomes[0]; wild.Value != 1e6 || o.NotFinite != 1 || o.Final().Objective != nil ||
		o.Sweeps[0].Objective == nil || o.BelowGreedy != 0 || o.NonIncreasing != 0 || o.Correct != 0 {
		t.Errorf("at %v: %+v", wild.Value, o)
	}
}

// A sweep's value equals the cells of a run with that setting: objective, fraction below greedy, accuracy and passes.
// The study itself changes no cell.
func TestStudyAgreesWithCells(t *testing.T) {
	study := wholeStudy(t).Solver[0]
	// The same settings as separate controls.
	own := "outer: 2, inner: 3, learning_rate: 0.002, momentum: 0.5"
	settings := map[string]string{"own=0": own,
		"outer=1":            strings.Replace(own, "outer: 2", "outer: 1", 1),
		"inner=1":            strings.Replace(own, "inner: 3", "inner: 1", 1),
		"learning_rate=0.01": strings.Replace(own, "0.002", "0.01", 1),
		"momentum=0":         strings.Replace(own, "momentum: 0.5", "momentum: 0", 1)}
	text, names := "", []string{}
	for set, s := range settings {
		name, _, _ := strings.Cut(set, "=")
		names = append(names, name)
		text += "  " + name + `:
    solver: {method: msa, ` + s + `}
    layers: [{at: input, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}},
             {at: last, embedding: {kind: onnx, path: models/zoo/hidden_ae.onnx}}]
`
	}
	p := testplan.Plan(t, strings.Replace(studied, "controls:\n", "controls:\n"+text, 1), 2, 16,
		"suites.small.solver=null", "datasets.test.limit=3",
		"suites.small.controls=["+strings.Join(names, ", ")+", msa]")
	f, _, _ := runFor(t, p)
	for _, c := range wholeStudy(t).Cells {
		i := slices.IndexFunc(f.Cells, func(w result.Cell) bool { return w.ID == c.ID })
		if w := f.Cells[i]; c.Verdicts != w.Verdicts || c.MaxNorm != w.MaxNorm || c.VerdictOnly != w.VerdictOnly ||
			!reflect.DeepEqual(c.Solver, w.Solver) {
			t.Errorf("%s, %s: %+v, without the study %+v", c.Attack, c.Defense, c, w)
		}
	}
	for set := range settings {
		key, value, _ := strings.Cut(set, "=")
		i := slices.IndexFunc(study.Runs,
			func(r result.SolverRun) bool { return r.Why == key && number.Format(r.Value) == value })
		if i < 0 {
			t.Fatalf("the study has no run of %s", set)
		}
		run := study.Runs[i]
		for k, attack := range []string{"none", "pgd"} {
			at := slices.IndexFunc(f.Cells, func(c result.Cell) bool { return c.Defense == key && c.Attack == attack })
			c, o := f.Cells[at], run.Outcomes[k]
			s := c.Solver
			if !same(*o.Final().Objective, s.Objective) || !same(*o.Sweeps[0].Objective, s.Greedy) ||
				!same(o.BelowGreedy, s.BelowGreedy) || o.Correct != c.Correct || run.Passes != s.PassesPerRun {
				t.Errorf("%s, %s: the study has %v → %v, %v below, %d right, %v passes; the cell %v → %v, %v, %d, %v",
					set, o.Images,
					*o.Sweeps[0].Objective, *o.Final().Objective, o.BelowGreedy, o.Correct, run.Passes, s.Greedy,
					s.Objective, s.BelowGreedy, c.Correct, s.PassesPerRun)
			}
		}
	}
}

func same(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Max(math.Abs(a), 1) }

// Images that are made for the study alone equal those of the suite's own attack.
func TestStudyImagesAreTheSuites(t *testing.T) {
	shared := wholeStudy(t).Solver
	f, _, out := runFor(t, testplan.Plan(t, studied, 2, 16, "suites.small.attacks=[]", "datasets.test.limit=3",
		"suites.small.solver={images: 3, controls: [msa], attack: pgd}"))
	alone := f.Solver
	for k, c := range shared[0].Curves {
		if !reflect.DeepEqual(c, alone[0].Curves[k]) {
			t.Errorf("curve %d differs", k)
		}
	}
	if read, err := result.Read(filepath.Join(out, "results.json")); err != nil || !reflect.DeepEqual(read.Solver,
		alone) {
		t.Errorf("results.json has other studies: %v", err)
	}
	f, _, _ = runFor(t, testplan.Plan(t, studied, 2, 16, "datasets.test.limit=1",
		"suites.small.solver={controls: [msa]}"))
	if none := f.Solver[0]; len(none.Curves) != 4 || len(none.Baseline) != 1 || none.Attack != "" {
		t.Errorf("without an attack: %+v", none)
	}
}

// A run that is stopped in the middle keeps the complete studies. Each is on disk before the next one begins.
func TestCancelledStudy(t *testing.T) {
	out, written := t.TempDir(), 0
	read := func(name string) *result.File { return must.Get(result.Read(filepath.Join(out, name)))(t) }
	cancelled(t, testplan.Plan(t, studied, 2, 16, "suites.small.solver={images: 1, controls: [msa, pmp]}"),
		run.Options{Out: out, Rule: atomicfile.Rule{Force: true}}, "solver study, robust, pmp [1/",
		func() { written = len(read(folder.WorkFolder + "/results.json").Solver) })
	f := read("results.json")
	if written != 1 || len(f.Solver) != 1 || f.Solver[0].Control != "msa" || len(f.Cells) != 4 {
		t.Errorf("%d studies written, %d and %d cells kept", written, len(f.Solver), len(f.Cells))
	}
}
