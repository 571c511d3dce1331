package train

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
)

// golden is testdata/training.json, which scripts/goldens/fit.py wrote with PyTorch.
type golden struct {
	Images, Batch int
	Weight        float64
	Order         [][]int
	Runs          []goldenRun
	Updates       []struct {
		rates
		Start     []float32
		Gradients [][]float64
		After     [][]float64
	}
}

// goldenRun is a training in PyTorch.
type goldenRun struct {
	rates
	Settings struct { // of recipes.json
		Settings
		Embedding string // its file's name
		Draws     []int  // networks of the epochs
	}
	Loss           LossName
	Sigma          float64
	CrossEntropy   []float64 `json:"cross_entropy"`
	Reconstruction []float64
	Mean, Variance [][]float64 // of normalisations, the running averages after the last step
	Scale          [][]float64
}

type rates struct {
	Optimizer   string
	LR          float64
	Momentum    float64
	WeightDecay float64 `json:"weight_decay"`
}

func (r rates) settings() Settings {
	return Settings{Optimizer: Optimizer(r.Optimizer), LearningRate: r.LR, Momentum: r.Momentum,
		WeightDecay: r.WeightDecay}
}

// begun returns the first half of a golden's steps, or all of them with SELFHEAL_TEST_LARGE.
func begun(steps []float64) []float64 {
	if testinput.Large() {
		return steps
	}
	return steps[:len(steps)/2]
}

// start trains an embedding of testdata as PyTorch did.
func (r goldenRun) start(t *testing.T, embedding string, change func(*Trainer), exact int, limit float64) *Trainer {
	t.Helper()
	n := zoo(t, "preact_standard.onnx", 0)
	s := r.settings()
	if s.Weight, s.Loss, s.Sigma = readGolden(t).Weight, r.Loss, r.Sigma; s.Loss != "" {
		s.Objective = Gaussian
	}
	return r.follow(t, []*onnx.Graph{testEmbedding(t, embedding, n)}, []Network{n}, s, change, exact, limit)
}

func testEmbedding(t *testing.T, name string, n Network) *onnx.Graph {
	t.Helper()
	return must.Get(control.ONNXEmbedding(must.Get(os.ReadFile("testdata/"+name))(t), n.State()))(t)
}

// follow trains embeddings as PyTorch did. Its losses must equal PyTorch's within 1e-4 for exact steps and within
// limit later, when the steps have amplified rounding.
func (r goldenRun) follow(t *testing.T, es []*onnx.Graph, networks []Network, s Settings, change func(*Trainer),
	exact int, limit float64) *Trainer {
	t.Helper()
	g := readGolden(t)
	s.Epochs, s.Batch, s.Workers = len(g.Order), g.Batch, 1
	tr := trainerOf(t, es, networks, shapes10(t, g.Images), s)
	tr.order = func(epoch int) []int { return g.Order[epoch] }
	change(tr)
	for k, ce := range r.CrossEntropy {
		l := must.Get(tr.Step(context.Background()))(t)
		within := limit
		if k < exact {
			within = 1e-4
		}
		if !near(l.CrossEntropy, ce, within) || !near(l.Reconstruction, r.Reconstruction[k], within) {
			t.Fatalf("%+v, step %d: cross-entropy %.5f and reconstruction %.5f, PyTorch has %.5f and %.5f", s,
				k+1, l.CrossEntropy, l.Reconstruction, ce, r.Reconstruction[k])
		}
	}
	return tr
}

func readGolden(t *testing.T) golden {
	t.Helper()
	var g golden
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("testdata/training.json"))(t), &g))
	return g
}

// Both optimisers change a few numbers as PyTorch's do, step by step.
func TestOptimizersAgreeWithPyTorch(t *testing.T) {
	for _, u := range readGolden(t).Updates {
		values := [][]float32{append([]float32(nil), u.Start...)}
		o := newOptimizer(u.settings(), values)
		for k, g := range u.Gradients {
			o.update(values, [][]float64{g}, 1)
			for i, want := range u.After[k] {
				if got := float64(values[0][i]); math.Abs(got-want) > 2e-6*math.Max(1, math.Abs(want)) {
					t.Fatalf("%+v: after step %d value %d is %v, PyTorch's %v", u.rates, k+1, i, got, want)
				}
			}
		}
	}
}

