package onnx

import (
	"errors"
	"fmt"
	"slices"
)

// maxWindow bounds a window's sizes, strides, dilations and pads, so that no sum or
// product of two of them and a dimension overflows.
const maxWindow = 1 << 20

// Window describes how a Conv or pooling operator slides, with every default filled in.
type Window struct {
	Kernel, Strides, Dilations []int64
	Pads                       []int64 // begin of every axis, then end of every axis
}

// NodeWindow reads the sliding window of a Conv, ConvTranspose or pooling node;
// kernel is used where the node doesn't state one. auto_pad must have been resolved.
func NodeWindow(n *Node, kernel []int64) (Window, error) {
	k := n.Ints("kernel_shape", kernel)
	w := Window{
		Kernel:    k,
		Strides:   n.Ints("strides", slices.Repeat([]int64{1}, len(k))),
		Dilations: n.Ints("dilations", slices.Repeat([]int64{1}, len(k))),
		Pads:      n.Ints("pads", make([]int64, 2*len(k))),
	}
	if len(w.Strides) != len(k) || len(w.Dilations) != len(k) || len(w.Pads) != 2*len(k) {
		return w, errors.New("kernel_shape, strides, dilations and pads don't fit each other")
	}
	for _, v := range slices.Concat(k, w.Strides, w.Dilations) {
		if v < 1 || v > maxWindow {
			return w, fmt.Errorf("kernel_shape, strides and dilations must lie in 1 to %d, not %d", maxWindow, v)
		}
	}
	for _, p := range w.Pads {
		if p < 0 || p > maxWindow {
			return w, fmt.Errorf("pads must lie in 0 to %d, not %d", maxWindow, p)
		}
	}
	return w, nil
}

// Attrs adds the window's attributes, those that are not nil, to more.
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
func resolveAutoPad(n *Node, in Shape, kernel []int64) error {
	mode := n.Str("auto_pad", "NOTSET")
	delete(n.Attrs, "auto_pad")
	if mode == "NOTSET" || mode == "" {
		return nil
	}
	delete(n.Attrs, "pads")
	w, err := NodeWindow(n, kernel)
	if err != nil || mode == "VALID" {
		return err
	}
	if n.Op == "ConvTranspose" {
		return fmt.Errorf("auto_pad %q is not supported here", mode)
	}
	k := len(w.Kernel)
	if len(in) != k+2 {
		return fmt.Errorf("a window of %d axes needs rank %d", k, k+2)
	}
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
	return nil
}

// convolved reads a Conv or ConvTranspose: its input, weight, groups and window.
func convolved(c *Inference, n *Node, in []Shape,
	fits func(x, wt Shape, group int64) error) (x, wt Shape, group int64, w Window, err error) {
	if len(in) < 2 || len(in[0]) < 3 || len(in[1]) != len(in[0]) {
		return nil, nil, 0, w, errors.New("needs an input and a weight of the same rank")
	}
	x, wt, group = in[0], in[1], n.Int("group", 1)
	if err := fits(x, wt, group); err != nil {
		return nil, nil, 0, w, err
	}
	if !c.mixes && (x[1] < 0 || wt.HasBatch()) {
		return nil, nil, 0, w, errors.New("mixes the batch with other dimensions")
	}
	if t, ok := c.Graph.Consts[n.Input(1)]; ok && t.DType != Float {
		return nil, nil, 0, w, errors.New("its weight is not float32")
	}
	if err = resolveAutoPad(n, x, wt[2:]); err == nil {
		w, err = NodeWindow(n, wt[2:])
	}
	return x, wt, group, w, err
}

