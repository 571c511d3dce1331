package optimize

import (
	"maps"
	"slices"
	"testing"

	"selfheal/models/onnx"
)

// narrow are networks whose states with few channels can become depth, or can't for the reason in the name; each takes
// images [N 3 h w].
var narrow = map[string]struct {
	h, w  int64
	depth int // number of states that become depth
	body  func(n network, x string) string
}{
	"strided stem, residual block": {32, 32, 2, func(n network, x string) string {
		a := n.smooth(n.conv(x, 8, 3, 2))
		b := n.conv(n.smooth(n.conv(a, 16, 3, 2)), 16, 3, 1)
		return n.classify(n.Op("Add", b, n.conv(a, 16, 1, 2, 0, 0, 0, 0)))
	}},
	"oblong, asymmetric": {19, 26, 1, func(n network, x string) string {
		return n.classify(n.conv(n.conv(x, 5, 3, 1, 0, 1, 1, 1), 12, 5, 2, 2, 1, 1, 2))
	}},
	"no padding": {21, 17, 1, func(n network, x string) string {
		return n.classify(n.conv(n.conv(x, 4, 4, 1, 0, 0, 0, 0), 12, 2, 2, 0, 0, 0, 0))
	}},
	"more padding than the kernel": {12, 12, 1, func(n network, x string) string {
		return n.classify(n.conv(n.conv(x, 6, 3, 1), 12, 3, 2, 3, 3, 3, 3))
	}},
	"a third of the places": {48, 36, 2, func(n network, x string) string {
		return n.classify(n.conv(n.smooth(n.conv(x, 8, 5, 3, 2, 2, 2, 2)), 12, 7, 2))
	}},
	"value by value": {16, 16, 6, func(n network, x string) string {
		a := n.OpWith("LeakyRelu", onnx.Attrs{"alpha": float32(0.3)}, n.conv(x, 8, 3, 1))
		b := n.Op("Clip", n.Op("Mul", a, n.Float(1.5)), n.Float(-20), n.Float(30))
		c := n.Op("Sigmoid", n.Op("Neg", a))
		return n.classify(n.Op("Add", n.conv(b, 12, 3, 2), n.conv(c, 12, 3, 2)))
	}},
	"one after the other": {32, 32, 2, func(n network, x string) string {
		a := n.conv(x, 4, 3, 1)
		return n.classify(n.conv(n.conv(a, 4, 3, 2), 12, 3, 2))
	}},
	"1×1 in front": {16, 16, 0, func(n network, x string) string { // four times the multiplications
		return n.classify(n.conv(n.conv(x, 8, 1, 1, 0, 0, 0, 0), 12, 3, 2))
	}},
	"more than half a block of channels": {16, 16, 0, func(n network, x string) string {
		return n.classify(n.conv(n.conv(x, 9, 3, 1), 12, 3, 2))
	}},
	"odd": {15, 16, 0, func(n network, x string) string {
		return n.classify(n.conv(n.conv(x, 8, 3, 1), 12, 3, 2))
	}},
	"stride 1 behind": {16, 16, 0, func(n network, x string) string {
		a := n.conv(x, 8, 3, 1)
		return n.classify(n.Op("Add", n.conv(a, 12, 3, 2), n.conv(a, 12, 9, 1, 0, 0, 0, 0)))
	}},
	"groups": {16, 16, 0, func(n network, x string) string {
		groups := onnx.Attrs{"group": 2, "strides": []int64{2, 2}}
		return n.classify(n.OpWith("Conv", groups, n.conv(x, 8, 3, 1), n.weights(12, 4, 2, 2)))
	}},
	"dilations": {16, 16, 0, func(n network, x string) string {
		dilated := onnx.Attrs{"dilations": []int64{2, 2}, "strides": []int64{2, 2}}
		return n.classify(n.OpWith("Conv", dilated, n.conv(x, 8, 3, 1), n.weights(12, 8, 2, 2)))
	}},
	"a constant of every place": {16, 16, 0, func(n network, x string) string {
		return n.classify(n.conv(n.Op("Add", n.conv(x, 8, 3, 1), n.weights(16, 16)), 12, 3, 2))
	}},
	"two states": {16, 16, 0, func(n network, x string) string {
		return n.classify(n.conv(n.Op("Mul", n.conv(x, 8, 3, 1), n.conv(x, 8, 3, 1)), 12, 3, 2))
	}},
}

// A network with states as depth computes the same, and its derived gradient too; other networks stay.
func TestSpaceToDepth(t *testing.T) {
	for name, c := range narrow {
		t.Run(name, func(t *testing.T) {
			g := grow(t, 3, onnx.Shape{onnx.Batch, 3, c.h, c.w}, c.body)
			fast := g.Clone()
			spaceToDepth(fast, 16)
			states := 0
			for tensor, s := range g.Shapes {
				if len(s) == 4 && slices.Equal(fast.Shapes[tensor], onnx.Shape{s[0], 4 * s[1], s[2] / 2, s[3] / 2}) {
					states++
				}
			}
			if states != c.depth {
				t.Fatalf("%d states became depth, want %d", states, c.depth)
			}
			near(t, gradients(t, fast, 3), gradients(t, g, 3), 2e-6)
		})
	}
}

// A state that is an output stays as it is.
func TestOutputIsNoDepth(t *testing.T) {
	state := ""
	g := grow(t, 3, onnx.Shape{onnx.Batch, 3, 8, 8}, func(n network, x string) string {
		state = n.smooth(n.conv(x, 8, 3, 1))
		return n.classify(n.conv(state, 12, 3, 2))
	})
	g.Outputs = append(g.Outputs, onnx.Value{Name: state, DType: onnx.Float, Shape: g.Shapes[state]})
	fast := g.Clone()
	spaceToDepth(fast, 16)
	if !maps.EqualFunc(g.Shapes, fast.Shapes, slices.Equal[onnx.Shape]) {
		t.Error("a shape has changed")
	}
}
