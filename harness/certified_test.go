package harness_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/config"
	"selfheal/harness/forecast"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/harness/run"
	"selfheal/harness/stats"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/internal/vector"
	"selfheal/models/bounds"
	"selfheal/models/onnx"
)

// certifying is a run of certificates beside an attack, oblivious and not.
const certifying = testplan.Bundled + `
controls:
  pca: {solver: {method: greedy}, layers: [{at: last, embedding: {kind: linear, fit: train, rank: 4}}]}
attacks:
  smooth: {kind: smoothing, norm: l2, epsilon: [0.05, 0.15], sigma: 0.12, n0: 20, n: 200}
  early: {kind: smoothing, norm: l2, epsilon: [0.05, 0.15], sigma: 0.12, n0: 20, n: 1000, stopping: true}
  pgd: {kind: pgd, norm: linf, epsilon: 0.5/255, steps: 5}
suites:
  unknown: {dataset: test, models: [robust], controls: [pca], attacks: [pgd, smooth, early], mode: oblivious}
  known: {dataset: test, models: [robust], controls: [pca], attacks: [pgd, smooth], mode: whitebox-through}
`

// certificateKey identifies a certificate's record: suite, defense, name, epsilon and image.
type certificateKey struct {
	suite, defense, name string
	epsilon              float64
	image                int
}

func certificatesOf(records []result.Record) map[certificateKey]result.Record {
	all := map[certificateKey]result.Record{}
	for _, r := range records {
		if r.Radius != nil {
			all[certificateKey{r.Suite, r.Defense, r.Attack, float64(r.Epsilon), r.Image}] = r
		}
	}
	return all
}

// Certificates exist for both classifiers in every mode. They are the same for every epsilon, batch and number of
// workers, and equal the authors' algorithm on the same answers. The forecast knows their cost: passes for every
// defense, once for all epsilons, and the run's sum.
func TestSmoothing(t *testing.T) {
	f, records, one := runFor(t, testplan.Plan(t, certifying, 1, 4))
	other, two := testplan.Plan(t, certifying, 2, 16), filepath.Join(t.TempDir(), "out")
	said := continued(t, other, run.Options{Out: two})
	identical(t, "two workers", one, two)
	if n := strings.Count(said, "7 images sampled, certified"); n != 4 {
		t.Errorf("%d certificates were made, not 2 of 2 classifiers:\n%s", n, said)
	}
	must.Have(t, must.Get(forecast.Describe(other, nil, nil))(t),
		"smooth ", "smoothing/1, l2, epsilon 0.05: 1540 forward for each defense\n",
		"epsilon 0.15: 1540 forward for each defense, made once with suite unknown\n",
		"early ", "at most 7140 forward for each defense\n", "suite known", "made once with suite unknown")
	all, n := certificatesOf(records), f.Datasets["test"].N
	if len(all) != n*2*(4+2) {
		t.Fatalf("%d records of certificates", len(all))
	}
	proven := 0
	for k, r := range all {
		if (*r.Radius >= k.epsilon) != (r.Verdict == 1) || r.Norm != 0 || r.FirstSuccess != nil ||
			r.CleanMargin == nil || float64(r.Margin) != *r.CleanMargin {
			t.Errorf("%+v: %+v", k, r)
		}
		proven += r.Verdict
		for _, same := range []certificateKey{{k.suite, k.defense, k.name, 0.15, k.image},
			{"unknown", k.defense, k.name, k.epsilon, k.image}} {
			if *all[same].Radius != *r.Radius {
				t.Errorf("%+v has the radius %v, %+v %v", k, *r.Radius, same, *all[same].Radius)
			}
		}
	}
	if proven == 0 || proven == len(all) {
		t.Errorf("%d of %d are proven: nothing was tested", proven, len(all))
	}
	for _, c := range f.Cells {
		certificate := strings.HasPrefix(c.Recipe, "smoothing/1")
		if certificate && (len(c.Steps) > 0 || c.MaxNorm != 0 || *c.Norm != "l2") {
			t.Errorf("%+v", c)
		}
		polled := 0
		for _, of := range c.Smoothed {
			polled++
			reach := 0
			for k, r := range all {
				at := float64(c.Epsilon) * math.Sqrt(3*32*32)
				if k.suite == c.Suite && k.defense == c.Defense && k.name == of.Certificate && k.epsilon == 0.05 &&
					*r.Radius >= at {
					reach++
				}
			}
			if of.Broken != 0 || of.Proven != reach || len(of.Verdicts) != n ||
				of.Correct != strings.Count(of.Verdicts, "1") {
				t.Errorf("%s, %s: %+v", c.Suite, c.Defense, of)
			}
		}
		want := 0
		if c.Attack == "pgd" {
			want = map[string]int{"unknown": 2, "known": 1}[c.Suite]
		}
		if c.VerdictOnly {
			t.Errorf("%s, %s, %s: smoothed classifiers see images that only just break another", c.Suite, c.Defense,
				c.Attack)
		}
		if polled != want {
			t.Errorf("%s, %s, %s: the answers of %d smoothed classifiers, not %d", c.Suite, c.Defense, c.Attack, polled,
				want)
		}
	}
	u := must.Get(open.Use(t.Context(), testplan.Plan(t, certifying, 1, 4).Config, "robust", "", open.Options{}))(t)
	defer u.Close()
	set := must.Get(u.Scored("test"))(t)
	for i := range n {
		im := must.Get(set.Read(i))(t)
		count := func(from, n int) (votes [10]int) {
			x, z := make([]float32, len(im.Pixels)), make([]float32, 10)
			for k := from; k < from+n; k++ {
				vector.Noisy(im.Pixels, 0.12, vector.NewKey(3, uint64(im.ID)).At(uint64(k)), x)
				must.Do(t, u.Net.Logits(t.Context(), x, z))
				votes[attacks.Argmax(z)]++
			}
			return votes
		}
		first, votes := count(0, 20), count(20, 200)
		want := 0.0
		if class := attacks.Argmax(floats(first)); class == im.Label {
			if p := stats.ClopperPearson(votes[class], 200, 1-2*0.001)[0]; p > 0.5 {
				want = 0.12 * distuv.UnitNormal.Quantile(p)
			}
		}
		if got := *all[certificateKey{"known", cell.None, "smooth", 0.05, im.ID}].Radius; got != want {
			t.Errorf("image %d: radius %v, its answers give %v", im.ID, got, want)
		}
	}
}

