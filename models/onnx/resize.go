package onnx

import (
	"errors"
	"fmt"
	"slices"
)

// resizeShape takes whole scales or, with axes 1 and up, the sizes of all
// dimensions but the batch: openSizes brings other nodes to that.
func resizeShape(c *inference, n *Node, in []Shape) ([]Shape, error) {
	x := in[0]
	axes := n.Ints("axes", nil)
	if n.Str("keep_aspect_ratio_policy", "stretch") != "stretch" {
		return nil, errors.New("keep_aspect_ratio_policy is not supported")
	}
	if len(x) < 2 || x[0] != Batch {
		return nil, fmt.Errorf("needs a batch of images, not %v", x)
	}
	if n.Input(3) != "" {
		sizes, err := c.intsOf(n, 3)
		if err != nil {
			return nil, err
		}
		if len(sizes) != len(x)-1 || len(axes) != len(sizes) {
			return nil, fmt.Errorf("sizes %v don't fit", sizes)
		}
		for i, a := range axes {
			if a != int64(i+1) {
				return nil, fmt.Errorf("axes %v are not supported", axes)
			}
		}
		return []Shape{append(Shape{x[0]}, sizes...)}, nil
	}
	scales, err := c.floatsOf(n, 2)
	if err != nil {
		return nil, err
	}
	if len(scales) != len(x) || scales[0] != 1 || len(axes) > 0 {
		return nil, fmt.Errorf("scales %v don't fit", scales)
	}
	out := slices.Clone(x)
	for i, s := range scales[1:] {
		if !(s > 0 && s < 1024) {
			return nil, fmt.Errorf("scale %v is out of range", s)
		}
		out[i+1] = int64(s * float32(out[i+1])) // in float32, as ONNX Runtime does
	}
	return []Shape{out}, nil
}

// allScales gives a Resize's scales for every dimension where it has those of
// the axes at.
func (s *simplifier) allScales(n *Node, at []int) error {
	if len(at) == 0 {
		return nil
	}
	scales, err := s.floatsOf(n, 2)
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
	n.Inputs[2] = s.g.AddConst(n.Outputs[0]+"/scales", FloatTensor(Shape{int64(len(all))}, all))
	return nil
}

// openSizes brings a Resize to scales of every dimension or, without those, to
// the sizes of all but the batch. Sizes that name the batch, which they fix,
// become scales where they are whole: the form that ONNX Runtime runs fastest.
func (s *simplifier) openSizes(n *Node) error {
	x := s.g.Shapes[n.Inputs[0]]
	at, err := Axes(n.Ints("axes", nil), len(x))
	if err != nil {
		return err
	}
	delete(n.Attrs, "axes")
	if n.Input(3) == "" {
		return s.allScales(n, at)
	}
	sizes, err := s.intsOf(n, 3)
	if err != nil {
		return err
	}
	if len(at) > 0 {
		if len(at) != len(sizes) {
			return fmt.Errorf("sizes %v don't fit %d axes", sizes, len(at))
		}
		all := slices.Clone(x)
		if i := slices.Index(all, Batch); i >= 0 {
			all[i] = symBatch
		}
		for i, a := range at {
			all[a] = sizes[i]
		}
		sizes = all
	}
	if len(sizes) != len(x) || len(x) < 2 || x[0] != Batch {
		return fmt.Errorf("sizes %v don't fit %v", sizes, x)
	}
	if sizes[0] != symBatch && (s.fixedBatch == 0 || sizes[0] != s.fixedBatch) {
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
		n.Inputs = []string{n.Inputs[0], "", s.g.AddConst(n.Outputs[0]+"/scales", FloatTensor(Shape{int64(len(scales))}, scales))}
		return nil
	}
	n.Inputs = []string{n.Inputs[0], "", "", s.g.AddConst(n.Outputs[0]+"/sizes", IntTensor(sizes[1:]...))}
	n.Set("axes", axes)
	return nil
}

// resize is openSizes, and turns the interpolation of lines into that of images
// one pixel high: ONNX Runtime takes a batch of lines for a volume, and an
// item's result would depend on its place in the batch.
func (s *simplifier) resize(n *Node) (bool, error) {
	if err := s.openSizes(n); err != nil {
		return false, err
	}
	x := s.g.Shapes[n.Inputs[0]]
	if mode := n.Str("mode", "nearest"); len(x) != 3 || mode != "linear" && mode != "cubic" {
		return false, nil
	}
	out, err := resizeShape(&s.inference, n, []Shape{x})
	if err != nil {
		return false, err
	}
	scale := float32(out[0][2]) / float32(x[2])
	if n.Input(3) == "" {
		scales, err := s.floatsOf(n, 2)
		if err != nil {
			return false, err
		}
		scale = scales[2]
	}
	if x[1] != out[0][1] {
		return false, errors.New("resizes the channels")
	}
	b := &Builder{G: s.g, Prefix: n.Outputs[0] + "/"}
	image := b.Op("Reshape", n.Inputs[0], b.Ints(0, x[1], 1, x[2]))
	r := n.Clone()
	r.Outputs = []string{s.g.Fresh(b.Prefix + "Resize")}
	r.Inputs = []string{image, "", b.Const(FloatTensor(Shape{4}, []float32{1, 1, 1, scale}))}
	if n.Input(3) != "" {
		r.Inputs = []string{image, "", "", b.Ints(x[1], 1, out[0][2])}
		r.Set("axes", []int64{1, 2, 3})
	}
	b.Append(r)
	b.Named(n.Outputs[0], "Reshape", r.Outputs[0], b.Ints(0, x[1], out[0][2]))
	return true, b.Err()
}
