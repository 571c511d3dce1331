package optimize

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/grad"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

func TestMain(m *testing.M) { testinput.RunMain(m) }

// network is a graph under construction with random weights.
type network struct {
	*onnx.Builder
	r *rand.Rand
}

func (n network) weights(shape ...int64) string {
	v := make([]float32, onnx.Shape(shape).Items())
	fan := float64(onnx.Shape(shape[1:]).Items())
	for i := range v {
		v[i] = float32(n.r.NormFloat64() / math.Sqrt(fan))
	}
	return n.Const(onnx.FloatTensor(shape, v))
}

func (n network) vector(count int64, low, high float64) string {
	v := make([]float32, count)
	for i := range v {
		v[i] = float32(low + (high-low)*n.r.Float64())
	}
	return n.Const(onnx.FloatTensor(onnx.Shape{count}, v))
}

func (n network) conv(x string, out, kernel, stride int64, pads ...int64) string {
	if pads == nil {
		p := kernel / 2
		pads = []int64{p, p, p, p}
	}
	attrs := onnx.Attrs{"kernel_shape": []int64{kernel, kernel}, "strides": []int64{stride, stride}, "pads": pads}
	return n.OpWith("Conv", attrs, x, n.weights(out, n.Shape(x)[1], kernel, kernel), n.vector(out, -0.5, 0.5))
}

func (n network) norm(x string, low, high float64) string {
	c := n.Shape(x)[1]
	scale, offset := n.vector(c, low, high), n.vector(c, -0.3, 0.3)
	return n.Op("BatchNormalization", x, scale, offset, n.vector(c, -0.3, 0.3), n.vector(c, 0.5, 1.5))
}

// smooth is an activation without a kink, at which rounding could flip a gradient.
func (n network) smooth(x string) string { return n.Op("Softplus", x) }

func (n network) classify(x string) string {
	f := n.Op("Flatten", n.Op("GlobalAveragePool", x))
	return n.Op("Gemm", f, n.weights(n.Shape(x)[1], 7), n.vector(7, -1, 1))
}

