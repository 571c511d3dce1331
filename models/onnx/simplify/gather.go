package simplify

import (
	"errors"
	"fmt"
	"slices"

	"selfheal/models/onnx"
)

// gatherND writes a GatherND of data by constant indices as a Gather along the
// axes that they count in, made one. It reports false where the data has no batch,
// a table then, which the runtime reads by itself.
func (s *simplifier) gatherND(n *onnx.Node) (bool, error) {
	x := s.g.Shapes[n.Inputs[0]]
	if !x.HasBatch() {
		return false, nil
	}
	at, ok := s.g.Consts[n.Inputs[1]]
	if !ok || len(at.Shape) == 0 || n.Int("batch_dims", 0) != 0 {
		return false, errors.New("is supported with constant indices and batch_dims of 0 only")
	}
	depth := int(at.Shape[len(at.Shape)-1])
	if depth < 1 || depth > x.BatchAxis() {
		return false, errors.New("picks from the batch")
	}
	var flat []int64
	for i := 0; i < len(at.Ints); i += depth {
		place := int64(0)
		for a, v := range at.Ints[i : i+depth] {
			if v < -x[a] || v >= x[a] {
				return false, fmt.Errorf("index %d is outside %v", v, x)
			}
			place = place*x[a] + (v+x[a])%x[a]
		}
		flat = append(flat, place)
	}
	shape := at.Shape[:len(at.Shape)-1]
	b := &onnx.Builder{G: s.g, Prefix: n.Outputs[0] + "/"}
	t := b.Reshape(n.Inputs[0], slices.Concat(onnx.Shape{x[:depth].Items()}, x[depth:]))
	indices := b.Const(&onnx.Tensor{DType: onnx.Int64, Shape: slices.Clone(shape), Ints: flat})
	g := &onnx.Node{Name: n.Name, Op: "Gather", Inputs: []string{t, indices}, Outputs: n.Outputs}
	g.Set("axis", 0)
	b.Append(g)
	return true, b.Err()
}

// lpPool writes the p-norm of each window as the root of an average pool of |x|^p
// times the window's size. The norm is held at its root, as other norms are.
func (s *simplifier) lpPool(n *onnx.Node) (bool, error) {
	x := s.g.Shapes[n.Inputs[0]]
	if _, err := s.ShapesOf(n, x); err != nil {
		return false, err
	}
	p := n.Int("p", 2)
	if p != 1 && p != 2 {
		return false, fmt.Errorf("has p = %d; 1 and 2 are supported", p)
	}
	b := &onnx.Builder{G: s.g, Prefix: n.Outputs[0] + "/"}
	t := n.Inputs[0]
	if p == 1 {
		t = b.Op("Abs", t)
	} else {
		t = b.Op("Mul", t, t)
	}
	size := x[2:].Items()
	if n.Op == "GlobalLpPool" {
		t = b.Op("GlobalAveragePool", t)
	} else {
		w, err := onnx.NodeWindow(n, nil)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(w.Dilations, func(d int64) bool { return d != 1 }) {
			return false, errors.New("dilations are not supported")
		}
		size = onnx.Shape(w.Kernel).Items()
		t = b.OpWith("AveragePool", onnx.Attrs{
			"kernel_shape": slices.Clone(w.Kernel), "strides": slices.Clone(w.Strides), "pads": slices.Clone(w.Pads),
			"ceil_mode": n.Int("ceil_mode", 0), "count_include_pad": 1,
		}, t)
	}
	t = b.Op("Mul", t, b.Float(float32(size)))
	if p == 2 {
		t = b.Op("Sqrt", b.Op("Clip", t, b.Float(tiny)))
	}
	b.Named(n.Outputs[0], "Identity", t)
	return true, b.Err()
}
