package train

import (
	"fmt"
	"slices"
	"testing"

	"selfheal/models/grad/gradtest"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// A convolution of a doubled map, written as four of the map itself, computes the same;
// others stay.
func TestDoubled(t *testing.T) {
	plain := onnx.Attrs{"pads": []int64{1, 1, 1, 1}}
	for _, c := range []struct {
		in, out, height, width, kernel int64
		resize, conv                   onnx.Attrs
		scale                          float32
		bias, constant, want           bool
	}{
		{in: 3, out: 5, height: 8, width: 9, kernel: 3, conv: plain, scale: 2, bias: true, want: true},
		{in: 4, out: 1, height: 11, width: 6, kernel: 3, conv: onnx.Attrs{"auto_pad": "SAME_UPPER"}, scale: 2,
			want: true},
		{in: 3, out: 5, height: 8, width: 7, kernel: 3, conv: plain, scale: 2}, // too small to pay
		{in: 3, out: 5, height: 8, width: 8, kernel: 3, conv: plain, scale: 3}, // tripled
		{in: 3, out: 5, height: 8, width: 8, kernel: 3, scale: 2},              // no border
		{in: 3, out: 5, height: 8, width: 8, kernel: 1, scale: 2},              // one tap
		{in: 4, out: 4, height: 8, width: 8, kernel: 3, conv: onnx.Attrs{"pads": []int64{1, 1, 1, 1}, "group": 2},
			scale: 2},
		{in: 3, out: 5, height: 8, width: 8, kernel: 3, conv: onnx.Attrs{"pads": []int64{1, 1, 1, 1},
			"strides": []int64{2, 2}}, scale: 2},
		{in: 3, out: 5, height: 8, width: 8, kernel: 3, conv: plain, scale: 2, constant: true},
		{in: 3, out: 5, height: 8, width: 8, kernel: 3, conv: plain, scale: 2,
			resize: onnx.Attrs{"mode": "linear", "coordinate_transformation_mode": "asymmetric"}},
		{in: 3, out: 5, height: 8, width: 8, kernel: 3, conv: plain, scale: 2,
			resize: onnx.Attrs{"nearest_mode": "ceil", "coordinate_transformation_mode": "asymmetric"}},
	} {
		name := fmt.Sprintf("%+v", c)
		if c.resize == nil {
			c.resize = onnx.Attrs{"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
				"nearest_mode": "floor"}
		}
		group := int64(1)
		if g, ok := c.conv["group"]; ok {
			group = int64(g.(int))
		}
		run := func(rewrite func(*onnx.Graph) error) ([]float32, bool) {
			r := gradtest.Rand(name, "doubled")
			b := &onnx.Builder{G: onnx.NewGraph("doubled")}
			x := onnx.Shape{onnx.Batch, c.in, c.height, c.width}
			in := []ort.Tensor{{Shape: []int64{2, c.in, c.height, c.width}, Data: gradtest.Vector(r, 2*int(x.Items()))}}
			up := b.OpWith("Resize", c.resize, b.Input("x", x), "",
				b.Const(onnx.FloatTensor(onnx.Shape{4}, []float32{1, 1, c.scale, c.scale})))
			names := []string{up}
			shapes := []onnx.Shape{{c.out, c.in / group, c.kernel, c.kernel}, {c.out}}
			if !c.bias {
				shapes = shapes[:1]
			}
			for i, s := range shapes {
				p := onnx.FloatTensor(s, gradtest.Vector(r, int(s.Items())))
				if c.constant {
					names = append(names, b.Const(p))
					continue
				}
				names = append(names, b.Input(fmt.Sprintf("p%d", i), s))
				in = append(in, ort.Tensor{Shape: s, Data: p.Floats})
			}
			b.Output("y", b.OpWith("Conv", c.conv, names...))
			return once(t, name, b, rewrite, in),
				!slices.ContainsFunc(b.G.Nodes, func(n *onnx.Node) bool { return n.Op == "Resize" })
		}
		want, _ := run(func(*onnx.Graph) error { return nil })
		got, rewritten := run(doubled)
		if rewritten != c.want {
			t.Errorf("%s: rewritten is %v", name, rewritten)
		}
		agree(t, name, got, want)
	}
}
