package grad

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
)

// A transposed convolution of groups by phases gives what it gives as it is; one of a single group stays.
func TestPhased(t *testing.T) {
	testinput.Runtime(t)
	for _, c := range []struct {
		channels, group, kernel, pad, size int64
		phased                             bool
	}{
		{8, 8, 3, 1, 40, true}, {8, 8, 5, 2, 35, true}, {6, 3, 3, 1, 33, true}, {8, 8, 2, 0, 34, true},
		{8, 1, 3, 1, 40, false},
	} {
		name, r := fmt.Sprintf("%+v", c), rand.New(rand.NewPCG(3, 4))
		weight := onnx.FloatTensor(onnx.Shape{c.channels, c.channels / c.group, c.kernel, c.kernel}, nil)
		for range weight.Shape.Items() {
			weight.Floats = append(weight.Floats, float32(r.NormFloat64()))
		}
		reach := c.size + 2*c.pad - c.kernel
		rest := reach % 2
		b := &onnx.Builder{G: onnx.NewGraph("test")}
		g := b.Input("g", onnx.Shape{onnx.Batch, c.channels, reach/2 + 1, reach/2 + 1})
		b.Output("x", b.Op("Neg", b.OpWith("ConvTranspose", onnx.Attrs{"group": c.group, "strides": []int64{2, 2},
			"pads": slices.Repeat([]int64{c.pad}, 4), "kernel_shape": []int64{c.kernel, c.kernel},
			"output_padding": []int64{rest, rest}}, g, b.Const(weight))))
		must.Do(t, b.Err())
		phased := must.Get(Phased(b.G))(t)
		if slices.ContainsFunc(phased.Nodes, func(n *onnx.Node) bool { return n.Op == "ConvTranspose" }) == c.phased {
			t.Fatalf("%s: phased wrongly", name)
		}
		at := onnxtest.Ramp(b.Shape(g).Items())
		want, got := onnxtest.Run(t, b.G, at), onnxtest.Run(t, phased, at)
		for i, v := range want {
			if math.Abs(float64(v-got[i])) > 1e-5 {
				t.Fatalf("%s: value %d is %v, not %v", name, i, got[i], v)
			}
		}
	}
}
