package onnx

import "slices"

// maxWindow bounds a window's sizes, strides, dilations and pads, so that no sum or product of two of them and a
// dimension overflows.
const maxWindow = 1 << 20

// Window describes how a Conv or pooling operator slides, with every default filled in.
type Window struct {
	Kernel, Strides, Dilations []int64
	Pads                       []int64 // begin of every axis, then end of every axis
}

// NodeWindow reads the sliding window of a Conv, ConvTranspose or pooling node; kernel is used if the node gives none.
// auto_pad must have been resolved.
func NodeWindow(n *Node, kernel []int64) (w Window, err error) {
	defer Refused(&err)
	k := n.Ints("kernel_shape", kernel)
	w = Window{
		Kernel:    k,
		Strides:   n.Ints("strides", slices.Repeat([]int64{1}, len(k))),
		Dilations: n.Ints("dilations", slices.Repeat([]int64{1}, len(k))),
		Pads:      n.Ints("pads", make([]int64, 2*len(k))),
	}
	Require(len(w.Strides) == len(k) && len(w.Dilations) == len(k) && len(w.Pads) == 2*len(k),
		"kernel_shape, strides, dilations and pads don't fit each other")
	for _, v := range slices.Concat(k, w.Strides, w.Dilations) {
		Require(v >= 1 && v <= maxWindow, "kernel_shape, strides and dilations must lie in 1 to %d, not %d",
			maxWindow, v)
	}
	for _, p := range w.Pads {
		Require(p >= 0 && p <= maxWindow, "pads must lie in 0 to %d, not %d", maxWindow, p)
	}
	return w, nil
}

// Attrs adds the window's attributes that are not nil to more.
func (w Window) Attrs(more Attrs) Attrs {
	for name, list := range map[string][]int64{
		"kernel_shape": w.Kernel, "strides": w.Strides, "dilations": w.Dilations, "pads": w.Pads,
	} {
		if list != nil {
			more[name] = list
		}
	}
	return more
}

// resolveAutoPad turns auto_pad into explicit pads.
func resolveAutoPad(n *Node, in Shape, kernel []int64) {
	mode := n.Str("auto_pad", "NOTSET")
	delete(n.Attrs, "auto_pad")
	if mode == "NOTSET" || mode == "" {
		return
	}
	delete(n.Attrs, "pads")
	w := Sure(NodeWindow(n, kernel))
	if mode == "VALID" {
		return
	}
	Require(n.Op != "ConvTranspose", "auto_pad %q is not supported here", mode)
	k := len(w.Kernel)
	Require(len(in) == k+2, "a window of %d axes needs rank %d", k, k+2)
	pads := make([]int64, 2*k)
	for i := range k {
		d, s := in[i+2], w.Strides[i]
		total := max(0, ((d+s-1)/s-1)*s+(w.Kernel[i]-1)*w.Dilations[i]+1-d)
		pads[i], pads[i+k] = total/2, total-total/2
		if mode == "SAME_LOWER" {
			pads[i], pads[i+k] = pads[i+k], pads[i]
		}
	}
	n.Set("pads", pads)
}

// convolved reads a Conv or ConvTranspose: its input, weight, groups and window.
func convolved(c *Inference, n *Node, in []Shape) (x, wt Shape, group int64, w Window) {
	x, wt, group = in[0], in[1], n.Int("group", 1)
	Require(len(x) >= 3 && len(wt) == len(x), "needs an input and a weight of the same rank")
	channels := wt[1] * group
	if n.Op == "ConvTranspose" {
		channels = wt[0]
	}
	Require(group >= 1 && x[1] == channels && wt[0]%group == 0, "weight %v doesn't fit in %d groups", wt, group)
	Require(c.mixes || x[1] >= 0 && !wt.HasBatch(), "mixes the batch with other dimensions")
	t, constant := c.Graph.Consts[n.Input(1)]
	Require(!constant || t.DType == Float, "its weight is not float32")
	resolveAutoPad(n, x, wt[2:])
	return x, wt, group, Sure(NodeWindow(n, wt[2:]))
}

func convShape(c *Inference, n *Node, in []Shape) []Shape {
	x, wt, _, w := convolved(c, n, in)
	Require(slices.Equal(w.Kernel, []int64(wt[2:])), "kernel_shape %v is not the weight's %v", w.Kernel, wt)
	out := Shape{x[0], wt[0]}
	for i, k := range w.Kernel {
		span := x[i+2] + w.Pads[i] + w.Pads[i+len(w.Kernel)] - (k-1)*w.Dilations[i] - 1
		Require(x[i+2] >= 0 && span >= 0, "kernel %v is larger than the padded input", w.Kernel)
		out = append(out, span/w.Strides[i]+1)
	}
	return []Shape{out}
}

