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
	q := c.quantised(n)
	// (x − lo)·(hi − x) ≥ 0 inside.
	inside := c.Op("Mul", c.Op("Sub", q.x, q.lo), c.Op("Sub", q.hi, q.x))
	g := gy[0]
	if !q.unit {
		g = c.Op("Div", g, q.scale)
	}
	return []string{c.masked(g, c.Step(inside, onnx.Steep, 1))}
}

// quantisation is a QuantizeLinear's input in units of its scale, and the ends of the range that does not saturate.
type quantisation struct {
	x, lo, hi, scale string
	unit             bool // the scale is 1
}

// quantised divides a node's input by its scale and writes the ends of its range as constants.
func (c *Context) quantised(n *onnx.Node) quantisation {
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
	vector := func(v []float32) string { return c.Const(onnx.FloatTensor(shape, v)) }
	q := quantisation{n.Inputs[0], vector(lo), vector(hi), vector(scale.Floats), allOnes(scale.Floats)}
	if !q.unit {
		q.x = c.Op("Div", q.x, q.scale)
	}
	return q
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