// Fifty steps of a hundred from the same weights over the same images in the same order have PyTorch's losses.
func TestTrainingAgreesWithPyTorch(t *testing.T) {
	for _, run := range readGolden(t).Runs {
		run.CrossEntropy = begun(run.CrossEntropy)
		tr := run.start(t, "conv_ae.onnx", func(*Trainer) {}, 30, 0.01)
		if len(tr.parameters) != 12 {
			t.Errorf("%d parameters, want 6 weights and 6 biases", len(tr.parameters))
		}
	}
}

// Fifty steps of a hundred under noise have PyTorch's losses too, for both losses of objective gaussian.
func TestGaussianAgreesWithPyTorch(t *testing.T) {
	var noisy struct{ Runs []goldenRun }
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("testdata/gaussian.json"))(t), &noisy))
	for _, run := range noisy.Runs {
		run.CrossEntropy = begun(run.CrossEntropy)
		run.start(t, "conv_ae.onnx", func(tr *Trainer) {
			tr.noise = func(epoch, image int, clean, out []float32) {
				for j, v := range clean {
					wave := math.Cos(12.9898*float64(j) + 78.233*float64(image) + 37.719*float64(epoch))
					out[j] = v + float32(run.Sigma*math.Sqrt2*wave)
				}
			}
		}, 30, 0.01)
	}
}

// A hundred steps of adversarial training have PyTorch's losses, in every norm, by cross-entropy and by TRADES, with
// weights and rates that change, clipped gradients, an average of the weights, and an embedding of features that trains
// along.
func TestAdversarialAgreesWithPyTorch(t *testing.T) {
	var golden struct {
		Runs []struct {
			goldenRun
			Average []float64
		}
	}
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("testdata/adversarial.json"))(t), &golden))
	n := zoo(t, "preact_standard.onnx", 0)
	for _, run := range golden.Runs {
		s := run.Settings.Settings
		s.Objective = Adversarial
		if run.CrossEntropy = begun(run.CrossEntropy); s.Average == 0 && !testinput.Large() {
			run.CrossEntropy = run.CrossEntropy[:20] // these need several passes a step
		}
		networks, all := []Network{n}, []*onnx.Graph{testEmbedding(t, "conv_ae.onnx", n)}
		if s.Joint {
			networks[0] = zooBetween(t, "preact_standard.onnx", 0, -1)
			all = append(all, testEmbedding(t, "features.onnx", zoo(t, "preact_standard.onnx", -1)))
		}
		tr := run.follow(t, all, networks, s, func(tr *Trainer) {
			pixels, at := make([]float32, tr.data.size()), make([]float32, tr.data.size())
			tr.scatter = func(epoch, image int, w *attacks.Walk) {
				copy(pixels, w.Point())
				for j := range at {
					wave := math.Cos(12.9898*float64(j) + 78.233*float64(image) + 37.719*float64(epoch))
					at[j] = float32(math.Sqrt2 * wave)
				}
				reach := s.Epsilon * s.ramp(tr.Done(), tr.PerEpoch()) / (s.Norm.Length(at) + 1e-12)
				for j, v := range pixels {
					w.Point()[j] = min(max(v+at[j]*float32(reach), 0), 1)
				}
			}
		}, 10, 0.01)
		for i, p := range tr.parameters { // the bias of the last convolution
			if !testinput.Large() && s.Average > 0 && slices.Equal(tr.embeddings[0].Consts[p].Shape, onnx.Shape{3}) {
				for j, want := range run.Average {
					if got := float64(tr.average[i][j]); math.Abs(got-want) > 1e-6 || got == float64(tr.values[i][j]) {
						t.Errorf("%s: the average of %s is %v, PyTorch's is %v", s.Norm, p, got, want)
					}
				}
			}
		}
	}
}

