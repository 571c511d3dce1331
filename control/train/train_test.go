package train

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/internal/memory"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/grad/gradtest"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// The gradients of embeddings of an image and of a hidden state, under every objective, agree with differences
// of cross-entropy + weight·‖E(x) − x‖².
func TestGradients(t *testing.T) {
	n := zoo(t, "preact_standard.onnx", -1)
	testGradients(t, n, small(t, "mlp-ae", n, 6))
	n, _ = classifier(t, onnx.Shape{onnx.Batch, 3, 32, 32})
	testGradients(t, n, smooth(t, n.State()))
	n.Between = smooth(t, n.State()) // the later state is such an image, too
	testGradients(t, n, smooth(t, n.State()), smooth(t, n.State()))
}

// smooth returns an embedding of two normalisations, which take the batch's statistics, without a kink. Convolutions
// before them have no bias: its gradient is 0.
func smooth(t *testing.T, state onnx.Shape) *onnx.Graph {
	a := &assembly{Builder: &onnx.Builder{G: onnx.NewGraph("smooth")}, r: generator(1, "smooth", 0, 0),
		counts: map[string]int{}}
	x := a.Input("state", state)
	h := x
	for _, name := range []string{"first", "second"} {
		w := a.parameter(name, 27, 3, 3, 3, 3)
		h = a.OpWith("Conv", onnx.Attrs{"kernel_shape": []int64{3, 3}, "pads": []int64{1, 1, 1, 1}}, h, w)
		h = a.Op("Tanh", a.norm(h))
	}
	a.Output("embedding", a.Op("Add", x, a.conv(h, 3, 3, 1)))
	return must.Get(a.Done())(t)
}

func testGradients(t *testing.T, n Network, es ...*onnx.Graph) {
	data, parameters := shapes10(t, 4), []string(nil)
	for i := range data.Labels {
		data.Labels[i] %= n.classes()
	}
	for _, settings := range []Settings{{Objective: Clean}, {Objective: Denoising},
		{Objective: Gaussian, Loss: MSE}, {Objective: Gaussian, Loss: Stability}, {Objective: Adversarial},
		{Objective: Adversarial, Loss: TRADES, Beta: 3}} {
		if len(es) > 1 && settings.Objective != Adversarial {
			continue
		}
		settings.Weight, settings.JointWeight = 0.3, 0.2
		o := settings.Objective + Objective(settings.Loss)
		g := must.Get(lossGraph(n, es, settings, false))(t)
		s := must.Get(ort.Open(g.Name, must.Get(g.Encode())(t)))(t)
		defer s.Close()
		x, label := must.Get2(data.batch([]int{0, 1, 2, 3}, n.classes(), data.Pixels))(t)
		in := []ort.Tensor{x, label}
		if settings.Objective.perturbed() {
			clean := ort.Tensor{Shape: x.Shape, Data: make([]float32, len(x.Data))}
			for i, v := range x.Data {
				clean.Data[i] = 0.9*v + 0.02
			}
			in = []ort.Tensor{x, clean, label}
		}
		in = append(in, ort.Tensor{Shape: []int64{1}, Data: []float32{0.3}})
		first := len(in)
		var at, gradient [][]float32
		parameters = nil
		for _, e := range es {
			for _, p := range parametersOf(e) {
				in = append(in, ort.Tensor{Shape: e.Consts[p].Shape, Data: e.Consts[p].Floats})
				at, parameters = append(at, e.Consts[p].Floats), append(parameters, p)
			}
		}
		if slices.ContainsFunc(es, learns) {
			in = append(in, ort.Tensor{Shape: []int64{1}, Data: []float32{0.25}})
		}
		out := must.Get(s.Run(in))(t)
		for _, d := range out[gradientsAt : gradientsAt+len(parameters)] {
			gradient = append(gradient, d.Data)
		}
		f := func(at [][]float32) (float64, error) {
			moved := slices.Clone(in)
			for i := range at {
				moved[first+i].Data = at[i]
			}
			out, err := s.Run(moved)
			if err != nil {
				return 0, err
			}
			sum := 0.0
			for i := range out[crossEntropyAt].Data {
				if len(es) > 1 {
					sum += settings.JointWeight * float64(out[len(out)-1].Data[i])
				}
				sum += 0.3 * float64(out[reconstructionAt].Data[i])
				if settings.Loss != MSE {
					sum += float64(out[crossEntropyAt].Data[i])
				}
			}
			return sum, nil
		}
		for i := range at {
			only := make([][]float32, len(at))
			only[i] = gradient[i]
			off := must.Get(gradtest.Directional(f, at, only, gradtest.Rand(parameters[i], "fit"), 3))(t)
			if !(off <= gradtest.Tolerance) {
				t.Errorf("%s, %s: the difference quotient is off by %.2g of the gradient's norm", o, parameters[i], off)
			}
		}
	}
}

