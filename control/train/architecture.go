package train

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"selfheal/internal/memory"
	"selfheal/internal/number"
	"selfheal/models/onnx"
)

type architecture struct {
	keys   []string // its keys of [Dimensions]
	width  int      // default width
	stages int      // default; each stage halves the state's sides
	// a state's height and width must be a multiple of this, if the architecture has no stages; 0: any shape
	multiple int64
	build    func(a *assembly, x string) string
}

var architectures = map[string]architecture{
	"conv-ae":  {[]string{"width"}, 24, 0, 4, convolutional},
	"conv2-ae": {[]string{"width"}, 24, 0, 1, twoConvolutions},
	"mlp-ae":   {[]string{"width", "sizes"}, 0, 0, 0, perceptron},
	"fcn":      {[]string{"width"}, 64, 5, 0, fullyConvolutional},
	"segnet":   {[]string{"width"}, 64, 5, 0, segNet},
	"dncnn":    {[]string{"width"}, 64, 0, 1, dnCNN},
	"unet":     {[]string{"width", "stages", "refine", "coarse"}, 16, 3, 0, uNet},
}

const (
	mostStages = 16 // they halve the sides of the largest images 16 times
	mostRefine = 64 // convolutions of a stage
)

// Architectures lists the built-in embedding functions.
func Architectures() []string { return slices.Sorted(maps.Keys(architectures)) }

// Dimensions say how large a built-in embedding is. Their JSON names are the config's.
type Dimensions struct {
	// Width is the number of channels of the first layer, for mlp-ae the length of the code. 0 stands for the
	// default: 24 (conv-ae, conv2-ae), 16 (unet), 64 (fcn, segnet, dncnn), a quarter of the state's values (mlp-ae).
	Width int `json:"width,omitzero"`
	// of unet; each has twice the channels and half the sides of the one before; 0: 3
	Stages int `json:"stages,omitzero"`
	// Refine is the number of convolutions after each transposed one of unet.
	Refine int `json:"refine,omitzero"`
	// Coarse is the side in pixels of unet's squares: its output is added to the input's mean over each; 0: none.
	Coarse int `json:"coarse,omitzero"`
	// Sizes are the lengths of mlp-ae's layers down to the code. The state's own length may stand first: an
	// architecture for states of 512 values is written 512, 384, 256; on states of 640 values it has one more layer
	// of 512.
	Sizes []int `json:"sizes,omitempty"`
}

// DimensionKeys are the config's keys of [Dimensions].
var DimensionKeys = []string{"width", "stages", "refine", "coarse", "sizes"}

// given returns the keys of the dimensions that are set.
func (d Dimensions) given() (keys []string) {
	for i, set := range []bool{d.Width != 0, d.Stages != 0, d.Refine != 0, d.Coarse != 0, d.Sizes != nil} {
		if set {
			keys = append(keys, DimensionKeys[i])
		}
	}
	return keys
}

// Takes returns an error unless an architecture has a dimension, also beside the others that are given, all by their
// keys.
func Takes(architecture, key string, given []string) error {
	switch {
	case !slices.Contains(architectures[architecture].keys, key):
		has := slices.DeleteFunc(Architectures(), func(name string) bool {
			return !slices.Contains(architectures[name].keys, key)
		})
		return fmt.Errorf("is for architecture %s, not for %s", strings.Join(has, ", "), architecture)
	case key == "width" && slices.Contains(given, "sizes"):
		return errors.New("is that of the code, which the last of sizes gives")
	}
	return nil
}

