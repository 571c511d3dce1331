package gradtest_test

import (
	"fmt"
	"math"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/grad/gradtest"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// A convolution is linear in its weight. In every form of the weight's gradient, its product with another weight
// therefore equals the product of the cotangent with that weight's output.
func TestConvWeight(t *testing.T) {
	const batch = 2
	for _, c := range []struct {
		in, out              int64
		size, kernel, stride []int64
		dilation, pads       []int64
	}{
		// More channels in than out: places are read from the cotangent, all taps at once and one by one.
		{12, 3, []int64{9, 8}, []int64{3, 3}, []int64{1, 1}, []int64{1, 1}, []int64{1, 1, 1, 1}},
		{12, 10, []int64{9, 8}, []int64{3, 3}, []int64{1, 1}, []int64{1, 1}, []int64{1, 1, 1, 1}},
		{12, 10, []int64{9, 8}, []int64{3, 2}, []int64{1, 1}, []int64{1, 1}, []int64{0, 1, 2, 0}},
		{12, 3, []int64{11, 12}, []int64{3, 3}, []int64{1, 1}, []int64{2, 1}, []int64{1, 0, 4, 2}},
		{12, 3, []int64{9, 8}, []int64{3, 3}, []int64{1, 1}, []int64{1, 1}, []int64{3, 1, 1, 1}}, // can't be swapped
		{12, 3, []int64{9, 8}, []int64{1, 1}, []int64{1, 1}, []int64{1, 1}, []int64{0, 0, 0, 0}},
		// More out than in.
		{3, 12, []int64{9, 8}, []int64{3, 3}, []int64{1, 1}, []int64{1, 1}, []int64{1, 1, 1, 1}},
		{9, 12, []int64{9, 8}, []int64{3, 3}, []int64{1, 1}, []int64{1, 1}, []int64{1, 1, 1, 1}},
		// Strides: columns are picked once.
		{9, 12, []int64{16, 16}, []int64{3, 3}, []int64{2, 2}, []int64{1, 1}, []int64{1, 1, 1, 1}},
		{9, 4, []int64{17, 15}, []int64{3, 4}, []int64{2, 3}, []int64{1, 1}, []int64{1, 0, 0, 1}},
		{9, 4, []int64{19, 21}, []int64{3, 3}, []int64{1, 2}, []int64{2, 3}, []int64{0, 2, 1, 3}},
		{9, 4, []int64{17, 15}, []int64{1, 1}, []int64{2, 2}, []int64{1, 1}, []int64{0, 0, 0, 0}}, // to the last column
		{9, 4, []int64{16, 16}, []int64{2, 2}, []int64{2, 2}, []int64{1, 1}, []int64{0, 0, 0, 0}}, // no shared column
	} {
		name := fmt.Sprintf("%+v", c)
		r := gradtest.Rand(name, "conv weight")
		tensor := func(shape ...int64) ort.Tensor {
			return ort.Tensor{Shape: shape, Data: gradtest.Vector(r, int(onnx.Shape(shape).Items()))}
		}
		b := &onnx.Builder{G: onnx.NewGraph("conv")}
		x := b.Input("input", onnx.Shape{onnx.Batch, c.in, c.size[0], c.size[1]})
		w := tensor(c.out, c.in, c.kernel[0], c.kernel[1])
		b.G.AddConst("w", onnx.FloatTensor(w.Shape, w.Data))
		y := b.OpWith("Conv", onnx.Attrs{"pads": c.pads, "strides": c.stride, "dilations": c.dilation}, x, "w")
		b.Output("y", y)
		must.Do(t, b.Err())
		s := open(t, must.Get(byParameters(b.G, "w"))(t))
		in := []ort.Tensor{tensor(concrete(b.Shape(x), batch)...), tensor(concrete(b.Shape(y), batch)...), w}
		gradient := values(t, s, in)[1]
		for range 3 {
			in[2] = tensor(w.Shape...)
			got, want := dot(gradient, in[2].Data), dot(in[1].Data, values(t, s, in)[0])
			if !(math.Abs(got-want) <= 1e-3) {
				t.Errorf("%s: the product with a weight is %v, not %v", name, got, want)
			}
		}
	}
}