func floats(v [10]int) (out []float32) {
	for _, x := range v {
		out = append(out, float32(x))
	}
	return out
}

// On real networks and images, radii do not differ systematically from the authors' program's with the same settings,
// by a sign test of the images on which both are certain and differ. Classes are the same, except for images at the
// edge of an abstention.
func TestSmoothingAgreesOnRealNetworks(t *testing.T) {
	path := testinput.Real(t, "cifar10-test-1000.bin")
	var file struct {
		Cases []struct {
			Network      string
			Sigma, Alpha float64
			N0, N        int
			Images       []struct {
				Class  int
				Radius float64
			}
		}
	}
	read(t, "testdata/smoothing.json", &file)
	for _, want := range file.Cases {
		name := want.Network
		if !testinput.Large() && (testing.Short() || want.N > 1000 || name != "resnet_2b") {
			continue
		}
		preprocess := ""
		if name == "resnet_2b" {
			preprocess = ", preprocess: {mean: [0.4914, 0.4822, 0.4465], std: [0.2471, 0.2435, 0.2616]}"
		}
		text := `
version: 1
datasets: {real: {format: cifar10-bin, path: cifar10-test-1000.bin, limit: 50}}
models: {network: {path: ` + name + `.onnx` + preprocess + `}}
attacks: {smooth: {kind: smoothing, norm: l2, epsilon: 0.25}}
suites: {real: {dataset: real, models: [network], attacks: [smooth]}}
`
		cfg := testplan.Config(t, config.Folder(filepath.Dir(path)), text, nil)
		set := map[string]any{"sigma": want.Sigma, "n0": want.N0, "n": want.N, "alpha": want.Alpha}
		cfg.Attacks[0].Parameters = set
		_, records, _ := runFor(t, must.Get(plan.New(cfg))(t))
		larger, smaller, others, sum, both := 0, 0, 0, 0.0, 0
		for _, r := range records {
			if r.Radius == nil {
				continue
			}
			theirs, radius := want.Images[r.Image].Radius, *r.Radius
			if want.Images[r.Image].Class != r.Label {
				theirs = 0
			}
			switch edge := 0.6 * want.Sigma; { // an image beside an abstention
			case theirs > edge && radius == 0 || radius > edge && theirs == 0:
				others++
			case theirs > 0 && radius > 0:
				both++
				sum += radius - theirs
				const rounding = 1e-9
				if radius > theirs+rounding {
					larger++
				} else if radius < theirs-rounding {
					smaller++
				}
			}
		}
		p := 2 * stats.BinomialTest(min(larger, smaller), larger+smaller, 0.5)
		t.Logf("%s: of %d images certified by both %d radii are larger and %d smaller (p = %.2g), by %.2g in the "+
			"mean; %d certified by one alone", name, both, larger, smaller, p, sum/float64(max(both, 1)), others)
		if both == 0 || p < 1e-3 || others > 1 {
			t.Errorf("%s: radii differ from the authors'", name)
		}
	}
}

