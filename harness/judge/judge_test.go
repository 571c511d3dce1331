package judge

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/dataset"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/internal/must"
	"selfheal/internal/number"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

// opened returns the bundled network, undefended if control is "".
func opened(t *testing.T, control string) *open.Model {
	t.Helper()
	testinput.Runtime(t)
	cfg := testplan.Plan(t, testplan.Small, 2, 64, "attacks.pgd-l2.epsilon=[0.2, 0.4]",
		"attacks.square-l1={kind: spatial}").Config
	u := must.Get(open.Use(context.Background(), cfg, "robust", control, open.Options{}))(t)
	t.Cleanup(u.Close)
	return u
}

// Probabilities, their logarithms and unit vectors are recognised, also at the borders of their definitions.
func TestDecide(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		logits []float32
		label  int
		want   Verdict
		finite bool
	}{
		{[]float32{1, 3, 2}, 1, Verdict{Class: 1, Right: true, Margin: 1}, true},
		{[]float32{1, 3, 2}, 2, Verdict{Class: 1, Margin: -1}, true},
		{[]float32{3, 3, 2}, 0, Verdict{Class: 0, Right: true}, true}, // the first of equals
		{[]float32{3, 3, 2}, 1, Verdict{Class: 0}, true},
		{[]float32{1, nan, 2}, 2, Verdict{Class: 2, Margin: number.Any(math.NaN())}, false},
		{[]float32{1, 2, inf}, 1, Verdict{Class: 2, Margin: number.Any(math.NaN())}, false},
		{[]float32{1, 2, -inf}, 1, Verdict{Class: 1, Right: true, Margin: 1}, true}, // a class that never wins
		{[]float32{0.25, 0.5, 0.25}, 1, Verdict{Class: 1, Right: true, Margin: 0.25, Simplex: true, Sum: 1}, true},
		{[]float32{0.25, 0.25, 0.5625}, 2, Verdict{Class: 2, Right: true, Margin: 0.3125, Sum: 1.0625}, true},
		{[]float32{0, 1, 0}, 1, Verdict{Class: 1, Right: true, Margin: 1, Simplex: true, Unit: true}, true},
		{[]float32{-0.5, 1, 0.5}, 1, Verdict{Class: 1, Right: true, Margin: 0.5}, true}, // a sum of 1, but below 0
		{[]float32{float32(math.Log(0.5)), float32(math.Log(0.25)), float32(math.Log(0.25))}, 0,
			Verdict{Class: 0, Right: true, Margin: number.Any(float32(math.Log(0.5)) - float32(math.Log(0.25))),
				Logs: true}, true},
		{[]float32{0, 0.25}, 1, Verdict{Class: 1, Right: true, Margin: 0.25, Sum: 0.25}, true}, // of a single logit
		{[]float32{0, 1}, 1, Verdict{Class: 1, Right: true, Margin: 1, Simplex: true}, true},
	} {
		got, finite := Decide(c.logits, c.label)
		if math.IsNaN(float64(got.Margin)) && math.IsNaN(float64(c.want.Margin)) {
			got.Margin, c.want.Margin = 0, 0
		}
		all := 0.0 // softmax, of which nothing is left where a logit is not a number
		for _, z := range c.logits {
			all += math.Exp(float64(z - c.logits[c.want.Class]))
		}
		if !finite && !number.Finite(float64(c.logits[c.want.Class]), all) {
			all = math.Inf(1)
		}
		if !(math.Abs(got.Confidence-1/all) < 1e-7) {
			t.Errorf("%v: confidence %v, want %v", c.logits, got.Confidence, 1/all)
		}
		got.Confidence = 0
		if !reflect.DeepEqual(got, c.want) || finite != c.finite {
			t.Errorf("%v, label %d: %+v, finite %v, want %+v", c.logits, c.label, got, finite, c.want)
		}
	}
	for _, c := range []struct {
		what string
		got  bool
		want bool
	}{
		{"a sum 0.9e-5 off", simplex([]float32{0.5, 0.500009}), true},
		{"a sum 1.1e-5 off", simplex([]float32{0.5, 0.500011}), false},
		{"0.9e-5 below 0", simplex([]float32{1.000009, -0.000009}), true},
		{"1.1e-5 below 0", simplex([]float32{1, 0.000011, -0.000011}), false},
		{"1.1e-5 above 1", simplex([]float32{1.000011, -0.000009}), false},
		{"exponentials 0.9e-3 off", logarithms([]float32{0, float32(math.Log(0.0009))}), true},
		{"exponentials 1.1e-3 off", logarithms([]float32{0, float32(math.Log(0.0011))}), false},
		{"a length 0.9e-4 off", unit([]float32{0.6, 0.8 + 1.1e-4}), true},
		{"a length 1.1e-4 off", unit([]float32{0.6, 0.8 + 1.4e-4}), false},
		{"a single logit of length 1", unit([]float32{0, 1}), false},
		{"two outputs of length 1", unit([]float32{1, 0}), true},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v", c.what, c.got)
		}
	}
	for _, z := range [][]float32{{0.5, 1}, {0, 0.5, 0.5}, {0.5, -0.1}} {
		if got := shares(z); got != 0 {
			t.Errorf("%v lie in (0,1): %v", z, got)
		}
	}
}

