package run

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/folder"
	"selfheal/harness/judge"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/internal/journal"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

// A standing image was hardly attacked if a gradient was infinite or NaN, or 0 at the start of every run.
func TestHardlyAttacked(t *testing.T) {
	for w, want := range map[open.Faults]bool{
		{}: false, {Asked: true}: false, {Wild: true}: true, {Starts: 5, Blind: 5}: true, {Starts: 5, Blind: 4}: false,
		{Starts: 5}: false, {Wild: true, Starts: 5}: true, {NotFinite: true, Starts: 2, Blind: 1}: false,
	} {
		if w.Failed() != want {
			t.Errorf("%+v: %v", w, !want)
		}
	}
}

// The rest of an attack takes as many passes as its later components say, at the first one's speed.
func TestRestOfAnAttack(t *testing.T) {
	s := attacks.Setup{Kind: "autoattack", Version: "standard"}
	r := must.Get(s.Make(0.1, 10))(t)
	w := &crafting{on: &open.Oracle{Oracle: &classes{}, Cost: control.Cost{Forward: 3, Backward: 7}},
		crafted: &crafted{order: order{recipe: r}, steps: []result.Step{{Forward: 30, Backward: 20, Seconds: 5}}}}
	want := 0.0
	for _, c := range r.Components[1:] {
		f, b := c.Passes(10)
		want += (3*float64(f) + 7*float64(b)) / 10
	}
	if got := w.rest(); want == 0 || !near(got, want) {
		t.Errorf("it takes %v s, want %v", got, want)
	}
	w.steps[0] = result.Step{Seconds: 5}
	if got := w.rest(); !near(got, 50*want) {
		t.Errorf("of one pass at least: %v s, want %v", got, 50*want)
	}
	if none, one, two := saved(12, nil), saved(12, []bool{false}), saved(12, []bool{true,
		true}); none != 6 || one != 4 ||
		two != 9 {
		t.Errorf("proofs save %v, %v and %v s of 12", none, one, two)
	}
}

// An attack whose success the judge refutes runs again at full strength and, if it has a distance, for any image.
func TestRefutedClaims(t *testing.T) {
	_, b := bench(t)
	im := must.Get(b.Set.Read(0))(t)
	clean, wrong := im.Pixels, []float32(nil)
	for i := range b.Set.Len() {
		x := must.Get(b.Set.Read(i))(t).Pixels
		v := must.Get(judge.Judge(t.Context(), open.Alone(b.Net), im, x, plan.Ball{Epsilon: 1}, judge.AnswerOnly))(t)
		if !v.Right {
			wrong = x
		}
	}
	on := must.Get(b.Oracle(open.Alone(b.Net), result.Whitebox))(t)
	defer on.Close()
	j, _, err := journal.Open(t.TempDir())
	must.Do(t, err)
	for _, c := range []struct {
		of       [][]float32
		distance float64
		calls    string
		broken   bool
	}{
		{[][]float32{wrong}, 0, "v", true}, {[][]float32{clean, wrong}, 0, "vf", true},
		{[][]float32{clean, clean}, 0, "vf", false}, {[][]float32{clean, clean, wrong}, 1, "vfv", true},
		{[][]float32{clean, clean, clean}, 1, "vfv", false}, {[][]float32{clean, wrong}, 1, "vf", true},
	} {
		w := &crafting{run: &run{journal: &folder.Journal{Journal: j}}, on: on, crafted: &crafted{
			each:    []attempt{{First: -1, Robust: true}},
			order:   order{recipe: attacks.Recipe{Epsilon: 1}, verdictOnly: true},
			vectors: must.Get(j.Vectors("v", len(clean)))(t)}}
		a := &claims{of: c.of, distance: c.distance}
		made := must.Get(w.attack(t.Context(), a, &open.Counted{Oracle: on}, im, 0, "note"))(t)
		if a.calls != c.calls || made.Robust == c.broken || made.Refuted == c.broken {
			t.Errorf("%d claims: runs %s, want %s; %+v", len(c.of), a.calls, c.calls, made)
		}
	}
}