// side is the height and width of the images of these tests.
const side = 4

// linear is brightness of images of one channel. FOLDER is a folder with an embedding that has no bounds.
func linear(t *testing.T, more string) string {
	t.Helper()
	dir := t.TempDir()
	e := &onnx.Builder{G: onnx.NewGraph("rooted")}
	e.Output("roots", e.Op("Sqrt", e.Input("z", onnx.Shape{onnx.Batch, 1, side, side})))
	must.Do(t, e.Err())
	must.Do(t, os.WriteFile(filepath.Join(dir, "rooted.onnx"), must.Get(e.G.Encode())(t), 0o644))
	return brightness(t, attacks.Shape{C: 1, H: side, W: side}) + strings.ReplaceAll(more, "FOLDER", dir)
}

// brightness returns the beginning of a config with six images of a shape and a network that answers 1 if an image is
// brighter than a half, with a ReLU that changes nothing.
func brightness(t *testing.T, s attacks.Shape) string {
	t.Helper()
	dir := t.TempDir()
	b := &onnx.Builder{G: onnx.NewGraph("brightness")}
	x := b.Op("Relu", b.Op("Flatten", b.Input("x", onnx.Shape{onnx.Batch, int64(s.C), int64(s.H), int64(s.W)})))
	weights := make([]float32, 2*s.Size())
	for i := range weights {
		weights[i] = float32(2*(i%2) - 1)
	}
	half := float32(s.Size()) / 2
	w := b.Const(onnx.FloatTensor(onnx.Shape{int64(s.Size()), 2}, weights))
	b.Output("logits", b.Op("Add", b.Op("MatMul", x, w),
		b.Const(onnx.FloatVector([]float32{half, -half}))))
	must.Do(t, b.Err())
	must.Do(t, os.WriteFile(filepath.Join(dir, "brightness.onnx"), must.Get(b.G.Encode())(t), 0o644))
	testplan.Archive(t, filepath.Join(dir, "images.npz"), 6, s)
	return fmt.Sprintf(`
version: 1
datasets: {test: {format: npz, path: %[1]s/images.npz}}
models: {brightness: {path: %[1]s/brightness.onnx}}
`, dir)
}

// bounding is a suite of certificates beside attacks in the same balls.
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
     attacks: [pgd, alpha, intervals, short, l2, l1], mode: oblivious}
