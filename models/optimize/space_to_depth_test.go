package optimize

import (
	"math/rand/v2"
	"slices"
	"testing"

	"selfheal/models/onnx"
)

// packing are networks whose narrow states can be packed, or for a stated reason not;
// each takes images [N 3 h w].
var packing = map[string]struct {
	h, w   int64
	packed int // states
	body   func(n network, x string) string
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
		return n.classify(n.OpWith("Conv", onnx.Attrs{"group": 2, "strides": []int64{2, 2}}, n.conv(x, 8, 3, 1), n.weights(12, 4, 2, 2)))
	}},
	"dilations": {16, 16, 0, func(n network, x string) string {
		return n.classify(n.OpWith("Conv", onnx.Attrs{"dilations": []int64{2, 2}, "strides": []int64{2, 2}}, n.conv(x, 8, 3, 1), n.weights(12, 8, 2, 2)))
	}},
	"a constant of every place": {16, 16, 0, func(n network, x string) string {
		return n.classify(n.conv(n.Op("Add", n.conv(x, 8, 3, 1), n.weights(16, 16)), 12, 3, 2))
	}},
	"two states": {16, 16, 0, func(n network, x string) string {
		return n.classify(n.conv(n.Op("Mul", n.conv(x, 8, 3, 1), n.conv(x, 8, 3, 1)), 12, 3, 2))
	}},
}

// A packed network computes the same, and its derived gradient too; what can't be
// packed stays.
func TestPack(t *testing.T) {
	for name, c := range packing {
		t.Run(name, func(t *testing.T) {
			n := network{&onnx.Builder{G: onnx.NewGraph(name)}, rand.New(rand.NewPCG(3, 3))}
			n.Output("y", c.body(n, n.Input("x", onnx.Shape{onnx.Batch, 3, c.h, c.w})))
			if err := n.Err(); err != nil {
				t.Fatal(err)
			}
			fast := n.G.Clone()
			pack(fast, 16)
			states := 0
			for tensor, s := range n.G.Shapes {
				if after := fast.Shapes[tensor]; len(s) == 4 && after[1] == 4*s[1] && after[2]*2 == s[2] && after[3]*2 == s[3] {
					states++
				}
			}
			if states != c.packed {
				t.Fatalf("%d states were packed, want %d", states, c.packed)
			}
			if err := fast.Verify(); err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(7, 7))
			x, w := random(r, 3, n.G.Inputs[0].Shape), random(r, 3, n.G.Outputs[0].Shape)
			want, got := batch(t, derive(t, n.G), 3, x, w), batch(t, derive(t, fast), 3, x, w)
			for i := range want {
				for k := range want[i] {
					if d := difference(got[i][k], want[i][k]); !(d <= 2e-6) {
						t.Errorf("item %d, output %d: differs by %.2g", i, k, d)
					}
				}
			}
		})
	}
}

// A state that is an output stays as it is.
func TestPackKeepsOutputs(t *testing.T) {
	n := network{&onnx.Builder{G: onnx.NewGraph("output")}, rand.New(rand.NewPCG(3, 3))}
	a := n.smooth(n.conv(n.Input("x", onnx.Shape{onnx.Batch, 3, 8, 8}), 8, 3, 1))
	n.Output("y", n.classify(n.conv(a, 12, 3, 2)))
	n.G.Outputs = append(n.G.Outputs, onnx.Value{Name: a, DType: onnx.Float, Shape: n.Shape(a)})
	fast := n.G.Clone()
	pack(fast, 16)
	for name, s := range n.G.Shapes {
		if after := fast.Shapes[name]; !slices.Equal(after, s) {
			t.Errorf("%s is %v, was %v", name, after, s)
		}
	}
}