// New builds an embedding of states of the given shape. It draws the weights from a seed, as PyTorch initialises its
// layers. Images lie in [0,1].
func New(name string, state onnx.Shape, image bool, d Dimensions, seed uint64) (*onnx.Graph, error) {
	kind, ok := architectures[name]
	if !ok {
		return nil, fmt.Errorf("there is no architecture %q; architectures: %s", name,
			strings.Join(Architectures(), ", "))
	}
	for _, key := range d.given() {
		if err := Takes(name, key, d.given()); err != nil {
			return nil, fmt.Errorf("%s %w", key, err)
		}
	}
	d.Width, d.Stages = cmp.Or(d.Width, kind.width, int(max(state.Items()/4, 1))), cmp.Or(d.Stages, kind.stages)
	m := kind.multiple
	if d.Stages > mostStages {
		return nil, fmt.Errorf("%s has at most %d stages, not %d", name, mostStages, d.Stages)
	}
	if d.Refine > mostRefine {
		return nil, fmt.Errorf("%s has at most %d convolutions after each transposed one, not %d", name, mostRefine,
			d.Refine)
	}
	if d.Stages > 0 {
		m = 1 << d.Stages
	}
	if m > 0 && (len(state) != 4 || state[2]%m != 0 || state[3]%m != 0) {
		return nil, fmt.Errorf("%s embeds states of shape [N C H W] with H and W multiples of %d, not %v", name, m,
			state)
	}
	if c := int64(d.Coarse); c != 0 && (c < 2 || state[2]%c != 0 || state[3]%c != 0) {
		return nil, fmt.Errorf("coarse is the side of squares of pixels, more than 1, that cover a plane of %d×%d, "+
			"not %d", state[2], state[3], c)
	}
	if d.Sizes != nil && int64(d.Sizes[0]) == state.Items() {
		if d.Sizes = d.Sizes[1:]; len(d.Sizes) == 0 {
			return nil, fmt.Errorf("sizes lack the code's: %d is the state's", state.Items())
		}
	}
	assembled := func(plan bool) *assembly {
		a := &assembly{Builder: &onnx.Builder{G: onnx.NewGraph(name)}, Dimensions: d, image: image, plan: plan,
			r: generator(seed, "weights/"+name, 0, 0), counts: map[string]int{}}
		a.Output("embedding", kind.build(a, a.Input("state", state)))
		return a
	}
	plan := assembled(true)
	if err := memory.Room(number.Product(copies, plan.bytes)); err != nil {
		return nil, fmt.Errorf("training %s with %.4g weights %w: make it smaller (%s)", name,
			float64(plan.bytes)/4, err, strings.Join(kind.keys, ", "))
	}
	if err := plan.Err(); err != nil {
		return nil, err
	}
	return assembled(false).Done()
}

// copies is how many numbers of 4 bytes a training holds for each weight: the graph's and its own, a sum of gradients
// in float64, the gradient of a step and the optimiser's average.
const copies = 6

type assembly struct {
	*onnx.Builder
	Dimensions
	image  bool
	plan   bool  // count the weights without drawing them
	bytes  int64 // memory of the weights
	r      *rand.Rand
	counts map[string]int
}

// depth returns how many channels or features a tensor has, or 1 after an error.
func (a *assembly) depth(x string) int64 {
	if a.Err() != nil {
		return 1
	}
	return a.Shape(x)[1]
}

func (a *assembly) name(kind string) string {
	a.counts[kind]++
	return fmt.Sprintf("%s%d", kind, a.counts[kind])
}

// parameter draws a weight, uniform in ±1/√fan_in, PyTorch's default for Conv and Linear.
func (a *assembly) parameter(name string, fanIn int64, shape ...int64) string {
	bound := 1 / math.Sqrt(float64(fanIn))
	return a.drawn(name, shape, func() float64 { return (2*a.r.Float64() - 1) * bound })
}

func (a *assembly) drawn(name string, shape onnx.Shape, draw func() float64) string {
	bytes := number.Product(4, number.Product(shape...))
	a.bytes = number.Sum(a.bytes, bytes)
	if a.plan {
		return a.G.AddConst(name, &onnx.Tensor{DType: onnx.Float, Shape: shape})
	}
	values := make([]float32, bytes/4)
	for i := range values {
		values[i] = float32(draw())
	}
	return a.G.AddConst(name, onnx.FloatTensor(shape, values))
}

func (a *assembly) filled(name string, n int64, v float64) string {
	return a.drawn(name, onnx.Shape{n}, func() float64 { return v })
}

// conv adds a convolution that keeps the plane's size or, with stride 2, halves it.
func (a *assembly) conv(x string, channels, kernel, stride int64) string {
	name, in := a.name("conv"), a.depth(x)
	w := a.parameter(name+".weight", in*kernel*kernel, channels, in, kernel, kernel)
	return a.convolved(x, kernel, stride, w, a.parameter(name+".bias", in*kernel*kernel, channels))
}

func (a *assembly) convolved(x string, kernel, stride int64, parameters ...string) string {
	p := kernel / 2
	return a.OpWith("Conv", onnx.Attrs{"kernel_shape": []int64{kernel, kernel}, "strides": []int64{stride, stride},
		"pads": []int64{p, p, p, p}}, append([]string{x}, parameters...)...)
}

// rectified adds a 3×3 convolution with ReLU, whose weights are drawn as torchvision draws VGG's (He et al. 2015, by
// the outputs). With the default, thirteen such layers would leave almost nothing of the state.
func (a *assembly) rectified(x string, channels int64) string {
	name, deviation := a.name("conv"), math.Sqrt(2/float64(9*channels))
	w := a.drawn(name+".weight", onnx.Shape{channels, a.depth(x), 3, 3}, func() float64 {
		return deviation * a.r.NormFloat64()
	})
	return a.relu(a.convolved(x, 3, 1, w, a.filled(name+".bias", channels, 0)))
}