// The paper's authors' architectures, and unet, compute what PyTorch's do with the same weights. A hundred steps with
// the keys of their recipe have PyTorch's losses.
func TestRecipesAgreeWithPyTorch(t *testing.T) {
	var recipes struct{ Runs []goldenRun }
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("testdata/recipes.json"))(t), &recipes))
	kinds := map[string]struct {
		architecture string
		segment      int
		dimensions   Dimensions
	}{"unet": {"unet", 0, Dimensions{Width: 4}}, "fcn": {"fcn", 0, Dimensions{Width: 2}},
		"mlp_ae":  {"mlp-ae", -1, Dimensions{Sizes: []int{64, 24, 10}}},
		"refined": {"unet", 0, Dimensions{Width: 4, Stages: 2, Refine: 2}},
		"coarse":  {"unet", 0, Dimensions{Width: 4, Coarse: 4}}}
	if len(recipes.Runs) != len(kinds) {
		t.Fatalf("%d runs", len(recipes.Runs))
	}
	for _, run := range recipes.Runs {
		kind := kinds[run.Settings.Embedding]
		networks := []Network{zoo(t, "preact_standard.onnx", kind.segment), zoo(t, "preact_robust.onnx", kind.segment)}
		theirs := testEmbedding(t, run.Settings.Embedding+".onnx", networks[0])
		ours := must.Get(New(kind.architecture, networks[0].State(), kind.segment == 0, kind.dimensions, 0))(t)
		transplant(t, theirs, ours)
		states := must.Get(someStates(networks[0], shapes10(t, 8), 8))(t)
		want, got := must.Get(through(theirs, states, 8))(t)[0].Data, must.Get(through(ours, states, 8))(t)[0].Data
		for i := range want {
			if math.Abs(float64(got[i]-want[i])) > 1e-5*math.Max(1, math.Abs(float64(want[i]))) {
				t.Fatalf("%s: value %d is %v, PyTorch's %v", kind.architecture, i, got[i], want[i])
			}
		}
		tr := run.follow(t, []*onnx.Graph{ours}, networks, run.Settings.Settings, func(tr *Trainer) {
			tr.draw = func(step int) int {
				if run.Settings.Draws == nil {
					return 0
				}
				return run.Settings.Draws[step/tr.PerEpoch()]
			}
		}, 10, 0.01)
		t.Logf("%s: %d parameters, %d normalisations", kind.architecture, len(tr.parameters),
			len(statisticsOf(tr.embeddings[0]))/2)
	}
}

// transplant copies the weights of a graph into another with the same layers in the same order.
func transplant(t *testing.T, from, to *onnx.Graph) {
	t.Helper()
	layers := func(g *onnx.Graph) (list [][]string) {
		for _, n := range g.Nodes {
			if len(onnx.TraitsOf(n.Op).Parameters) > 0 && n.Op != "Add" && n.Op != "Mul" {
				list = append(list, n.Inputs[1:])
			}
		}
		return list
	}
	source, target := layers(from), layers(to)
	if len(source) != len(target) {
		t.Fatalf("%d layers, PyTorch has %d", len(target), len(source))
	}
	for i := range source {
		for k, name := range source[i] {
			if !slices.Equal(to.Consts[target[i][k]].Shape, from.Consts[name].Shape) {
				t.Fatalf("layer %d: %v, PyTorch has %v", i, to.Consts[target[i][k]].Shape, from.Consts[name].Shape)
			}
			to.Consts[target[i][k]] = from.Consts[name]
		}
	}
}

// A network is drawn anew each step or each epoch.
func TestDraw(t *testing.T) {
	n := zoo(t, "preact_standard.onnx", 0)
	e := small(t, "conv2-ae", n, 2)
	for draw, most := range map[Draw]int{EachStep: 39, EachEpoch: 9} {
		tr := trainer(t, e, []Network{n, n}, shapes10(t, 16), Settings{Epochs: 10, Batch: 4, Weight: 1, Draw: draw})
		changes, drawn := 0, map[int]bool{}
		for k := range tr.Steps() {
			drawn[tr.draw(k)] = true
			if k > 0 && tr.draw(k) != tr.draw(k-1) {
				changes++
			}
			if draw == EachEpoch && tr.draw(k) != tr.draw(k-k%tr.PerEpoch()) {
				t.Errorf("step %d draws another network than its epoch", k)
			}
		}
		if len(drawn) != 2 || changes == 0 || changes > most {
			t.Errorf("%s: %d networks, %d changes", draw, len(drawn), changes)
		}
	}
}

