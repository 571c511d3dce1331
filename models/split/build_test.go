package split

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/onnx"
)

// network is a graph under construction, with shorthands for its layers.
type network struct {
	*onnx.Builder
	r *rand.Rand
}

func (n network) weights(shape ...int64) string {
	v := make([]float32, onnx.Shape(shape).Items())
	for i := range v {
		v[i] = float32(n.r.NormFloat64()) / 4
	}
	return n.Const(onnx.FloatTensor(shape, v))
}

// conv appends a convolution with a square kernel of odd size that keeps the image's size at stride 1.
func (n network) conv(x string, out, size, stride int64) string {
	return n.convOf(x, n.weights(out, n.Shape(x)[1], size, size), stride, 1)
}

func (n network) convOf(x, w string, stride, group int64) string {
	s := n.Shape(w)
	p := s[2] / 2
	attrs := onnx.Attrs{"pads": []int64{p, p, p, p}, "strides": []int64{stride, stride}, "group": group}
	return n.OpWith("Conv", attrs, x, w, n.weights(s[0]))
}

// classify pools, and maps to 5 classes.
func (n network) classify(x string) (pooled, features, logits string) {
	pooled = n.Op("GlobalAveragePool", x)
	features = n.Op("Flatten", pooled)
	return pooled, features, n.Op("Gemm", features, n.weights(n.Shape(x)[1], 5), n.weights(5))
}

// build makes a graph of [N 3 8 8] images from its body, which returns the output.
func build(t *testing.T, body func(n network, x string) string) *onnx.Graph {
	t.Helper()
	n := network{&onnx.Builder{G: onnx.NewGraph("test")}, rand.New(rand.NewPCG(8, 8))}
	n.Output("y", body(n, n.Input("x", onnx.Shape{onnx.Batch, 3, 8, 8})))
	must.Do(t, n.Err())
	must.Do(t, n.G.Verify())
	return n.G
}

// networks are bodies that also return their boundaries and, if they should be checked, all their cuts.
var networks = map[string]func(n network, x string) (y string, boundaries, cuts []string){
	// In a chain without joins every tensor is a cut; boundaries are the stem and the features.
	"a chain": func(n network, x string) (y string, boundaries, cuts []string) {
		stem := n.conv(x, 4, 3, 1)
		a := n.Op("Relu", stem)
		b := n.conv(a, 6, 3, 2)
		c := n.Op("Relu", b)
		p := n.Op("GlobalAveragePool", c)
		features := n.Op("Flatten", p)
		z := n.Op("Gemm", features, n.weights(6, 5), n.weights(5))
		return z, []string{stem, features}, []string{stem, a, b, c, p, features, z}
	},
	// Tensors beside the main path are not cuts: neither the scales of squeeze-excite nor the tensor that they scale,
	// because the branch also reads that before both meet.
	"a side branch": func(n network, x string) (y string, boundaries, cuts []string) {
		stem := n.conv(x, 4, 3, 1)
		open := n.Op("Relu", stem) // read by the branch and by Mul: everything passes through it
		s := n.Op("GlobalAveragePool", open)
		s = n.Op("Sigmoid", n.conv(n.Op("Relu", n.conv(s, 2, 1, 1)), 4, 1, 1))
		scaled := n.Op("Mul", open, s)
		pooled, features, logits := n.classify(scaled)
		return logits, []string{stem, features}, []string{stem, open, scaled, pooled, features, logits}
	},
	// Inside a residual block there is no cut, with an identity shortcut or a projection. The boundary is the join, or
	// its activation if nothing else reads the join.
	"shortcuts": func(n network, x string) (y string, boundaries, cuts []string) {
		stem := n.conv(x, 4, 3, 1)
		open := n.Op("Relu", stem)
		inner := n.conv(n.Op("Relu", n.conv(open, 4, 3, 1)), 4, 3, 1)
		join := n.Op("Add", inner, open)
		first := n.Op("Relu", join)
		inner = n.conv(n.Op("Relu", n.conv(first, 8, 3, 2)), 8, 3, 1)
		second := n.Op("Add", inner, n.conv(first, 8, 1, 2)) // no activation
		pooled, features, logits := n.classify(second)
		return logits, []string{stem, first, second, features},
			[]string{stem, open, join, first, second, pooled, features, logits}
	},
	// A join that other nodes than its activation read is a boundary itself.
	"pre-activation": func(n network, x string) (y string, boundaries, cuts []string) {
		stem := n.conv(x, 4, 3, 1)
		join := n.Op("Add", n.conv(n.Op("Relu", stem), 4, 3, 1), stem)
		last := n.Op("Add", n.conv(n.Op("Relu", join), 4, 3, 1), join)
		_, features, logits := n.classify(last)
		return logits, []string{stem, join, last, features}, nil
	},
	// A bias added by an Add of its own is no residual join.
	"an Add of a constant": func(n network, x string) (y string, boundaries, cuts []string) {
		stem := n.conv(x, 4, 3, 1)
		_, features, logits := n.classify(n.Op("Add", stem, n.weights(4, 1, 1)))
		return logits, []string{stem, features}, nil
	},
	// MatMul ends a network as Gemm does; a Gemm before it is not the last.
	"the last is a MatMul": func(n network, x string) (y string, boundaries, cuts []string) {
		hidden := n.Op("Relu", n.Op("Gemm", n.Op("Flatten", x), n.weights(192, 7), n.weights(7)))
		return n.Op("Add", n.Op("MatMul", hidden, n.weights(7, 5)), n.weights(5)), []string{hidden}, nil
	},
	// Fully convolutional: no features enter a matrix.
	"without Gemm": func(n network, x string) (y string, boundaries, cuts []string) {
		stem := n.conv(x, 4, 3, 1)
		y = n.Op("Flatten", n.Op("GlobalAveragePool", n.conv(n.Op("Relu", stem), 5, 1, 1)))
		return y, []string{stem}, nil
	},
	// EfficientNet's blocks end at the join if they have a shortcut, otherwise at the linear projection, whether its
	// normalisation is folded or not.
	"linear bottlenecks": func(n network, x string) (y string, boundaries, cuts []string) {
		stem := n.conv(x, 4, 3, 1)
		a := n.mobile(n.Op("Mul", stem, n.Op("Sigmoid", stem)), 4, 1, false)
		b := n.mobile(a, 4, 1, true)
		c := n.mobile(b, 6, 2, false)
		positive := func() string { return n.Const(onnx.FloatTensor(onnx.Shape{6}, []float32{1, 2, 1, 2, 1, 2})) }
		d := n.Op("BatchNormalization", n.mobile(c, 6, 1, false), positive(), positive(), positive(), positive())
		e := n.mobile(d, 6, 1, true)
		head := n.conv(e, 8, 1, 1)
		_, features, logits := n.classify(n.Op("Mul", head, n.Op("Sigmoid", head)))
		return logits, []string{stem, a, b, c, d, e, features}, nil
	},
}

