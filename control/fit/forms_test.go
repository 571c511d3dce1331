package fit

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"selfheal/models/grad/gradtest"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// Whatever form a convolution gets, it computes the same.
func TestFaster(t *testing.T) {
	for _, c := range []struct {
		op       string
		in, out  int64
		size     []int64
		kernel   int64
		attrs    onnx.Attrs
		constant bool
		want     string
	}{
		{"Conv", 6, 2, []int64{20, 20}, 3, onnx.Attrs{"pads": []int64{1, 1, 1, 1}}, false, "ConvTranspose"},
		{"Conv", 6, 2, []int64{20, 18}, 3, onnx.Attrs{"pads": []int64{0, 1, 2, 1}}, false, "ConvTranspose"},
		{"Conv", 6, 2, []int64{20, 20}, 3, onnx.Attrs{"pads": []int64{2, 2, 2, 2}, "dilations": []int64{2, 2}}, false, "ConvTranspose"},
		{"Conv", 6, 2, []int64{300}, 5, onnx.Attrs{"pads": []int64{2, 2}}, false, "ConvTranspose"},
		{"Conv", 6, 2, []int64{20, 20}, 5, onnx.Attrs{"auto_pad": "SAME_UPPER"}, false, "ConvTranspose"},
		{"Conv", 2, 2, []int64{32, 32}, 3, onnx.Attrs{"pads": []int64{1, 1, 1, 1}}, false, "ConvTranspose"},
		{"Conv", 2, 2, []int64{20, 20}, 3, onnx.Attrs{"pads": []int64{1, 1, 1, 1}}, false, "Conv"}, // neither is faster
		{"Conv", 2, 6, []int64{32, 32}, 3, onnx.Attrs{"pads": []int64{1, 1, 1, 1}}, false, "Conv"}, // more channels out
		{"Conv", 6, 2, []int64{8, 8}, 3, onnx.Attrs{"pads": []int64{1, 1, 1, 1}}, false, "Conv"},   // a small map
		{"Conv", 6, 2, []int64{40, 40}, 3, onnx.Attrs{"strides": []int64{2, 2}}, false, "Conv"},    // a stride
		{"Conv", 6, 2, []int64{20, 20}, 3, onnx.Attrs{"group": 2}, false, "Conv"},                  // groups
		{"Conv", 6, 2, []int64{20, 20}, 3, onnx.Attrs{"pads": []int64{3, 3, 3, 3}}, false, "Conv"}, // it would crop
		{"Conv", 6, 2, []int64{20, 20}, 3, onnx.Attrs{"pads": []int64{1, 1, 1, 1}}, true, "Conv"},  // the fast kernel
		{"Conv", 6, 2, []int64{20, 20}, 1, nil, false, "Conv"},                                     // one tap
		{"ConvTranspose", 2, 6, []int64{20, 20}, 3, onnx.Attrs{"pads": []int64{1, 1, 1, 1}}, false, "Conv"},
		{"ConvTranspose", 2, 6, []int64{20, 20}, 3, onnx.Attrs{"pads": []int64{0, 1, 2, 1}, "dilations": []int64{1, 2}}, false, "Conv"},
		{"ConvTranspose", 6, 6, []int64{5, 4}, 3, nil, false, "Conv"},
		{"ConvTranspose", 6, 2, []int64{20, 20}, 3, onnx.Attrs{"pads": []int64{1, 1, 1, 1}}, false, "ConvTranspose"},
		{"ConvTranspose", 2, 6, []int64{20, 20}, 3, onnx.Attrs{"strides": []int64{2, 2}, "output_padding": []int64{1, 1}}, false, "ConvTranspose"},
	} {
		shape := onnx.Shape{c.out, c.in}
		if c.op == "ConvTranspose" {
			shape = onnx.Shape{c.in, c.out}
		}
		if group, ok := c.attrs["group"]; ok {
			shape[1] /= int64(group.(int))
		}
		for range c.size {
			shape = append(shape, c.kernel)
		}
		x := onnx.Shape(append([]int64{onnx.Batch, c.in}, c.size...))
		build := func(faster func(*onnx.Graph) error) (string, []float32) {
			r := gradtest.Rand(fmt.Sprint(c), "values")
			b := &onnx.Builder{G: onnx.NewGraph("conv")}
			in := []ort.Tensor{{Shape: append([]int64{2}, x[1:]...), Data: gradtest.Vector(r, 2*int(x.Items()))}}
			names := []string{b.Input("x", x), "w", "b"}
			weight, bias := onnx.FloatTensor(shape, gradtest.Vector(r, int(shape.Items()))), onnx.FloatTensor(onnx.Shape{c.out}, gradtest.Vector(r, int(c.out)))
			for i, p := range []*onnx.Tensor{weight, bias} {
				if c.constant {
					names[i+1] = b.Const(p)
					continue
				}
				names[i+1] = b.Input(names[i+1], p.Shape)
				in = append(in, ort.Tensor{Shape: p.Shape, Data: p.Floats})
			}
			b.Output("y", b.OpWith(c.op, c.attrs, names...))
			if err := b.Err(); err != nil {
				t.Fatalf("%+v: %v", c, err)
			}
			if err := faster(b.G); err != nil {
				t.Fatalf("%+v: %v", c, err)
			}
			data, err := b.G.Encode()
			if err != nil {
				t.Fatalf("%+v: %v", c, err)
			}
			s, err := ort.Open("conv", data)
			if err != nil {
				t.Fatalf("%+v: %v", c, err)
			}
			defer s.Close()
			out, err := s.Run(in)
			if err != nil {
				t.Fatalf("%+v: %v", c, err)
			}
			op := slices.IndexFunc(b.G.Nodes, func(n *onnx.Node) bool { return n.Op == "Conv" || n.Op == "ConvTranspose" })
			return b.G.Nodes[op].Op, out[0].Data
		}
		_, want := build(func(*onnx.Graph) error { return nil })
		op, got := build(faster)
		if op != c.want {
			t.Errorf("%+v becomes a %s", c, op)
		}
		if len(got) != len(want) {
			t.Fatalf("%+v: %d values, want %d", c, len(got), len(want))
		}
		for i, v := range got {
			if math.Abs(float64(v-want[i])) > 1e-4 {
				t.Fatalf("%+v: value %d is %v, want %v", c, i, v, want[i])
			}
		}
	}
}
