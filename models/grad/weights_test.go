package grad_test

import (
	"fmt"
	"math"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/grad/gradtest"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// Every form of a convolution's weight gradient agrees with its definition.
func TestConvWeight(t *testing.T) {
	testinput.Runtime(t)
	const batch = 2
	for _, c := range []struct {
		in, out        int
		size           [2]int
		kernel         [2]int
		stride         [2]int
		dilation, pads []int
	}{
		// More channels in than out: places are read from the cotangent, all taps at once and one by one.
		{12, 3, [2]int{9, 8}, [2]int{3, 3}, [2]int{1, 1}, []int{1, 1}, []int{1, 1, 1, 1}},
		{12, 10, [2]int{9, 8}, [2]int{3, 3}, [2]int{1, 1}, []int{1, 1}, []int{1, 1, 1, 1}},
		{12, 10, [2]int{9, 8}, [2]int{3, 2}, [2]int{1, 1}, []int{1, 1}, []int{0, 1, 2, 0}},
		{12, 3, [2]int{11, 12}, [2]int{3, 3}, [2]int{1, 1}, []int{2, 1}, []int{1, 0, 4, 2}},
		{12, 3, [2]int{9, 8}, [2]int{3, 3}, [2]int{1, 1}, []int{1, 1}, []int{3, 1, 1, 1}}, // can't be swapped
		{12, 3, [2]int{9, 8}, [2]int{1, 1}, [2]int{1, 1}, []int{1, 1}, []int{0, 0, 0, 0}},
		// More out than in.
		{3, 12, [2]int{9, 8}, [2]int{3, 3}, [2]int{1, 1}, []int{1, 1}, []int{1, 1, 1, 1}},
		{9, 12, [2]int{9, 8}, [2]int{3, 3}, [2]int{1, 1}, []int{1, 1}, []int{1, 1, 1, 1}},
		// Strides: columns are picked once.
		{9, 12, [2]int{16, 16}, [2]int{3, 3}, [2]int{2, 2}, []int{1, 1}, []int{1, 1, 1, 1}},
		{9, 4, [2]int{17, 15}, [2]int{3, 4}, [2]int{2, 3}, []int{1, 1}, []int{1, 0, 0, 1}},
		{9, 4, [2]int{19, 21}, [2]int{3, 3}, [2]int{1, 2}, []int{2, 3}, []int{0, 2, 1, 3}},
		{9, 4, [2]int{16, 16}, [2]int{2, 2}, [2]int{2, 2}, []int{1, 1}, []int{0, 0, 0, 0}}, // no tap shares a column
	} {
		name := fmt.Sprintf("%+v", c)
		r := gradtest.Rand(name, "conv weight")
		var out [2]int
		for a := range 2 {
			out[a] = (c.size[a]+c.pads[a]+c.pads[a+2]-(c.kernel[a]-1)*c.dilation[a]-1)/c.stride[a] + 1
		}
		weight := onnx.Shape{int64(c.out), int64(c.in), int64(c.kernel[0]), int64(c.kernel[1])}
		b := &onnx.Builder{G: onnx.NewGraph("conv")}
		x := b.Input("input", onnx.Shape{onnx.Batch, int64(c.in), int64(c.size[0]), int64(c.size[1])})
		b.G.AddConst("w", onnx.FloatTensor(weight, gradtest.Vector(r, int(weight.Items()))))
		ints := func(v ...int) (l []int64) {
			for _, x := range v {
				l = append(l, int64(x))
			}
			return l
		}
		b.Output("y", b.OpWith("Conv", onnx.Attrs{"pads": ints(c.pads...), "strides": ints(c.stride[:]...),
			"dilations": ints(c.dilation...)}, x, "w"))
		must.Do(t, b.Err())
		g := must.Get(gradtest.ByParameters(b.G, "w"))(t)
		s := must.Get(ort.Open("conv", must.Get(g.Encode())(t)))(t)
		xs, gs := gradtest.Vector(r, batch*c.in*c.size[0]*c.size[1]), gradtest.Vector(r, batch*c.out*out[0]*out[1])
		results := must.Get(s.Run([]ort.Tensor{
			{Shape: ints(batch, c.in, c.size[0], c.size[1]), Data: xs},
			{Shape: ints(batch, c.out, out[0], out[1]), Data: gs},
			{Shape: weight, Data: b.G.Consts["w"].Floats}}))(t)
		s.Close()
		i := 0
		for o := range c.out {
			for in := range c.in {
				for ky := range c.kernel[0] {
					for kx := range c.kernel[1] {
						want := 0.0
						for n := range batch {
							for py := range out[0] {
								for px := range out[1] {
									y := py*c.stride[0] + ky*c.dilation[0] - c.pads[0]
									x := px*c.stride[1] + kx*c.dilation[1] - c.pads[1]
									if y >= 0 && y < c.size[0] && x >= 0 && x < c.size[1] {
										want += float64(gs[((n*c.out+o)*out[0]+py)*out[1]+px]) *
											float64(xs[((n*c.in+in)*c.size[0]+y)*c.size[1]+x])
									}
								}
							}
						}
						if got := float64(results[1].Data[i]); math.Abs(got-want) > 1e-4 {
							t.Fatalf("%s: the gradient at [%d %d %d %d] is %v, want %v", name, o, in, ky, kx, got, want)
						}
						i++
					}
				}
			}
		}
	}
}