func convTransposeShape(c *Inference, n *Node, in []Shape) []Shape {
	x, wt, group, w := convolved(c, n, in)
	k := len(w.Kernel)
	Require(k == len(x)-2, "kernel_shape %v is not the weight's %v", w.Kernel, wt)
	outPad := n.Ints("output_padding", make([]int64, k))
	size := n.Ints("output_shape", nil)
	Require(len(outPad) == k && (size == nil || len(size) == k),
		"output_padding or output_shape doesn't fit the kernel")
	out := Shape{x[0], wt[1] * group}
	for i := range k {
		Require(w.Kernel[i] == wt[i+2] && x[i+2] >= 0, "kernel_shape %v is not the weight's %v", w.Kernel, wt)
		// With dilation PyTorch allows more, but ONNX Runtime then computes something else.
		Require(outPad[i] >= 0 && outPad[i] < w.Strides[i], "output_padding %v is not smaller than strides %v", outPad,
			w.Strides)
		full := (x[i+2]-1)*w.Strides[i] + outPad[i] + (w.Kernel[i]-1)*w.Dilations[i] + 1
		if size != nil { // the standard derives the pads from output_shape: make them explicit
			total := full - size[i]
			Require(total >= 0 && size[i] >= 1, "output_shape %v is larger than what the kernel covers", size)
			w.Pads[i], w.Pads[i+k] = total-total/2, total/2
		}
		out = append(out, full-w.Pads[i]-w.Pads[i+k])
	}
	if size != nil {
		delete(n.Attrs, "output_shape")
		n.Set("pads", w.Pads)
	}
	return []Shape{out}
}

func poolShape(_ *Inference, n *Node, in []Shape) []Shape {
	x := in[0]
	k := len(n.Ints("kernel_shape", nil))
	Require(k > 0 && len(x) == k+2, "kernel_shape doesn't fit the input")
	resolveAutoPad(n, x, nil)
	w := Sure(NodeWindow(n, nil))
	Require(Shape(w.Kernel).Check() == nil, "kernel %v is out of range", w.Kernel)
	out := Shape{x[0], x[1]}
	ceil, fits := n.Int("ceil_mode", 0) == 1, true
	pads := slices.Clone(w.Pads) // they give the same windows without ceil_mode
	for i, size := range w.Kernel {
		begin, end, stride := w.Pads[i], w.Pads[i+k], w.Strides[i]
		Require(begin < size && end < size, "pads %v are not smaller than the kernel %v", w.Pads, w.Kernel)
		reach := (size-1)*w.Dilations[i] + 1
		span := x[i+2] + begin + end - reach
		Require(x[i+2] >= 0 && span >= 0, "kernel %v is larger than the padded input", w.Kernel)
		d := span/stride + 1
		if ceil {
			d = (span+stride-1)/stride + 1
			if (d-1)*stride >= x[i+2]+begin {
				d-- // a window must not begin in the end padding
			}
			covered := (d-1)*stride + reach
			Require(n.Int("count_include_pad", 0) != 1 || covered <= x[i+2]+begin+end, "has ceil_mode and "+
				"count_include_pad and windows beyond the padding, which PyTorch and ONNX Runtime count differently")
			pads[i+k] = max(covered-x[i+2]-begin, 0)
			fits = fits && pads[i+k] < size
		}
		out = append(out, d)
	}
	if ceil && fits { // ONNX Runtime's shape inference forgets that a window may be left out
		delete(n.Attrs, "ceil_mode")
		n.Set("pads", pads)
	}
	if n.Op == "MaxPool" {
		return []Shape{out, out}
	}
	return []Shape{out}
}

func globalPoolShape(_ *Inference, _ *Node, in []Shape) []Shape {
	Require(len(in[0]) >= 3, "needs rank 3 or more")
	Require(!in[0][2:].HasBatch(), "mixes the batch with other dimensions")
	return []Shape{append(slices.Clone(in[0][:2]), slices.Repeat(Shape{1}, len(in[0])-2)...)}
}

func padShape(_ *Inference, n *Node, in []Shape, pads []int64) []Shape {
	r := len(in[0])
	Require(len(pads) == 2*r && n.Input(3) == "", "pads %v don't fit", pads)
	out := slices.Clone(in[0])
	for i := range r {
		low, high := min(pads[i], pads[i+r]), max(pads[i], pads[i+r])
		Require(high <= MaxDimension && low >= -MaxDimension, "pads %v are out of range", pads)
		if out[i] < 0 {
			Require(low == 0 && high == 0, "pads the batch")
			continue
		}
		Require(low >= -out[i], "pads %v cut more than there is", pads)
		out[i] += low + high
	}
	return []Shape{out}
}

