package simplify

import (
	"errors"
	"fmt"
	"slices"

	"selfheal/models/onnx"
)

// unpool resolves a MaxUnpool's output_shape, which names the batch: it is
// dropped where it says what follows from the window. Elsewhere the indices
// count in a tensor of that shape, and the node becomes a scatter within each
// item; unpool then reports that the node is done.
func (s *simplifier) unpool(n *onnx.Node) (bool, error) {
	if n.Input(2) == "" {
		return false, nil
	}
	x := s.g.Shapes[n.Inputs[0]]
	inferred, err := onnx.Unpooled(n, x)
	if err != nil {
		return false, err
	}
	size, err := s.IntsOf(n, 2)
	if err != nil {
		return false, err
	}
	if len(size) != len(x) || size[1] != x[1] || !s.isBatch(size[0]) {
		return false, fmt.Errorf("output_shape %v doesn't fit %v", size, x)
	}
	out := append(onnx.Shape{onnx.Batch, x[1]}, size[2:]...)
	if err := out.Check(); err != nil {
		return false, err
	}
	if slices.Equal(out, inferred) {
		n.Inputs = n.Inputs[:2]
		return false, nil
	}
	if !slices.Equal(s.g.Shapes[n.Inputs[1]], x) {
		return false, errors.New("its indices have another shape than its input")
	}
	b := &onnx.Builder{G: s.g, Prefix: n.Outputs[0] + "/"}
	items, planes := out.Items(), b.Ints(0, x.Items())
	flat := b.Op("Reshape", n.Inputs[0], planes)
	at := b.Op("Mod", b.Op("Reshape", n.Inputs[1], planes), b.Const(&onnx.Tensor{DType: onnx.Int64, Shape: onnx.Shape{},
		Ints: []int64{items}}))
	zero := b.Op("Slice", flat, b.Ints(0), b.Ints(1), b.Ints(1))
	zeros := b.Op("Expand", b.Op("Clip", zero, b.Float(0), b.Float(0)), b.Ints(1, items))
	y := b.OpWith("ScatterElements", onnx.Attrs{"axis": 1}, zeros, at, flat)
	b.Named(n.Outputs[0], "Reshape", y, b.Ints(append([]int64{0}, out[1:]...)...))
	return true, b.Err()
}
