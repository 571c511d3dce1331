package run

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/cell"
	"selfheal/harness/config"
	"selfheal/harness/judge"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/internal/journal"
	"selfheal/internal/must"
	"selfheal/internal/number"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Max(math.Abs(a), 1) }

// bench opens the small run's job.
func bench(t *testing.T) (*open.Opener, *open.Job) { return jobOf(t, testplan.Small) }

// jobOf opens a config's first job.
func jobOf(t *testing.T, text string) (*open.Opener, *open.Job) {
	t.Helper()
	testinput.Runtime(t)
	p := testplan.Plan(t, text, 1, 8)
	o := must.Get(open.New(p.Config, open.Options{}))(t)
	t.Cleanup(o.Close)
	b := must.Get(o.Job(p.Jobs[0]))(t)
	t.Cleanup(b.Close)
	return o, b
}

// trialsOf returns attacks of a name at some epsilons.
func trialsOf(t *testing.T, name string, epsilons ...float64) []plan.Trial {
	t.Helper()
	a := &config.Attack{Name: name, Epsilons: epsilons}
	a.Kind = "pgd"
	return must.Get(plan.Trials(a))(t)
}

// A cell's own numbers raise their warnings, and no others.
func TestWarningsFromNumbers(t *testing.T) {
	_, b := bench(t)
	some := attacks.Recipe{Name: "some/1"}
	right := func(n int) []judge.Verdict { return slices.Repeat([]judge.Verdict{{Right: true}}, n) }
	wrong := func(n int) []judge.Verdict { return slices.Repeat([]judge.Verdict{{}}, n) }
	step := func(name string, robust float64) result.Step { return result.Step{Attack: name, Robust: robust} }
	saw := func(w ...gradientFaults) (c crafted) {
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
		{"", saw(gradientFaults{Asked: true}), some, right(30)},
		{result.WarnNotFiniteGradient.ID, saw(gradientFaults{Asked: true, NotFinite: true}), some, right(30)},
		{result.WarnZeroGradient.ID,
			saw(gradientFaults{Asked: true}, gradientFaults{Asked: true, Starts: 2, Blind: 1}), some, right(30)},
		{result.WarnClaimRefuted.ID, crafted{refuted: 1}, some, right(30)},
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
		for _, w := range warnings(scoring{Job: b, own: true, who: open.Alone(b.Net), recipe: c.recipe, made: &c.made},
			c.v) {
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

// Suites and models share a gallery evenly, and their slots follow one another.
func TestGalleryQuotas(t *testing.T) {
	for _, c := range []struct {
		suites, models, most int
		first                []int // the shares of the first suite's models
	}{
		{1, 1, 12, []int{12}}, {1, 5, 12, []int{3, 3, 2, 2, 2}}, {1, 16, 12, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
			0, 0, 0, 0}},
		{4, 1, 48, []int{12}}, {5, 2, 48, []int{5, 5}}, {7, 3, 48, []int{3, 2, 2}}, {60, 2, 48, []int{1, 0}},
	} {
		cfg := &config.Config{}
		for s := range c.suites {
			suite := config.Suite{Name: fmt.Sprint("s", s), Mode: result.Oblivious, Controls: []string{"c"}}
			for m := range c.models {
				suite.Models = append(suite.Models, fmt.Sprint("m", m))
			}
			cfg.Suites = append(cfg.Suites, suite)
		}
		g, total := newGallery(cfg, &result.File{}), 0
		for s := range cfg.Suites {
			sum := 0
			for m, name := range cfg.Suites[s].Models {
				own, before := g.quota(&plan.Job{Suite: &cfg.Suites[s], Model: &config.Model{Name: name}})
				if before != sum || s == 0 && own != c.first[m] {
					t.Errorf("%d suites of %d models: model %d of suite %d has %d after %d, want after %d", c.suites,
						c.models, m, s, own, before, sum)
				}
				sum += own
			}
			total += sum
		}
		if total != c.most {
			t.Errorf("%d suites of %d models: %d cases", c.suites, c.models, total)
		}
	}
	j := &plan.Job{Suite: &config.Suite{Mode: result.Oblivious, Controls: []string{"c", "d"}},
		Trials: trialsOf(t, "a", 1, 2)}
	var order []string
	for _, s := range slotsOf(j, 11) { // of 8 slots: from the fourth on
		order = append(order, fmt.Sprint(s.Epsilon, s.defense, s.kind[:1]))
	}
	if want := []string{"1dn", "2ch", "2cn", "2dh", "2dn", "1ch", "1cn", "1dh"}; !slices.Equal(order, want) {
		t.Errorf("slots %v, want %v", order, want)
	}
	if slotsOf(&plan.Job{Suite: j.Suite}, 3) != nil {
		t.Error("slots without attacks")
	}
}

// The searches of a run's cases begin at different images: if every image qualifies, each case shows another.
func TestGalleryMovesOn(t *testing.T) {
	cfg := &config.Config{}
	for _, name := range []string{"s", "t"} {
		cfg.Suites = append(cfg.Suites, config.Suite{Name: name, Mode: result.Oblivious, Models: []string{"m", "n"},
			Controls: []string{"c", "d"}})
	}
	g, seen, cases := newGallery(cfg, &result.File{}), map[int]bool{}, 0
	const n = 100
	trials := append(trialsOf(t, "a", 1), trialsOf(t, "b", 1)...)
	for i := range cfg.Suites {
		for _, name := range cfg.Suites[i].Models {
			j := &plan.Job{Suite: &cfg.Suites[i], Model: &config.Model{Name: name}, Trials: trials}
			g.begin(j)
			own, before := g.quota(j)
			for _, k := range slotsOf(j, before)[:own] {
				seen[int(g.from[k]*n)] = true
				cases++
			}
		}
	}
	if cases != 24 || len(seen) != cases {
		t.Errorf("%d cases begin at %d images", cases, len(seen))
	}
}

// A gallery ends before its pictures are too large, and says so once for each suite.
func TestGalleryEnds(t *testing.T) {
	g := newGallery(&config.Config{}, &result.File{})
	c := result.GalleryCase{ID: cell.ID{Suite: "s"}, Pictures: result.GalleryPictures{Clean: make([]byte,
		result.GalleryBytes/3),
		Healed: make([]byte, 100)}}
	small := result.GalleryCase{ID: cell.ID{Suite: "t"}}
	for _, one := range []result.GalleryCase{c, c, c, small, c} {
		g.add(one)
	}
	if len(g.file.Cases) != 2 || len(g.file.Notes) != 2 || !strings.Contains(g.file.Notes[0].Message, "1.5 MiB") ||
		g.file.Notes[1].Suite != "t" {
		t.Errorf("%d cases, notes %v", len(g.file.Cases), g.file.Notes)
	}
}

// A perturbation's factor is the largest readable one that keeps it within the picture.
func TestReadableMagnification(t *testing.T) {
	for _, c := range []struct{ largest, want float64 }{{8. / 255, 15}, {float64(float32(8. / 255)), 15}, {0.5, 1}, {1,
		0.5}, {0.25, 2}, {0.05, 10}, {0.0501, 9}, {0.3, 1.5}, {1. / 255, 100}, {0.002, 200}, {1e-7, 5e6},
		{float64(float32(0.05)), 10}, {float64(float32(1. / 3)), 1.5}} {
		if got := readable(0.5 / c.largest); math.Abs(got-c.want) > 1e-9*c.want {
			t.Errorf("a perturbation of %g is magnified %v times, want %v", c.largest, got, c.want)
		}
	}
	c := &candidate{who: open.Classifier{Info: open.Info{Shape: attacks.Shape{C: 1, H: 1, W: 3}}},
		image: attacks.Image{Pixels: []float32{0.5, 0.5, 0.5}}, adversarial: []float32{0.55, 0.45, 0.5}}
	must.Do(t, c.draw(nil))
	img := must.Get(png.Decode(bytes.NewReader(c.Pictures.Perturbation)))(t).(*image.Gray)
	if c.Pictures.Magnification != 10 || !slices.Equal(img.Pix[:3], []uint8{255, 0, 128}) || c.Pictures.Healed != nil {
		t.Errorf("magnified %v times: %v", c.Pictures.Magnification, img.Pix)
	}
}

// Pictures hold pixels to 8 bits, whatever their shape. Values outside [0,1] are clipped.
func TestEncodePNG(t *testing.T) {
	for _, s := range []attacks.Shape{{C: 1, H: 2, W: 3}, {C: 3, H: 3, W: 2}} {
		pixels := make([]float32, s.Size())
		for i := range pixels {
			pixels[i] = float32(i)/float32(len(pixels)-1)*1.2 - 0.1
		}
		data := must.Get(encodePNG(s, pixels))(t)
		img, err := png.Decode(bytes.NewReader(data))
		if err != nil || img.Bounds() != image.Rect(0, 0, s.W, s.H) {
			t.Fatalf("%v: %v, %v", s, img.Bounds(), err)
		}
		if _, grey := img.(*image.Gray); grey != (s.C == 1) {
			t.Errorf("%v: decoded as %T", s, img)
		}
		for i := range s.H * s.W {
			r, g, b, _ := img.At(i%s.W, i/s.W).RGBA()
			for c, v := range []uint32{r, g, b} {
				want := math.Round(255 * min(max(float64(pixels[min(c, s.C-1)*s.H*s.W+i]), 0), 1))
				if float64(v>>8) != want {
					t.Errorf("%v: pixel %d, channel %d is %d, want %v", s, i, c, v>>8, want)
				}
			}
		}
	}
}

func TestSolversFromTheSameStart(t *testing.T) {
	msa := control.Solver{Method: control.MSA, Outer: 3, Inner: 10, Regularization: 0.1, LearningRate: 0.2,
		Momentum: 0.3}
	pmp := func(outer int) control.Solver {
		return control.Solver{Method: control.PMP, Outer: outer, Regularization: 0.1, LearningRate: 0.2, Momentum: 0.3}
	}
	greedy := control.Solver{Method: control.Greedy, Regularization: 0.1}
	with := func(outer, inner int) control.Solver { s := msa; s.Outer, s.Inner = outer, inner; return s }
	for _, c := range []struct {
		own  control.Solver
		want []control.Solver
	}{
		{msa, []control.Solver{greedy, msa, pmp(30)}}, {pmp(30), []control.Solver{greedy, msa, pmp(30)}},
		{pmp(25), []control.Solver{greedy, with(3, 10), pmp(25)}},
		{pmp(4), []control.Solver{greedy, with(1, 4), pmp(4)}},
	} {
		if got := sameStart(c.own); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.own, got, c.want)
		}
	}
}

