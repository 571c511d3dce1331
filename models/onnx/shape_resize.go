package onnx

import (
	"errors"
	"fmt"
	"slices"
)

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
