package run

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/certify"
	"selfheal/harness/config"
	"selfheal/harness/judge"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/harness/signs"
	"selfheal/harness/stats"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/models/onnx"
)

// A cell's own numbers raise their warnings, and no others.
func TestWarningsFromNumbers(t *testing.T) {
	_, b := bench(t)
	some := attacks.Recipe{Name: "some/1"}
	right := func(n int) []judge.Verdict { return slices.Repeat([]judge.Verdict{{Right: true}}, n) }
	wrong := func(n int) []judge.Verdict { return slices.Repeat([]judge.Verdict{{}}, n) }
	step := func(name string, robust float64) result.Step { return result.Step{Attack: name, Robust: robust} }
	saw := func(w ...open.Faults) (c crafted) {
		for _, one := range w {
			a := intact
			a.Seen = one
			c.each = append(c.each, a)
		}
		return c
	}
	for _, c := range []struct {
		want   string
		made   crafted
		recipe attacks.Recipe
		v      []judge.Verdict
	}{
		{"", saw(open.Faults{Asked: true}), some, right(30)},
		{result.WarnNotFiniteGradient.ID, saw(open.Faults{Asked: true, NotFinite: true}), some, right(30)},
		{result.WarnZeroGradient.ID,
			saw(open.Faults{Asked: true}, open.Faults{Asked: true, Starts: 2, Blind: 1}), some, right(30)},
		{result.WarnClaimRefuted.ID, crafted{refuted: 1}, some, right(30)},
		{"", crafted{refuted: 1}, some, right(600)},
		{result.WarnRounded.ID, crafted{}, some, append(right(29), judge.Verdict{Right: true, Rounds: true})},
		{"", crafted{}, some, append(right(29), judge.Verdict{Rounds: true})}, // the file's answer is the lower one
		{result.WarnFewClasses.ID, crafted{}, attacks.Recipe{Name: "autoattack-standard-few/1",
			Fallback: "the model has only 2 classes"}, right(30)},
		{result.WarnSquareWins.ID, crafted{steps: []result.Step{step("apgd-ce", 0.5), step("square", 0.4)}}, some,
			right(30)},
		{"", crafted{steps: []result.Step{step("apgd-ce", 0.5), step("square", 0.5)}}, some, right(30)},
		{"", crafted{steps: []result.Step{step("apgd-ce", 0.5), step("square", 0.495)}}, some, right(200)}, // one image
		{"", crafted{steps: []result.Step{step("apgd-ce", 0.5), step("square", 0.499)}}, some, right(2000)},
		{result.WarnNearChance.ID, crafted{}, attacks.Recipe{}, append(right(3), wrong(27)...)},
		{"", crafted{}, attacks.Recipe{}, append(right(25), wrong(5)...)},
		{"", crafted{}, some, append(right(3), wrong(27)...)}, // under an attack that is the attack's merit
		{result.WarnProbabilities.ID, crafted{}, some,
			slices.Repeat([]judge.Verdict{{Right: true, Simplex: true}}, 30)},
	} {
		var got []string
		own := plan.Step{Job: b.Job, Group: b.Groups()[0], Trial: b.Trials[0]}
		for _, w := range warnings(scoring{Step: own, who: open.Alone(b.Net), recipe: c.recipe, made: &c.made}, c.v) {
			got = append(got, w.ID)
			if w.Message == "" {
				t.Errorf("%s says nothing", w.ID)
			}
		}
		if want := strings.Fields(c.want); !slices.Equal(got, want) {
			t.Errorf("%+v: warnings %v, want %v", c.made, got, want)
		}
	}
}

// A seed without a cell, or of a part of a run, adds nothing. Without clean verdicts or images nothing is scored.
func TestSeedOfNoCell(t *testing.T) {
	trial := trialsOf(t, "a", 1)[0]
	for _, s := range []scoring{{made: &crafted{}}, {clean: &judgement{}}} {
		s.walk, s.Trial = &walk{run: &run{}}, trial
		if got := must.Get(s.score())(t); got != nil {
			t.Errorf("%+v is scored: %+v", s, got)
		}
	}
	must.Do(t, (*cells)(nil).addSeed(scoring{}, &result.Cell{}, nil, "", nil))
	must.Do(t, (&cells{}).addSeed(scoring{}, nil, nil, "", nil))
	must.Do(t, scoring{walk: &walk{run: &run{}}}.rescore()) // of a part: nothing was made
	(&walk{}).leave()                                       // before the first job
}

