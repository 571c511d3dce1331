package simplify

import (
	"errors"
	"fmt"
	"slices"

	"selfheal/models/onnx"
)

// allScales gives a Resize's scales for every dimension where it has those of
// the axes at.
func (s *simplifier) allScales(n *onnx.Node, at []int) error {
	if len(at) == 0 {
		return nil
	}
	scales, err := s.FloatsOf(n, 2)
	if err != nil {
		return err
	}
	if len(scales) != len(at) {
		return fmt.Errorf("scales %v don't fit %d axes", scales, len(at))
	}
	all := slices.Repeat([]float32{1}, len(s.g.Shapes[n.Inputs[0]]))
	for i, a := range at {
		all[a] = scales[i]
	}
	n.Inputs[2] = s.g.AddConst(n.Outputs[0]+"/scales", onnx.FloatVector(all))
	return nil
}

// openSizes brings a Resize to scales of every dimension or, without those, to
// the sizes of all but the batch. Sizes that name the batch, which they fix,
// become scales where they are whole: the form that ONNX Runtime runs fastest.
func (s *simplifier) openSizes(n *onnx.Node) error {
	x := s.g.Shapes[n.Inputs[0]]
	at, err := onnx.Axes(n.Ints("axes", nil), len(x))
	if err != nil {
		return err
	}
	delete(n.Attrs, "axes")
	if n.Input(3) == "" {
		return s.allScales(n, at)
	}
	sizes, err := s.IntsOf(n, 3)
	if err != nil {
		return err
	}
	if len(at) > 0 {
		if len(at) != len(sizes) {
			return fmt.Errorf("sizes %v don't fit %d axes", sizes, len(at))
		}
		all := slices.Clone(x)
		if i := slices.Index(all, onnx.Batch); i >= 0 {
			all[i] = onnx.BatchSize
		}
		for i, a := range at {
			all[a] = sizes[i]
		}
		sizes = all
	}
	if len(sizes) != len(x) || len(x) < 2 || x[0] != onnx.Batch {
		return fmt.Errorf("sizes %v don't fit %v", sizes, x)
	}
	if !s.isBatch(sizes[0]) {
		return fmt.Errorf("sizes %v fix the batch size", sizes)
	}
	scales := []float32{1}
	axes := []int64{}
	for i, d := range sizes[1:] {
		if d < 1 || x[i+1] < 1 {
			return fmt.Errorf("sizes %v are out of range", sizes[1:])
		}
		axes = append(axes, int64(i+1))
		if d%x[i+1] == 0 {
			scales = append(scales, float32(d/x[i+1]))
		}
	}
	if len(scales) == len(sizes) {
		n.Inputs = []string{n.Inputs[0], "", s.g.AddConst(n.Outputs[0]+"/scales", onnx.FloatVector(scales))}
		return nil
	}
	n.Inputs = []string{n.Inputs[0], "", "", s.g.AddConst(n.Outputs[0]+"/sizes", onnx.IntTensor(sizes[1:]...))}
	n.Set("axes", axes)
	return nil
}

// resize is openSizes, and turns the interpolation of lines into that of images
// one pixel high: ONNX Runtime takes a batch of lines for a volume, and an
// item's result would depend on its place in the batch.
func (s *simplifier) resize(n *onnx.Node) (bool, error) {
	if err := s.openSizes(n); err != nil {
		return false, err
	}
	x := s.g.Shapes[n.Inputs[0]]
	if mode := n.Str("mode", "nearest"); len(x) != 3 || mode != "linear" && mode != "cubic" {
		return false, nil
	}
	out, err := s.ShapesOf(n, x)
	if err != nil {
		return false, err
	}
	scale := float32(out[0][2]) / float32(x[2])
	if n.Input(3) == "" {
		scales, err := s.FloatsOf(n, 2)
		if err != nil {
			return false, err
		}
		scale = scales[2]
	}
	if x[1] != out[0][1] {
		return false, errors.New("resizes the channels")
	}
	b := &onnx.Builder{G: s.g, Prefix: n.Outputs[0] + "/"}
	image := b.Op("Reshape", n.Inputs[0], b.Ints(0, x[1], 1, x[2]))
	r := n.Clone()
	r.Outputs = []string{s.g.Fresh(b.Prefix + "Resize")}
	r.Inputs = []string{image, "", b.Const(onnx.FloatTensor(onnx.Shape{4}, []float32{1, 1, 1, scale}))}
	if n.Input(3) != "" {
		r.Inputs = []string{image, "", "", b.Ints(x[1], 1, out[0][2])}
		r.Set("axes", []int64{1, 2, 3})
	}
	b.Append(r)
	b.Named(n.Outputs[0], "Reshape", r.Outputs[0], b.Ints(0, x[1], out[0][2]))
	return true, b.Err()
}

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
	at := b.Op("Mod", b.Op("Reshape", n.Inputs[1], planes), b.Const(onnx.IntScalar(items)))
	zero := b.Op("Slice", flat, b.Ints(0), b.Ints(1), b.Ints(1))
	zeros := b.Op("Expand", b.Op("Clip", zero, b.Float(0), b.Float(0)), b.Ints(1, items))
	y := b.OpWith("ScatterElements", onnx.Attrs{"axis": 1}, zeros, at, flat)
	b.Named(n.Outputs[0], "Reshape", y, b.Ints(append([]int64{0}, out[1:]...)...))
	return true, b.Err()
}
