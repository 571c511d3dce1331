package harness

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/config"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/ort"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Abs(want) {
		t.Errorf("%s: %g, not %g", what, got, want)
	}
}

// A round's time lies on the lines through what was measured, and images that may not be under way at once take
// turns.
func TestRounds(t *testing.T) {
	c := curve{{1, 1}, {4, 2}, {16, 8}}
	for n, want := range map[int]float64{0: 0, 1: 1, 2: 4. / 3, 4: 2, 10: 5, 16: 8, 20: 10} {
		near(t, "a round", c.at(n), want)
	}
	near(t, "one point", curve{{2, 3}}.at(6), 9)
	// Three images: the first round has all of them, of which 3 passes of 9 take gradients; two go on for
	// two rounds, one for two more.
	s := speed{forward: curve{{1, 3}, {2, 6}}, gradient: curve{{1, 6}, {2, 12}}, width: 2, cores: 2}
	images := []work{{Forward: 4, Gradients: 1, Seconds: 5}, {Forward: 1}, {Forward: 1, Gradients: 2, Seconds: 1}}
	per := 3*2./3 + 6*1./3
	near(t, "three images", s.lasting(images), per*(3+2*2+2)+3)
	near(t, "none", s.lasting(nil), 0)
}

// Images that are wrong cost nothing, those near the boundary the first component's run, those far away
// everything; where nothing tells, the share that stands is anything.
func TestCraftingDraws(t *testing.T) {
	c := crafting{n: 40, parts: []rehearsal{
		{Stands: work{Gradients: 10}, Falls: work{Gradients: 5}, Early: work{Gradients: 1}},
		{Stands: work{Forward: 100}, Falls: work{Forward: 20}, Early: work{Forward: 1}},
	}, speed: speed{forward: curve{{1, 1}, {40, 40}}, gradient: curve{{1, 3}, {40, 120}}, width: 40, cores: 1}}
	draw := func(distances ...float64) outlook {
		c.distances = distances
		return c.draw(rand.New(rand.NewPCG(1, 2)), 1)
	}
	if o := draw(0, 0); o != (outlook{}) {
		t.Errorf("wrong images cost %+v", o)
	}
	o := draw(0, 0.01)
	near(t, "images that fall", o.seconds, 20*5*3)
	if o.right != 20 || o.fallen != 20 {
		t.Errorf("%+v", o)
	}
	near(t, "images that stand", draw(0, 100).seconds, 20*(10*3+100))
	c.verdict = true
	near(t, "verdicts", draw(0, 0.01).seconds, 20*3)
	near(t, "verdicts of images that stand", draw(0, 100).seconds, 20*(10*3+100))
	c.n = 5 * simulated // in proportion
	near(t, "many", draw(100).seconds, 5*float64(simulated)*(10*3+100))
	c.n, c.distances = 200, []float64{-1}
	low, high := 1.0, 0.0
	for i := range 50 {
		o := c.draw(rand.New(rand.NewPCG(3, uint64(i))), 1)
		share := float64(o.fallen) / float64(o.right)
		low, high = min(low, share), max(high, share)
	}
	if low > 0.1 || high < 0.9 {
		t.Errorf("of what is not known, %.2f to %.2f fall", low, high)
	}
	// An image at the typical distance stands in half of the draws; a network may have another one.
	c.distances, c.n = []float64{typical}, simulated
	for _, shift := range []float64{1, 2, 0.5} {
		want := 1 / (1 + math.Pow(shift, -steep))
		o := c.draw(rand.New(rand.NewPCG(5, 6)), shift)
		if share := float64(o.fallen) / float64(o.right); math.Abs(share-want) > 0.05 {
			t.Errorf("%.2f fall at %g, not %.2f", share, shift, want)
		}
	}
}

func TestSpan(t *testing.T) {
	narrow, wide := make([]float64, 101), make([]float64, 101)
	for i := range narrow {
		narrow[i], wide[i] = 100+float64(i), 10*float64(i+1)
		if i >= 95 {
			wide[i] = 1e6
		}
	}
	if s := spanOf(narrow); s != (span{105, 195}) {
		t.Errorf("%+v", s)
	}
	// Of 10, 20, … 950 the most lie between 320 and 960.
	if s := spanOf(wide); s.high != widest*s.low || s.low < 310 || s.low > 320 {
		t.Errorf("%+v", s)
	}
}