// networks are cases for the rewriting; each takes images [N 3 h w].
var networks = map[string]struct {
	h, w      int64
	rewritten bool // some convolution is worth it
	body      func(n network, x string) string
}{
	"plain stack": {16, 16, true, func(n network, x string) string {
		a := n.smooth(n.conv(x, 96, 3, 1))
		return n.classify(n.smooth(n.conv(n.smooth(n.conv(a, 96, 3, 1)), 96, 3, 1)))
	}},
	"odd, oblong, asymmetric": {13, 18, true, func(n network, x string) string {
		a := n.smooth(n.conv(x, 128, 3, 1))
		b := n.smooth(n.conv(a, 128, 3, 1, 0, 1, 2, 0))
		return n.classify(n.smooth(n.conv(b, 128, 3, 1, 0, 0, 0, 0)))
	}},
	"strided": {8, 8, true, func(n network, x string) string {
		a := n.smooth(n.conv(n.smooth(n.conv(x, 256, 3, 1)), 256, 3, 1))
		return n.classify(n.smooth(n.conv(a, 512, 3, 2)))
	}},
	"strided, odd": {7, 9, true, func(n network, x string) string {
		a := n.smooth(n.conv(n.smooth(n.conv(x, 256, 3, 1)), 256, 3, 1))
		return n.classify(n.smooth(n.conv(a, 256, 3, 2, 1, 0, 1, 1)))
	}},
	"residual blocks": {8, 8, true, func(n network, x string) string {
		x = n.conv(x, 256, 3, 1)
		a := n.smooth(n.norm(x, 0.5, 1.5))
		x = n.Op("Add", n.conv(n.smooth(n.norm(n.conv(a, 256, 3, 1), -1, 1)), 256, 3, 1), x)
		a = n.smooth(n.norm(x, -1.5, 1.5))
		x = n.Op("Add", n.conv(a, 256, 3, 1), n.conv(a, 256, 1, 1))
		a = n.smooth(n.norm(x, 0.5, 1.5))
		x = n.Op("Add", n.conv(a, 300, 3, 2), n.conv(a, 300, 1, 2, 0, 0, 0, 0))
		return n.classify(n.smooth(n.norm(x, 0.5, 1.5)))
	}},
	"squeeze and excite": {16, 16, true, func(n network, x string) string {
		a := n.smooth(n.conv(n.smooth(n.conv(x, 128, 3, 1)), 128, 3, 1))
		g := n.Op("Sigmoid", n.conv(n.smooth(n.conv(n.Op("GlobalAveragePool", a), 16, 1, 1)), 128, 1, 1))
		return n.classify(n.smooth(n.conv(n.Op("Mul", g, a), 128, 3, 1)))
	}},
	"constants of every rank": {16, 16, true, func(n network, x string) string {
		a := n.conv(n.conv(x, 128, 3, 1), 128, 3, 1)
		a = n.Op("Mul", a, n.Float(0.7))
		a = n.Op("Add", n.weights(16, 16), a)
		a = n.Op("Sub", a, n.weights(128, 1, 1))
		a = n.Op("Clip", a, n.Float(-4), n.Float(4))
		a = n.Op("PRelu", a, n.vector(16, 0.9, 1)) // along the width
		a = n.Op("Max", a, n.weights(1, 128, 1, 16))
		return n.classify(n.conv(n.Op("Tanh", a), 128, 3, 1))
	}},
	"through what stays": {16, 16, true, func(n network, x string) string {
		a := n.smooth(n.conv(n.conv(x, 128, 3, 1), 128, 3, 1))
		b := n.OpWith("AveragePool", onnx.Attrs{"kernel_shape": []int64{2, 2}, "strides": []int64{2, 2}}, a)
		c := n.OpWith("Concat", onnx.Attrs{"axis": 1}, b, n.smooth(n.conv(b, 128, 3, 1)))
		return n.classify(n.smooth(n.conv(c, 128, 3, 1)))
	}},
	"the output is a map": {16, 16, true, func(n network, x string) string {
		return n.conv(n.smooth(n.conv(x, 128, 3, 1)), 128, 3, 1)
	}},
	"scales move": {16, 16, true, func(n network, x string) string {
		x = n.conv(x, 128, 3, 1)
		a := n.Op("Relu", n.norm(x, 0.5, 1.5))
		x = n.Op("Add", n.Op("Add", n.conv(a, 128, 3, 1), n.conv(a, 128, 1, 1)), x)
		a = n.Op("Relu", n.norm(x, -1.5, 1.5)) // negative scales stay
		return n.classify(n.Op("Add", n.conv(a, 128, 3, 1), x))
	}},
	"a single tile": {4, 4, true, func(n network, x string) string {
		a := n.smooth(n.conv(n.smooth(n.conv(x, 256, 3, 1)), 256, 3, 1))
		return n.classify(n.smooth(n.conv(a, 300, 3, 1)))
	}},
	"a single place": {8, 8, true, func(n network, x string) string {
		a := n.smooth(n.conv(n.smooth(n.conv(x, 256, 3, 1)), 256, 3, 1))
		return n.classify(n.smooth(n.conv(a, 96, 1, 8, 0, 0, 0, 0))) // a product of one row
	}},
	"few channels": {16, 16, false, func(n network, x string) string {
		return n.classify(n.smooth(n.conv(n.smooth(n.conv(x, 8, 3, 1)), 8, 3, 1)))
	}},
	"groups and dilations stay": {16, 16, false, func(n network, x string) string {
		a := n.smooth(n.conv(x, 128, 3, 1))
		groups := onnx.Attrs{"group": 2, "pads": []int64{1, 1, 1, 1}}
		a = n.OpWith("Conv", groups, a, n.weights(128, 64, 3, 3))
		dilated := onnx.Attrs{"dilations": []int64{2, 2}, "pads": []int64{2, 2, 2, 2}}
		a = n.OpWith("Conv", dilated, a, n.weights(128, 128, 3, 3))
		return n.classify(n.smooth(a))
	}},
}

func build(t *testing.T, name string) *onnx.Graph {
	t.Helper()
	c := networks[name]
	return grow(t, uint64(len(name)), onnx.Shape{onnx.Batch, 3, c.h, c.w}, c.body)
}

// grow makes a graph of a body that takes images of a shape.
func grow(t *testing.T, seed uint64, images onnx.Shape, body func(n network, x string) string) *onnx.Graph {
	t.Helper()
	n := network{&onnx.Builder{G: onnx.NewGraph("test")}, rand.New(rand.NewPCG(5, seed))}
	n.Output("y", body(n, n.Input("x", images)))
	must.Do(t, n.Err())
	return n.G
}

// operators counts the nodes of an operator.
func operators(g *onnx.Graph, op string) (count int) {
	for _, n := range g.Nodes {
		if n.Op == op {
			count++
		}
	}
	return count
}

