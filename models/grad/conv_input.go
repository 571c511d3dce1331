package grad

import (
	"slices"

	"selfheal/models/onnx"
)

// convInput gives the cotangent of a Conv's input: the transposed convolution of
// g with W. With stride 1 and constant W that is a plain Conv with the kernel
// flipped and its channels exchanged, which ONNX Runtime runs several times
// faster than ConvTranspose.
func convInput(c *Context, n *onnx.Node, g string) (string, error) {
	x, w := c.Shape(n.Inputs[0]), c.Shape(n.Inputs[1])
	win, err := onnx.NodeWindow(n, w[2:])
	if err != nil {
		return "", err
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
		return c.OpWith("Conv", onnx.Attrs{
			"kernel_shape": slices.Clone(win.Kernel), "dilations": slices.Clone(win.Dilations), "pads": pads, "group": group,
		}, g, flipped), nil
	}
	return c.OpWith("ConvTranspose", onnx.Attrs{
		"kernel_shape": slices.Clone(win.Kernel), "strides": slices.Clone(win.Strides), "dilations": slices.Clone(win.Dilations),
		"pads": slices.Clone(win.Pads), "output_padding": outPad, "group": group,
	}, g, n.Inputs[1]), nil
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
