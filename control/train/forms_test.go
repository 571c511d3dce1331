package train

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/grad/gradtest"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// A convolution computes the same in each form.
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
		{"Conv", 6, 2, []int64{20, 20}, 3, onnx.Attrs{"pads": []int64{2, 2, 2, 2}, "dilations": []int64{2, 2}}, false,
			"ConvTranspose"},
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
		{"ConvTranspose", 2, 6, []int64{20, 20}, 3, onnx.Attrs{"pads": []int64{0, 1, 2, 1}, "dilations": []int64{1, 2}},
			false, "Conv"},
		{"ConvTranspose", 6, 6, []int64{5, 4}, 3, nil, false, "Conv"},
		{"ConvTranspose", 6, 2, []int64{20, 20}, 3, onnx.Attrs{"pads": []int64{1, 1, 1, 1}}, false, "ConvTranspose"},
		{"ConvTranspose", 2, 6, []int64{20, 20}, 3,
			onnx.Attrs{"strides": []int64{2, 2}, "output_padding": []int64{1, 1}}, false, "ConvTranspose"},
	} {
		name := fmt.Sprintf("%+v", c)
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
			r := gradtest.Rand(name, "values")
			b := &onnx.Builder{G: onnx.NewGraph("conv")}
			in := []ort.Tensor{{Shape: append([]int64{2}, x[1:]...), Data: gradtest.Vector(r, 2*int(x.Items()))}}
			names := []string{b.Input("x", x), "w", "b"}
			weight, bias := onnx.FloatTensor(shape, gradtest.Vector(r, int(shape.Items()))),
				onnx.FloatTensor(onnx.Shape{c.out}, gradtest.Vector(r, int(c.out)))
			for i, p := range []*onnx.Tensor{weight, bias} {
				if c.constant {
					names[i+1] = b.Const(p)
					continue
				}
				names[i+1] = b.Input(names[i+1], p.Shape)
				in = append(in, ort.Tensor{Shape: p.Shape, Data: p.Floats})
			}
			b.Output("y", b.OpWith(c.op, c.attrs, names...))
			y := once(t, name, b, faster, in)
			op := slices.IndexFunc(b.G.Nodes, func(n *onnx.Node) bool { return strings.HasPrefix(n.Op, "Conv") })
			return b.G.Nodes[op].Op, y
		}
		_, want := build(func(*onnx.Graph) error { return nil })
		op, got := build(func(g *onnx.Graph) error { return faster(g, false) })
		if op != c.want {
			t.Errorf("%s becomes a %s", name, op)
		}
		agree(t, name, got, want)
		// For a provider that runs convolutions fastest as they are, every node that can be is a Conv.
		op, got = build(func(g *onnx.Graph) error { return faster(g, true) })
		if transposed := c.op == "ConvTranspose" && c.want == c.op; op != "Conv" && !transposed {
			t.Errorf("%s becomes a %s instead of a Conv", name, op)
		}
		agree(t, name+", direct", got, want)
	}
}

// A step of conv-ae takes the faster forms: no map is doubled before a convolution, and a convolution with trained
// weights stays a Conv only if it may not be rewritten.
func TestStepTakesFasterForms(t *testing.T) {
	n := zoo(t, "preact_standard.onnx", 0)
	e := small(t, "conv-ae", n, 24)
	count := func(g *onnx.Graph, op string) (n int) {
		for _, node := range g.Nodes {
			if node.Op == op {
				n++
			}
		}
		return n
	}
	if n := count(e, "Resize"); n != 2 {
		t.Fatalf("conv-ae doubles %d maps: what is tested below is gone", n)
	}
	g := must.Get(lossGraph(n, []*onnx.Graph{e}, Settings{Weight: 0.1}, false))(t)
	if n := count(g, "Resize"); n != 0 {
		t.Errorf("%d maps are doubled", n)
	}
	transposed, plain := 0, 0
	for _, node := range g.Nodes {
		trains := slices.ContainsFunc(parametersOf(e), func(p string) bool { return node.Input(1) == "parameter/"+p })
		switch {
		case node.Op == "ConvTranspose" && g.Consts[node.Input(1)] == nil && !trains:
			transposed++ // of flipped weights
		case node.Op == "Conv" && trains:
			plain++
		}
	}
	// Unchanged: the first convolution, which has fewer channels in than out, and the two of stride 2.
	if transposed == 0 || plain > 3 {
		t.Errorf("%d convolutions run as transposed ones, %d as they are", transposed, plain)
	}
}

// once runs a graph after a rewriting, on some inputs, and returns its output.
func once(t *testing.T, what string, b *onnx.Builder, rewrite func(*onnx.Graph) error, in []ort.Tensor) []float32 {
	t.Helper()
	must.Do(t, b.Err())
	must.Do(t, rewrite(b.G))
	s := must.Get(ort.Open(what, must.Get(b.G.Encode())(t)))(t)
	defer s.Close()
	return must.Get(s.Run(in))(t)[0].Data
}

// agree compares values within the differences of float32 sums in another order.
func agree(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i, v := range got {
		if math.Abs(float64(v-want[i])) > 1e-4 {
			t.Fatalf("%s: value %d is %v, want %v", what, i, v, want[i])
		}
	}
}

// A convolution of a doubled map, written as four of the map itself, computes the same; others stay.
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