// Votes are counted from the fractions, and the rival is the most frequent other class.
func TestVotes(t *testing.T) {
	for _, c := range []struct{ label, right, rival int }{{0, 3, 9}, {1, 9, 6}, {2, 6, 9}, {3, 2, 9}} {
		shares := []float32{3. / 20, 9. / 20, 6. / 20, 2. / 20}
		if right, rival := votes(shares, c.label, 20); right != c.right || rival != c.rival {
			t.Errorf("label %d: %d and %d votes, want %d and %d", c.label, right, rival, c.right, c.rival)
		}
	}
}

// The judge measures a perturbation and asks the network about the image, not about the clean one. It does not ask
// about an image outside the ball. It records what is wanted of a closed loop, whose answer stays the same.
func TestJudge(t *testing.T) {
	for _, defense := range []string{"", "pca", "auto-encoder"} {
		u := opened(t, defense)
		d := must.Get(u.Set("test", 0))(t)
		for i := range 3 {
			id, pixels, label := must.Get3(d.Image(i))(t)
			im := attacks.Image{ID: id, Pixels: pixels, Label: label}
			x := slices.Clone(pixels)
			for k := range x {
				x[k] = min(max(x[k]+float32(k%3-1)/64, 0), 1)
			}
			distance := attacks.Linf.Distance(x, pixels)
			z := must.Get(u.Logits(t.Context(), x))(t)
			var answers []Verdict
			for want := AnswerOnly; want <= WithSweeps; want++ {
				v := must.Get(Judge(t.Context(), u.Classifier, im, x, plan.Ball{Epsilon: distance}, want))(t)
				if v.Class != attacks.Argmax(z) || v.Right != attacks.Right(z, label) || v.Norm != distance ||
					float64(v.Margin) != attacks.LogitMargin(z, label) || v.Pixels != 0 || v.Broken || v.Votes != 0 {
					t.Errorf("%s, image %d: %+v of %v, label %d", defense, i, v, z, label)
				}
				if loop := v.Loop; (loop != nil) != (defense != "" && want != AnswerOnly) {
					t.Errorf("%s: the loop %+v, asked for %d", defense, loop, want)
				} else if loop != nil && (loop.Sweeps != nil) != (want == WithSweeps && defense == "auto-encoder") {
					t.Errorf("%s: sweeps %v, asked for %d", defense, loop.Sweeps, want)
				} else if loop != nil && (len(loop.Layers) == 0 || !(loop.Objective <= loop.Greedy)) {
					t.Errorf("%s: %+v", defense, loop)
				}
				v.Loop = nil
				answers = append(answers, v)
			}
			if !reflect.DeepEqual(answers[0], answers[1]) || !reflect.DeepEqual(answers[0], answers[2]) {
				t.Errorf("%s: the answer depends on what is asked beside it: %+v", defense, answers)
			}
			v, err := Judge(t.Context(), u.Classifier, im, x, plan.Ball{Epsilon: distance * 0.999}, AnswerOnly)
			if out := (plan.Outside{}); !errors.As(err, &out) || !reflect.DeepEqual(v, Verdict{Norm: distance}) ||
				out.Norm != distance {
				t.Errorf("beyond epsilon: %+v, %v", v, err)
			}
			x = slices.Clone(pixels) // two values of one pixel, and one of another
			x[5], x[1024+5], x[7] = 1-x[5]/2, 1-x[1024+5]/2, 1-x[7]/2
			three := plan.Ball{Norm: attacks.L0, Epsilon: 3}
			v = must.Get(Judge(t.Context(), u.Classifier, im, x, three, AnswerOnly))(t)
			if v.Norm != 3 || v.Pixels != 2 {
				t.Errorf("three values of two pixels: norm %v, %d pixels", v.Norm, v.Pixels)
			}
		}
	}
}