// batch runs a graph on items at once; item i has the inputs inputs[k][i].
func batch(t *testing.T, g *onnx.Graph, inputs ...[][]float32) [][][]float32 {
	t.Helper()
	must.Do(t, g.Verify())
	data := must.Get(g.Encode())(t)
	out := make([][][]float32, len(inputs[0]))
	pool := ort.NewPool(1, len(out))
	defer pool.Close()
	p := must.Get(pool.Compile(g.Name, data))(t)
	var wg sync.WaitGroup
	for range out {
		pool.Enter()
	}
	for i := range out {
		wg.Go(func() {
			defer pool.Leave()
			var in [][]float32
			for k := range inputs {
				in = append(in, inputs[k][i])
			}
			for _, port := range p.Outputs() {
				out[i] = append(out[i], make([]float32, port.Size))
			}
			if err := pool.Run(t.Context(), p, in, out[i]); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return out
}

// random returns count items of a shape, the same for the same seed.
func random(seed uint64, count int, s onnx.Shape) [][]float32 {
	r := rand.New(rand.NewPCG(seed, 7))
	items := make([][]float32, count)
	for i := range items {
		items[i] = make([]float32, s.Items())
		for k := range items[i] {
			items[i][k] = r.Float32()
		}
	}
	return items
}

// gradients runs the vector-Jacobian graph of g on the first of some random items.
func gradients(t *testing.T, g *onnx.Graph, items int) [][][]float32 {
	t.Helper()
	v := must.Get(grad.VJP(g))(t)
	return batch(t, v, random(1, items, g.Inputs[0].Shape), random(2, items, g.Outputs[0].Shape))
}

// near checks that the ℓ2 norm of each output's error is at most a fraction of the output's.
func near(t *testing.T, got, want [][][]float32, fraction float64) {
	t.Helper()
	for i := range want {
		for k, values := range want[i] {
			var d, s float64
			for j, v := range values {
				d += math.Pow(float64(got[i][k][j]-v), 2)
				s += math.Pow(float64(v), 2)
			}
			if !(math.Sqrt(d/s) <= fraction) {
				t.Errorf("item %d, output %d: differs by %.2g", i, k, math.Sqrt(d/s))
			}
		}
	}
}

// The rewritten network computes the same, its derived gradient too, and neither depends on the batch.
func TestEquivalent(t *testing.T) {
	for name, c := range networks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := build(t, name)
			before := must.Get(g.Encode())(t)
			fast := must.Get(Graph(g))(t)
			if after, _ := g.Encode(); !slices.Equal(before, after) {
				t.Error("the network was changed")
			}
			if got := operators(fast, "MatMul") > 0; got != c.rewritten {
				t.Errorf("rewritten: %v, want %v", got, c.rewritten)
			}
			got := gradients(t, fast, 5)
			near(t, got, gradients(t, g, 5), 1e-5)
			for k, alone := range gradients(t, fast, 1)[0] {
				if !slices.Equal(alone, got[0][k]) {
					t.Errorf("output %d: other bits alone than among 5", k)
				}
			}
		})
	}
}

// The bundled and the real networks compute the same in their fast form.
func TestRealNetworks(t *testing.T) {
	for _, name := range []string{
		"../zoo/preact_standard.onnx", "../zoo/input_ae.onnx", "resnet_2b.onnx", "rn18w16_standard.onnx",
	} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			path := name
			if filepath.Dir(name) == "." {
				path = testinput.Real(t, name)
			}
			g, _ := must.Get2(simplify.Load(path, simplify.Options{}))(t)
			fast := must.Get(Graph(g))(t)
			x := random(3, 3, g.Inputs[0].Shape)
			near(t, batch(t, fast, x), batch(t, g, x), 3e-6)
		})
	}
}

// The choice between the forms for layers that were measured: batch 32, one core.
func TestChoice(t *testing.T) {
	for _, c := range []struct {
		in, out, size, stride int64
		form                  string // as measured, the fastest
	}{
		{64, 64, 32, 1, "direct"}, // 0.63 ms an image against 0.69
		{128, 128, 32, 1, "F(4)"}, // 2.34, 1.66
		{128, 128, 16, 1, "F(4)"}, // 0.62, 0.33
		{256, 256, 16, 1, "F(4)"}, // 2.39, 1.06
		{256, 256, 8, 1, "F(4)"},  // 0.62, 0.26
		{512, 512, 8, 1, "F(4)"},  // 2.50, 0.91
		{512, 512, 4, 1, "F(4)"},  // 0.82, 0.36 by F(2)
		{64, 128, 32, 2, "direct"},
		{128, 256, 16, 2, "direct"}, // 0.34, 0.34
		{256, 512, 8, 2, "F(2)"},    // 0.45, 0.31
		{3, 64, 32, 1, "direct"},
		{16, 16, 32, 1, "direct"},
	} {
		win := onnx.Window{Strides: []int64{c.stride, c.stride}}
		w := onnx.Shape{c.out, c.in, 3, 3}
		in := onnx.Shape{onnx.Batch, c.in, c.size, c.size}
		out := onnx.Shape{onnx.Batch, c.out, c.size / c.stride, c.size / c.stride}
		got := "direct"
		if s, cost := cheapest([]int{2, 4}, w, in, out, win); s != nil && cost <= worthwhile*directCost(w, out) {
			got = fmt.Sprintf("F(%d)", s.m)
		}
		if got != c.form {
			t.Errorf("%+v: chosen is %s", c, got)
		}
	}
}