func TestDistances(t *testing.T) {
	flat := []float64{1, 1, 1}
	images := []glance{{4, flat, 0}, {}, {Margin: 1}, {8, []float64{16, 1, 1}, 0}, {2, flat, 0}}
	steep := 8 / math.Pow(16, 0.85) / 0.5 // its slope is taken for 16 but for what the median's counts
	for i, want := range []float64{8, 0, -1, steep, 4} {
		near(t, "distance", distances(images, attacks.Linf, 0.5, 3072)[i], want)
	}
	for i := range images {
		images[i].Turn = 0.1
	}
	turn := 0.1 * 0.25 / (noise * math.Sqrt(3072))
	near(t, "where gradients turn", distances(images, attacks.L2, 0.25, 3072)[0], 16*math.Exp(-4*turn))
	near(t, "where they turn soon", distances(images, attacks.L2, 25, 3072)[0], 0.16*math.Exp(-2))
	near(t, "a turn", turned([]float32{1, 0}, []float32{3, 4}), 0.4)
	near(t, "no gradient", turned([]float32{0, 0}, []float32{3, 4}), 0)
	e := &attacks.Evaluation{Logits: []float32{1, 5, 2}, Gradient: []float32{3, -4}}
	g := glanceAt(e, 1)
	if g.Margin != 3 || g.Slopes[attacks.Linf] != 7 || g.Slopes[attacks.L2] != 5 || g.Slopes[attacks.L1] != 4 {
		t.Errorf("%+v", g)
	}
	if g := glanceAt(e, 0); g.right() || g.Slopes != nil {
		t.Errorf("a wrong answer: %+v", g)
	}
	e.Logits[1] = float32(math.Inf(1))
	if g := glanceAt(e, 1); g.right() {
		t.Errorf("an infinite margin: %+v", g)
	}
}

// A rehearsal asks what the attack asks of an image that stands, and of one that falls.
func TestRehearsal(t *testing.T) {
	shape := attacks.Shape{C: 1, H: 6, W: 6}
	of := func(a attacks.Attack) rehearsal {
		return rehearse(context.Background(), a, attacks.Linf, 0.1, shape, 5)
	}
	r := of(attacks.APGD{Epsilon: 0.1, Loss: attacks.TargetedDLR, Steps: 7})
	if r.Stands.Forward != 1 || r.Stands.Gradients != 4*8 || r.Falls.Gradients != 8 || r.Early.Gradients != 2 ||
		!(r.Stands.Seconds > 0) {
		t.Errorf("apgd: %+v", r)
	}
	r = of(attacks.PGD{Epsilon: 0.1, Steps: 10, Restarts: 3})
	if r.Stands.Gradients != 30 || r.Stands.Forward != 3 || r.Falls.Gradients != 10 || r.Early.Gradients >= 10 {
		t.Errorf("pgd: %+v", r)
	}
	// Of these the passes are no more than bounded.
	a := attacks.Bisection{Epsilon: 0.1, Steps: 10, Targets: 2}
	f, g := a.Passes(5)
	if r = of(a); r.Stands.Gradients != 2*11 || r.Falls.Gradients <= 22 || r.Falls.passes() >= int64(f+g) {
		t.Errorf("bisection: %+v, at most %d and %d", r, f, g)
	}
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	if r := rehearse(stopped, a, attacks.Linf, 0.1, shape, 5); r.Stands.passes() != 0 {
		t.Errorf("a rehearsal that was stopped: %+v", r)
	}
	large := attacks.Shape{C: 3, H: 400, W: 400} // cut short: what it would have asked
	r = rehearse(context.Background(), attacks.APGD{Epsilon: 0.1, Steps: 4000}, attacks.Linf, 0.1, large, 5)
	if r.Stands.Gradients != 4001 || r.Stands.Seconds < 2*rehearsed.Seconds() {
		t.Errorf("a large image: %+v", r)
	}
}