// Normalisations whose statistics an exporter has merged into one constant each learn their own.
func TestSharedStatistics(t *testing.T) {
	n := zoo(t, "preact_standard.onnx", 0)
	e := smooth(t, n.State())
	norms := normalisations(e)
	copy(norms[1].Inputs[3:], norms[0].Inputs[3:])
	tr := trainer(t, e, []Network{n}, shapes10(t, 8), Settings{Epochs: 1, Batch: 8, Weight: 1})
	must.Get(tr.Step(t.Context()))(t)
	got := must.Get(tr.Embeddings(t.Context()))(t)[0]
	norms = normalisations(got)
	for i := 3; i < 5; i++ {
		a, b := got.Consts[norms[0].Inputs[i]].Floats, got.Consts[norms[1].Inputs[i]].Floats
		if slices.Equal(a, b) || slices.Equal(a, e.Consts[norms[0].Inputs[i]].Floats) {
			t.Errorf("statistics %v and %v", a, b)
		}
	}
}

// A training on a device makes the CPU's steps up to rounding, at a rate at which rounding does not grow.
func TestCUDAAgrees(t *testing.T) {
	cuda := ort.Target{Provider: ort.ProviderCUDA}
	if err := cuda.Check(); err != nil {
		t.Skip(err)
	}
	network := zoo(t, "preact_standard.onnx", 0)
	e := small(t, "unet", network, 4)
	var losses [2][]Loss
	for k, on := range []ort.Target{{}, cuda} {
		tr := trainer(t, e, []Network{network}, shapes10(t, 100), Settings{Epochs: 3, Batch: 50, Weight: 0.1,
			Optimizer: Adam, LearningRate: 1e-5, On: on})
		finish(t, tr)
		losses[k] = tr.History()
	}
	for i, cpu := range losses[0] {
		if device := losses[1][i]; math.Abs(device.total(0.1)/cpu.total(0.1)-1) > 1e-4 {
			t.Errorf("step %d: the loss is %v, on the CPU %v", i+1, device, cpu)
		}
	}
}

// OpenVINO's gradients by the parameters agree with the CPU's, on clean images and on the worst ones, whose pixels may
// go either way where a derivative is near 0. In bf16, which keeps 8 bits, they agree in direction and length. Two
// workers find the same bits as one, also with runs of two sizes.
func TestOpenVINOAgrees(t *testing.T) {
	testinput.WithOpenVINO(t, func() {
		network := zoo(t, "preact_standard.onnx", 0)
		e := must.Get(New("unet", network.State(), true, Dimensions{Width: 8, Stages: 2, Refine: 1}, 3))(t)
		must.Do(t, Calibrate(e, network, shapes10(t, 40)))
		gradient := func(on ort.Target, workers int, warmup float64) (all []float64) {
			tr := trainer(t, e, []Network{network}, shapes10(t, 40), Settings{Epochs: 2, Batch: 40, Weight: 0.1,
				Objective: Adversarial, Norm: attacks.Linf, Epsilon: 2.0 / 255, Steps: 1, Warmup: warmup, On: on,
				Workers: workers})
			must.Get(tr.gradient(t.Context(), tr.networks[0], 0, tr.images(0)))(t)
			return slices.Concat(tr.sum[:len(tr.values)]...)
		}
		for _, c := range []struct {
			precision    string
			warmup, most float64
		}{{ort.Float32, 1, 2e-3}, {ort.Float32, 0, 1e-2}, {ort.BFloat16, 0, 0.6}} {
			on := ort.Target{Provider: ort.ProviderOpenVINO, Precision: c.precision}
			if on.Check() != nil {
				t.Logf("no %s here", c.precision)
				continue
			}
			cpu, got := gradient(ort.Target{}, 1, c.warmup), gradient(on, 1, c.warmup)
			apart, length := 0.0, 0.0
			for i, v := range got {
				apart, length = apart+(v-cpu[i])*(v-cpu[i]), length+cpu[i]*cpu[i]
			}
			if apart = math.Sqrt(apart / length); !(apart < c.most) {
				t.Errorf("%s: the gradient differs by %.2g of its length", c.precision, apart)
			}
			t.Logf("%s, warm-up %v: %.2g apart", c.precision, c.warmup, apart)
			if again := gradient(on, 2, c.warmup); !slices.Equal(got, again) {
				t.Errorf("%s: two workers find another gradient than one", c.precision)
			}
		}
	})
}

