package split

import (
	"slices"
	"testing"

	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
)

func load(t *testing.T, name string) *onnx.Graph {
	g, _, err := simplify.Load(testinput.Real(t, name), []float32{0.5}, []float32{0.25})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestBoundariesOfRealNetworks(t *testing.T) {
	if got, want := Boundaries(load(t, "resnet_2b.onnx")), []string{"17", "24", "29", "32"}; !slices.Equal(got, want) {
		t.Errorf("ResNet-2B: %q, want %q (stem, two joins' activations, final Gemm's input)", got, want)
	}
	g := load(t, "rn18w16_standard.onnx")
	got := Boundaries(g)
	if len(got) != 10 { // stem, eight joins, pooled features
		t.Errorf("ResNet-18: %d boundaries %q, want 10", len(got), got)
	}
	segments, err := At(g, got)
	if err != nil {
		t.Fatal(err)
	}
	var params, flops int64
	for _, s := range segments {
		params += s.Parameters()
		flops += s.FLOPs()
	}
	if params != g.Parameters() || flops != g.FLOPs() {
		t.Errorf("segments hold %d parameters and %d FLOPs, the network %d and %d", params, flops, g.Parameters(), g.FLOPs())
	}
}

// A block of EfficientNet: expansion, depthwise convolution, squeeze-excite and a
// linear projection; with its shortcut where the shapes allow one.
func (n network) mobile(x string, out, stride int64, skip bool) string {
	silu := func(t string) string { return n.Op("Mul", t, n.Op("Sigmoid", t)) }
	wide := 2 * n.Shape(x)[1]
	h := silu(n.conv(x, wide, 1, 1))
	h = silu(n.OpWith("Conv", onnx.Attrs{"group": wide, "kernel_shape": []int64{3, 3}, "pads": []int64{1, 1, 1, 1}, "strides": []int64{stride, stride}},
		h, n.weights(wide, 1, 3, 3), n.weights(wide)))
	gate := silu(n.conv(n.Op("GlobalAveragePool", h), 2, 1, 1))
	h = n.Op("Mul", n.Op("Sigmoid", n.conv(gate, wide, 1, 1)), h)
	h = n.conv(h, out, 1, 1)
	if skip {
		return n.Op("Add", h, x)
	}
	return h
}

// EfficientNet's blocks end at the join where they have a shortcut and at the
// linear projection where not, whether its normalisation is folded or not.
func TestLinearBottlenecks(t *testing.T) {
	var stem, features string
	var ends []string
	g := build(t, func(n network, x string) string {
		stem = n.conv(x, 4, 3, 1)
		a := n.mobile(n.Op("Mul", stem, n.Op("Sigmoid", stem)), 4, 1, false)
		b := n.mobile(a, 4, 1, true)
		c := n.mobile(b, 6, 2, false)
		positive := func() string { return n.Const(onnx.FloatTensor(onnx.Shape{6}, []float32{1, 2, 1, 2, 1, 2})) }
		d := n.Op("BatchNormalization", n.mobile(c, 6, 1, false), positive(), positive(), positive(), positive())
		e := n.mobile(d, 6, 1, true)
		ends = []string{a, b, c, d, e}
		head := n.conv(e, 8, 1, 1)
		var logits string
		features, logits = n.classify(n.Op("Mul", head, n.Op("Sigmoid", head)))
		return logits
	})
	same(t, "boundaries", Boundaries(g), append(append([]string{stem}, ends...), features)...)
	composes(t, g, Boundaries(g))
}