// A data set's left-out classes, files and changed images give a warning each; unnamed files an ellipsis.
func TestLeftOut(t *testing.T) {
	for _, c := range []struct {
		left *result.LeftOut
		want string
	}{
		{nil, ""}, {&result.LeftOut{}, ""},
		{&result.LeftOut{Classes: 1}, "classes-left-out"},
		{&result.LeftOut{Files: 1, Names: []string{"a"}}, "files-left-out"},
		{&result.LeftOut{Clipped: 1}, ""},
		{&result.LeftOut{Classes: 3, Files: 2, Names: []string{"a"}, Unreadable: 2},
			"classes-left-out files-left-out images-changed"},
	} {
		var ids []string
		for _, w := range leftOut("set", c.left) {
			ids = append(ids, w.ID)
			if w.ID == "files-left-out" && strings.HasSuffix(w.Message, ", …") != (c.left.Files > 1) {
				t.Errorf("%+v: %s", c.left, w.Message)
			}
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("%+v: %q, want %q", c.left, got, c.want)
		}
	}
}

// Records of a network that draws random numbers have votes, unless an image is certified.
func TestVotesOfRecords(t *testing.T) {
	_, b := bench(t)
	for _, c := range []struct {
		votes int
		proof certify.Proof
		want  bool
	}{{0, nil, false}, {20, nil, true}, {20, certain{}, false}} {
		model, one := *b.Model, *b.Job
		model.Votes, one.Model = c.votes, &model
		s := scoring{Step: plan.Step{Job: &one, Trial: plan.Clean}, job: b, proof: c.proof, made: &crafted{}}
		for r := range records(result.Cell{Verdicts: "1"}, s, []judge.Verdict{{Right: true, Votes: 15}}) {
			if (r.Votes != nil) != c.want || c.want && *r.Votes != 15 {
				t.Errorf("%+v: votes %v", c, r.Votes)
			}
		}
	}
}

// A further seed adds to the cell with its identity.
func TestCellOf(t *testing.T) {
	s := scoring{Step: plan.Step{Trial: trialsOf(t, "a", 0.1)[0],
		Job: &plan.Job{Suite: &config.Suite{Name: "s"}, Model: &config.Model{Name: "m"}}}}
	c := &cells{record: &result.File{Cells: []result.Cell{{}, {ID: s.id()}, {}}}}
	if c.of(s) != &c.record.Cells[1] || (*cells)(nil).of(s) != nil {
		t.Errorf("the cell is %+v", c.of(s))
	}
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
  s: {dataset: test, models: [robust], controls: [pca, auto-encoder], mode: oblivious,
      attacks: [pgd, fmn, few, moved, stored, common]}
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
	if got := signs.Share(1, 8); got != "1 of 8 images (12.5 %)" {
		t.Error(got)
	}
	if got := signs.Share(0, 0); got != "0 of 0 images (0.0 %)" {
		t.Error(got)
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

// A network with ImageNet's classes, for images of its size, has AlexNet's errors beside its own, and a warning where
// the images are of fewer classes.
func TestAlexNetsErrors(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	b := &onnx.Builder{G: onnx.NewGraph("thousand")}
	h := b.OpWith("Flatten", onnx.Attrs{"axis": int64(1)}, b.Op("GlobalAveragePool", b.Input("x",
		onnx.Shape{-1, 3, 224, 224})))
	b.Output("z", b.OpWith("Gemm", onnx.Attrs{"transB": int64(1)}, h,
		b.Const(onnx.FloatTensor(onnx.Shape{1000, 3}, make([]float32, 3000))),
		b.Const(onnx.FloatVector(make([]float32, 1000)))))
	must.Do(t, b.Err())
	path := filepath.Join(dir, "thousand.onnx")
	must.Do(t, os.WriteFile(path, must.Get(b.G.Encode())(t), 0o644))
	for _, class := range []string{"a", "b"} {
		must.Do(t, os.MkdirAll(filepath.Join(dir, "set", class), 0o755))
		var picture bytes.Buffer
		must.Do(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 224, 224))))
		must.Do(t, os.WriteFile(filepath.Join(dir, "set", class, "1.png"), picture.Bytes(), 0o644))
	}
	text := fmt.Sprintf(`{version: 1, datasets: {d: {format: image-folder, path: %q}}, models: {m: {path: %q}},
attacks: {c: {kind: corruption, names: [contrast], severities: 5}},
suites: {s: {dataset: d, models: [m], attacks: [c]}}}`, filepath.Join(dir, "set"), path)
	f := must.Get(Run(t.Context(), testplan.Plan(t, text, 1, 2), Options{Out: filepath.Join(dir, "out")}))(t)
	if len(f.Cells) != 2 || f.Cells[0].AlexNetError != 0 || f.Cells[1].AlexNetError != .853204 ||
		len(f.Cells[0].Warnings) != 1 || f.Cells[0].Warnings[0].ID != result.WarnClassSubset.ID {
		t.Errorf("%+v", f.Cells)
	}
}