// Boundaries and cuts are found by structure, and cutting at either composes to the network.
func TestCuts(t *testing.T) {
	for name, body := range networks {
		t.Run(name, func(t *testing.T) {
			var boundaries, cuts []string
			g := build(t, func(n network, x string) (y string) {
				y, boundaries, cuts = body(n, x)
				return y
			})
			if got := Boundaries(g); !slices.Equal(got, boundaries) {
				t.Errorf("boundaries %q, want %q", got, boundaries)
			}
			composes(t, g, boundaries)
			if got := Cuts(g); cuts != nil && !slices.Equal(got, cuts) {
				t.Errorf("cuts %q, want %q", got, cuts)
			}
			composes(t, g, cuts)
			if last, err := Last(g); name == "without Gemm" {
				must.Refuse(t, err, "no final Gemm or MatMul")
			} else if err != nil || last != boundaries[len(boundaries)-1] {
				t.Errorf("last %q, %v", last, err)
			}
		})
	}
}

func TestAtErrors(t *testing.T) {
	var inside, stem, features string
	g := build(t, func(n network, x string) string {
		stem = n.conv(x, 4, 3, 1)
		inside = n.Op("Relu", stem)
		_, f, logits := n.classify(n.Op("Add", n.conv(inside, 4, 3, 1), stem))
		features = f
		return logits
	})
	for name, c := range map[string]struct {
		at   []string
		want string
	}{
		"inside a block": {[]string{inside}, `"` + inside + `" is not a tensor at which the network can be cut`},
		"unknown":        {[]string{stem, "nowhere"}, `"nowhere" is not a tensor at which the network can be cut`},
		"the input":      {[]string{"x"}, `"x" is not a tensor at which the network can be cut`},
		"the output":     {[]string{"y"}, `"y" is not a tensor at which the network can be cut`},
		"a constant":     {[]string{"const"}, `"const" is not a tensor at which the network can be cut`},
		"empty":          {[]string{""}, `"" is not a tensor at which the network can be cut`},
		"out of order":   {[]string{features, stem}, `boundary "` + stem + `" is out of order or named twice`},
		"twice":          {[]string{stem, stem}, `boundary "` + stem + `" is out of order or named twice`},
	} {
		segments, err := At(g, c.at)
		if err == nil || segments != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if err != nil && strings.Contains(c.want, "not a tensor") && !strings.Contains(err.Error(), stem) {
			t.Errorf("%s: %v does not name the cut tensors", name, err)
		}
	}
}

// Cutting does not change the network.
func TestAtKeepsTheNetwork(t *testing.T) {
	g := zoo(t, "preact_standard.onnx")
	before := must.Get(g.Encode())(t)
	segments := must.Get(At(g, Boundaries(g)))(t)
	for _, s := range segments {
		for _, n := range s.Nodes {
			n.Op, n.Inputs[0] = "Changed", "changed"
		}
	}
	after := must.Get(g.Encode())(t)
	if !slices.Equal(before, after) {
		t.Error("changing a segment changed the network")
	}
}

// Many segments take a time and memory in proportion to the network, not to each segment.
func TestManySegments(t *testing.T) {
	const joints = 3000
	g := build(t, func(n network, x string) string {
		for range joints {
			x = n.Op("Add", x, x)
		}
		return n.Op("Neg", x)
	})
	before := must.Allocated()
	segments := must.Get(At(g, Boundaries(g)))(t)
	if used := must.Allocated() - before; len(segments) != joints+1 || used > 256<<20 {
		t.Errorf("%d segments take %d MiB", len(segments), used>>20)
	}
}

// mobile is a block of EfficientNet: expansion, depthwise convolution, squeeze-excite and a linear projection, with a
// shortcut if skip is set and the shapes allow one.
func (n network) mobile(x string, out, stride int64, skip bool) string {
	silu := func(t string) string { return n.Op("Mul", t, n.Op("Sigmoid", t)) }
	wide := 2 * n.Shape(x)[1]
	h := silu(n.conv(x, wide, 1, 1))
	h = silu(n.convOf(h, n.weights(wide, 1, 3, 3), stride, wide))
	gate := silu(n.conv(n.Op("GlobalAveragePool", h), 2, 1, 1))
	h = n.Op("Mul", n.Op("Sigmoid", n.conv(gate, wide, 1, 1)), h)
	h = n.conv(h, out, 1, 1)
	if skip {
		return n.Op("Add", h, x)
	}
	return h
}