// normalised trains an embedding with normalisations in training mode. Their averages must equal PyTorch's within a
// fraction of the standard deviation.
func normalised(t *testing.T, name string, limit, averages float64) (*Trainer, *onnx.Graph, goldenRun) {
	t.Helper()
	var run goldenRun
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("testdata/"+name+".json"))(t), &run))
	tr := run.start(t, name+".onnx", func(*Trainer) {}, 10, limit)
	trained := must.Get(tr.Embeddings(t.Context()))(t)[0]
	for i, norm := range normalisations(trained) {
		for k, want := range [][]float64{run.Mean[i], run.Variance[i]} {
			for c, v := range trained.Consts[norm.Inputs[3+k]].Floats {
				if math.Abs(float64(v)-want[c]) > averages*math.Sqrt(run.Variance[i][c]) {
					t.Errorf("normalisation %d, statistic %d, channel %d: %v, PyTorch has %v", i, k, c, v, want[c])
				}
			}
		}
	}
	return tr, trained, run
}

// Thirty steps of an embedding whose normalisations take the statistics of each batch have PyTorch's losses, and its
// running averages after the last step.
func TestNormalisationsAgreeWithPyTorch(t *testing.T) { normalised(t, "normalised", 3e-3, 5e-3) }

// A hundred steps of an exported embedding whose ten normalisations share two constants in the file, for scales,
// variances, offsets and means, have PyTorch's losses. The trained embedding's file has the accuracy that training
// saw.
func TestSharedConstantsAgreeWithPyTorch(t *testing.T) {
	tr, trained, run := normalised(t, "shared", 0.01, 0.02)
	for i, norm := range normalisations(trained) {
		for c, v := range trained.Consts[norm.Inputs[1]].Floats { // they have moved by up to 1e-3, each its own way
			if math.Abs(float64(v)-run.Scale[i][c]) > 1e-4 {
				t.Errorf("normalisation %d, channel %d: scale %v, PyTorch has %v", i, c, v, run.Scale[i][c])
			}
		}
	}
	written := must.Get(control.ONNXEmbedding(must.Get(trained.Encode())(t), trained.Inputs[0].Shape))(t)
	saw, gives, images, err := tr.Check(context.Background(), written)
	if err != nil || images < 400 || gives < saw-0.05 {
		t.Errorf("as a file it gives %.3f of %d images, training saw %.3f; %v", gives, images, saw, err)
	}
}

// Check tells a file with another accuracy than training saw from one with the same.
func TestCheck(t *testing.T) {
	n := zoo(t, "preact_standard.onnx", 0)
	data := shapes10(t, 320)
	e := small(t, "unet", n, 6)
	must.Do(t, Calibrate(e, n, data))
	for _, objective := range []Objective{Clean, Gaussian} {
		tr := trainer(t, e, []Network{n, n}, data, Settings{Epochs: 6, Batch: 32, Weight: 0.05, Optimizer: Adam,
			LearningRate: 0.003, Objective: objective, Loss: Stability, Sigma: 0.05, Augment: Augment{Flip: true}})
		finish(t, tr)
		written := must.Get(tr.Embeddings(t.Context()))(t)[0]
		saw, gives, images, err := tr.Check(context.Background(), written)
		t.Logf("%s: training saw %.3f of %d images, as a file it gives %.3f", objective, saw, images, gives)
		if err != nil || saw < 0.2 || gives < saw-0.05 {
			t.Errorf("%s: training saw %.3f, as a file it gives %.3f; %v", objective, saw, gives, err)
		}
		for _, norm := range normalisations(written) { // as if one tensor had been trained for all of them
			written.Consts[norm.Inputs[1]] = written.Consts[norm.Inputs[4]]
		}
		if _, gives, _, err = tr.Check(context.Background(), written); err != nil || gives > saw-0.05 {
			t.Errorf("%s: variances as scales give %.3f, training saw %.3f; %v", objective, gives, saw, err)
		}
	}
}

// near reports whether a number is within a fraction of another.
func near(got, want, fraction float64) bool { return math.Abs(got-want) <= fraction*math.Abs(want) }
