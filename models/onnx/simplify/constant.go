package simplify

import "selfheal/models/onnx"

// relabel folds an operator that gives a constant another shape, and reports
// whether n was one: exporters leave such chains before axes and weights.
func (s *simplifier) relabel(n *onnx.Node) (bool, error) {
	c, ok := s.g.Consts[n.Input(0)]
	if !ok || s.g.IsOutput(n.Outputs[0]) || !onnx.TraitsOf(n.Op).Relabels {
		return false, nil
	}
	for _, in := range n.Inputs[1:] {
		if _, ok := s.g.Consts[in]; !ok && in != "" {
			return false, nil
		}
	}
	if err := s.Node(n); err != nil {
		return false, err
	}
	s.g.Consts[n.Outputs[0]] = &onnx.Tensor{DType: c.DType, Shape: s.g.Shapes[n.Outputs[0]], Floats: c.Floats,
		Ints: c.Ints}
	return true, nil
}
