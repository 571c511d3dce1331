package split

import (
	"testing"

	"selfheal/models/onnx"
)

// A block of EfficientNet: expansion, depthwise convolution, squeeze-excite and a
// linear projection; with its shortcut where the shapes allow one.
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