// For a file of 8-bit levels, an attack's image is judged at the nearest levels, unless a loop answers. Clean images
// are judged unchanged.
func TestLevels(t *testing.T) {
	for _, defense := range []string{"", "pca"} {
		u := opened(t, defense)
		u.Net.Graph.Levels = true
		_, pixels, label := must.Get3(must.Get(u.Set("test", 0))(t).Image(0))(t)
		x := slices.Clone(pixels)
		for k, v := range x {
			x[k] = min(max(v+float32(k%2*2-1)*0.3/255, 0), 1)
		}
		at, between := must.Get(u.Logits(t.Context(), pixels))(t), must.Get(u.Logits(t.Context(), x))(t)
		if defense != "" {
			at = between
		}
		im := attacks.Image{Pixels: pixels, Label: label}
		attacked := must.Get(Judge(t.Context(), u.Classifier, im, x, plan.Ball{Epsilon: 1}, AnswerOnly))(t)
		im.Pixels = x
		clean := must.Get(Judge(t.Context(), u.Classifier, im, x, plan.Ball{}, AnswerOnly))(t)
		if float64(attacked.Margin) != attacks.LogitMargin(at, label) ||
			float64(clean.Margin) != attacks.LogitMargin(between, label) || (defense == "") == slices.Equal(at,
			between) ||
			attacked.Rounds || clean.Rounds || !attacked.Right || !clean.Right {
			t.Errorf("%s: %+v, clean %+v of %v, at the levels %v", defense, attacked, clean, between, at)
		}
		for k, v := range pixels {
			x[k] = min(max(v+float32(k%2*2-1)*0.7/255, 0), 1)
		}
		im.Pixels = pixels
		for epsilon, clean := range map[float64]bool{1: false, 0.8 / 255: defense == ""} { // else the nearest leave it
			v := must.Get(Judge(t.Context(), u.Classifier, im, x, plan.Ball{Epsilon: epsilon}, AnswerOnly))(t)
			if (float64(v.Margin) == attacks.LogitMargin(at, label)) != clean {
				t.Errorf("%s within %v: %+v, of the clean image %v", defense, epsilon, v, at)
			}
		}
	}
}

