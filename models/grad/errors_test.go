package grad_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/grad"
	"selfheal/models/onnx"
)

// A network that can't be differentiated is an error that says why, on one line;
// operators without a rule are named together.
func TestBackwardErrors(t *testing.T) {
	image := onnx.Shape{onnx.Batch, 2, 4, 4}
	ones := func(shape ...int64) *onnx.Tensor { return onnx.Filled(1, shape...) }
	for _, c := range []struct {
		name  string
		build func(b *onnx.Builder, x string) string
		want  string
	}{
		{"two unsupported operators", func(b *onnx.Builder, x string) string {
			return b.OpWith("LRN", onnx.Attrs{"size": 3}, b.Op("LpNormalization", b.Op("Relu", x)))
		}, `no gradient rule for: LpNormalization at "LpNormalization"; LRN at "LRN"`},
		{"an unsupported operator on one of two ways", func(b *onnx.Builder, x string) string {
			return b.Op("Add", b.Op("LpNormalization", x), x)
		}, "no gradient rule for: LpNormalization"},
		{"a discrete result", func(b *onnx.Builder, x string) string {
			return b.Op("Where", b.Op("Greater", x, b.Float(0)), b.Float(1), b.Float(0))
		}, `depends on "x" only through operators whose derivative is 0: Where at "Where"`},
		{"steps", func(b *onnx.Builder, x string) string {
			return b.Op("Add", b.Op("Floor", b.Op("Mul", x, x)), b.Op("Sign", x))
		}, `depends on "x" only through operators whose derivative is 0: Floor at "Floor"; Sign at "Sign"`},
		{"other values alone", func(b *onnx.Builder, _ string) string { return b.Op("Neg", b.Const(ones(1, 2))) },
			`does not depend on "x"`},
		{"a weight computed from constants", func(b *onnx.Builder, x string) string {
			w := b.Op("Reshape", b.Op("Mul", b.Const(ones(1, 2, 1, 1)), b.Float(2)), b.Ints(1, 2, 1, 1))
			return b.Op("Conv", x, w)
		}, ""},
		{"reflected pads that cut", func(b *onnx.Builder, x string) string {
			return b.OpWith("Pad", onnx.Attrs{"mode": "reflect"}, x, b.Ints(0, 0, 1, 1, 0, 0, 1, -1))
		}, `Pad "Pad": mode "reflect" with negative pads`},
		{"an unknown way of padding", func(b *onnx.Builder, x string) string {
			return b.OpWith("Pad", onnx.Attrs{"mode": "mirror"}, x, b.Ints(0, 0, 1, 1, 0, 0, 1, 1))
		}, `mode "mirror"`},
		{"indices from the data", func(b *onnx.Builder, x string) string {
			place := b.OpWith("ArgMax", onnx.Attrs{"axis": 1}, b.Const(ones(2, 3)))
			return b.OpWith("Gather", onnx.Attrs{"axis": 1}, b.Op("Neg", x), place)
		}, `Gather "Gather": its indices must be constants`},
		{"a Resize with antialias", func(b *onnx.Builder, x string) string {
			return b.OpWith("Resize", onnx.Attrs{"mode": "linear", "antialias": 1}, x, "",
				b.Const(onnx.FloatTensor(onnx.Shape{4}, []float32{1, 1, 0.5, 0.5})))
		}, "antialias"},
		{"a Resize that rounds in an unknown way", func(b *onnx.Builder, x string) string {
			return b.OpWith("Resize", onnx.Attrs{"nearest_mode": "up"}, x, "",
				b.Const(onnx.FloatTensor(onnx.Shape{4}, []float32{1, 1, 2, 2})))
		}, `nearest_mode "up"`},
		{"a pool that stores columns first", func(b *onnx.Builder, x string) string {
			return b.OpWith("MaxPool", onnx.Attrs{"kernel_shape": []int64{2, 2}, "storage_order": 1}, x)
		}, "storage_order"},
		{"ScatterElements that multiplies", func(b *onnx.Builder, x string) string {
			top := b.Multi("TopK", onnx.Attrs{"axis": -1}, 2, x, b.Ints(2))
			return b.OpWith("ScatterElements", onnx.Attrs{"axis": 3, "reduction": "mul"}, x, top[1], top[0])
		}, `the reduction "mul"`},
		{"a zero point that is computed", func(b *onnx.Builder, x string) string {
			scale, zero := b.Float(0.1), b.Const(&onnx.Tensor{DType: onnx.Uint8, Shape: onnx.Shape{}, Ints: []int64{3}})
			return b.Op("DequantizeLinear", b.Op("QuantizeLinear", x, scale, b.Op("Identity", zero)), scale, zero)
		}, `QuantizeLinear "QuantizeLinear": its scale and zero point must be constant`},
		{"no dependence at all", func(b *onnx.Builder, x string) string {
			return b.Op("Clip", x, b.Float(1), b.Float(1))
		}, `depends on "x" only through operators whose derivative is 0: Clip`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &onnx.Builder{G: onnx.NewGraph("test")}
			x := b.Input("x", image)
			b.Output("y", c.build(b, x))
			must.Do(t, b.Err())
			_, err := grad.VJP(b.G)
			if c.want == "" {
				must.Do(t, err)
				return
			}
			must.Refuse(t, err, c.want)
		})
	}
}