// A file of the cache that is damaged, unsound or another key's is passed over and replaced.
func TestCostCache(t *testing.T) {
	c := &CostCache{Dir: filepath.Join(t.TempDir(), "timings")}
	made := 0
	get := func(c *CostCache) float64 {
		v := must.Get(recalled(c, "key", func(v float64) bool { return v > 0 }, func() (float64, error) {
			made++
			return float64(made), nil
		}))(t)
		return v
	}
	for range 3 {
		get(c)
	}
	if made != 1 {
		t.Errorf("made %d times", made)
	}
	path := c.path("key")
	for _, text := range []string{"", "{", `{"key": "other", "value": 7}`, `{"key": "key", "value": -7}`,
		`{"key": "key", "value": "7"}`} {
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
		before := made
		if got := get(c); made != before+1 || got != float64(made) || get(c) != got {
			t.Errorf("%q: %g after %d", text, got, made)
		}
	}
	if get(nil) != float64(made) {
		t.Error("no cache keeps something")
	}
	c.Dir = filepath.Join(path, "no folder")
	if get(c) != float64(made) {
		t.Error("a cache that can't be written")
	}
}

// measuredConfig has a job of each kind, of a network of 10 classes on 12 images.
const measuredConfig = `
version: 1
datasets:
  images: {format: cifar10-bin, path: models/zoo/shapes10/test.bin, limit: 12}
  absent: {format: cifar10-bin, path: absent.bin}
models:
  robust: {path: models/zoo/preact_robust.onnx}
controls:
  greedy: {solver: {method: greedy}, layers: [{at: input, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}}]}
  broken: {solver: {method: greedy}, layers: [{at: input, embedding: {kind: onnx, path: models/zoo/hidden_ae.onnx}}]}
attacks:
  pgd: {kind: pgd, norm: linf, epsilon: 8/255, steps: 4}
suites:
  plain: {dataset: images, models: [robust], controls: [greedy], attacks: [pgd]}
  through: {dataset: images, models: [robust], controls: [greedy], attacks: [pgd], mode: whitebox-through}
  broken: {dataset: images, models: [robust], controls: [broken], attacks: [pgd]}
  absent: {dataset: absent, models: [robust], attacks: [pgd]}
`

// What was timed is used again, and what can't be timed is said.
func TestForecast(t *testing.T) {
	testinput.Runtime(t)
	p := must.Get(NewPlan(configOf(t, config.Folder(".."), measuredConfig, []string{"plain", "through", "broken",
		"absent"})))(t)
	cache := &CostCache{Dir: t.TempDir()}
	if !p.Measurable() {
		t.Fatal("no job has its files")
	}
	measure := func() *Costs { return must.Get(p.Measure(t.Context(), MeasureOptions{Cache: cache}))(t) }
	first := measure()
	for i, why := range []string{"", "", "takes states of shape", "absent.bin is absent"} {
		if f := first.jobs[i]; (f.seconds == nil) != (why != "") || !strings.Contains(f.why, why) {
			t.Errorf("job %d: %d draws, %q", i, len(f.seconds), f.why)
		}
	}
	if f := first.jobs[0]; f.looked != 12 || f.right < 6 || !(spanOf(f.seconds).low > 0) {
		t.Errorf("%d of %d, %v", f.right, f.looked, spanOf(f.seconds))
	}
	text := must.Get(p.Describe(nil, first))(t)
	contains(t, text, "suite plain", "  hours: ", " s); right without attack: ", " of the 12 images looked at\n",
		"suite through", "  hours: ", "suite broken", "  hours: not known: ", "suite absent",
		"  hours: not known: absent.bin is absent\n",
		"hours: ", " on this machine, from timed passes; not known: robust\n")
	// A cache whose timings are an hour makes hours of it: they are not taken again.
	files := must.Get(filepath.Glob(filepath.Join(cache.Dir, "*.json")))(t)
	slow := 0
	for _, path := range files {
		data := string(must.Get(os.ReadFile(path))(t))
		if strings.Contains(data, `"key":"timing`) {
			slow++
			must.Do(t, os.WriteFile(path, []byte(strings.ReplaceAll(data, `"seconds":`, `"seconds":1000`)), 0o644))
		}
	}
	if slow != 3 { // the network, under the control, and its gradient through the control
		t.Errorf("%d timings of %d files", slow, len(files))
	}
	if s := spanOf(measure().jobs[1].seconds); s.low < 3600 {
		t.Errorf("timings were taken anew: %v", s)
	}
	o := must.Get(newOpener(p.Config, nil, nil))(t)
	defer o.close()
	if ort.Version() == "" || !strings.Contains(o.machineKey(), ort.Version()) {
		t.Error("timings are not those of a version of ONNX Runtime")
	}
}
