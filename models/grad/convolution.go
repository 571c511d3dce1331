package grad

import (
	"slices"

	"selfheal/models/onnx"
)

// y = W∗x + b: x̄ in [convInput], W̄ in [Context.convWeight], b̄ = Σ g over the
// batch and all positions
func conv(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	gx := make([]string, len(n.Inputs))
	weight := c.Shape(n.Inputs[1])
	win, err := onnx.NodeWindow(n, weight[2:])
	if err != nil {
		return nil, err
	}
	if c.needs(n, 0) {
		if gx[0], err = convInput(c, n, gy[0]); err != nil {
			return nil, err
		}
	}
	if c.needs(n, 1) {
		gx[1] = c.convWeight(n.Inputs[0], gy[0], win, weight, n.Int("group", 1))
	}
	if c.needs(n, 2) {
		gx[2] = c.channelSum(gy[0])
	}
	return gx, nil
}

// y = Wᵀ∗x + b, the transpose of a Conv from y's shape to x's: x̄ = W∗g, that
// Conv; W̄ is that Conv's with g as its input and x as its cotangent; b̄ = Σ g
func convTranspose(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	gx := make([]string, len(n.Inputs))
	weight := c.Shape(n.Inputs[1])
	win, err := onnx.NodeWindow(n, weight[2:])
	if err != nil {
		return nil, err
	}
	if c.needs(n, 0) {
		gx[0] = c.OpWith("Conv", win.Attrs(onnx.Attrs{"group": n.Int("group", 1)}), gy[0], n.Inputs[1])
	}
	if c.needs(n, 1) {
		gx[1] = c.convWeight(gy[0], n.Inputs[0], win, weight, n.Int("group", 1))
	}
	if c.needs(n, 2) {
		gx[2] = c.channelSum(gy[0])
	}
	return gx, nil
}

// scaleChannels multiplies each channel of a batch by a constant. On feature maps
// it is a BatchNormalization, which stays in the blocked layout of the
// convolutions around it; Mul by a vector leaves it.
func (c *Context) scaleChannels(t string, f []float32) string {
	if !slices.ContainsFunc(f, func(v float32) bool { return v != 1 }) {
		return t
	}
	vector := func(v []float32) string { return c.Const(onnx.FloatTensor(onnx.Shape{int64(len(v))}, v)) }
	if len(c.Shape(t)) == 2 {
		return c.Op("Mul", t, vector(f))
	}
	zero, one := vector(make([]float32, len(f))), vector(slices.Repeat([]float32{1}, len(f)))
	return c.OpWith("BatchNormalization", onnx.Attrs{"epsilon": float32(0)}, t, vector(f), zero, zero, one)
}

// y = s·x̂ + b with x̂ = (x−μ)·r and r = 1/√(σ²+ε), a channel at a time, by given
// statistics: x̄ = g·s·r, s̄ = Σ g·x̂, b̄ = Σ g, μ̄ = −s·r·Σ g, σ̄² = −½·s·r²·Σ g·x̂
func batchNormalization(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	gx, g := make([]string, 5), gy[0]
	column := onnx.Shape{c.Shape(n.Inputs[0])[1]} // a value a channel, to broadcast
	for range len(c.Shape(n.Inputs[0])) - 2 {
		column = append(column, 1)
	}
	eps := n.Float("epsilon", 1e-5)
	scale, _, constant := c.G.Affine(n)
	if constant && c.needs(n, 0) {
		gx[0] = c.scaleChannels(g, scale)
	}
	parameters := c.needs(n, 1) || c.needs(n, 2) || c.needs(n, 3) || c.needs(n, 4)
	if !parameters && constant {
		return gx, nil
	}
	r := c.Op("Div", c.Float(1), c.Op("Sqrt", c.Op("Add", n.Inputs[4], c.Float(eps))))
	slope := c.Op("Mul", n.Inputs[1], r)
	if gx[0] == "" && c.needs(n, 0) {
		gx[0] = c.Op("Mul", g, c.Reshape(slope, column))
	}
	if c.needs(n, 1) || c.needs(n, 4) {
		centred := c.Op("Sub", n.Inputs[0], c.Reshape(n.Inputs[3], column))
		inner := c.Op("Mul", r, c.channelSum(c.Op("Mul", g, centred)))
		gx[1] = inner
		if c.needs(n, 4) {
			gx[4] = c.Op("Mul", c.Op("Mul", c.Op("Mul", slope, r), inner), c.Float(-0.5))
		}
	}
	if c.needs(n, 2) || c.needs(n, 3) {
		gx[2] = c.channelSum(g)
		gx[3] = c.Op("Neg", c.Op("Mul", slope, gx[2]))
	}
	return gx, nil
}
