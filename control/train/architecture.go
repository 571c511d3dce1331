package train

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"selfheal/models/onnx"
)

type architecture struct {
	width    int   // default
	multiple int64 // of which height and width of a state must be; 0: the state may have any shape
	build    func(a *assembly, x string) string
}

var architectures = map[string]architecture{
	"conv-ae":  {24, 4, convolutional},
	"conv2-ae": {24, 1, twoConvolutions},
	"mlp-ae":   {0, 0, perceptron},
	"fcn":      {64, 32, fullyConvolutional},
	"segnet":   {64, 32, segNet},
	"dncnn":    {64, 1, dnCNN},
}

// Architectures lists the built-in embedding functions.
func Architectures() []string { return slices.Sorted(maps.Keys(architectures)) }

// New builds an embedding of states of the given shape with weights drawn from a seed, as PyTorch initialises its
// layers. Width is the number of channels of the first layer, of mlp-ae's code; 0 stands for the default: 24 (conv-ae,
// conv2-ae), 64 (fcn, segnet, dncnn), a quarter of the state's values (mlp-ae). Images lie in [0,1].
func New(name string, state onnx.Shape, image bool, width int, seed uint64) (*onnx.Graph, error) {
	kind, ok := architectures[name]
	if !ok {
		return nil, fmt.Errorf("there is no architecture %q; architectures: %s", name,
			strings.Join(Architectures(), ", "))
	}
	if m := kind.multiple; m > 0 && (len(state) != 4 || state[2]%m != 0 || state[3]%m != 0) {
		return nil, fmt.Errorf("%s embeds states of shape [N C H W] with H and W multiples of %d, not %v", name, m,
			state)
	}
	a := &assembly{Builder: &onnx.Builder{G: onnx.NewGraph(name)}, image: image,
		r: generator(seed, "weights/"+name, 0, 0), counts: map[string]int{}}
	if a.width = width; width == 0 {
		if a.width = kind.width; a.width == 0 {
			a.width = int(max(state.Items()/4, 1))
		}
	}
	x := a.Input("state", state)
	a.Output("embedding", kind.build(a, x))
	return a.Done()
}

type assembly struct {
	*onnx.Builder
	image  bool
	width  int
	r      *rand.Rand
	counts map[string]int
}

func (a *assembly) name(kind string) string {
	a.counts[kind]++
	return fmt.Sprintf("%s%d", kind, a.counts[kind])
}

// parameter draws a weight: uniform in ±1/√fan_in, PyTorch's default for Conv and Linear.
func (a *assembly) parameter(name string, fanIn int64, shape ...int64) string {
	bound := 1 / math.Sqrt(float64(fanIn))
	values := make([]float32, onnx.Shape(shape).Items())
	for i := range values {
		values[i] = float32((2*a.r.Float64() - 1) * bound)
	}
	return a.G.AddConst(name, onnx.FloatTensor(shape, values))
}

// conv is a convolution that keeps the plane's size or, with stride 2, halves it.
func (a *assembly) conv(x string, channels, kernel, stride int64) string {
	name, in := a.name("conv"), a.Shape(x)[1]
	w := a.parameter(name+".weight", in*kernel*kernel, channels, in, kernel, kernel)
	bias := a.parameter(name+".bias", in*kernel*kernel, channels)
	p := kernel / 2
	return a.OpWith("Conv", onnx.Attrs{"kernel_shape": []int64{kernel, kernel}, "strides": []int64{stride, stride},
		"pads": []int64{p, p, p, p}}, x, w, bias)
}

// up is a transposed 3×3 convolution that doubles the plane.
func (a *assembly) up(x string, channels int64) string {
	name, in := a.name("up"), a.Shape(x)[1]
	w := a.parameter(name+".weight", channels*9, in, channels, 3, 3)
	bias := a.parameter(name+".bias", channels*9, channels)
	return a.OpWith("ConvTranspose", onnx.Attrs{"kernel_shape": []int64{3, 3}, "strides": []int64{2, 2},
		"pads": []int64{1, 1, 1, 1}, "output_padding": []int64{1, 1}}, x, w, bias)
}

func (a *assembly) linear(x string, features int64) string {
	name, in := a.name("linear"), a.Shape(x)[1]
	w := a.parameter(name+".weight", in, features, in)
	return a.OpWith("Gemm", onnx.Attrs{"transB": 1}, x, w, a.parameter(name+".bias", in, features))
}

// norm is a BatchNormalization, whose statistics Calibrate measures for a training to begin with.
func (a *assembly) norm(x string) string {
	name, c := a.name("norm"), a.Shape(x)[1]
	constant := func(part string, v float32) string { return a.G.AddConst(name+"."+part, onnx.Filled(v, c)) }
	return a.OpWith("BatchNormalization", onnx.Attrs{"epsilon": float32(1e-5)}, x,
		constant("weight", 1), constant("bias", 0), constant("mean", 0), constant("variance", 1))
}

