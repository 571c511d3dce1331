package grad_test

import (
	"errors"
	"slices"
	"testing"

	"selfheal/models/grad"
	"selfheal/models/onnx"
)

// Every node without a rule that the gradient would have to pass is named with
// its place, in the file's order, and no other: not those beside the way, not
// those behind the output, not those that give truth values.
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
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *onnx.Node) bool {
		return n.Op == "Fold" || n.Op == "Warp" ||
			n.Op == "Greater"
	})
	g.Nodes[0].Inputs, g.Consts["b"], g.Consts["t"] = []string{"t", "x",
		"b"}, onnx.Scalar(1), &onnx.Tensor{DType: onnx.Bool, Shape: onnx.Shape{}, Ints: []int64{1}}
	if err := grad.Check(g); err != nil {
		t.Error(err)
	}
}
