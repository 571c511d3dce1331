package grad

import (
	"fmt"
	"slices"

	"selfheal/models/onnx"
)

// y = the largest value of each window: its cotangent goes to the place the
// value came from (the first one in row-major order at ties, as in PyTorch),
// added up where windows overlap. MaxPool's indices are flat over the whole
// batch; modulo the item's size they are places within the item.
func maxPool(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	x, y := c.Shape(n.Inputs[0]), c.Shape(n.Outputs[0])
	if n.Int("storage_order", 0) != 0 {
		return nil, fmt.Errorf("storage_order 1 is not supported")
	}
	attrs := onnx.Attrs{}
	for name := range n.Attrs {
		switch name {
		case "kernel_shape", "strides", "dilations", "pads":
			attrs[name] = slices.Clone(n.Ints(name, nil))
		case "ceil_mode":
			attrs[name] = n.Int(name, 0)
		}
	}
	// A pool of its own for the indices: the one in the forward pass keeps its fast layout.
	indices := c.Multi("MaxPool", attrs, 2, n.Inputs[0])[1]
	flatIn, flatOut := c.Ints(0, x[1:].Items()), c.Ints(0, y[1:].Items())
	size := c.Const(&onnx.Tensor{DType: onnx.Int64, Shape: onnx.Shape{}, Ints: []int64{x[1:].Items()}})
	at := c.Op("Mod", c.Op("Reshape", indices, flatOut), size)
	zeros := c.zerosLike(c.Op("Reshape", n.Inputs[0], flatIn))
	sum := c.OpWith("ScatterElements", onnx.Attrs{"axis": 1, "reduction": "add"}, zeros, at, c.Op("Reshape", gy[0], flatOut))
	return []string{c.Op("Reshape", sum, c.Ints(append([]int64{0}, x[1:]...)...))}, nil
}

// zerosLike gives a tensor of zeros, whatever the batch.
func (c *Context) zerosLike(t string) string { return c.Op("Clip", t, c.Float(0), c.Float(0)) }

// maxKernel bounds the values of the kernel that averagePool makes.
const maxKernel = 1 << 28

// y = the mean of each window: x̄ = the transposed convolution of g/count with
// ones, a channel at a time; count leaves out the padding unless count_include_pad.
func averagePool(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	x, y := c.Shape(n.Inputs[0]), c.Shape(n.Outputs[0])
	win, err := onnx.NodeWindow(n, nil)
	if err != nil {
		return nil, err
	}
	k := len(win.Kernel)
	work := x[1] * onnx.Shape(win.Kernel).Items()
	for i, d := range win.Kernel {
		work += d * y[i+2]
	}
	if work > maxKernel {
		return nil, fmt.Errorf("its kernel %v is too large", win.Kernel)
	}
	counts := windowCounts(win, x[2:], y[2:], n.Int("count_include_pad", 0) == 1)
	g := c.Op("Mul", gy[0], c.Const(counts))
	if y[2:].Items() == 1 && slices.Equal(win.Kernel, []int64(x[2:])) && !slices.ContainsFunc(win.Pads, func(p int64) bool { return p != 0 }) {
		ones := onnx.FloatTensor(append(onnx.Shape{1, 1}, x[2:]...), slices.Repeat([]float32{1}, int(x[2:].Items())))
		return []string{c.Op("Mul", g, c.Const(ones))}, nil // one window: every value gets the same
	}
	pads, outPad := slices.Clone(win.Pads), make([]int64, k)
	for i := range k {
		// ceil_mode may let windows reach past the end padding: crop what they cover there.
		covered := (y[i+2]-1)*win.Strides[i] + (win.Kernel[i]-1)*win.Dilations[i] + 1
		rest := covered - win.Pads[i] - x[i+2]
		pads[i+k] = max(rest, 0)
		outPad[i] = max(-rest, 0)
	}
	ones := onnx.FloatTensor(append(onnx.Shape{x[1], 1}, win.Kernel...), slices.Repeat([]float32{1}, int(x[1]*onnx.Shape(win.Kernel).Items())))
	return []string{c.OpWith("ConvTranspose", onnx.Attrs{
		"kernel_shape": slices.Clone(win.Kernel), "strides": slices.Clone(win.Strides), "dilations": slices.Clone(win.Dilations),
		"pads": pads, "output_padding": outPad, "group": x[1],
	}, g, c.Const(ones))}, nil
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
func globalAveragePool(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	x := c.Shape(n.Inputs[0])
	count := x[2:].Items()
	share := onnx.FloatTensor(append(onnx.Shape{1, 1}, x[2:]...), slices.Repeat([]float32{1 / float32(count)}, int(count)))
	return []string{c.Op("Mul", gy[0], c.Const(share))}, nil
}

// y = each value of x repeated (nearest upsampling by whole factors): x̄ sums g
// over the repeats: an average pool times their number.
func resize(c *Context, n *onnx.Node, gy []string) ([]string, error) {
	x, y := c.Shape(n.Inputs[0]), c.Shape(n.Outputs[0])
	if mode := n.Str("mode", "nearest"); mode != "nearest" {
		return nil, fmt.Errorf("mode %q is not supported", mode)
	}
	if len(x) < 3 || x[1] != y[1] {
		return nil, fmt.Errorf("resizes the channels")
	}
	scales, byScale := c.G.Consts[n.Input(2)]
	factors := []int64{}
	for i := 2; i < len(x); i++ {
		if y[i]%x[i] != 0 {
			return nil, fmt.Errorf("from %v to %v is not by a whole factor", x, y)
		}
		factors = append(factors, y[i]/x[i])
		if byScale && scales.Floats[i] != float32(y[i]/x[i]) { // samples by it, whatever the sizes
			return nil, fmt.Errorf("scale %v is not a whole factor", scales.Floats[i])
		}
	}
	// By whole factors every value is repeated alike, except where rounding up meets
	// corner-aligned coordinates.
	coord, rounding := n.Str("coordinate_transformation_mode", "half_pixel"), n.Str("nearest_mode", "round_prefer_floor")
	exact := coord == "asymmetric" && rounding == "floor" ||
		(coord == "half_pixel" || coord == "pytorch_half_pixel") && (rounding == "round_prefer_floor" || rounding == "round_prefer_ceil")
	if !exact {
		return nil, fmt.Errorf("coordinates %q with rounding %q are not supported", coord, rounding)
	}
	sum := c.OpWith("AveragePool", onnx.Attrs{"kernel_shape": factors, "strides": slices.Clone(factors)}, gy[0])
	return []string{c.Op("Mul", sum, c.Float(float32(onnx.Shape(factors).Items())))}, nil
}
