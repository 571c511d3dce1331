package grad

import (
	"errors"
	"math"
	"slices"

	"selfheal/models/onnx"
)

// y = W∗x + b: x̄ in [convInput]
func conv(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	if c.Needs(n, 1) || c.Needs(n, 2) {
		return nil, errors.New("its weight depends on the input, which is not supported")
	}
	gx, err := convInput(c, n, gy[0])
	return []string{gx}, err
}

// y = Wᵀ∗x + b: x̄ = W∗g, the Conv with the same weight, strides and pads.
func convTranspose(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	if c.Needs(n, 1) || c.Needs(n, 2) {
		return nil, errors.New("its weight depends on the input, which is not supported")
	}
	win, err := onnx.NodeWindow(n, c.Shape(n.Inputs[1])[2:])
	if err != nil {
		return nil, err
	}
	return []string{c.OpWith("Conv", onnx.Attrs{
		"kernel_shape": slices.Clone(win.Kernel), "strides": slices.Clone(win.Strides), "dilations": slices.Clone(win.Dilations),
		"pads": slices.Clone(win.Pads), "group": n.Int("group", 1),
	}, gy[0], n.Inputs[1])}, nil
}

// y = s·(x−μ)/√(σ²+ε) + b with constant statistics: x̄ = g·s/√(σ²+ε), a channel at a time.
func batchNormalization(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	scale, ok1 := c.G.Consts[n.Input(1)]
	variance, ok2 := c.G.Consts[n.Input(4)]
	if !ok1 || !ok2 {
		return nil, errors.New("its scale and variance must be constants")
	}
	shape := onnx.Shape{int64(len(scale.Floats))}
	for range len(c.Shape(n.Inputs[0])) - 2 {
		shape = append(shape, 1)
	}
	f := onnx.FloatTensor(shape, make([]float32, len(scale.Floats)))
	eps := float64(n.Float("epsilon", 1e-5))
	for i := range f.Floats {
		f.Floats[i] = float32(float64(scale.Floats[i]) / math.Sqrt(float64(variance.Floats[i])+eps))
	}
	return []string{c.Op("Mul", gy[0], c.Const(f))}, nil
}
