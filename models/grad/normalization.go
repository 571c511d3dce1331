package grad

import (
	"selfheal/models/onnx"
)

// y = γ·x̂ + β with x̂ = (x−μ)·r, r = 1/√(σ²+ε), mean and variance over the last axes;
// the operator also gives μ and r. With h = g·γ and means over those axes,
//
//	x̄ = r·(h − mean h) − (x−μ)·r³·mean(h·(x−μ)),  γ̄ = g·x̂,  β̄ = g,
//
// and where μ and r have cotangents, as in a gradient that is differentiated again,
// with D the number of values under a mean, + μ̄/D − (x−μ)·r³·r̄/D.
//
// InstanceNormalization and GroupNormalization are this operator after Simplify.
func layerNormalization(c *Context, n *onnx.Node, gy []string) []string {
	x := n.Inputs[0]
	shape := c.Shape(x)
	first := n.AxisOf(len(shape))
	axes, size := onnx.Range(first, len(shape)), shape[first:].Items()
	mu, r := c.output(n, 1), c.output(n, 2) // it computes them anyway
	centred := c.Op("Sub", x, mu)
	gx := make([]string, len(n.Inputs))
	var product, along, level string // x̄ = product − (x−μ)·r³·along − level
	if g := gy[0]; g != "" {
		h := c.Op("Mul", g, n.Inputs[1])
		if t, ok := c.G.Consts[n.Inputs[1]]; ok && allOnes(t.Floats) {
			h = g
		}
		product = c.Op("Mul", h, r)
		along = c.Mean(c.Op("Mul", h, centred), axes)
		level = c.Op("Mul", c.Mean(h, axes), r)
		if c.needs(n, 1) {
			gx[1] = c.Op("Mul", g, c.Op("Mul", centred, r))
		}
		if c.needs(n, 2) {
			gx[2] = g
		}
	}
	if !c.needs(n, 0) {
		return gx
	}
	scaled := func(t string) string { return c.Op("Mul", t, c.Float(1/float32(size))) }
	if len(gy) > 2 && gy[2] != "" {
		along = c.total(along, scaled(gy[2]))
	}
	if len(gy) > 1 && gy[1] != "" {
		level = c.total(level, c.Op("Neg", scaled(gy[1])))
	}
	if along != "" {
		cube := c.Op("Mul", r, c.Op("Mul", r, r))
		along = c.Op("Mul", centred, c.Op("Mul", along, cube))
	}
	if gx[0] = c.total(along, level); product == "" {
		gx[0] = c.Op("Neg", gx[0])
	} else {
		gx[0] = c.Op("Sub", product, gx[0])
	}
	return gx
}

// y = softmax x: x̄ = y·(g − Σ g·y)
func softmax(c *Context, n *onnx.Node, gy []string) []string {
	y := n.Outputs[0]
	inner := c.Sum(c.Op("Mul", gy[0], y), []int64{n.Axis()})
	return []string{c.Op("Mul", y, c.Op("Sub", gy[0], inner))}
}

// y = log softmax x: x̄ = g − eʸ·Σ g
func logSoftmax(c *Context, n *onnx.Node, gy []string) []string {
	total := c.Sum(gy[0], []int64{n.Axis()})
	return []string{c.Op("Sub", gy[0], c.Op("Mul", c.Op("Exp", n.Outputs[0]), total))}
}