func TestLossErrors(t *testing.T) {
	net := func(shape onnx.Shape) *onnx.Graph {
		b := &onnx.Builder{G: onnx.NewGraph("net")}
		b.Output("y", b.Op("Neg", b.Input("x", shape)))
		must.Do(t, b.Err())
		return b.G
	}
	for _, c := range []struct {
		shape onnx.Shape
		head  string
		want  string
	}{
		{onnx.Shape{onnx.Batch, 4}, "hinge", `unknown loss "hinge"`},
		{onnx.Shape{onnx.Batch, 2}, "dlr", "at least 3 classes"},
		{onnx.Shape{onnx.Batch, 3}, "dlr-targeted", "at least 4 classes"},
		{onnx.Shape{onnx.Batch, 1}, "ce", "at least 2 classes"},
		{onnx.Shape{onnx.Batch, 4, 1, 1}, "ce", "[N 4 1 1]"},
		{onnx.Shape{onnx.Batch, 4}, "dlr-targeted", ""},
	} {
		_, err := grad.Loss(net(c.shape), c.head)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s on %v: %v, want %q", c.head, c.shape, err, c.want)
		}
	}
}

// The gradient by a gate can be requested with, or instead of, the gradient by its input.
func TestGateInWrt(t *testing.T) {
	for _, op := range []string{"Sigmoid", "HardSigmoid"} {
		b := &onnx.Builder{G: onnx.NewGraph("gate")}
		x, w := b.Input("x", onnx.Shape{onnx.Batch, 4}), b.Input("w", onnx.Shape{onnx.Batch, 4})
		s := b.Op(op, x)
		y := b.Op("Mul", x, s)
		for _, wrt := range [][]string{{s}, {x, s}} {
			g, err := grad.Backward(b, map[string]string{y: w}, wrt)
			if err != nil {
				t.Errorf("%s, %d tensors: %v", op, len(wrt), err)
				continue
			}
			n := b.G.Producers()[g[s]]
			if n == nil || n.Op != "Mul" || n.Inputs[0] != w || n.Inputs[1] != x {
				t.Errorf("%s, %d tensors: the gate's gradient is %v, not w·x", op, len(wrt), n)
			}
		}
	}
}

// A Gather that picks one place many times is refused for its size before it takes
// memory, and a few times it is added up.
func TestGatherOfOnePlace(t *testing.T) {
	gather := func(times int) *onnx.Graph {
		b := &onnx.Builder{G: onnx.NewGraph("gather")}
		b.Output("y", b.OpWith("Gather", onnx.Attrs{"axis": 1}, b.Input("x", onnx.Shape{onnx.Batch, 2048}),
			b.Ints(make([]int64, times)...)))
		must.Do(t, b.Err())
		return b.G
	}
	net := gather(10000)
	before := must.Allocated()
	_, err := grad.VJP(net)
	must.Refuse(t, err, "needs a matrix of 10000 × 2048")
	if used := must.Allocated() - before; used > 16<<20 {
		t.Errorf("took %d MiB", used>>20)
	}
	if _, err := grad.VJP(gather(3)); err != nil {
		t.Error(err)
	}
}

func TestGradientByConstant(t *testing.T) {
	b := &onnx.Builder{G: onnx.NewGraph("constant")}
	x := b.Input("x", onnx.Shape{onnx.Batch, 2})
	w := b.Const(onnx.FloatTensor(onnx.Shape{2}, []float32{1, 2}))
	_, err := grad.Backward(b, map[string]string{b.Op("Mul", x, w): x}, []string{w})
	must.Refuse(t, err, "is a constant")
}

// The error names every node without a rule that the gradient would have to pass, with its place, in the file's order.
// It names no other node: none beside the way, none behind the output, none that returns truth values.
func TestUnsupported(t *testing.T) {
	shape := onnx.Shape{onnx.Batch, 2}
	g := onnx.NewGraph("test")
	g.Inputs, g.Shapes["x"] = []onnx.Value{{Name: "x", DType: onnx.Float, Shape: shape}}, shape
	g.Consts["c"] = onnx.FloatTensor(onnx.Shape{2}, []float32{1, 2})
	add := func(op, name, output string, inputs ...string) {
		g.Nodes = append(g.Nodes, &onnx.Node{Op: op, Name: name, Inputs: inputs, Outputs: []string{output},
			Origin: &onnx.Origin{Index: 10 + len(g.Nodes), Opset: 13}})
		g.Shapes[output] = shape
	}
	add("Warp", "constant", "k", "c")
	add("Warp", "first", "a", "x", "k")
	add("Fold", "", "b", "a")
	add("Fold", "side", "s", "x")
	add("Greater", "truth", "t", "b", "s")
	add("Warp", "second", "d", "b")
	add("Where", "", "y", "t", "d", "b")
	add("Warp", "behind", "z", "y")
	g.Nodes[2].Origin.Function = "Helper"
	g.Outputs = []onnx.Value{{Name: "y", DType: onnx.Float, Shape: shape}}
	const want = `no gradient rule for: Warp (operator set 13) at node 11 "first", node 15 "second"; ` +
		`Fold (operator set 13) at node 12 (in function Helper) "b"`
	err := grad.Check(g)
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	g.Shapes["w"] = shape
	g.Inputs = append(g.Inputs, onnx.Value{Name: "w", DType: onnx.Float, Shape: shape})
	_, err = grad.Backward(&onnx.Builder{G: g}, map[string]string{"y": "w"}, []string{"x"})
	var unsupported *onnx.UnsupportedError
	if !errors.As(err, &unsupported) || err.Error() != want || len(unsupported.Nodes) != 3 {
		t.Errorf("Backward: %v, want %s", err, want)
	}
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *onnx.Node) bool { return n.Op != "Where" })
	g.Nodes[0].Inputs, g.Consts["b"] = []string{"t", "x", "b"}, onnx.Scalar(1)
	g.Consts["t"] = &onnx.Tensor{DType: onnx.Bool, Shape: onnx.Shape{}, Ints: []int64{1}}
	if err := grad.Check(g); err != nil {
		t.Error(err)
	}
}