func (a *assembly) relu(x string) string { return a.Op("Relu", x) }

// double repeats every value 2×2 times.
func (a *assembly) double(x string) string {
	scales := a.Const(onnx.FloatTensor(onnx.Shape{4}, []float32{1, 1, 2, 2}))
	return a.OpWith("Resize", onnx.Attrs{"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
		"nearest_mode": "floor"}, x, "", scales)
}

func (a *assembly) bounded(x string) string {
	if a.image {
		return a.Op("Sigmoid", x)
	}
	return x
}

// convolutional is a six-layer auto-encoder: a layer on the whole plane, two of stride 2, and up again by doubling.
func convolutional(a *assembly, x string) string {
	w, c := int64(a.width), a.Shape(x)[1]
	h := a.relu(a.conv(x, w, 3, 1))
	h = a.relu(a.conv(h, 2*w, 3, 2))
	h = a.relu(a.conv(h, 2*w, 3, 2))
	h = a.relu(a.conv(a.double(h), 2*w, 3, 1))
	h = a.relu(a.conv(a.double(h), w, 3, 1))
	return a.bounded(a.conv(h, c, 3, 1))
}

// twoConvolutions is the paper's auto-encoder of the white box (Appendix D.2): two layers on the whole plane.
func twoConvolutions(a *assembly, x string) string {
	return a.conv(a.relu(a.conv(x, int64(a.width), 3, 1)), a.Shape(x)[1], 3, 1)
}

// perceptron is the two-layer auto-encoder of a flattened state.
func perceptron(a *assembly, x string) string {
	shape := a.Shape(x)
	h := x
	if len(shape) != 2 {
		h = a.Op("Reshape", x, a.Ints(0, shape.Items()))
	}
	h = a.Op("Elu", a.norm(a.linear(h, int64(a.width))))
	h = a.linear(h, shape.Items())
	if len(shape) != 2 {
		h = a.Op("Reshape", h, a.Ints(append([]int64{0}, shape[1:]...)...))
	}
	return a.bounded(h)
}

// dnCNN is DnCNN (Zhang et al. 2017): 17 convolutions on the whole plane find the noise, which is taken away.
func dnCNN(a *assembly, x string) string {
	h := a.relu(a.conv(x, int64(a.width), 3, 1))
	for range 15 {
		h = a.relu(a.norm(a.conv(h, int64(a.width), 3, 1)))
	}
	return a.Op("Sub", x, a.conv(h, a.Shape(x)[1], 3, 1))
}

var window = onnx.Attrs{"kernel_shape": []int64{2, 2}, "strides": []int64{2, 2}}

// channels are those of five stages.
func (a *assembly) channels() []int64 {
	var c []int64
	for s := range 5 {
		c = append(c, int64(min(a.width<<s, 8*a.width)))
	}
	return c
}

// fullyConvolutional is FCN (Long et al. 2015): five stages of two convolutions and a pooling, and up again by
// transposed convolutions to which the encoder's states of that size are added.
func fullyConvolutional(a *assembly, x string) string {
	c, out := a.channels(), a.Shape(x)[1]
	var states []string
	h := x
	for _, n := range c {
		h = a.relu(a.conv(a.relu(a.conv(h, n, 3, 1)), n, 3, 1))
		h = a.OpWith("MaxPool", window, h)
		states = append(states, h)
	}
	for s := len(c) - 1; s > 0; s-- {
		h = a.norm(a.Op("Add", a.relu(a.up(h, c[s-1])), states[s-1]))
	}
	h = a.norm(a.relu(a.up(h, int64(max(a.width/2, 1)))))
	return a.bounded(a.conv(h, out, 1, 1))
}

// segNet is SegNet (Badrinarayanan et al. 2017): VGG-16's convolutions with normalisation, mirrored in the decoder,
// which puts every value back where the encoder's pooling found it.
func segNet(a *assembly, x string) string {
	layer := func(x string, n int64) string { return a.relu(a.norm(a.conv(x, n, 3, 1))) }
	c, counts, out := a.channels(), []int{2, 2, 3, 3, 3}, a.Shape(x)[1]
	var places []string
	h := x
	for s, n := range c {
		for range counts[s] {
			h = layer(h, n)
		}
		pooled := a.Multi("MaxPool", window, 2, h)
		h, places = pooled[0], append(places, pooled[1])
	}
	for s := len(c) - 1; s >= 0; s-- {
		h = a.OpWith("MaxUnpool", window, h, places[s])
		for range counts[s] - 1 {
			h = layer(h, c[s])
		}
		if s > 0 {
			h = layer(h, c[s-1])
		}
	}
	return a.conv(h, out, 3, 1)
}