`

// On a network that is linear in its images, and under controls that keep them, bounds prove exactly the images that no
// attack can break: in every norm, with any workers, batches and shards, and under every seed the same.
func TestBoundsOfALinearNetwork(t *testing.T) {
	text := linear(t, "seeds: [1, 2]\n"+bounding)
	f, records, one := runFor(t, testplan.Plan(t, text, 1, 4))
	sameAnywhere(t, testplan.Plan(t, text, 1, 4), testplan.Plan(t, text, 2, 16), one)
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
		loose := r.Attack == "intervals" && r.Defense != "none" // its bounds have this sum
		want := *r.CleanMargin - 2*dual[*a.Norm]*float64(r.Epsilon)
		most := 1e-4 // how far off the bound is
		if r.Defense != "none" {
			most = 1e-3 // the ReLU of a loop bends, by slack, where pixels may be 0
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
		for _, o := range f.Cells { // the proven images, and those that the attack leaves
			if proves && c.Defense != "rooted" && (c.Attack != "intervals" || c.Defense == "none") &&
				f.Attacks[o.Attack].Kind == "pgd" && o.Defense == c.Defense &&
				*o.Norm == *c.Norm && o.Epsilon == c.Epsilon && o.Verdicts != c.Verdicts {
				t.Errorf("%s leaves %s, %s proves %s at %g", o.Attack, o.Verdicts, c.Attack, c.Verdicts, c.Epsilon)
			}
		}
	}
	must.Have(t, must.Get(forecast.Describe(testplan.Plan(t, text, 1, 4), nil, nil))(t),
		"bounds/2, l1, epsilon 0.3: no passes, bounds for each defense\n")
}

// A network without bounds is refused before anything runs.
func TestUnboundedNetworksAreRefused(t *testing.T) {
	testinput.Runtime(t)
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
	for _, form := range []string{"dynamic", "float16"} {
		p := testplan.Plan(t, fmt.Sprintf(text, "b"), 1, 4,
			"models.robust.path=harness/testdata/quantised/preact_standard-"+form+".onnx")
		_, err := run.Run(t.Context(), p, run.Options{Out: filepath.Join(t.TempDir(), "out")})
		misconfigured(t, err, "model robust: no bounds for a file that is computed otherwise than it is opened")
	}
}

// Configs and package bounds name the same methods.
func TestMethodsOfBounds(t *testing.T) {
	t.Parallel()
	kind := must.Get(attacks.Lookup("bounds"))(t)
	want := []string{string(bounds.AlphaCROWN), string(bounds.BetaCROWN), string(bounds.CROWN), string(bounds.IBP)}
	if got := kind.Parameters[0]; got.Name != "method" || !slices.Equal(got.Choices, want) {
		t.Errorf("%s is one of %v, not %v", got.Name, got.Choices, want)
	}
}

// AutoAttack has the same verdicts if bounds decide images, which only the first component then attacks.
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
		f.ConfigSHA256 == want.ConfigSHA256 { // with bounds, the network runs as its file has it
		t.Errorf("verdicts %s, not %s", got.Verdicts, want.Cells[1].Verdicts)
	}
	proof := got.Steps[1]
	// how many of the three are proven depends on whether that takes less time than attacks
	if proof.Attack != "bounds" || proof.Attacked < 1 || proof.Proven != proof.Attacked || len(got.Steps) != 5 ||
		got.Steps[2].Attacked != 3-proof.Proven || got.Steps[4].Attacked != 3-proof.Proven ||
		got.Steps[4].Robust != 0.5 {
		t.Errorf("%+v", got.Steps)
	}
	kept := 0 // clean margins, of images that nothing attacks after the proof
	for _, r := range records {
		if r.Attack == "aa" && r.Verdict == 1 && float64(r.Margin) == *r.CleanMargin {
			kept++
		}
	}
	if kept < proof.Proven {
		t.Errorf("%d of %d proven images have their clean margins", kept, proof.Proven)
	}
	again := must.Get(run.Run(t.Context(), p, run.Options{Out: out}))(t) // continues from the journal
	if again.Cells[1].Verdicts != got.Verdicts {
		t.Error("a finished run is another one")
	}
}

// A network of one logit, or of one probability, is scored and attacked as one of two classes. A network of logits
// has bounds, and its proofs are checked against the file.
func TestSingleLogit(t *testing.T) {
	dir := t.TempDir()
	testplan.Archive(t, filepath.Join(dir, "images.npz"), 10, attacks.Shape{C: 3, H: 6, W: 6})
	f, _, _ := runFor(t, testplan.Plan(t, `
version: 1
datasets: {test: {format: npz, path: `+dir+`/images.npz}}
models:
  column: {path: control/testdata/single_column.onnx}
  vector: {path: control/testdata/single_vector.onnx}
  sigmoid: {path: control/testdata/single_sigmoid.onnx, output: probabilities}
  unsaid: {path: control/testdata/single_sigmoid.onnx}
attacks:
  aa: {kind: autoattack, version: quick, norm: linf, epsilon: 0.5}
  b: {kind: bounds, norm: linf, epsilon: 0.0001}
suites:
  s: {dataset: test, models: [column, vector], attacks: [aa, b]}
  p: {dataset: test, models: [sigmoid, unsaid], attacks: [aa]}
`, 1, 4))
	if len(f.Cells) != 10 {
		t.Fatalf("%d cells", len(f.Cells))
	}
	for _, c := range f.Cells {
		// The network answers class 0 everywhere near these images, and class 1 at corners of the large ball.
		want := map[string]string{"none": "1010101010", "aa": "0000000000", "b": "1010101010"}[c.Attack]
		if c.Model == "unsaid" { // taken for a logit, a probability means class 1 everywhere
			want = "0101010101"
		}
		if c.Error != "" || c.Verdicts != want || hasWarning(c, result.WarnSigmoids) != (c.Model == "unsaid") {
			t.Errorf("%s, %s: %q, want %q; %s %v", c.Model, c.Attack, c.Verdicts, want, c.Error, c.Warnings)
		}
	}
}