// normal adds a 3×3 convolution with a normalisation and ReLU. It has no bias, which the normalisation would undo.
func (a *assembly) normal(x string, channels int64) string {
	w := a.parameter(a.name("conv")+".weight", a.depth(x)*9, channels, a.depth(x), 3, 3)
	return a.relu(a.norm(a.convolved(x, 3, 1, w)))
}

// up adds a transposed 3×3 convolution that doubles the plane.
func (a *assembly) up(x string, channels int64) string {
	name, in := a.name("up"), a.depth(x)
	w := a.parameter(name+".weight", channels*9, in, channels, 3, 3)
	bias := a.parameter(name+".bias", channels*9, channels)
	return a.OpWith("ConvTranspose", onnx.Attrs{"kernel_shape": []int64{3, 3}, "strides": []int64{2, 2},
		"pads": []int64{1, 1, 1, 1}, "output_padding": []int64{1, 1}}, x, w, bias)
}

func (a *assembly) linear(x string, features int64) string {
	name, in := a.name("linear"), a.depth(x)
	w := a.parameter(name+".weight", in, features, in)
	return a.OpWith("Gemm", onnx.Attrs{"transB": 1}, x, w, a.parameter(name+".bias", in, features))
}

// norm adds a BatchNormalization. Calibrate measures its statistics before a training.
func (a *assembly) norm(x string) string {
	name, c := a.name("norm"), a.depth(x)
	constant := func(part string, v float64) string { return a.filled(name+"."+part, c, v) }
	return a.OpWith("BatchNormalization", onnx.Attrs{"epsilon": float32(1e-5)}, x,
		constant("weight", 1), constant("bias", 0), constant("mean", 0), constant("variance", 1))
}

func (a *assembly) relu(x string) string { return a.Op("Relu", x) }

// double repeats every value 2×2 times.
func (a *assembly) double(x string) string { return a.repeated(x, 2) }

// repeated repeats every value n×n times.
func (a *assembly) repeated(x string, n int) string {
	scales := a.Const(onnx.FloatTensor(onnx.Shape{4}, []float32{1, 1, float32(n), float32(n)}))
	return a.OpWith("Resize", onnx.Attrs{"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
		"nearest_mode": "floor"}, x, "", scales)
}

func (a *assembly) bounded(x string) string {
	if a.image {
		return a.Op("Sigmoid", x)
	}
	return x
}

// convolutional returns a six-layer auto-encoder: a layer on the whole plane, two of stride 2, and three that double
// the plane again.
func convolutional(a *assembly, x string) string {
	w, c := int64(a.Width), a.Shape(x)[1]
	h := a.relu(a.conv(x, w, 3, 1))
	h = a.relu(a.conv(h, 2*w, 3, 2))
	h = a.relu(a.conv(h, 2*w, 3, 2))
	h = a.relu(a.conv(a.double(h), 2*w, 3, 1))
	h = a.relu(a.conv(a.double(h), w, 3, 1))
	return a.bounded(a.conv(h, c, 3, 1))
}

// twoConvolutions returns the paper's auto-encoder of the white box (Appendix D.2): two layers on the whole plane.
func twoConvolutions(a *assembly, x string) string {
	return a.conv(a.relu(a.conv(x, int64(a.Width), 3, 1)), a.Shape(x)[1], 3, 1)
}

// perceptron returns an auto-encoder of a flattened state, with ELU between its layers and normalisation in the
// encoder.
func perceptron(a *assembly, x string) string {
	shape := a.Shape(x)
	h := x
	if len(shape) != 2 {
		h = a.Op("Reshape", x, a.Ints(0, shape.Items()))
	}
	sizes := []int{int(shape.Items())}
	if sizes = append(sizes, a.Sizes...); len(sizes) == 1 {
		sizes = append(sizes, a.Width)
	}
	for _, n := range sizes[1:] {
		h = a.Op("Elu", a.norm(a.linear(h, int64(n))))
	}
	for i := len(sizes) - 2; i >= 0; i-- {
		if h = a.linear(h, int64(sizes[i])); i > 0 {
			h = a.Op("Elu", h)
		}
	}
	if len(shape) != 2 {
		h = a.Op("Reshape", h, a.Ints(append([]int64{0}, shape[1:]...)...))
	}
	return a.bounded(h)
}

