package onnx

import (
	"errors"
	"fmt"
	"slices"
)

// maxUnpoolShape takes nodes without output_shape, which unpool brings others to.
func maxUnpoolShape(_ *inference, n *Node, in []Shape) ([]Shape, error) {
	out, err := unpooled(n, in[0])
	if err != nil {
		return nil, err
	}
	if !slices.Equal(in[0], in[1]) || n.Input(2) != "" {
		return nil, fmt.Errorf("indices of shape %v or an output shape don't fit", in[1])
	}
	return []Shape{out}, nil
}

// unpooled is the shape that a MaxUnpool gives where it states none: that of the
// MaxPool's input whose windows fill it.
func unpooled(n *Node, x Shape) (Shape, error) {
	kernel := n.Ints("kernel_shape", nil)
	if len(kernel) == 0 || len(x) != len(kernel)+2 || x[0] != Batch {
		return nil, errors.New("kernel_shape doesn't fit a batch of images")
	}
	w, err := NodeWindow(n, nil)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(x)
	for i, k := range w.Kernel {
		if out[i+2] = (x[i+2]-1)*w.Strides[i] + k - w.Pads[i] - w.Pads[i+len(kernel)]; out[i+2] < 1 {
			return nil, fmt.Errorf("pads %v leave nothing", w.Pads)
		}
	}
	return out, out.check()
}

// unpool resolves a MaxUnpool's output_shape, which names the batch: it is
// dropped where it says what follows from the window. Elsewhere the indices
// count in a tensor of that shape, and the node becomes a scatter within each
// item; unpool then reports that the node is done.
func (s *simplifier) unpool(n *Node) (bool, error) {
	if n.Input(2) == "" {
		return false, nil
	}
	x := s.g.Shapes[n.Inputs[0]]
	inferred, err := unpooled(n, x)
	if err != nil {
		return false, err
	}
	size, err := s.intsOf(n, 2)
	if err != nil {
		return false, err
	}
	if len(size) != len(x) || size[1] != x[1] || size[0] != symBatch && (s.fixedBatch == 0 || size[0] != s.fixedBatch) {
		return false, fmt.Errorf("output_shape %v doesn't fit %v", size, x)
	}
	out := append(Shape{Batch, x[1]}, size[2:]...)
	if err := out.check(); err != nil {
		return false, err
	}
	if slices.Equal(out, inferred) {
		n.Inputs = n.Inputs[:2]
		return false, nil
	}
	if !slices.Equal(s.g.Shapes[n.Inputs[1]], x) {
		return false, errors.New("its indices have another shape than its input")
	}
	b := &Builder{G: s.g, Prefix: n.Outputs[0] + "/"}
	items, planes := out.Items(), b.Ints(0, x.Items())
	flat := b.Op("Reshape", n.Inputs[0], planes)
	at := b.Op("Mod", b.Op("Reshape", n.Inputs[1], planes), b.Const(&Tensor{DType: Int64, Shape: Shape{}, Ints: []int64{items}}))
	zero := b.Op("Slice", flat, b.Ints(0), b.Ints(1), b.Ints(1))
	zeros := b.Op("Expand", b.Op("Clip", zero, b.Float(0), b.Float(0)), b.Ints(1, items))
	y := b.OpWith("ScatterElements", Attrs{"axis": 1}, zeros, at, flat)
	b.Named(n.Outputs[0], "Reshape", y, b.Ints(append([]int64{0}, out[1:]...)...))
	return true, b.err
}
