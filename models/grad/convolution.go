package grad

import (
	"errors"
	"math"
	"slices"

	"selfheal/models/onnx"
)

// y = W∗x + b: x̄ is the transposed convolution of g with W. With stride 1 and
// constant W that is a plain Conv with the kernel flipped and its channels
// exchanged, which ONNX Runtime runs several times faster than ConvTranspose.
func conv(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	if c.Needs(n, 1) || c.Needs(n, 2) {
		return nil, errors.New("its weight depends on the input, which is not supported")
	}
	x, w := c.Shape(n.Inputs[0]), c.Shape(n.Inputs[1])
	win, err := onnx.NodeWindow(n, w[2:])
	if err != nil {
		return nil, err
	}
	k := len(win.Kernel)
	group := n.Int("group", 1)
	outPad, pads := make([]int64, k), make([]int64, 2*k)
	plain := true
	for i := range k {
		reach := (win.Kernel[i] - 1) * win.Dilations[i]
		pads[i], pads[i+k] = reach-win.Pads[i], reach-win.Pads[i+k]
		plain = plain && win.Strides[i] == 1 && pads[i] >= 0 && pads[i+k] >= 0
		outPad[i] = (x[i+2] + win.Pads[i] + win.Pads[i+k] - reach - 1) % win.Strides[i]
	}
	if t, ok := c.G.Consts[n.Inputs[1]]; ok && plain {
		flipped := c.Const(flipKernel(t, int(group)))
		return []string{c.OpWith("Conv", onnx.Attrs{
			"kernel_shape": slices.Clone(win.Kernel), "dilations": slices.Clone(win.Dilations), "pads": pads, "group": group,
		}, gy[0], flipped)}, nil
	}
	return []string{c.OpWith("ConvTranspose", onnx.Attrs{
		"kernel_shape": slices.Clone(win.Kernel), "strides": slices.Clone(win.Strides), "dilations": slices.Clone(win.Dilations),
		"pads": slices.Clone(win.Pads), "output_padding": outPad, "group": group,
	}, gy[0], n.Inputs[1])}, nil
}

// flipKernel turns a Conv weight [O, I/g, k…] into the weight [I, O/g, k…] of
// the Conv that computes its input gradient.
func flipKernel(t *onnx.Tensor, group int) *onnx.Tensor {
	o, ig := int(t.Shape[0]), int(t.Shape[1])
	og, k := o/group, int(t.Shape[2:].Items())
	shape := append(onnx.Shape{int64(ig * group), int64(og)}, t.Shape[2:]...)
	out := onnx.FloatTensor(shape, make([]float32, len(t.Floats)))
	for g := range group {
		for a := range og {
			for b := range ig {
				from, to := ((g*og+a)*ig+b)*k, ((g*ig+b)*og+a)*k
				for p := range k {
					out.Floats[to+k-1-p] = t.Floats[from+p]
				}
			}
		}
	}
	return out
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