// A point between two classes, as near to the border as float32 tells, is within rounding of the other verdict.
func TestNear(t *testing.T) {
	u := opened(t, "")
	d := must.Get(u.Set("test", 0))(t)
	_, right, label := must.Get3(d.Image(0))(t)
	ask := func(x []float32) Verdict {
		im := attacks.Image{Pixels: x, Label: label}
		return must.Get(Judge(t.Context(), u.Classifier, im, x, plan.Ball{}, AnswerOnly))(t)
	}
	wrong := right
	for i := range d.Len() {
		if _, x, _ := must.Get3(d.Image(i))(t); !ask(x).Right {
			wrong = x
		}
	}
	low, high, near := 0.0, 1.0, 0
	for range 30 {
		x := slices.Clone(right)
		for k := range x {
			x[k] += float32((low + high) / 2 * float64(wrong[k]-right[k]))
		}
		v := ask(x)
		if v.Right {
			low = (low + high) / 2
		} else {
			high = (low + high) / 2
		}
		if v.Near {
			near++
		}
		if v.Near != attacks.WithinRounding(must.Get(u.Logits(t.Context(), x))(t), label) {
			t.Errorf("margin %v: near %v", v.Margin, v.Near)
		}
	}
	if !ask(right).Right || ask(right).Near || near == 0 || near > 20 {
		t.Errorf("%d points of 30 are near", near)
	}
}

// An answer that is no number breaks a clean image, and an attack's only if the loop's own numbers are none either. A
// file of images has no verdict then.
func TestNotFinite(t *testing.T) {
	u := opened(t, "auto-encoder")
	_, pixels, label := must.Get3(must.Get(u.Set("test", 0))(t).Image(0))(t)
	im := attacks.Image{ID: 12, Pixels: pixels, Label: label}
	who := u.Classifier
	who.Loop = &open.Controller{}
	*who.Loop = *u.Loop
	who.Loop.Solver.LearningRate = 1e30
	x := slices.Clone(pixels)
	x[0] = 1 - x[0]
	for _, want := range []int{AnswerOnly, WithCosts} {
		for _, c := range []struct {
			x      []float32
			within plan.Ball
		}{{pixels, plan.Ball{}}, {x, plan.Ball{Epsilon: 1}}} {
			v := must.Get(Judge(t.Context(), who, im, c.x, c.within, want))(t)
			numbers := number.Finite(float64(v.Margin)) && (v.Loop == nil || number.Finite(v.Loop.Objective))
			attacked := c.within != plan.Ball{}
			if excused := attacked && want == AnswerOnly; numbers || v.Broken == excused {
				t.Errorf("attacked %v, asked for %d: %+v", attacked, want, v)
			}
		}
	}
	var out open.NotFinite
	set := must.Get(u.Set("test", 1))(t)
	trial := must.Get(trial(u.Config, u.Config.Attacks[0].Name, cell.Epsilon(u.Config.Attacks[0].Epsilons[0])))(t)
	if _, err := Measure(t.Context(), u.Workers, who, set, trial, pixels); !errors.As(err,
		&out) || out.Image != set.ID(0) {
		t.Errorf("verify says %v", err)
	}
}

// A trial is found by its name, or by its attack's if that has no others, and by its epsilon to 1e-9.
func TestTrial(t *testing.T) {
	cfg := testplan.Config(t, testplan.Repository(t), testplan.Bundled+`
attacks:
  one: {kind: pgd, norm: linf, epsilon: 2/255}
  two: {kind: pgd, norm: l2, epsilon: [0.2, 0.4]}
  patch: {kind: patch, sides: [3, 5]}
  square: {kind: patch, sides: 4}
  common: {kind: corruption, names: [fog], severities: [1, 2]}
suites: {s: {dataset: test, models: [robust], attacks: [one, two, patch, square, common]}}
`, nil)
	for _, c := range []struct {
		name    string
		epsilon float64
		want    string  // the trial's name, or words of the error
		found   float64 // -1 of an error
	}{
		{"one", 0, "one", 2. / 255}, {"one", 2. / 255, "one", 2. / 255},
		{"one", 2. / 255 * (1 + 0.9e-9), "one", 2. / 255}, {"one", 2. / 255 * (1 - 0.9e-9), "one", 2. / 255},
		{"one", 2. / 255 * (1 + 1.1e-9), "no epsilon", -1}, {"one", 2. / 255 * (1 - 1.1e-9), "no epsilon", -1},
		{"two", 0.4, "two", 0.4}, {"two", 0.2, "two", 0.2}, {"two", 0, "several epsilons", -1},
		{"two:3", 0.2, `no attack "two:3"`, -1}, {"patch:5", 0, "patch:5", 0}, {"patch:3", 0, "patch:3", 0},
		{"patch", 0, "several sides; its cells are called as patch:3", -1}, {"patch:4", 0, "no cell patch:4", -1},
		{"square", 0, "square:4", 0}, {"common", 0, "common:fog:1", 0}, {"common:fog:2", 0, "common:fog:2", 0},
		{"three", 0, `no attack "three"`, -1},
	} {
		found, err := trial(cfg, c.name, cell.Epsilon(c.epsilon))
		if c.found < 0 {
			must.Refuse(t, err, c.want)
		} else if err != nil || found.Name() != c.want || float64(found.Epsilon()) != c.found {
			t.Errorf("%s at %v: %v, %v", c.name, c.epsilon, found, err)
		}
	}
}