// A component's work is the most passes that its images take.
func TestWork(t *testing.T) {
	s := attacks.Setup{Kind: "autoattack", Version: "standard"}
	all, want := must.Get(s.Make(0.1, 10))(t).Components, int64(0)
	w := &crafting{on: &open.Oracle{Oracle: &classes{}}, own: 9, crafted: &crafted{}, standing: 7}
	for _, c := range all {
		f, b := c.Passes(10)
		want += 5 * int64(f+b)
	}
	of := w.work(make([]int, 5), &open.Counted{Oracle: w.on}, all)
	if of.Passes != want || of.Images != 5 || of.N != 9 || of.Standing != 7 {
		t.Errorf("%+v, want %v passes", of, want)
	}
}

// The first success of an attack of several components counts the iterations and forward passes of the components
// before it too. Each component runs on the images that all before it left.
func TestFirstSuccessOfComponents(t *testing.T) {
	p, cells, records := done(t, `
attacks:
  first: {kind: autoattack, version: custom, norm: linf, epsilon: 4/255, components: [{kind: square, queries: 5}]}
  second: {kind: autoattack, version: custom, norm: linf, epsilon: 4/255, components: [{kind: apgd-ce, steps: 7}]}
  both: {kind: autoattack, version: custom, norm: linf, epsilon: 4/255,
         components: [{kind: square, queries: 5}, {kind: apgd-ce, steps: 7}]}
suites:
  s: {dataset: test, models: [robust], attacks: [first, second, both]}
`)
	first := must.Get(p.Jobs[0].Trials[0].Recipe(10, attacks.Shape{C: 3, H: 32, W: 32}))(t).Components[0]
	passes, _ := first.Passes(10)
	at := func(attack string) []result.Record { return records["robust none "+attack+" 4/255"] }
	came := [3]int{}
	for i, both := range at("both") {
		one, two := at("first")[i], at("second")[i]
		switch {
		case one.FirstSuccess != nil:
			came[0]++
			if *both.FirstSuccess != *one.FirstSuccess || *both.Queries != *one.Queries {
				t.Errorf("image %d: first success %d after %d passes, want %d after %d", both.Image, *both.FirstSuccess,
					*both.Queries, *one.FirstSuccess, *one.Queries)
			}
		case two.FirstSuccess != nil:
			came[1]++
			if *both.FirstSuccess != 5+*two.FirstSuccess || *both.Queries != passes+*two.Queries {
				t.Errorf("image %d: first success %d after %d passes, want 5 + %d after %d + %d", both.Image,
					*both.FirstSuccess, *both.Queries, *two.FirstSuccess, passes, *two.Queries)
			}
		default:
			came[2]++
			if both.FirstSuccess != nil || both.Queries != nil || both.Norm != 0 {
				t.Errorf("image %d: %+v", both.Image, both)
			}
		}
	}
	if slices.Min(came[:]) == 0 || passes != 6 {
		t.Fatalf("%v images fall to the first, to the second and to none; %d passes", came, passes)
	}
	clean, steps := cells["robust none none"], cells["robust none both 4/255"].Steps
	left := clean.Correct - came[0] + (24 - clean.Correct - countWrong(at("both")))
	if len(steps) != 2 || steps[0].Attack != "square" || steps[1].Attack != "apgd-ce" ||
		steps[0].Attacked != clean.Correct || float64(steps[1].Attacked) != steps[0].Robust*24 ||
		steps[1].Robust != cells["robust none both 4/255"].Accuracy || steps[1].Attacked != left {
		t.Errorf("%+v, clean %d, left %d", steps, clean.Correct, left)
	}
	if steps[0].Forward > int64(6*clean.Correct) || steps[0].Backward != 0 || steps[1].Backward == 0 {
		t.Errorf("%+v", steps)
	}
}