func convShape(c *Inference, n *Node, in []Shape) ([]Shape, error) {
	x, wt, _, w, err := convolved(c, n, in, func(x, wt Shape, group int64) error {
		if group < 1 || x[1] != wt[1]*group || wt[0]%group != 0 {
			return fmt.Errorf("weight %v doesn't fit in %d groups", wt, group)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !slices.Equal(w.Kernel, []int64(wt[2:])) {
		return nil, fmt.Errorf("kernel_shape %v is not the weight's %v", w.Kernel, wt)
	}
	out := Shape{x[0], wt[0]}
	for i, k := range w.Kernel {
		span := x[i+2] + w.Pads[i] + w.Pads[i+len(w.Kernel)] - (k-1)*w.Dilations[i] - 1
		if x[i+2] < 0 || span < 0 {
			return nil, fmt.Errorf("kernel %v is larger than the padded input", w.Kernel)
		}
		out = append(out, span/w.Strides[i]+1)
	}
	return []Shape{out}, nil
}

func convTransposeShape(c *Inference, n *Node, in []Shape) ([]Shape, error) {
	x, wt, group, w, err := convolved(c, n, in, func(x, wt Shape, group int64) error {
		if group < 1 || x[1] != wt[0] || wt[0]%group != 0 {
			return fmt.Errorf("weight %v doesn't fit", wt)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	k := len(w.Kernel)
	if k != len(x)-2 {
		return nil, fmt.Errorf("kernel_shape %v is not the weight's %v", w.Kernel, wt)
	}
	outPad := n.Ints("output_padding", make([]int64, k))
	size := n.Ints("output_shape", nil)
	if len(outPad) != k || (size != nil && len(size) != k) {
		return nil, errors.New("output_padding or output_shape doesn't fit the kernel")
	}
	out := Shape{x[0], wt[1] * group}
	for i := range k {
		if w.Kernel[i] != wt[i+2] || x[i+2] < 0 {
			return nil, fmt.Errorf("kernel_shape %v is not the weight's %v", w.Kernel, wt)
		}
		if outPad[i] < 0 || outPad[i] >= w.Strides[i] {
			// With dilation PyTorch allows more; ONNX Runtime computes something else then.
			return nil, fmt.Errorf("output_padding %v is not smaller than strides %v", outPad, w.Strides)
		}
		full := (x[i+2]-1)*w.Strides[i] + outPad[i] + (w.Kernel[i]-1)*w.Dilations[i] + 1
		if size != nil { // the standard derives the pads from output_shape: make them explicit
			total := full - size[i]
			if total < 0 || size[i] < 1 {
				return nil, fmt.Errorf("output_shape %v is larger than what the kernel covers", size)
			}
			w.Pads[i], w.Pads[i+k] = total-total/2, total/2
		}
		out = append(out, full-w.Pads[i]-w.Pads[i+k])
	}
	if size != nil {
		delete(n.Attrs, "output_shape")
		n.Set("pads", w.Pads)
	}
	return []Shape{out}, nil
}

func poolShape(_ *Inference, n *Node, in []Shape) ([]Shape, error) {
	x := in[0]
	kernel := n.Ints("kernel_shape", nil)
	if len(kernel) == 0 || len(x) != len(kernel)+2 {
		return nil, errors.New("kernel_shape doesn't fit the input")
	}
	if err := resolveAutoPad(n, x, nil); err != nil {
		return nil, err
	}
	w, err := NodeWindow(n, nil)
	if err != nil {
		return nil, err
	}
	if err := Shape(w.Kernel).Check(); err != nil {
		return nil, fmt.Errorf("kernel %v is out of range", w.Kernel)
	}
	out := Shape{x[0], x[1]}
	ceil, fits := n.Int("ceil_mode", 0) == 1, true
	pads := slices.Clone(w.Pads) // that give the same windows without ceil_mode
	for i, k := range w.Kernel {
		begin, end := w.Pads[i], w.Pads[i+len(kernel)]
		if begin >= k || end >= k {
			return nil, fmt.Errorf("pads %v are not smaller than the kernel %v", w.Pads, w.Kernel)
		}
		reach := (k-1)*w.Dilations[i] + 1
		span := x[i+2] + begin + end - reach
		if x[i+2] < 0 || span < 0 {
			return nil, fmt.Errorf("kernel %v is larger than the padded input", w.Kernel)
		}
		d := span/w.Strides[i] + 1
		if ceil {
			d = (span+w.Strides[i]-1)/w.Strides[i] + 1
			if (d-1)*w.Strides[i] >= x[i+2]+begin {
				d-- // a window must not begin in the end padding
			}
			covered := (d-1)*w.Strides[i] + reach
			if n.Int("count_include_pad", 0) == 1 && covered > x[i+2]+begin+end {
				return nil, errors.New("has ceil_mode and count_include_pad and windows beyond the padding, which " +
					"PyTorch and ONNX Runtime count differently")
			}
			pads[i+len(kernel)] = max(covered-x[i+2]-begin, 0)
			fits = fits && pads[i+len(kernel)] < k
		}
		out = append(out, d)
	}
	if ceil && fits { // ONNX Runtime's shape Inference forgets that a window may be left out
		delete(n.Attrs, "ceil_mode")
		n.Set("pads", pads)
	}
	if n.Op == "MaxPool" {
		return []Shape{out, out}, nil
	}
	return []Shape{out}, nil
}

func globalPoolShape(_ *Inference, _ *Node, in []Shape) ([]Shape, error) {
	if len(in[0]) < 3 {
		return nil, errors.New("needs rank 3 or more")
	}
	out := slices.Clone(in[0])
	for i := 2; i < len(out); i++ {
		if out[i] < 0 {
			return nil, errors.New("mixes the batch with other dimensions")
		}
		out[i] = 1
	}
	return []Shape{out}, nil
}

func padShape(_ *Inference, n *Node, in []Shape, pads []int64) ([]Shape, error) {
	r := len(in[0])
	if len(pads) != 2*r || n.Input(3) != "" {
		return nil, fmt.Errorf("pads %v don't fit", pads)
	}
	out := slices.Clone(in[0])
	for i := range r {
		if max(pads[i], pads[i+r]) > MaxDimension || min(pads[i], pads[i+r]) < -MaxDimension {
			return nil, fmt.Errorf("pads %v are out of range", pads)
		}
		if out[i] < 0 {
			if pads[i] != 0 || pads[i+r] != 0 {
				return nil, errors.New("pads the batch")
			}
			continue
		}
		if min(pads[i], pads[i+r]) < -out[i] {
			return nil, fmt.Errorf("pads %v cut more than there is", pads)
		}
		out[i] += pads[i] + pads[i+r]
	}
	return []Shape{out}, nil
}

func depthToSpaceShape(_ *Inference, n *Node, in []Shape) ([]Shape, error) {
	b, x := n.Int("blocksize", 1), in[0]
	if mode := n.Str("mode", "DCR"); mode != "DCR" && mode != "CRD" {
		return nil, fmt.Errorf("mode %q is not known", mode)
	}
	if len(x) != 4 || b < 1 || b > maxWindow || x[1:].HasBatch() || x[1]%(b*b) != 0 {
		return nil, fmt.Errorf("blocksize %d doesn't fit", b)
	}
	return []Shape{{x[0], x[1] / (b * b), x[2] * b, x[3] * b}}, nil
}

func spaceToDepthShape(_ *Inference, n *Node, in []Shape) ([]Shape, error) {
	b, x := n.Int("blocksize", 1), in[0]
	if len(x) != 4 || b < 1 || b > maxWindow || x[1:].HasBatch() || x[2]%b != 0 || x[3]%b != 0 {
		return nil, fmt.Errorf("blocksize %d doesn't fit", b)
	}
	return []Shape{{x[0], x[1] * b * b, x[2] / b, x[3] / b}}, nil
}

// resizeShape takes whole scales or, with axes 1 and up, the sizes of all
// dimensions but the batch: openSizes brings other nodes to that.
func resizeShape(c *Inference, n *Node, in []Shape) ([]Shape, error) {
	x := in[0]
	axes := n.Ints("axes", nil)
	if n.Str("keep_aspect_ratio_policy", "stretch") != "stretch" {
		return nil, errors.New("keep_aspect_ratio_policy is not supported")
	}
	if len(x) < 2 || x[0] != Batch {
		return nil, fmt.Errorf("needs a batch of images, not %v", x)
	}
	if n.Input(3) != "" {
		sizes, err := c.IntsOf(n, 3)
		if err != nil {
			return nil, err
		}
		if len(sizes) != len(x)-1 || len(axes) != len(sizes) {
			return nil, fmt.Errorf("sizes %v don't fit", sizes)
		}
		for i, a := range axes {
			if a != int64(i+1) {
				return nil, fmt.Errorf("axes %v are not supported", axes)
			}
		}
		return []Shape{append(Shape{x[0]}, sizes...)}, nil
	}
	scales, err := c.FloatsOf(n, 2)
	if err != nil {
		return nil, err
	}
	if len(scales) != len(x) || scales[0] != 1 || len(axes) > 0 {
		return nil, fmt.Errorf("scales %v don't fit", scales)
	}
	out := slices.Clone(x)
	for i, s := range scales[1:] {
		if !(s > 0 && s < 1024) {
			return nil, fmt.Errorf("scale %v is out of range", s)
		}
		out[i+1] = int64(s * float32(out[i+1])) // in float32, as ONNX Runtime does
	}
	return []Shape{out}, nil
}

// maxUnpoolShape takes nodes without output_shape, which unpool brings others to.
func maxUnpoolShape(_ *Inference, n *Node, in []Shape) ([]Shape, error) {
	out, err := Unpooled(n, in[0])
	if err != nil {
		return nil, err
	}
	if !slices.Equal(in[0], in[1]) || n.Input(2) != "" {
		return nil, fmt.Errorf("indices of shape %v or an output shape don't fit", in[1])
	}
	return []Shape{out}, nil
}

// unpooled is the shape that a MaxUnpool gives where it states none: that of the
// MaxPool's input whose windows fill it.
func Unpooled(n *Node, x Shape) (Shape, error) {
	kernel := n.Ints("kernel_shape", nil)
	if len(kernel) == 0 || len(x) != len(kernel)+2 || x[0] != Batch {
		return nil, errors.New("kernel_shape doesn't fit a batch of images")
	}
	w, err := NodeWindow(n, nil)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(x)
	for i, k := range w.Kernel {
		if out[i+2] = (x[i+2]-1)*w.Strides[i] + k - w.Pads[i] - w.Pads[i+len(kernel)]; out[i+2] < 1 {
			return nil, fmt.Errorf("pads %v leave nothing", w.Pads)
		}
	}
	return out, out.Check()
}
