package run

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/folder"
	"selfheal/harness/judge"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/progress"
	"selfheal/harness/result"
	"selfheal/harness/stats"
	"selfheal/internal/must"
	"selfheal/internal/number"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

// done runs a config on 24 images and sorts its records by cell, in the order of the images.
func done(t *testing.T, text string, sets ...string) (*plan.Plan, map[string]result.Cell, map[string][]result.Record) {
	t.Helper()
	testinput.Runtime(t)
	p := testplan.Plan(t, testplan.Bundled+text, 2, 8, append(sets, "datasets.test.limit=24")...)
	out, log := t.TempDir(), strings.Builder{}
	f := must.Get(Run(t.Context(), p, Options{Out: out, Progress: progress.New(&log, progress.TextLog, false)}))(t)
	cells, records := map[string]result.Cell{}, map[string][]result.Record{}
	name := func(id cell.ID) string {
		return strings.Replace(strings.Replace(id.Name(), "/", " ", 2), "@", " ", 1)
	}
	for i, c := range f.Cells {
		cells[name(c.ID)] = c
		told := fmt.Sprintf(`\[%d/%d\] .*, (undefended|controlled by)`, i+1, len(f.Cells))
		known := c.Defense == "none" && len(c.Steps) > 0 // by its last component's line
		if regexp.MustCompile(told).MatchString(log.String()) == known {
			t.Errorf("%s: told %v", c.Name(), !known)
		}
	}
	for _, r := range must.All(result.Records(filepath.Join(out, "records.jsonl")))(t) {
		n := name(r.ID)
		records[n] = append(records[n], r)
	}
	return p, cells, records
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

// countWrong counts the images that are wrong without attack.
func countWrong(all []result.Record) (n int) {
	for _, r := range all {
		if r.Verdict == 0 && r.FirstSuccess == nil {
			n++
		}
	}
	return n
}

// A cell's numbers follow from its records, and each record agrees with the network's answer to its image.
func TestCellsOfRecords(t *testing.T) {
	_, cells, records := done(t, `
controls:
  pca: {solver: {method: greedy}, layers: [{at: last, embedding: {kind: linear, fit: train, rank: 4}}]}
  auto-encoder:
    solver: {method: msa, outer: 2, inner: 3}
    layers: [{at: input, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}}]
attacks:
  pgd: {kind: pgd, norm: l2, epsilon: [0.2, 0.6], steps: 4}
  fmn: {kind: fmn, norm: linf, epsilon: [2/255, 4/255], steps: 15}
  few: {kind: fmn, norm: l0, epsilon: 12, steps: 15}
  moved: {kind: spatial, queries: 6}
  stored: {kind: pgd, norm: linf, epsilon: 3/255, steps: 3, pixels: 8bit}
  common: {kind: corruption, names: [gaussian_noise], severities: [2]}
suites:
  s: {dataset: test, models: [robust], controls: [pca, auto-encoder], attacks: [pgd, fmn, few, moved, stored, common]}
`)
	if len(cells) != 3*9 {
		t.Fatalf("%d cells", len(cells))
	}
	fell := map[string]int{}
	for name, c := range cells {
		all, clean := records[name], records["robust "+c.Defense+" none"]
		if len(all) != 24 || c.N != 24 {
			t.Fatalf("%s has %d records of %d images", name, len(all), c.N)
		}
		right, most, area := 0, 0.0, 0.0
		var text strings.Builder
		for i, r := range all {
			if right += r.Verdict; r.Verdict == 1 != (r.Predicted == r.Label) || r.Verdict == 1 != (r.Margin >= 0) {
				t.Errorf("%s, image %d: %+v", name, r.Image, r)
			}
			most = max(most, r.Norm)
			fmt.Fprint(&text, r.Verdict)
			if i > 0 && r.Image != all[i-1].Image+1 || r.Label != clean[i].Label {
				t.Errorf("%s: image %d of label %d after %d", name, r.Image, r.Label, all[max(i-1, 0)].Image)
			}
			if c.Attack == "none" {
				if r.CleanMargin != nil || r.Norm != 0 || r.FirstSuccess != nil {
					t.Errorf("%s: %+v", name, r)
				}
				continue
			}
			if *r.CleanMargin != float64(clean[i].Margin) {
				t.Errorf("%s, image %d: clean margin %v, want %v", name, r.Image, *r.CleanMargin, clean[i].Margin)
			}
			broken := r.FirstSuccess != nil
			if c.Recipe != "corruption/1" && broken != (r.Norm > 0 || r.Rotation != nil) {
				t.Errorf("%s, image %d: first success %v, norm %v", name, r.Image, broken, r.Norm)
			}
			own := c.Defense == "none"
			least := own && strings.HasPrefix(c.Recipe, "fmn") // and null if no distance was found
			if (r.Queries != nil) != (broken && own) || r.Distance != nil && !least || (r.Pixels != nil) != (c.Attack ==
				"few") || least && r.Distance == nil && (broken || clean[i].Verdict == 0) {
				t.Errorf("%s, image %d: %+v", name, r.Image, r)
			}
			if c.Defense == "none" && broken {
				if fell[c.Attack]++; r.Verdict == 1 || c.Epsilon != 0 && r.Norm > float64(c.Epsilon)*(1+1e-5) {
					t.Errorf("%s, image %d is broken: %+v", name, r.Image, r)
				}
			}
			if !broken && c.Attack != "common:gaussian_noise:2" && r.Margin != clean[i].Margin {
				t.Errorf("%s, image %d stands with another margin", name, r.Image)
			}
			if least && r.Distance == nil {
				area += 4. / 255 / 24
			} else if least {
				switch d := float64(*r.Distance); {
				case clean[i].Verdict == 0 && d != 0, clean[i].Verdict == 1 && d == 0, r.Verdict == 0 && d != r.Norm,
					r.Verdict == 1 && d <= float64(c.Epsilon):
					t.Errorf("%s, image %d: distance %v, norm %v", name, r.Image, d, r.Norm)
				default:
					area += min(d, 4./255) / 24
				}
			}
		}
		if c.Correct != right || c.Accuracy != float64(right)/24 || c.Verdicts != text.String() || c.MaxNorm != most ||
			c.CI95 != stats.Wilson(right, 24) || c.Error != "" || !(c.Seconds > 0) {
			t.Errorf("%s: %+v; %d right, norms up to %v", name, c, right, most)
		}
		if (c.Area != nil) != (c.Defense == "none" && strings.HasPrefix(c.Recipe, "fmn")) ||
			c.Attack == "fmn" && c.Area != nil && math.Abs(*c.Area-area) > 1e-12 {
			t.Errorf("%s: area %v, want %v", name, c.Area, area)
		}
		if (c.Solver != nil) != (c.Defense != "none") || (len(c.Steps) > 0) != (c.Defense == "none" && c.Attack !=
			"none" && c.Attack != "common:gaussian_noise:2") || (c.Stored != nil) != (c.Attack == "stored" &&
			c.Defense == "none") {
			t.Errorf("%s: solver %v, steps %v, stored %v", name, c.Solver, c.Steps, c.Stored)
		}
		if s, asked := c.Stored, cells["robust none none"].Correct; s != nil && s.Regained+s.Lost > asked {
			t.Errorf("%s: rounding changed more than the %d images attacked: %+v", name, asked, *s)
		}
		if s := c.Solver; s != nil && (!(s.Objective <= s.Greedy+1e-6) || len(s.Layers) != 1 ||
			(s.Sweeps != nil) != (c.Defense == "auto-encoder") || s.Sweeps != nil && s.Traced != 8) {
			t.Errorf("%s: %+v", name, s)
		}
	}
	for _, attack := range []string{"pgd", "fmn", "few", "moved", "stored"} {
		if fell[attack] == 0 {
			t.Errorf("%s breaks no image", attack)
		}
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

// Sums over images, computed by hand: the area under a curve, verdicts as text, votes.
func TestSums(t *testing.T) {
	right := judge.Verdict{Right: true}
	clean := []judge.Verdict{right, right, right, {}}
	each := []attempt{{Nearest: 0.1}, {Nearest: 0.7}, {}, {Nearest: 0.2}}
	if got := area(each, clean, 0.5); math.Abs(got-(0.1+0.5+0.5)/4) > 1e-12 {
		t.Errorf("area %v", got)
	}
	if text, n := bits([]judge.Verdict{right, {}, {}, right, right}); text != "10011" || n != 3 {
		t.Errorf("%s, %d right", text, n)
	}
	v := voted([]judge.Verdict{{Votes: 40}, {Votes: 10, Rival: 30}, {Votes: 21, Rival: 19}, {Votes: 22, Rival: 18}}, 40)
	variance := (0.25*0.75 + 0.525*0.475 + 0.55*0.45) / 39 / 16
	if apart := 1.96 * math.Sqrt(variance); math.Abs(v.Expected-93./160) > 1e-12 || v.Passes != 40 ||
		v.Undecided != 2 || math.Abs(v.CI95[0]-(93./160-apart)) > 1e-12 || math.Abs(v.CI95[1]-(93./160+apart)) > 1e-12 {
		t.Errorf("%+v, want ± %v", v, apart)
	}
	if got := share(1, 8); got != "1 of 8 images (12.5 %)" {
		t.Error(got)
	}
	if got := share(0, 0); got != "0 of 0 images (0.0 %)" {
		t.Error(got)
	}
}

// Square's success counts from two images and more than two of a thousand, after another attack.
func TestSquareWins(t *testing.T) {
	step := func(attack string, robust float64) result.Step { return result.Step{Attack: attack, Robust: robust} }
	for _, c := range []struct {
		steps []result.Step
		n     int
		want  []int
	}{
		{[]result.Step{step("square", 0.1)}, 100, nil},
		{[]result.Step{step("apgd-ce", 0.5), step("square", 0.48)}, 100, []int{2}},
		{[]result.Step{step("apgd-ce", 0.5), step("square", 0.49)}, 100, nil},
		{[]result.Step{step("apgd-ce", 0.5), step("square", 0.4985)}, 10000, nil},
		{[]result.Step{step("apgd-ce", 0.5), step("square", 0.4975)}, 10000, []int{25}},
		{[]result.Step{step("apgd-ce", 0.5), step("square", 0.3), step("fab", 0.2), step("square", 0.1)}, 10,
			[]int{2, 0}[:1]},
	} {
		if got := squareWins(c.steps, c.n); !slices.Equal(got, c.want) {
			t.Errorf("%v of %d images: %v, want %v", c.steps, c.n, got, c.want)
		}
	}
}

// An accuracy is near chance if Wilson's interval contains the accuracy of guessing, for at least 20 images.
func TestNearChance(t *testing.T) {
	for _, c := range []struct {
		right, n int
		want     bool
	}{{2, 20, true}, {1, 19, false}, {0, 20, true}, {5, 20, false}, {4, 20, true}, {10, 100, true}, {18, 100, false}} {
		v := make([]judge.Verdict, c.n)
		for i := range c.right {
			v[i].Right = true
		}
		if got := nearChance(v, 10); got != c.want || c.n >= 20 && got != (stats.Wilson(c.right, c.n)[0] <= 0.1) {
			t.Errorf("%d of %d right, 10 classes: %v", c.right, c.n, got)
		}
	}
}

// A control masks if it keeps a tenth more than under an attack that knows it, significantly, and more than the
// undefended network.
func TestMasked(t *testing.T) {
	cell := func(mode, defense string, accuracy, low, high float64) result.Cell {
		return result.Cell{ID: cell.Of(mode+defense, "m", defense, "pgd", 0.1).In("d", mode), Norm: new("linf"),
			Accuracy: accuracy, CI95: [2]float64{low, high}}
	}
	masked := func(change func(cells []result.Cell)) bool {
		cells := []result.Cell{cell(result.Oblivious, "none", 0.1, 0, 1), cell(result.Oblivious, "loop", 0.6, 0.5, 0.7),
			cell(result.WhiteboxThrough, "loop", 0.2, 0.1, 0.3)}
		cells[0].Suite = cells[1].Suite
		change(cells)
		maskedByControl(cells, &progress.Progress{})
		if len(cells[0].Warnings)+len(cells[2].Warnings) > 0 {
			t.Errorf("another cell is warned about: %+v", cells)
		}
		return len(cells[1].Warnings) == 1
	}
	for _, c := range []struct {
		bare, healed, through float64
		high                  float64 // end of the last one's interval
		want                  bool
	}{
		{0.1, 0.6, 0.2, 0.3, true}, {0.1, 0.6, 0.2, 0.5, false}, {0.1, 0.6, 0.2, 0.51, false},
		{0.1, 0.6, 0.5, 0.4, false},
		{0.1, 0.6, 0.45, 0.4, true}, {0.6, 0.6, 0.2, 0.3, false}, {0.59, 0.6, 0.2, 0.3, true},
		{0.05, 0.2, 0.1, 0.3, false}, // a tenth and no more
	} {
		got := masked(func(cells []result.Cell) {
			cells[0].Accuracy, cells[1].Accuracy, cells[2].Accuracy, cells[2].CI95[1] = c.bare, c.healed, c.through,
				c.high
		})
		if got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	for _, c := range []struct {
		change func(c *result.Cell)
		asked  [3]bool // the cells for which it matters
	}{
		{func(c *result.Cell) { c.Error = "e" }, [3]bool{true, true, true}},
		{func(c *result.Cell) { c.Model = "n" }, [3]bool{true, true, true}},
		{func(c *result.Cell) { c.Attack = "fab" }, [3]bool{true, true, true}},
		{func(c *result.Cell) { c.Defense = "other" }, [3]bool{true, true, true}},
		{func(c *result.Cell) { c.Epsilon = 0.2 }, [3]bool{true, true, true}},
		{func(c *result.Cell) { c.Epsilon = 0; c.Attack = "none" }, [3]bool{true, true, true}},
		{func(c *result.Cell) { c.Dataset = "e" }, [3]bool{false, true, true}},
		{func(c *result.Cell) { c.Norm = new("l2") }, [3]bool{false, true, true}},
		{func(c *result.Cell) { c.Mode = result.WhiteboxDetached }, [3]bool{false, true, true}},
		{func(c *result.Cell) { c.Suite = "s" }, [3]bool{true, true, false}},
	} {
		for i, asked := range c.asked {
			var changed result.Cell
			if masked(func(cells []result.Cell) { c.change(&cells[i]); changed = cells[i] }) == asked {
				t.Errorf("cell %d is %+v", i, changed)
			}
		}
	}
}

// Answers that do not look like logits have a warning.
func TestAnswers(t *testing.T) {
	_, b := bench(t)
	sums := func(all ...float64) (v []judge.Verdict) {
		for _, s := range all {
			v = append(v, judge.Verdict{Sum: s})
		}
		return v
	}
	many := func(n int, v judge.Verdict) []judge.Verdict { return slices.Repeat([]judge.Verdict{v}, n) }
	for _, c := range []struct {
		classes int
		output  string
		v       []judge.Verdict
		want    string
	}{
		{10, "", many(5, judge.Verdict{}), ""},
		{10, "", many(5, judge.Verdict{Simplex: true}), "probabilities"},
		{10, "", append(many(5, judge.Verdict{Simplex: true}), judge.Verdict{}), ""},
		{10, "", many(5, judge.Verdict{Unit: true}), "embeddings"},
		{10, "", append(many(5, judge.Verdict{Unit: true}), judge.Verdict{}), ""},
		{10, "", many(1, judge.Verdict{Unit: true}), ""}, // ten numbers are too few
		{10, "", many(2, judge.Verdict{Unit: true}), "embeddings"},
		{10, "", sums(2, 3, 4), "sigmoids"}, {10, "", sums(2, 0, 4), ""}, {10, "", sums(2, 2.0005, 2), ""},
		{10, "", sums(0.001, 0.002), ""}, // apart by 1e-3 and no more
		{2, "", sums(slices.Repeat([]float64{0.5, 0.25}, 6)...), "sigmoids"},
		{2, "", sums(slices.Repeat([]float64{0.5, 0.5}, 6)...), "sigmoids"},
		{2, "", sums(slices.Repeat([]float64{1, 1}, 6)...), ""},
		{10, "probabilities", many(5, judge.Verdict{Logs: true}), ""},
		{10, "probabilities", append(many(5, judge.Verdict{Logs: true}), judge.Verdict{}), "no-probabilities"},
		{10, "label", many(5, judge.Verdict{Simplex: true}), ""},
	} {
		model, one := *b.Model, *b.Job
		model.Output, one.Model = c.output, &model
		var got []string
		for _, w := range answers(scoring{Job: &open.Job{Job: &one}, who: open.Classifier{Info: open.Info{Model: "m",
			Classes: c.classes}}}, c.v) {
			got = append(got, w.ID)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%d classes, output %q, %v: %v, want %q", c.classes, c.output, c.v, got, c.want)
		}
	}
}

// Normalised answers are compared by their directions.
func TestNormalisedDistance(t *testing.T) {
	for _, c := range []struct {
		a, b []float32
		want float64
	}{{[]float32{3, 4}, []float32{6, 8}, 0}, {[]float32{1, 0}, []float32{0, 2}, math.Sqrt2},
		{[]float32{1, 0}, []float32{-1, 0}, 2}, {[]float32{3, 4}, []float32{4, 3}, math.Sqrt(0.08)}} {
		if got := normalisedDistance(c.a, c.b); math.Abs(got-c.want) > 1e-7 {
			t.Errorf("%v and %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// A loop's numbers are means over the images, and sweeps over those that were followed.
func TestSolverSummary(t *testing.T) {
	j := &judgement{stages: []int{0, 3}, rows: [][]float64{{1, 2, 3, 10, 20, 30, 40}, {3, 3, 5, 30, 40, 50, 60}},
		verdicts: make([]judge.Verdict, 2)}
	j.sweeps[0], j.sweeps[1] = []number.Any{4, 2}, []number.Any{6, 5}
	s := j.summary(&open.ControlInfo{Passes: 7, Places: map[int]string{0: "input", 3: "last"}})
	if s.Objective != 2 || s.Greedy != 2.5 || s.ControlNorm != 4 || s.BelowGreedy != 0.5 || s.PassesPerRun != 7 ||
		s.Traced != 2 || !slices.Equal(s.Sweeps, []float64{5, 3.5}) || len(s.Layers) != 2 {
		t.Errorf("%+v", s)
	}
	for i, want := range [][2]float64{{20, 30}, {40, 50}} {
		if l := s.Layers[i]; l.ControlNorm != want[0] || l.Loss != want[1] {
			t.Errorf("layer %d: %+v, want %v", i, l, want)
		}
	}
	j.sweeps[1][1] = number.Any(math.Inf(1))
	if means, n := j.meanSweeps(); means != nil || n != 0 {
		t.Errorf("sweeps that are not finite: %v of %d", means, n)
	}
}

// stopper stops a run at a line of its progress.
type stopper struct {
	strings.Builder
	at   string
	stop func()
}

func (s *stopper) Write(line []byte) (int, error) {
	if s.at != "" && bytes.Contains(line, []byte(s.at)) {
		s.stop()
	}
	return s.Builder.Write(line)
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

// A certificate is confronted with an attack's images, whatever their order in the config. Each seed of an attack has
// its own time.
func TestCertificatesAreConfronted(t *testing.T) {
	_, cells, _ := done(t, `
attacks:
  pgd: {kind: pgd, norm: l2, epsilon: 0.5, steps: 2}
  smooth: {kind: smoothing, norm: l2, epsilon: 0.1, sigma: 0.12, n0: 20, n: 100}
  late: {kind: fgsm, norm: l2, epsilon: 0.5}
suites: {s: {dataset: test, models: [robust], attacks: [pgd, late, smooth]}}
`, "seeds=2")
	for _, attack := range []string{"pgd 0.5", "late 0.5"} {
		s := cells["robust none "+attack].Smoothed
		if len(s) != 1 || s[0].Certificate != "smooth" || len(s[0].Verdicts) != 24 {
			t.Errorf("%s: %+v", attack, s)
		}
		for _, s := range cells["robust none "+attack].Seeds {
			if !(s.Seconds > 0) {
				t.Errorf("%s: %+v", attack, s)
			}
		}
	}
	if s := cells["robust none smooth 0.1"].Smoothed; s != nil {
		t.Errorf("a certificate is asked about itself: %+v", s)
	}
}
