package simplify

import (
	"slices"

	"selfheal/models/onnx"
)

// reduction rewrites a ReduceSum or ReduceMean of data with [Builder.Sum] and
// Mean; it reports false for another node.
func (s *simplifier) reduction(n *onnx.Node) (bool, error) {
	x := s.g.Shapes[n.Inputs[0]]
	if n.Op != "ReduceSum" && n.Op != "ReduceMean" || !x.HasBatch() {
		return false, nil
	}
	out, err := s.ShapesOf(n, x)
	if err != nil {
		return false, err
	}
	axes := []int64{}
	if n.Input(1) != "" {
		if axes, err = s.IntsOf(n, 1); err != nil {
			return false, err
		}
	}
	if len(axes) == 0 {
		return false, nil // noop_with_empty_axes, or an error of the shape rule
	}
	b := &onnx.Builder{G: s.g, Prefix: n.Outputs[0] + "/"}
	t := n.Inputs[0]
	if n.Op == "ReduceSum" {
		t = b.Sum(t, axes)
	} else {
		t = b.Mean(t, axes)
	}
	if b.Err() == nil && slices.Equal(out[0], b.Shape(t)) && !s.g.IsOutput(n.Outputs[0]) {
		s.alias[n.Outputs[0]] = t
		return true, nil
	}
	target := slices.Clone(out[0])
	for i, d := range target {
		target[i] = max(d, -1) // infer the batch
	}
	b.Named(n.Outputs[0], "Reshape", t, b.Ints(target...))
	return true, b.Err()
}