// Means, errors and fractions of four images, computed by hand.
func TestStudyOutcome(t *testing.T) {
	at := []control.Point{{Done: true}, {Sweep: 1}, {Sweep: 1, Done: true}, {Sweep: 2}, {Sweep: 2, Done: true}}
	of := func(right bool, values ...float64) []reading {
		var out []reading
		for _, v := range values {
			out = append(out, reading{v, right && number.Finite(v), number.Finite(v)})
		}
		return out
	}
	all := [][]reading{
		of(true, 4, 9, 3, 9, 2),      // falls; within a sweep it may rise
		of(true, 4, 4, 5, 4, 3),      // rises once, ends below
		of(false, 4, 4, 4, 4, 4),     // stays
		of(true, 4, 4, 3, 4, 3+1e-9), // rises by rounding
	}
	o := outcome("clean", at, all)
	if o.BelowGreedy != 0.75 || o.NonIncreasing != 0.75 || o.NotFinite != 0 || o.Correct != 3 || o.Accuracy != 0.75 ||
		len(o.Sweeps) != 3 {
		t.Errorf("%+v", o)
	}
	m := o.Sweeps[1] // 3, 5, 4, 3
	if !near(*m.Objective, 3.75) || !near(m.StandardError, math.Sqrt((0.75*0.75*2+1.25*1.25+0.25*0.25)/3/4)) {
		t.Errorf("mean %v ± %v", *m.Objective, m.StandardError)
	}
	all[2] = of(true, 4, 4, 4, 4, math.Inf(1))
	if o = outcome("clean", at, all); o.NotFinite != 0.25 || o.Final().Objective != nil ||
		o.Sweeps[1].Objective == nil || o.NonIncreasing != 0.5 || o.Correct != 3 {
		t.Errorf("%+v", o)
	}
	p := points(at, all)
	if p[4].Objective != nil || p[3].Correct != 4 || !near(p[3].Accuracy, 1) || !near(*p[1].Objective, (9+4+4+4)/4.) {
		t.Errorf("%+v", p)
	}
	if one := meanObjective(all[:1], 0); *one.Objective != 4 || one.StandardError != 0 {
		t.Errorf("one image: %+v", one)
	}
}