// A training is the same to the bit with any number of workers, and when it was stopped
// and resumed; a step that ctx ends changes nothing.
func TestWorkersAndResume(t *testing.T) {
	networks := []Network{zoo(t, "preact_standard.onnx", 0), zoo(t, "preact_robust.onnx", 0)}
	e := small(t, "fcn", networks[0], 2) // whose normalisations learn
	data := shapes10(t, 100)
	settings := func(workers int) Settings {
		return Settings{Epochs: 2, Batch: 70, Weight: 0.1, Seed: 9, Workers: workers, Schedule: Cosine,
			Optimizer: Adam, LearningRate: 0.01, Augment: Augment{Flip: true, Crop: 4}}
	}
	whole := trainer(t, e, networks, data, settings(1))
	finish(t, whole)
	path := filepath.Join(t.TempDir(), "e.checkpoint")
	first := trainer(t, e, networks, data, settings(3))
	for range 3 {
		must.Get(first.Step(context.Background()))(t)
	}
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := first.Step(stopped); !errors.Is(err, context.Canceled) || first.Done() != 3 {
		t.Errorf("a step without time: %v, %d steps are done", err, first.Done())
	}
	must.Do(t, first.Save(path, []byte("about")))
	saved := must.Get(ReadCheckpoint(path))(t)
	if string(saved.About) != "about" || saved.Done() != 3 {
		t.Errorf("the checkpoint is about %q after %d steps", saved.About, saved.Done())
	}
	second := trainer(t, e, networks, data, settings(2))
	wider := trainer(t, small(t, "fcn", networks[0], 3), networks, data, settings(2))
	must.Refuse(t, wider.Restore(saved), "of another embedding")
	must.Do(t, second.Restore(saved))
	finish(t, second)
	if !reflect.DeepEqual(second.values, whole.values) || !reflect.DeepEqual(second.running, whole.running) ||
		!reflect.DeepEqual(second.History(), whole.History()) {
		t.Errorf("a resumed training with other workers differs:\n%v\n%v", second.History(), whole.History())
	}
	drawn := map[int]bool{}
	for _, l := range whole.History() {
		drawn[l.Network] = true
	}
	if len(whole.History()) != 4 || len(drawn) != 2 {
		t.Errorf("%d steps on the networks %v, want 4 on both", len(whole.History()), drawn)
	}
	got := must.Get(whole.Embeddings(t.Context()))(t)[0]
	values := slices.Concat(whole.values, whole.running)
	for i, p := range slices.Concat(whole.parameters, statisticsOf(whole.embeddings[0])) {
		if !slices.Equal(got.Consts[p].Floats, values[i]) ||
			slices.Equal(got.Consts[p].Floats, e.Consts[p].Floats) {
			t.Errorf("%s of the embedding is not what was trained", p)
		}
	}
}