// dnCNN is DnCNN (Zhang et al. 2017): 17 convolutions on the whole plane estimate the noise, which is subtracted.
func dnCNN(a *assembly, x string) string {
	h := a.relu(a.conv(x, int64(a.Width), 3, 1))
	for range 15 {
		h = a.relu(a.norm(a.conv(h, int64(a.Width), 3, 1)))
	}
	return a.Op("Sub", x, a.conv(h, a.Shape(x)[1], 3, 1))
}

var window = onnx.Attrs{"kernel_shape": []int64{2, 2}, "strides": []int64{2, 2}}

// vgg has the convolutions of VGG-16's five stages (Simonyan & Zisserman 2015).
var vgg = []int{2, 2, 3, 3, 3}

func (a *assembly) channels() []int64 {
	var c []int64
	for s := range vgg {
		c = append(c, int64(min(a.Width<<s, 8*a.Width)))
	}
	return c
}

// fullyConvolutional is FCN (Long et al. 2015) as the paper's authors have it: VGG-16's convolutions and poolings,
// then transposed convolutions. The encoder's states are added to the transposed convolutions' outputs of the same
// size, except on the whole plane.
func fullyConvolutional(a *assembly, x string) string {
	return a.skipping(x, vgg, a.channels(), int64(max(a.Width/2, 1)), a.rectified)
}

// skipping is an encoder-decoder: stages of convolutions and a pooling, then transposed convolutions. The encoder's
// states are added to the outputs of the same size, except on the whole plane, which has so many channels at the end.
// Refine layers follow each. If coarse is set, the output is added to the means of the input's squares.
func (a *assembly) skipping(x string, depths []int, channels []int64, last int64,
	layer func(x string, channels int64) string) string {
	out := a.Shape(x)[1]
	var states []string
	h := x
	for s, n := range channels {
		for range depths[s] {
			h = layer(h, n)
		}
		h = a.OpWith("MaxPool", window, h)
		states = append(states, h)
	}
	for s := len(channels) - 1; s >= 0; s-- {
		n := last
		if s > 0 {
			n = channels[s-1]
		}
		if h = a.norm(a.relu(a.up(h, n))); s > 0 {
			h = a.Op("Add", h, states[s-1])
		}
		for range a.Refine {
			h = layer(h, n)
		}
	}
	if a.Coarse == 0 {
		return a.bounded(a.conv(h, out, 1, 1))
	}
	side := int64(a.Coarse)
	means := a.OpWith("AveragePool", onnx.Attrs{"kernel_shape": []int64{side, side}, "strides": []int64{side, side}}, x)
	name := a.name("conv")
	w := a.drawn(name+".weight", onnx.Shape{out, last, 1, 1}, func() float64 { return faint * a.r.NormFloat64() })
	corrected := a.convolved(h, 1, 1, w, a.filled(name+".bias", out, 0))
	return a.Op("Add", a.repeated(means, a.Coarse), corrected)
}

// faint is the deviation of weights whose output is next to nothing at first.
const faint = 1e-3

// uNet returns an encoder-decoder like U-Net (Ronneberger et al. 2015), normalised after every convolution: stages of
// two convolutions and a pooling, then transposed convolutions. The encoder's states are added to the outputs of the
// same size, except on the whole plane, where they would let a perturbation through. Refine convolutions follow each.
func uNet(a *assembly, x string) string {
	var channels []int64
	for s := range a.Stages {
		channels = append(channels, int64(a.Width)<<s)
	}
	return a.skipping(x, slices.Repeat([]int{2}, a.Stages), channels, int64(a.Width), a.normal)
}

// segNet is SegNet (Badrinarayanan et al. 2017): VGG-16's convolutions with normalisation, mirrored in the decoder,
// which puts every value back at the position where the encoder's pooling found it.
func segNet(a *assembly, x string) string {
	layer := func(x string, n int64) string { return a.relu(a.norm(a.conv(x, n, 3, 1))) }
	c, out := a.channels(), a.Shape(x)[1]
	var places []string
	h := x
	for s, n := range c {
		for range vgg[s] {
			h = layer(h, n)
		}
		pooled := a.Multi("MaxPool", window, 2, h)
		h, places = pooled[0], append(places, pooled[1])
	}
	for s := len(c) - 1; s >= 0; s-- {
		h = a.OpWith("MaxUnpool", window, h, places[s])
		for range vgg[s] - 1 {
			h = layer(h, c[s])
		}
		if s > 0 {
			h = layer(h, c[s-1])
		}
	}
	return a.conv(h, out, 3, 1)
}