// blockShape handles DepthToSpace and SpaceToDepth.
func blockShape(_ *Inference, n *Node, in []Shape) []Shape {
	b, x, mode := n.Int("blocksize", 1), in[0], n.Str("mode", "DCR")
	Require(mode == "DCR" || mode == "CRD" || n.Op == "SpaceToDepth", "mode %q is not known", mode)
	fits := len(x) == 4 && b >= 1 && b <= maxWindow && !x[1:].HasBatch()
	if n.Op == "SpaceToDepth" {
		Require(fits && x[2]%b == 0 && x[3]%b == 0, "blocksize %d doesn't fit", b)
		return []Shape{{x[0], x[1] * b * b, x[2] / b, x[3] / b}}
	}
	Require(fits && x[1]%(b*b) == 0, "blocksize %d doesn't fit", b)
	return []Shape{{x[0], x[1] / (b * b), x[2] * b, x[3] * b}}
}

// resizeShape takes whole scales or, with axes 1 and up, the sizes of all dimensions except the batch; openSizes brings
// other nodes into that form.
func resizeShape(c *Inference, n *Node, in []Shape) []Shape {
	x := in[0]
	axes := n.Ints("axes", nil)
	Require(n.Str("keep_aspect_ratio_policy", "stretch") == "stretch", "keep_aspect_ratio_policy is not supported")
	Require(n.Str("coordinate_transformation_mode", "") != "tf_crop_and_resize",
		"crops (tf_crop_and_resize), which is not supported")
	Require(len(x) >= 2 && x[0] == Batch, "needs a batch of images, not %v", x)
	if n.Input(3) != "" {
		sizes := Sure(c.IntsOf(n, 3))
		Require(len(sizes) == len(x)-1 && len(axes) == len(sizes), "sizes %v don't fit", sizes)
		Require(slices.Equal(axes, Range(1, len(x))), "axes %v are not supported", axes)
		return []Shape{append(Shape{x[0]}, sizes...)}
	}
	scales := Sure(c.FloatsOf(n, 2))
	Require(len(scales) == len(x) && scales[0] == 1 && len(axes) == 0, "scales %v don't fit", scales)
	out := slices.Clone(x)
	for i, s := range scales[1:] {
		Require(s > 0 && s < 1024, "scale %v is out of range", s)
		out[i+1] = int64(s * float32(out[i+1])) // in float32, as ONNX Runtime does
	}
	return []Shape{out}
}

// maxUnpoolShape takes nodes without output_shape; unpool brings others into that form.
func maxUnpoolShape(_ *Inference, n *Node, in []Shape) []Shape {
	out := Unpooled(n, in[0])
	Require(slices.Equal(in[0], in[1]) && n.Input(2) == "", "indices of shape %v or an output shape don't fit", in[1])
	return []Shape{out}
}

// Unpooled returns the shape of a MaxUnpool that gives none: the input shape of the MaxPool whose windows fill it. It
// refuses a window that does not fit.
func Unpooled(n *Node, x Shape) Shape {
	k := len(n.Ints("kernel_shape", nil))
	Require(k > 0 && len(x) == k+2 && x[0] == Batch, "kernel_shape doesn't fit a batch of images")
	w := Sure(NodeWindow(n, nil))
	out := slices.Clone(x)
	for i, size := range w.Kernel {
		out[i+2] = (x[i+2]-1)*w.Strides[i] + size - w.Pads[i] - w.Pads[i+k]
		Require(out[i+2] >= 1, "pads %v leave nothing", w.Pads)
	}
	return Sure(out, out.Check())
}

func gridSampleShape(_ *Inference, _ *Node, in []Shape) []Shape {
	x, grid := in[0], in[1]
	Require(len(x) == 4 && len(grid) == 4 && grid[3] == 2 && x[0] == grid[0],
		"samples %v at places of %v; images and [N, height, width, 2] are supported", x, grid)
	return []Shape{{x[0], x[1], grid[1], grid[2]}}
}

func affineGridShape(_ *Inference, _ *Node, in []Shape, size []int64) []Shape {
	Require(len(size) == 4 && slices.Equal(in[0][1:], Shape{2, 3}) && min(size[2], size[3]) >= 1,
		"makes a grid of size %v by %v; those of images by [N, 2, 3] are supported", size, in[0])
	return []Shape{{in[0][0], size[2], size[3], 2}}
}
