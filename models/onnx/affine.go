package onnx

import "math"

// Affine reads a BatchNormalization with constant statistics as
// y = scale·x + offset, a channel at a time; ok tells whether they all are constants.
func (g *Graph) Affine(n *Node) (scale, offset []float32, ok bool) {
	var p [4]*Tensor
	for i := range p {
		if p[i], ok = g.Consts[n.Input(i+1)]; !ok {
			return nil, nil, false
		}
	}
	eps := float64(n.Float("epsilon", 1e-5))
	scale, offset = make([]float32, p[0].Len()), make([]float32, p[0].Len())
	for i := range scale {
		f := float64(p[0].Floats[i]) / math.Sqrt(float64(p[3].Floats[i])+eps)
		scale[i], offset[i] = float32(f), float32(float64(p[1].Floats[i])-f*float64(p[2].Floats[i]))
	}
	return scale, offset, true
}
