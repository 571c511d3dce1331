package onnx

import (
	"errors"
	"fmt"
	"slices"
)

func gatherShape(c *Inference, n *Node, in []Shape, a int) ([]Shape, error) {
	if in[0][a] < 0 {
		return nil, errors.New("picks from the batch")
	}
	if indices, err := c.IntsOf(n, 1); err == nil {
		for _, i := range indices {
			if i < -in[0][a] || i >= in[0][a] {
				return nil, fmt.Errorf("index %d is outside %v", i, in[0])
			}
		}
	}
	out := slices.Clone(in[0][:a])
	out = append(out, in[1]...)
	return []Shape{append(out, in[0][a+1:]...)}, nil
}

func expandShape(_ *Inference, _ *Node, in []Shape, target []int64) ([]Shape, error) {
	s := Shape(slices.Clone(target))
	for i := range s {
		if s[i] < 1 {
			return nil, fmt.Errorf("expands to %v", target)
		}
	}
	out, err := Broadcast(in[0], s)
	return []Shape{out}, err
}

func splitShape(c *Inference, n *Node, in []Shape, a int) ([]Shape, error) {
	parts, err := c.splitSizes(n, in[0][a])
	if err != nil {
		return nil, err
	}
	out := make([]Shape, len(parts))
	for i, p := range parts {
		out[i] = slices.Clone(in[0])
		out[i][a] = p
	}
	return out, nil
}

// SplitSizes lists the sizes of a Split node's outputs along its axis.
func (g *Graph) SplitSizes(n *Node) ([]int64, error) {
	in := g.Shapes[n.Input(0)]
	a, err := Axis(n, "axis", 0, len(in))
	if err != nil {
		return nil, err
	}
	return (&Inference{Graph: g}).splitSizes(n, in[a])
}

// splitSizes divides d, the size of the axis that n splits, among its outputs.
func (c *Inference) splitSizes(n *Node, d int64) (parts []int64, err error) {
	if d < 0 {
		return nil, errors.New("splits the batch")
	}
	if n.Input(1) != "" {
		if parts, err = c.IntsOf(n, 1); err != nil {
			return nil, err
		}
	} else {
		k := n.Int("num_outputs", int64(len(n.Outputs)))
		if k != int64(len(n.Outputs)) {
			return nil, fmt.Errorf("num_outputs %d is not its number of outputs", k)
		}
		size := (d + k - 1) / k
		for left := d; left > 0; left -= size {
			parts = append(parts, min(size, left))
		}
	}
	if len(parts) != len(n.Outputs) {
		return nil, fmt.Errorf("gives %d parts to %d outputs", len(parts), len(n.Outputs))
	}
	sum := int64(0)
	for _, p := range parts {
		if p < 1 || p > d {
			return nil, fmt.Errorf("parts %v don't fit %d", parts, d)
		}
		sum += p
	}
	if sum != d {
		return nil, fmt.Errorf("parts %v don't add up to %d", parts, d)
	}
	return parts, nil
}

// tileShape repeats every axis but the batch.
func tileShape(_ *Inference, _ *Node, in []Shape, repeats []int64) ([]Shape, error) {
	if len(repeats) != len(in[0]) {
		return nil, fmt.Errorf("repeats %v don't fit", repeats)
	}
	out := slices.Clone(in[0])
	for i, r := range repeats {
		switch {
		case r < 1 || r > MaxDimension:
			return nil, fmt.Errorf("repeats %v are out of range", repeats)
		case out[i] > 0:
			out[i] *= r
		case r != 1:
			return nil, errors.New("repeats the batch")
		}
	}
	return []Shape{out}, nil
}

func cumSumShape(_ *Inference, _ *Node, in []Shape, at []int64) ([]Shape, error) {
	axes, err := Axes(at, len(in[0]))
	if err != nil {
		return nil, err
	}
	if len(axes) != 1 || in[0][axes[0]] < 0 {
		return nil, errors.New("adds up along the batch, or along no axis")
	}
	return []Shape{in[0]}, nil
}

func triluShape(_ *Inference, n *Node, in []Shape) ([]Shape, error) {
	if r := len(in[0]); r < 2 || in[0][r-2:].HasBatch() {
		return nil, errors.New("needs matrices without the batch in them")
	}
	return []Shape{in[0]}, nil
}

// scatterNDShape is for tensors without a batch: masks, which are filled by slices.
func scatterNDShape(_ *Inference, _ *Node, in []Shape) ([]Shape, error) {
	if in[0].HasBatch() || in[1].HasBatch() || in[2].HasBatch() {
		return nil, errors.New("puts values into a batch")
	}
	return []Shape{in[0]}, nil
}

