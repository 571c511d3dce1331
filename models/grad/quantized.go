package grad

import (
	"math"

	"selfheal/models/onnx"
)

// quantizeLinear passes the cotangent straight through the rounding, whose derivative is 0 almost everywhere, and stops
// it where the quantiser saturates:
//
//	gx = gy/scale · [lo ≤ round(x/scale) + zero ≤ hi]
//
// with round to even, as in PyTorch's fake_quantize_per_tensor_affine and fake_quantize_per_channel_affine. An integer
// tensor has the same cotangent as equal floats. Scale and zero point are constants.
func quantizeLinear(c *Context, n *onnx.Node, gy []string) []string {
	scale, ok := c.G.Consts[n.Input(1)]
	zero, okZero := c.G.Consts[n.Input(2)]
	onnx.Require(ok && okZero, "its scale and zero point must be constant")
	first, last, ok := onnx.QuantizedRange(zero.DType)
	onnx.Require(ok, "gives other than integers of 8 or 16 bits")
	shape := onnx.PerAxis(n, c.Shape(n.Inputs[0]), scale.Shape.Items())
	lo, hi := make([]float32, len(zero.Ints)), make([]float32, len(zero.Ints))
	for i, z := range zero.Ints {
		lo[i], hi[i] = roundsTo(first-z, -1), roundsTo(last-z, +1)
	}
	x, g := n.Inputs[0], gy[0]
	if !allOnes(scale.Floats) {
		s := c.Const(onnx.FloatTensor(shape, scale.Floats))
		x, g = c.Op("Div", x, s), c.Op("Div", g, s)
	}
	// (v − lo)·(hi − v) ≥ 0 inside.
	above := c.Op("Sub", x, c.Const(onnx.FloatTensor(shape, lo)))
	below := c.Op("Sub", c.Const(onnx.FloatTensor(shape, hi)), x)
	return []string{c.masked(g, c.Step(c.Op("Mul", above, below), onnx.Steep, 1))}
}

// roundsTo returns the number farthest from v on a side that still rounds, half to even, to v.
func roundsTo(v int64, side float64) float32 {
	end := float32(float64(v) + 0.5*side)
	if v%2 != 0 { // the half itself goes to the even neighbour
		end = math.Nextafter32(end, float32(v))
	}
	return end
}

// dequantizeLinear: y = (x − zero)·scale, so gx = gy·scale.
func dequantizeLinear(c *Context, n *onnx.Node, gy []string) []string {
	scale, ok := c.G.Consts[n.Input(1)]
	onnx.Require(ok, "its scale must be constant")
	if allOnes(scale.Floats) {
		return gy
	}
	shape := onnx.PerAxis(n, c.Shape(n.Inputs[0]), scale.Shape.Items())
	return []string{c.Op("Mul", gy[0], c.Const(onnx.FloatTensor(shape, scale.Floats)))}
}