// A checkpoint with a wrong bit or a missing end is recognised.
func TestDamagedCheckpoint(t *testing.T) {
	n := zoo(t, "preact_standard.onnx", -1)
	tr := trainer(t, small(t, "mlp-ae", n, 2), []Network{n}, shapes10(t, 4), Settings{Epochs: 1, Batch: 4})
	path := filepath.Join(t.TempDir(), "checkpoint")
	must.Do(t, tr.Save(path, nil))
	whole := must.Get(os.ReadFile(path))(t)
	must.Do(t, os.WriteFile(path, whole[:len(whole)/2], 0o644))
	if _, err := ReadCheckpoint(path); !errors.Is(err, ErrDamaged) {
		t.Errorf("half of the bytes: %v", err)
	}
	if _, known := memory.Free(); known {
		must.Do(t, os.Truncate(path, 8<<40)) // of which nothing is on the disk
		_, err := ReadCheckpoint(path)
		must.Refuse(t, err, path+": takes 8 TiB of memory, and ")
	}
	if _, err := ReadCheckpoint(path + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no checkpoint: %v", err)
	}
}

// The inner maximisation raises the loss, and stays in the ball and in [0,1].
func TestDenoising(t *testing.T) {
	for _, n := range []Network{zoo(t, "preact_standard.onnx", 0), zoo(t, "preact_standard.onnx", -1)} {
		name := map[bool]string{true: "input_ae.onnx", false: "hidden_ae.onnx"}[n.Before == nil]
		e, _ := must.Get2(simplify.Load("../../models/zoo/"+name, simplify.Options{}))(t)
		data := shapes10(t, 40)
		losses := map[int]float64{}
		for _, steps := range []int{0, 10} {
			s := Settings{Epochs: 1, Batch: 40, Weight: 0.1, Objective: Denoising, Epsilon: 0.1, Steps: steps,
				StepSize: 0.025, Workers: 2}
			tr := trainer(t, e, []Network{n}, data, s)
			l := must.Get(tr.Step(context.Background()))(t)
			losses[steps] = l.total(0.1)
		}
		if !(losses[10] > 1.01*losses[0]) {
			t.Errorf("%s: ten steps of ascent take the loss from %v to %v", name, losses[0], losses[10])
		}
		tr := trainer(t, e, []Network{n}, data, Settings{Epochs: 1, Batch: 40, Objective: Denoising, Epsilon: 0.1,
			Steps: 3, StepSize: 0.05})
		clean, label := must.Get2(data.batch([]int{0, 1}, 10, data.Pixels))(t)
		noisy := must.Get(tr.perturb(context.Background(), tr.networks[0], 0, []int{0, 1}, clean, label))(t)
		far := 0
		for j, v := range noisy.Data {
			d := math.Abs(float64(v) - float64(clean.Data[j]))
			if v < 0 || v > 1 || d > 0.1+1e-6 {
				t.Fatalf("%s: a pixel goes from %v to %v", name, clean.Data[j], v)
			}
			if d > 0.05 {
				far++
			}
		}
		if far < len(noisy.Data)/4 {
			t.Errorf("%s: only %d of %d pixels moved by half of the radius", name, far, len(noisy.Data))
		}
	}
}

func TestData(t *testing.T) {
	if a, b := order(3, 0, 50), order(3, 1, 50); slices.Equal(a, b) || !slices.Equal(a, order(3, 0, 50)) ||
		slices.Equal(a, order(4, 0, 50)) {
		t.Error("an order does not follow from seed and epoch")
	} else if slices.Sort(a); a[0] != 0 || a[49] != 49 || len(slices.Compact(a)) != 50 {
		t.Errorf("%v is no order of 50 images", a)
	}
	shape := [3]int{1, 2, 3}
	in, out := []float32{1, 2, 3, 4, 5, 6}, make([]float32, 6)
	for _, c := range []struct {
		flip   bool
		dy, dx int
		want   []float32
	}{
		{false, 0, 0, []float32{1, 2, 3, 4, 5, 6}}, {true, 0, 0, []float32{3, 2, 1, 6, 5, 4}},
		{false, 1, 0, []float32{4, 5, 6, 0, 0, 0}}, {false, 0, -1, []float32{0, 1, 2, 0, 4, 5}},
		{true, -1, 1, []float32{0, 0, 0, 0, 3, 2}},
	} {
		if shift(shape, c.flip, c.dy, c.dx, in, out); !slices.Equal(out, c.want) {
			t.Errorf("flip %v, dy %d, dx %d: %v, want %v", c.flip, c.dy, c.dx, out, c.want)
		}
	}
	d, flipped := Data{Shape: shape, Pixels: func(_ int, out []float32) error {
		copy(out, in)
		return nil
	}}, 0
	for i := range 400 {
		must.Do(t, d.draw(Augment{Flip: true}, 1, 0, i, make([]float32, 6), out))
		if slices.Equal(out, []float32{3, 2, 1, 6, 5, 4}) {
			flipped++
		} else if !slices.Equal(out, in) {
			t.Fatalf("%v is neither the image nor its mirror image", out)
		}
	}
	if flipped < 160 || flipped > 240 {
		t.Errorf("%d of 400 images were mirrored", flipped)
	}
}

