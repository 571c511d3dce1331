package grad

import (
	"slices"

	"selfheal/models/onnx"
)

// y = the largest value of each window, or of all positions: its cotangent goes to the place of that value (at ties the
// first in row-major order, as in PyTorch), added up over overlapping windows.
func maxPool(c *Context, n *onnx.Node, gy []string) []string {
	onnx.Require(n.Int("storage_order", 0) == 0, "storage_order 1 is not supported")
	if gy[0] == "" {
		return gy[:1]
	}
	x, y := c.Shape(n.Inputs[0]), c.Shape(n.Outputs[0])
	attrs, indices := n.Attrs, ""
	if n.Op == "GlobalMaxPool" {
		attrs = onnx.Attrs{"kernel_shape": slices.Clone([]int64(x[2:]))}
	}
	if len(n.Outputs) > 1 {
		indices = n.Outputs[1]
	}
	if indices == "" { // from a second pool: the one in the forward pass keeps its fast layout
		indices = c.Multi("MaxPool", attrs, 2, n.Inputs[0])[1]
	}
	at := c.withinItem(indices, y, x)
	zeros := c.zerosLike(c.Op("Reshape", n.Inputs[0], c.Ints(0, x[1:].Items())))
	sum := c.scatterAdd(1, zeros, at, c.Op("Reshape", gy[0], c.Ints(0, y[1:].Items())))
	return []string{c.Op("Reshape", sum, c.Ints(append([]int64{0}, x[1:]...)...))}
}

// withinItem turns MaxPool's indices, which are flat over the whole batch of a tensor of shape of, into places within
// the item, [N, …]. It takes them modulo the item's size, so they hold for any batch.
func (c *Context) withinItem(indices string, shape, of onnx.Shape) string {
	size := c.Const(onnx.IntScalar(of[1:].Items()))
	return c.Op("Mod", c.Op("Reshape", indices, c.Ints(0, shape[1:].Items())), size)
}

// y = zeros with each value of x at its index: x̄ = g at the indices. If two values have the same index, y holds one of
// them; both get its cotangent, as in PyTorch.
func maxUnpool(c *Context, n *onnx.Node, gy []string) []string {
	x, y := c.Shape(n.Inputs[0]), c.Shape(n.Outputs[0])
	at := c.withinItem(n.Inputs[1], x, y)
	g := c.OpWith("GatherElements", onnx.Attrs{"axis": 1}, c.Op("Reshape", gy[0], c.Ints(0, y[1:].Items())), at)
	return []string{c.Op("Reshape", g, c.Ints(append([]int64{0}, x[1:]...)...))}
}

// zerosLike returns zeros of t's shape, for any batch.
func (c *Context) zerosLike(t string) string { return c.Op("Clip", t, c.Float(0), c.Float(0)) }

// maxKernel bounds the number of values in averagePool's kernel.
const maxKernel = 1 << 28

// y = the mean of each window: x̄ = the transposed convolution of g/count with
// ones, a channel at a time; count leaves out the padding unless count_include_pad.
func averagePool(c *Context, n *onnx.Node, gy []string) []string {
	x, y := c.Shape(n.Inputs[0]), c.Shape(n.Outputs[0])
	win := onnx.Sure(onnx.NodeWindow(n, nil))
	work := x[1] * onnx.Shape(win.Kernel).Items()
	for i, d := range win.Kernel {
		work += d * y[i+2]
	}
	onnx.Require(work <= maxKernel, "its kernel %v is too large", win.Kernel)
	counts := windowCounts(win, x[2:], y[2:], n.Int("count_include_pad", 0) == 1)
	g := c.Op("Mul", gy[0], c.Const(counts))
	padded := slices.ContainsFunc(win.Pads, func(p int64) bool { return p != 0 })
	if y[2:].Items() == 1 && slices.Equal(win.Kernel, []int64(x[2:])) && !padded {
		ones := c.Const(onnx.Filled(1, append(onnx.Shape{1, 1}, x[2:]...)...))
		return []string{c.Op("Mul", g, ones)} // one window: every value gets the same cotangent
	}
	ones := onnx.Filled(1, append(onnx.Shape{x[1], 1}, win.Kernel...)...)
	return []string{c.OpWith("ConvTranspose", Transposed(win, x, y), g, c.Const(ones))}
}

// Transposed returns the attributes of the ConvTranspose that maps, for each channel, a pool's windows from the shape y
// back to x. With ceil_mode windows may reach past the end padding; it crops that part.
func Transposed(win onnx.Window, x, y onnx.Shape) onnx.Attrs {
	k := len(win.Kernel)
	pads, outPad := slices.Clone(win.Pads), make([]int64, k)
	for i := range k {
		covered := (y[i+2]-1)*win.Strides[i] + (win.Kernel[i]-1)*win.Dilations[i] + 1
		rest := covered - win.Pads[i] - x[i+2]
		pads[i+k], outPad[i] = max(rest, 0), max(-rest, 0)
	}
	win.Pads = pads
	return win.Attrs(onnx.Attrs{"output_padding": outPad, "group": x[1]})
}

// windowCounts returns 1/count for every output position, [1, 1, spatial…].
func windowCounts(win onnx.Window, in, out onnx.Shape, includePad bool) *onnx.Tensor {
	k := len(win.Kernel)
	perAxis := make([][]float32, k)
	for a := range k {
		perAxis[a] = make([]float32, out[a])
		for o := range out[a] {
			for p := range win.Kernel[a] {
				at := o*win.Strides[a] - win.Pads[a] + p*win.Dilations[a]
				if at >= 0 && at < in[a] || includePad && at >= -win.Pads[a] && at < in[a]+win.Pads[a+k] {
					perAxis[a][o]++
				}
			}
		}
	}
	t := onnx.FloatTensor(append(onnx.Shape{1, 1}, out...), make([]float32, out.Items()))
	for i := range t.Floats {
		rest, count := int64(i), float32(1)
		for a := k - 1; a >= 0; a-- {
			count *= perAxis[a][rest%out[a]]
			rest /= out[a]
		}
		t.Floats[i] = 1 / count
	}
	return t
}

// y = mean over all positions: x̄ = g/count at each of them
func globalAveragePool(c *Context, n *onnx.Node, gy []string) []string {
	x := c.Shape(n.Inputs[0])
	share := onnx.Filled(1/float32(x[2:].Items()), append(onnx.Shape{1, 1}, x[2:]...)...)
	return []string{c.Op("Mul", gy[0], c.Const(share))}
}