// Images with channels last are converted to channels first.
func TestChannelsFirst(t *testing.T) {
	got := channelsFirst([]float32{0, 10, 20, 1, 11, 21, 100, 110, 120, 101, 111, 121}, [3]int{3, 1, 2})
	if want := []float32{0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	u := opened(t, "")
	c, _ := claim(t, u)
	last := make([]float32, 0, len(c.Images))
	for i := range 7 {
		image := c.Images[i*3072 : (i+1)*3072]
		for k := range 1024 {
			last = append(last, image[k], image[1024+k], image[2048+k])
		}
	}
	c.Images, c.Shape = last, []int{7, 32, 32, 3}
	if v := must.Get(Verify(t.Context(), u, c))(t); v.Unperturbed != 7 || v.Judged != 7 ||
		v.Accuracy != float64(v.Correct)/7 || v.Dataset != "test" || v.Model != "robust" || v.Defense != "none" ||
		v.Attack != "pgd-l2" || *v.Norm != "l2" || v.Epsilon != 0.4 || v.N != 7 {
		t.Errorf("%+v", v)
	}
}

// claim returns the clean images of the small run as if an attack had returned them.
func claim(t *testing.T, u *open.Model) (Claim, *dataset.Dataset) {
	t.Helper()
	d := must.Get(u.Set("test", 0))(t)
	c := Claim{Column: cell.Column{Attack: "pgd-l2", Epsilon: 0.4}, Shape: []int{d.Len(), 3, 32, 32}, Dataset: "test"}
	for i := range d.Len() {
		_, x, _ := must.Get3(d.Image(i))(t)
		c.Images = append(c.Images, x...)
	}
	return c, d
}

// An image that exceeds the ball by more than float32 can't avoid, or leaves the box at all, is outside and not
// judged. All others are judged as in a run.
func TestVerifyMeasures(t *testing.T) {
	u := opened(t, "")
	c, d := claim(t, u)
	v := must.Get(Verify(context.Background(), u, c))(t)
	if v.Unperturbed != 7 || v.MaxNorm != 0 || len(v.Outside) != 0 || v.Judged != 7 || len(v.Verdicts) != 7 ||
		strings.Count(v.Verdicts, "1") != v.Correct || v.Correct == 0 {
		t.Fatalf("clean images: %+v", v)
	}
	// Equal steps of a given ℓ2 length, towards the middle of the box.
	move := func(i int, length float64) {
		image := c.Images[i*3072 : (i+1)*3072]
		for k, p := range image {
			step := float32(length / math.Sqrt(3072))
			if p > 0.5 {
				step = -step
			}
			image[k] += step
		}
	}
	move(0, 0.4*(1+2e-6))
	move(1, 0.4*(1+1e-4))
	move(2, 0.2)
	c.Images[3*3072+9] = float32(math.Inf(1))
	c.Images[4*3072+9] = 1 + 0x1p-23
	c.Images[5*3072+9] = -1e-30
	v = must.Get(Verify(context.Background(), u, c))(t)
	if v.Unperturbed != 1 || v.Judged != 3 || v.MaxNorm < 0.4 || v.MaxNorm > 1.001 || len(v.Outside) != 4 {
		t.Fatalf("%+v", v)
	}
	for k, want := range []struct {
		image   int
		problem string
		excess  float64
	}{{1, "l2 norm 0.40003", 3.93e-5}, {3, "1 of its 3072 values are NaN or infinite", 0}, {4, "by up to 1.19e-07",
		0x1p-23}, {5, "by up to 1e-30", 1e-30}} {
		o := v.Outside[k]
		if o.Image != want.image || !strings.Contains(o.Problem, want.problem) ||
			math.Abs(o.Excess-want.excess) > 0.05*want.excess {
			t.Errorf("outside: %+v, want image %d, %s, %g", o, want.image, want.problem, want.excess)
		}
	}
	beyond := c
	beyond.Images = slices.Repeat([]float32{2}, len(c.Images))
	if v := must.Get(Verify(t.Context(), u, beyond))(t); v.Judged != 0 || v.Accuracy != 0 || len(v.Outside) != 7 {
		t.Errorf("none is judged: %+v", v)
	}
	for i, b := range []byte(v.Verdicts) {
		outside := slices.ContainsFunc(v.Outside, func(o plan.Outside) bool { return o.Image == i })
		if outside != (b == '-') {
			t.Errorf("image %d: outside %v, verdict %c", i, outside, b)
		}
		if outside {
			continue
		}
		label := d.Label(i)
		z := make([]float32, 10)
		must.Do(t, u.Net.Logits(context.Background(), c.Images[i*3072:(i+1)*3072], z))
		if right := attacks.Argmax(z) == label; right != (b == '1') {
			t.Errorf("image %d: right %v, verdict %c", i, right, b)
		}
	}
}

func TestVerifyErrors(t *testing.T) {
	u := opened(t, "")
	whole, _ := claim(t, u)
	for _, c := range []struct {
		change func(c *Claim)
		want   string
	}{
		{func(c *Claim) { c.Shape = []int{7, 32, 30, 3} },
			"have shape [7 32 30 3], those of dataset test have [N 3 32 32]"},
		{func(c *Claim) { c.Shape = []int{7 * 3072} }, "have shape [21504]"},
		{func(c *Claim) { c.Limit = 3 }, "7 adversarial images, but 3 of dataset test; --limit N"},
		{func(c *Claim) { c.Attack = "none" }, `no attack "none"; it has: apgd-linf`},
		{func(c *Claim) { c.Dataset = "tset" }, `no data set "tset"; did you mean "test"?`},
		{func(c *Claim) { c.Epsilon = 0 }, "several epsilons; say which: 0.2, 0.4"},
		{func(c *Claim) { c.Epsilon = 0.3 }, "no epsilon 0.3; it has: 0.2, 0.4"},
		{func(c *Claim) { c.Attack = "apgd-linf" }, "no epsilon 0.4; it has: 2/255"},
		{func(c *Claim) { c.Attack, c.Epsilon = "square-l1", 0 }, "attack square-l1 moves images"},
	} {
		changed := whole
		c.change(&changed)
		_, err := Verify(context.Background(), u, changed)
		must.Refuse(t, err, c.want)
		if !errors.As(err, new(open.ConfigError)) {
			t.Errorf("%v is no error of the config", err)
		}
	}
	whole.Epsilon, whole.Attack = 0, "apgd-l1"
	if v, err := Verify(context.Background(), u, whole); err != nil || v.Epsilon != 4 ||
		*v.Norm != attacks.L1.String() {
		t.Errorf("an attack of one epsilon: %+v, %v", v, err)
	}
}