func TestSchedules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s    Settings
		want []float64 // at steps 0, 4, 5, 7, 8, 9 of 10
	}{
		{Settings{}, []float64{1, 1, 1, 1, 1, 1}},
		{Settings{Schedule: Constant}, []float64{1, 1, 1, 1, 1, 1}},
		{Settings{Schedule: Step}, []float64{1, 1, 0.1, 0.1, 0.01, 0.01}},
		{Settings{Schedule: Step, Drops: []float64{0.4, 0.9}}, []float64{1, 0.1, 0.1, 0.1, 0.1, 0.01}},
		{Settings{Schedule: Cosine}, []float64{1, (1 + math.Cos(0.4*math.Pi)) / 2, 0.5, (1 + math.Cos(0.7*math.Pi)) / 2,
			(1 + math.Cos(0.8*math.Pi)) / 2, (1 + math.Cos(0.9*math.Pi)) / 2}},
	} {
		for i, k := range []int{0, 4, 5, 7, 8, 9} {
			if got := c.s.rate(k, 10); math.Abs(got-c.want[i]) > 1e-12 {
				t.Errorf("%+v at step %d: %v, want %v", c.s, k, got, c.want[i])
			}
		}
	}
}

func TestErrors(t *testing.T) {
	n := zoo(t, "preact_standard.onnx", 0)
	last := zoo(t, "preact_standard.onnx", -1)
	data, e := shapes10(t, 8), small(t, "conv-ae", n, 2)
	identity := must.Get(control.IdentityEmbedding(n.State()))(t)
	wrong := data
	wrong.Labels = []int{3, 10}
	good := Settings{Epochs: 1, Batch: 4, Weight: 0.1, LearningRate: 0.01}
	for _, c := range []struct {
		e        *onnx.Graph
		networks []Network
		data     Data
		s        Settings
		want     string
	}{
		{identity, []Network{n}, data, good, "no weights"},
		{e, []Network{n, last}, data, good, "can't serve both"},
		{e, []Network{n}, Data{Shape: [3]int{1, 28, 28}, Labels: []int{0}}, good, "images of shape"},
		{e, []Network{n}, wrong, good, "image 1 has the label 10"},
		{e, []Network{n}, data, Settings{Epochs: 1, Batch: 4, Objective: Adversarial, Norm: attacks.L2, Epsilon: 56},
			"epsilon is 56, but in l2 no image is farther than 55.43 from another"},
	} {
		_, err := NewTrainer([]*onnx.Graph{c.e}, c.networks, c.data, c.s)
		must.Refuse(t, err, c.want)
	}
	wild := good
	wild.LearningRate = 1e30
	tr := trainer(t, small(t, "mlp-ae", last, 4), []Network{last}, data, wild)
	must.Get(tr.Step(context.Background()))(t)
	_, err := tr.Step(context.Background())
	must.Refuse(t, err, "learning rate")
}

func BenchmarkStep(b *testing.B) {
	n := zoo(b, "preact_standard.onnx", 0)
	e := small(b, "conv-ae", n, 24)
	for _, batch := range []int{64, 128} {
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("batch%d/workers%d", batch, workers), func(b *testing.B) {
				tr := trainer(b, e, []Network{n}, shapes10(b, 384), Settings{Epochs: 1 << 20, Batch: batch, Weight: 0.1,
					Workers: workers, Optimizer: Adam, LearningRate: 1e-3})
				for b.Loop() {
					must.Get(tr.Step(context.Background()))(b)
				}
			})
		}
	}
}

