package train

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"selfheal/control"
	"selfheal/internal/must"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// Every architecture embeds, opens again from its file, and learns.
func TestArchitectures(t *testing.T) {
	input, hidden, last := zoo(t, "preact_standard.onnx", 0), zoo(t, "preact_standard.onnx", 1),
		zoo(t, "preact_standard.onnx", -1)
	data := shapes10(t, 32)
	for _, c := range []struct {
		name    string
		network Network
		width   int
	}{{"conv-ae", input, 8}, {"conv-ae", hidden, 4}, {"conv2-ae", hidden, 4}, {"mlp-ae", last, 0},
		{"mlp-ae", hidden, 4}, {"fcn", input, 4}, {"unet", input, 4}, {"unet", hidden, 4},
		{"segnet", input, 4}, {"dncnn", input, 4}} {
		epochs := 6
		if c.name == "conv-ae" { // it is slow
			epochs = 10
		}
		e := small(t, c.name, c.network, c.width)
		must.Do(t, Calibrate(e, c.network, data))
		e = must.Get(control.ONNXEmbedding(must.Get(e.Encode())(t), c.network.State()))(t)
		tr := trainer(t, e, []Network{c.network}, data, Settings{Epochs: epochs, Batch: 16, Weight: 0.1,
			Optimizer: Adam, LearningRate: 0.003})
		finish(t, tr)
		h := tr.History()
		before, after := h[0].total(0.1)+h[1].total(0.1), h[len(h)-1].total(0.1)+h[len(h)-2].total(0.1)
		if !(after < 0.95*before) {
			t.Errorf("%s at a state of shape %v: the loss went from %v to %v", c.name, c.network.State(), before/2,
				after/2)
		}
	}
	_, err := New("vgg", input.State(), true, Dimensions{Width: 4}, 0)
	must.Refuse(t, err, "conv-ae, conv2-ae, dncnn, fcn, mlp-ae, segnet, unet")
	_, err = New("fcn", last.State(), false, Dimensions{Width: 4}, 0)
	must.Refuse(t, err, "multiples of 32")
	_, err = New("unet", input.State(), true, Dimensions{Stages: 64}, 0)
	must.Refuse(t, err, "unet has at most 16 stages, not 64")
	_, err = New("unet", input.State(), true, Dimensions{Refine: 1 << 62}, 0)
	must.Refuse(t, err, "unet has at most 64 convolutions after each transposed one, not 4611686018427387904")
	for _, side := range []int{-1, 1, 3, 64} {
		_, err = New("unet", input.State(), true, Dimensions{Coarse: side}, 0)
		must.Refuse(t, err, "coarse is the side of squares of pixels, more than 1, that cover a plane of 32×32, not ")
	}
	_, err = New("mlp-ae", last.State(), false, Dimensions{Sizes: []int{64}}, 0)
	must.Refuse(t, err, "sizes lack the code's: 64 is the state's")
	for _, c := range []struct{ sizes, layers []int }{{[]int{64, 24, 10}, []int{24, 10, 24, 64}},
		{[]int{100, 10}, []int{100, 10, 100, 64}}, {[]int{7}, []int{7, 64}}} {
		e := must.Get(New("mlp-ae", last.State(), false, Dimensions{Sizes: c.sizes}, 0))(t)
		var layers []int
		for _, n := range e.Nodes {
			if n.Op == "Gemm" {
				layers = append(layers, int(e.Shapes[n.Outputs[0]][1]))
			}
		}
		if !slices.Equal(layers, c.layers) {
			t.Errorf("sizes %v make layers of %v, want %v", c.sizes, layers, c.layers)
		}
	}
}

// Weights are uniform in ±1/√fan_in, PyTorch's default, and follow from the seed.
func TestInitialWeights(t *testing.T) {
	state := onnx.Shape{onnx.Batch, 3, 32, 32}
	build := func(seed uint64) *onnx.Graph {
		return must.Get(New("conv-ae", state, true, Dimensions{}, seed))(t)
	}
	a, b, c := build(1), build(1), build(2)
	for name, fanIn := range map[string]float64{"conv1.weight": 27, "conv1.bias": 27, "conv3.weight": 432,
		"conv6.bias": 216} {
		w := a.Consts[name]
		if !slices.Equal(w.Floats, b.Consts[name].Floats) || slices.Equal(w.Floats, c.Consts[name].Floats) {
			t.Errorf("%s does not follow from the seed", name)
		}
		largest, squares := 0.0, 0.0
		for _, v := range w.Floats {
			largest = max(largest, math.Abs(float64(v)))
			squares += float64(v) * float64(v) / float64(len(w.Floats))
		}
		bound := 1 / math.Sqrt(fanIn)
		if largest > bound || len(w.Floats) > 500 &&
			(largest < 0.97*bound || math.Abs(squares/(bound*bound/3)-1) > 0.15) {
			t.Errorf("%s reaches %v with mean square %v, want uniform in ±%v", name, largest, squares, bound)
		}
	}
}