// gatherNDShape is for tensors without a batch: tables that are read once.
func gatherNDShape(_ *Inference, n *Node, in []Shape) ([]Shape, error) {
	x, at := in[0], in[1]
	if len(at) == 0 || x.HasBatch() || at.HasBatch() || n.Int("batch_dims", 0) != 0 {
		return nil, errors.New("picks from the batch")
	}
	depth := at[len(at)-1]
	if depth > int64(len(x)) {
		return nil, fmt.Errorf("indices of shape %v don't fit %v", at, x)
	}
	return []Shape{append(slices.Clone(at[:len(at)-1]), x[depth:]...)}, nil
}

func gatherElementsShape(c *Inference, n *Node, in []Shape) ([]Shape, error) {
	_, err := alongAxis(0)(c, n, in)
	return []Shape{in[1]}, err
}

func reduceShape(c *Inference, n *Node, in []Shape) ([]Shape, error) {
	axes, err := c.IntsOr(n, 1, nil)
	if err != nil {
		return nil, err
	}
	if len(axes) == 0 {
		if n.Int("noop_with_empty_axes", 0) == 1 {
			return []Shape{in[0]}, nil
		}
		axes = Range(0, len(in[0]))
	}
	return reduceAlong(in[0], axes, n.Int("keepdims", 1) == 1, c.mixes && n.Op == "ReduceSum")
}

// reduceAlong drops axes, or keeps them as 1; the batch only where mixes is set.
func reduceAlong(in Shape, axes []int64, keep, mixes bool) ([]Shape, error) {
	resolved, err := Axes(axes, len(in))
	if err != nil {
		return nil, err
	}
	out := Shape{}
	for i, d := range in {
		switch {
		case slices.Contains(resolved, i) && d < 0 && !mixes:
			return nil, errors.New("reduces the batch")
		case !slices.Contains(resolved, i):
			out = append(out, d)
		case keep:
			out = append(out, 1)
		}
	}
	return []Shape{out}, nil
}

func argShape(_ *Inference, n *Node, in []Shape) ([]Shape, error) {
	return reduceAlong(in[0], []int64{n.Int("axis", 0)}, n.Int("keepdims", 1) == 1, false)
}

func gemmShape(c *Inference, n *Node, in []Shape) ([]Shape, error) {
	if len(in) < 2 || len(in[0]) != 2 || len(in[1]) != 2 {
		return nil, errors.New("needs two matrices")
	}
	m, k := in[0][0], in[0][1]
	if n.Int("transA", 0) == 1 {
		m, k = k, m
	}
	k2, p := in[1][0], in[1][1]
	if n.Int("transB", 0) == 1 {
		k2, p = p, k2
	}
	if k != k2 || k < 0 && !c.mixes {
		return nil, fmt.Errorf("inner dimensions of %v and %v differ or are the batch", in[0], in[1])
	}
	return []Shape{{m, p}}, nil
}

func matMulShape(c *Inference, _ *Node, in []Shape) ([]Shape, error) {
	if len(in) < 2 || len(in[0]) < 2 || len(in[1]) < 2 {
		return nil, errors.New("needs two inputs of rank 2 or more")
	}
	a, b := in[0], in[1]
	if k := a[len(a)-1]; k != b[len(b)-2] || k < 0 && !c.mixes {
		return nil, fmt.Errorf("inner dimensions of %v and %v differ or are the batch", a, b)
	}
	lead, err := Broadcast(a[:len(a)-2], b[:len(b)-2])
	if err != nil {
		return nil, err
	}
	return []Shape{append(slices.Clone(lead), a[len(a)-2], b[len(b)-1])}, nil
}

func topKShape(_ *Inference, n *Node, in []Shape, k []int64) ([]Shape, error) {
	a, err := Axis(n, "axis", -1, len(in[0]))
	if err != nil {
		return nil, err
	}
	if len(k) != 1 || k[0] < 1 || in[0][a] < 0 || k[0] > in[0][a] {
		return nil, fmt.Errorf("can't take the top %v of %v", k, in[0])
	}
	out := slices.Clone(in[0])
	out[a] = k[0]
	return []Shape{out, out}, nil
}

func oneHotShape(_ *Inference, n *Node, in []Shape, depth []int64) ([]Shape, error) {
	if len(depth) != 1 || depth[0] < 1 || n.Int("axis", -1) != -1 {
		return nil, errors.New("needs one depth and the last axis")
	}
	return []Shape{append(slices.Clone(in[0]), depth[0])}, nil
}