// A standing image was hardly attacked if a gradient was infinite or NaN, or 0 at the start of every run.
func TestHardlyAttacked(t *testing.T) {
	for w, want := range map[gradientFaults]bool{
		{}: false, {Asked: true}: false, {Wild: true}: true, {Starts: 5, Blind: 5}: true, {Starts: 5, Blind: 4}: false,
		{Starts: 5}: false, {Wild: true, Starts: 5}: true, {NotFinite: true, Starts: 2, Blind: 1}: false,
	} {
		if w.failed() != want {
			t.Errorf("%+v: %v", w, !want)
		}
	}
}

// The rest of an attack takes as many passes as its later components say, at the first one's speed.
func TestRestOfAnAttack(t *testing.T) {
	s := attacks.Setup{Kind: "autoattack", Version: "standard"}
	r := must.Get(s.Make(0.1, 10))(t)
	w := &crafting{recipe: r, on: &open.Oracle{Oracle: &classes{}, Cost: control.Cost{Forward: 3, Backward: 7}},
		crafted: &crafted{steps: []result.Step{{Forward: 30, Backward: 20, Seconds: 5}}}}
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

// classes is an oracle that only knows the number of classes.
type classes struct{ attacks.Oracle }

func (classes) Classes() int { return 10 }

// A seed without a cell, or of a part of a run, adds nothing. Without clean verdicts or images nothing is scored.
func TestSeedOfNoCell(t *testing.T) {
	trial := trialsOf(t, "a", 1)[0]
	for _, s := range []scoring{{Trial: trial, made: &crafted{}}, {Trial: trial, clean: &judgement{}}} {
		s.run = &run{}
		if got := must.Get(s.score())(t); got != nil {
			t.Errorf("%+v is scored: %+v", s, got)
		}
	}
	must.Do(t, (*cells)(nil).addSeed(scoring{}, &result.Cell{}, nil, "", nil))
	must.Do(t, (&cells{}).addSeed(scoring{}, nil, nil, "", nil))
	must.Do(t, scoring{run: &run{}}.rescore()) // of a part: nothing was made
	(&run{}).leave()                           // before the first job
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
		{&result.LeftOut{Clipped: 1}, "images-changed"},
		{&result.LeftOut{Classes: 3, Files: 2, Names: []string{"a"}, Clipped: 2},
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

// A case of the gallery fits its kind: an image that was right, is wrong, and for kind healed is right again.
func TestBelievable(t *testing.T) {
	answers := func(clean, adversarial int) result.GalleryAnswers {
		return result.GalleryAnswers{Clean: result.GalleryAnswer{Class: clean}, Adversarial: result.GalleryAnswer{
			Class: adversarial}}
	}
	of := func(kind string, alone, controlled result.GalleryAnswers) result.GalleryCase {
		return result.GalleryCase{Kind: kind, Label: 1, Perturbation: 0.5, Undefended: alone, Controlled: &controlled}
	}
	right, wrong, broken := answers(1, 1), answers(2, 2), answers(1, 2)
	for i, c := range []struct {
		of   result.GalleryCase
		want bool
	}{
		{of(result.Healed, broken, right), true},
		{of(result.Healed, broken, broken), false},
		{of(result.Healed, right, right), false},
		{of(result.Healed, wrong, right), false},
		{of(result.Broken, right, broken), true},
		{of(result.Broken, broken, right), false},
		{of(result.Broken, broken, wrong), false},
		{result.GalleryCase{Kind: result.Broken, Label: 1, Perturbation: 0.5, Undefended: broken}, true},
		{result.GalleryCase{Kind: result.Broken, Label: 1, Undefended: broken}, false},
		{result.GalleryCase{Kind: result.Broken, Label: 1, Perturbation: 0.5, Undefended: broken,
			Trace: []result.GallerySweep{{Objective: math.NaN()}}}, false},
	} {
		if got := believable(&c.of); got != c.want {
			t.Errorf("case %d: %v", i, got)
		}
	}
}

// claims is an attack that claims these images, one in each call.
type claims struct {
	attacks.Attack
	of       [][]float32
	distance float64
	calls    string // for each call, whether at full strength
}

func (c *claims) Perturb(_ context.Context, _ attacks.Oracle, _ attacks.Image, how attacks.Options) (attacks.Result,
	error) {
	k := len(c.calls)
	c.calls += map[bool]string{false: "f", true: "v"}[how.VerdictOnly]
	return attacks.Result{Adversarial: c.of[k], Distance: c.distance}, nil
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
	on := must.Get(b.Oracle(open.Alone(b.Net)))(t)
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
		w := &crafting{on: on, verdictOnly: true, crafted: &crafted{each: []attempt{{First: -1, Robust: true}},
			images: must.Get(j.Vectors("v", len(clean)))(t), within: plan.Ball{Epsilon: 1}}}
		a := &claims{of: c.of, distance: c.distance}
		made := must.Get(w.attack(t.Context(), a, &open.Counted{Oracle: on}, im, 0))(t)
		if a.calls != c.calls || made.Robust == c.broken || made.Refuted == c.broken {
			t.Errorf("%d claims: runs %s, want %s; %+v", len(c.of), a.calls, c.calls, made)
		}
	}
}

// Gradients equal to the reference's are accepted, and others refused. The CPU provider's are not compared.
func TestCompare(t *testing.T) {
	o, b := bench(t)
	must.Do(t, compare(t.Context(), b.Net, b))
	standard := *b.Model
	standard.Path = strings.Replace(standard.Path, "robust", "standard", 1)
	other := must.Get(o.Network(&standard, ""))(t)
	defer other.Close()
	must.Refuse(t, compare(t.Context(), other, b), "of their length away", "attacks would be weak")
	p := preflight{Opener: o, ctx: t.Context(), compared: map[string]bool{}}
	if must.Do(t, p.comparable(b)); len(p.compared) > 0 {
		t.Error("the CPU provider is held against itself")
	}
}

// A network to be proven has bounds, or is refused before a run.
func TestProvable(t *testing.T) {
	o, b := jobOf(t, testplan.Bundled+`
attacks: {box: {kind: bounds, norm: linf, epsilon: 1/255}}
suites: {s: {dataset: test, models: [robust], attacks: [box]}}
`)
	p := preflight{Opener: o, ctx: t.Context(), compared: map[string]bool{}}
	must.Do(t, p.job(b))
	b.Net.Graph.Inexact = true
	must.Refuse(t, p.job(b), "model robust: no bounds for a file that is computed otherwise")
}

// Attacks of one network ask it as it was opened, those of another defense that one.
func TestAim(t *testing.T) {
	o, b := bench(t)
	must.Do(t, b.Defend(t.Context(), true))
	r := &run{Opener: o, ctx: t.Context(), job: b}
	r.source = live{r}
	var at []*target
	for _, of := range []string{cell.None, cell.None, "pca"} {
		must.Do(t, r.aim(plan.Group{From: b.Job, Attacked: of}))
		at = append(at, r.target)
	}
	defer r.target.close()
	if at[0] != at[1] || at[0].oracle != nil || at[2].oracle.Of.Defense() != "pca" {
		t.Errorf("%+v", at)
	}
}

// probedFile is a file that answers as the opened network does, but for what it adds to the first class.
type probedFile struct {
	on    *control.Network
	adds  float64
	asked atomic.Int64
}

func (f *probedFile) Logits(ctx context.Context, x, out []float32) error {
	f.asked.Add(1)
	err := f.on.CopyLogits(ctx, x, out)
	out[0] += float32(f.adds)
	return err
}

func (*probedFile) Close() {}

// A network that was trained is neither random nor unstable, by as many answers an image as are said.
func TestProbe(t *testing.T) {
	o, b := bench(t)
	f := &probedFile{on: b.Net}
	must.Do(t, b.Net.AnsweredBy(f))
	clean := make([]judge.Verdict, b.Set.Len())
	clean[0].Right, clean[2].Right = true, true
	w := must.Get(probe(t.Context(), o, open.Alone(b.Net), b.Set, clean))(t)
	if n := f.asked.Load(); len(w) > 0 || n != 2*ProbePasses {
		t.Errorf("%+v after %d answers, want %d", w, n, 2*ProbePasses)
	}
	under := open.Classifier{Info: open.Info{Control: &open.ControlInfo{}}}
	if alone, few := Probed(open.Alone(b.Net)), Probed(under); alone != probed || few != probedControlled {
		t.Errorf("%d images are probed, %d under a control", alone, few)
	}
}