// At a smaller epsilon, an attack that spans epsilons counts by the nearest image that it made within it.
func TestLimited(t *testing.T) {
	near := []attacks.Nearer{{Distance: 0.9, Iterations: 2, Forward: 3}, {Distance: 0.5, Iterations: 4, Forward: 6},
		{Distance: 0.4, Iterations: 7, Forward: 9}}
	if at := firstWithin(0.5, near); at == nil || at.Iterations != 4 {
		t.Errorf("within 0.5: %+v", at)
	}
	if at := firstWithin(0.39, near); at != nil {
		t.Errorf("within 0.39: %+v", at)
	}
	at := attempt{Image: nil, First: 2, Queries: 3, Nearest: 0.4, Nearer: near}
	c := &crafted{each: []attempt{at, {First: -1, Queries: -1, Robust: true}, {First: -1, Queries: -1}},
		within: plan.Ball{Epsilon: 1}, steps: []result.Step{{Robust: 1. / 3}}}
	if c.limited(c.within) != c {
		t.Error("the same epsilon changes what was made")
	}
	if got := c.limited(plan.Ball{Epsilon: 0.5}); got.each[0].First != 4 || got.each[0].Queries != 6 ||
		c.each[0].First != 2 || math.Abs(got.steps[0].Robust-1./3) > 1e-12 || got.within.Epsilon != 0.5 {
		t.Errorf("%+v", got)
	}
	if !c.Untried(1) || c.Untried(0) || (&crafted{}).Untried(0) != true {
		t.Error("images that an attack broke are tried")
	}
}

// A twentieth of the standing images is attacked again, at least 50.
func TestSampled(t *testing.T) {
	for standing, want := range map[int]int{0: 0, 1: 1, 50: 50, 51: 50, 1000: 50, 1001: 51, 1020: 51, 1021: 52} {
		if got := Sampled(standing); got != want {
			t.Errorf("of %d: %d, want %d", standing, got, want)
		}
	}
}

// A part that was stopped continues, and makes damaged images again. A finished one is left, unless its journal has
// changed.
func TestPartIsThere(t *testing.T) {
	testinput.Runtime(t)
	p := testplan.Plan(t, testplan.Bundled+`
attacks:
  both: {kind: autoattack, version: custom, norm: linf, epsilon: 8/255,
         components: [{kind: apgd-ce, steps: 3}, {kind: square, queries: 5}]}
suites: {s: {dataset: test, models: [robust], attacks: [both]}}
`, 2, 8, "seeds=2")
	out := t.TempDir()
	part := &Part{Shard: plan.Shard{I: 1, N: 2}, Dir: filepath.Join(out, "part")}
	work := filepath.Join(part.Dir, folder.WorkFolder)
	for k, want := range []string{"robust, both apgd-ce: 3 images attacked", "1 images in the journal are damaged",
		"it is left as it is", "it continues"} {
		ctx, cancel := context.WithCancel(t.Context())
		log := &stopper{stop: cancel}
		switch k {
		case 0:
			log.at = want
		case 1:
			vectors := must.Get(filepath.Glob(work + "/*.f32"))(t)
			must.Do(t, os.Truncate(vectors[0], must.Get(os.Stat(vectors[0]))(t).Size()-1))
		case 3:
			f := must.Get(os.OpenFile(filepath.Join(work, "journal.jsonl"), os.O_APPEND|os.O_WRONLY, 0))(t)
			must.Get(f.WriteString("torn"))(t)
			must.Do(t, f.Close())
		}
		_, err := Run(ctx, p, Options{Out: out, Part: part, Progress: progress.New(log, progress.TextLog, false)})
		cancel()
		if (err != nil) != (k == 0) || !strings.Contains(log.String(), want) {
			t.Errorf("time %d: %v, %q, want %s", k, err, log.String(), want)
		}
		if k == 1 && !strings.Contains(log.String(), "robust, both, seed 4 square: ") {
			t.Errorf("the second seed: %s", log.String())
		}
	}
}