// Held-back images are no training images, and all are one or the other.
func TestSplit(t *testing.T) {
	d := Data{Labels: make([]int, 100), Pixels: func(i int, out []float32) error {
		out[0] = float32(i)
		return nil
	}}
	for i := range d.Labels {
		d.Labels[i] = i
	}
	rest, held := d.Split(10, 3)
	_, other := d.Split(10, 4)
	seen := map[float32]int{}
	for _, part := range []Data{rest, held} {
		for i, label := range part.Labels {
			var x [1]float32
			must.Do(t, part.Pixels(i, x[:]))
			if seen[x[0]]++; x[0] != float32(label) {
				t.Errorf("image %v has the label %d", x[0], label)
			}
		}
	}
	if len(seen) != 100 || len(rest.Labels) != 90 || slices.Equal(held.Labels, other.Labels) {
		t.Errorf("%d of 100 images, %d to train on, %v and %v held back", len(seen), len(rest.Labels), held.Labels,
			other.Labels)
	}
}

// An embedding that changes nothing keeps the network's own accuracy on the images held back, which is ONNX Runtime's;
// one that gives a constant has chance's.
func TestJudge(t *testing.T) {
	n := zoo(t, "preact_standard.onnx", 0)
	rest, held := shapes10(t, 200).Split(160, 1)
	tr := trainer(t, small(t, "conv2-ae", n, 2), []Network{n, n}, rest, Settings{Epochs: 1, Batch: 40,
		Objective: Gaussian, Loss: Stability, Sigma: 0.3, Optimizer: Adam, LearningRate: 0.001})
	finish(t, tr)
	same := must.Get(control.IdentityEmbedding(n.State()))(t)
	x := ort.Tensor{Shape: []int64{1, 3, 32, 32}, Data: make([]float32, 3*32*32)}
	right := 0
	session := must.Get(ort.OpenGraph(n.After))(t)
	defer session.Close()
	for i := range held.Labels {
		must.Do(t, held.Pixels(i, x.Data))
		right += held.right([]int{i}, must.Get(session.Run([]ort.Tensor{x}))(t)[0].Data)
	}
	want := float64(right) / 160
	j := must.Get(tr.Judge(t.Context(), []*onnx.Graph{same}, held, true))(t)
	if math.Abs(j.Alone-want) > 1e-9 || math.Abs(j.Clean-want) > 1e-9 || j.Images != 160 || want < 0.8 {
		t.Errorf("%+v, the network alone has %v", j, want)
	}
	if j.Trained > j.Clean-0.1 {
		t.Errorf("under noise of 0.3 %v, without %v", j.Trained, j.Clean)
	}
	if j.Oblivious > 0.4 || j.Through != j.Oblivious { // the identity changes nothing
		t.Errorf("after PGD %v, and %v through the identity", j.Oblivious, j.Through)
	}
	if again, ok := ReadJudged(j.Meta()); !ok || math.Abs(again.Through-j.Through) > 1e-6 {
		t.Errorf("%+v is read as %+v", j, again)
	}
	flat := must.Get(tr.Judge(t.Context(), []*onnx.Graph{small(t, "conv2-ae", n, 2)}, held, true))(t)
	if flat.Clean > 0.3 || math.Abs(flat.Alone-want) > 1e-9 {
		t.Errorf("before training: %+v", flat)
	}
}

// Epsilon is 0 during the warm-up and grows after it, at once without a ramp.
func TestRamp(t *testing.T) {
	for _, c := range []struct{ warmup, ramp, first, second, third float64 }{
		{1, 0, 0, 1, 1}, {0, 0, 1, 1, 1}, {1, 2, 0, 0, 0.5}, {0, 2, 0, 0.5, 1},
	} {
		s := Settings{Objective: Adversarial, Warmup: c.warmup, Ramp: c.ramp}
		want := [3]float64{c.first, c.second, c.third}
		if got := [3]float64{s.ramp(0, 10), s.ramp(10, 10), s.ramp(20, 10)}; got != want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