// After Calibrate each normalisation gives values of mean 0 and variance 1.
func TestCalibrate(t *testing.T) {
	n := zoo(t, "preact_standard.onnx", 0)
	data := shapes10(t, 50)
	e := small(t, "segnet", n, 2)
	must.Do(t, Calibrate(e, n, data))
	states := must.Get(someStates(n, data, min(calibrationImages, len(data.Labels))))(t)
	checked := 0
	for _, node := range e.Nodes {
		if node.Op != "BatchNormalization" {
			continue
		}
		mean, variance := statistics(t, e, node.Outputs[0], states)
		for c := range mean {
			v := float64(e.Consts[node.Inputs[4]].Floats[c])
			if math.Abs(mean[c]) > 1e-3 || math.Abs(variance[c]-v/(v+1e-5)) > 1e-3 {
				t.Errorf("%s, channel %d: mean %v, variance %v", node, c, mean[c], variance[c])
			}
		}
		checked++
	}
	if checked != 25 {
		t.Errorf("%d normalisations, SegNet has 25", checked)
	}
}

// A training may begin with a file that PyTorch exported.
func TestExportedStart(t *testing.T) {
	n := zoo(t, "preact_standard.onnx", -1)
	g, _ := must.Get2(simplify.Load("../../models/zoo/hidden_ae.onnx", simplify.Options{}))(t)
	tr := trainer(t, g, []Network{n}, shapes10(t, 64), Settings{Epochs: 1, Batch: 32, Weight: 0.1, Optimizer: Adam,
		LearningRate: 0.001})
	l := must.Get(tr.Step(context.Background()))(t)
	if l.Accuracy < 0.7 { // it was trained for this network
		t.Errorf("the bundled embedding begins at an accuracy of %v", l.Accuracy)
	}
}

// statistics returns mean and variance of each channel of a tensor of e.
func statistics(t *testing.T, e *onnx.Graph, tensor string, states ort.Tensor) (mean, variance []float64) {
	t.Helper()
	head := e.Clone()
	head.Outputs = []onnx.Value{{Name: tensor, DType: onnx.Float, Shape: e.Shapes[tensor]}}
	head.Prune()
	values := must.Get(through(head, states, shard))(t)[0].Data
	channels := int(e.Shapes[tensor][1])
	plane, count := int(e.Shapes[tensor].Items())/channels, float64(len(values)/channels)
	mean, variance = make([]float64, channels), make([]float64, channels)
	for i, v := range values {
		mean[i/plane%channels] += float64(v) / count
	}
	for i, v := range values {
		d := float64(v) - mean[i/plane%channels]
		variance[i/plane%channels] += d * d / count
	}
	return mean, variance
}

// The weights of every architecture are counted before one is drawn, and the count is right. Weights that do not fit
// into memory are refused.
func TestSizesAreCounted(t *testing.T) {
	flat, image := onnx.Shape{onnx.Batch, 64}, onnx.Shape{onnx.Batch, 3, 32, 32}
	const most = math.MaxInt32
	for _, c := range []struct {
		name  string
		state onnx.Shape
		Dimensions
	}{
		{"conv-ae", image, Dimensions{Width: 1_000_000}}, {"conv-ae", image, Dimensions{Width: most}},
		{"conv2-ae", image, Dimensions{Width: most}}, {"mlp-ae", flat, Dimensions{Width: most}},
		{"mlp-ae", image, Dimensions{Width: most}}, {"mlp-ae", flat, Dimensions{Sizes: []int{1e9}}},
		{"mlp-ae", flat, Dimensions{Sizes: []int{most, most, most}}}, {"fcn", image, Dimensions{Width: most}},
		{"segnet", image, Dimensions{Width: most}}, {"dncnn", image, Dimensions{Width: most}},
		{"unet", image, Dimensions{Width: most}}, {"unet", onnx.Shape{onnx.Batch, 3, 65536, 65536},
			Dimensions{Stages: 16, Width: most}},
	} {
		_, err := New(c.name, c.state, true, c.Dimensions, 0)
		must.Refuse(t, err, "training "+c.name+" with ", " weights takes ", " of memory, and ",
			" are free: make it smaller")
	}
	for _, name := range Architectures() {
		e := must.Get(New(name, image, true, Dimensions{Width: 2}, 0))(t)
		bytes := int64(0)
		for constant, c := range e.Consts {
			if c.DType == onnx.Float && !strings.HasPrefix(constant, "const") { // but Resize's scales
				bytes += 4 * c.Shape.Items()
			}
		}
		kind := architectures[name]
		a := &assembly{Builder: &onnx.Builder{G: onnx.NewGraph(name)}, Dimensions: Dimensions{Width: 2,
			Stages: kind.stages}, plan: true, counts: map[string]int{}}
		kind.build(a, a.Input("state", image))
		if must.Do(t, a.Err()); a.bytes != bytes {
			t.Errorf("%s: %d bytes, not %d", name, a.bytes, bytes)
		}
	}
}
