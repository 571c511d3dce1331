package onnx

import (
	"errors"
	"fmt"
	"slices"
)

func reduceShape(c *Inference, n *Node, in []Shape) ([]Shape, error) {
	var axes []int64
	if n.Input(1) != "" {
		var err error
		if axes, err = c.IntsOf(n, 1); err != nil {
			return nil, err
		}
	}
	if len(axes) == 0 {
		if n.Int("noop_with_empty_axes", 0) == 1 {
			return []Shape{in[0]}, nil
		}
		for i := range in[0] {
			axes = append(axes, int64(i))
		}
	}
	return reduceAlong(in[0], axes, n.Int("keepdims", 1) == 1, c.mixes && n.Op == "ReduceSum")
}

// reduceAlong drops axes, or keeps them as 1; the batch only where mixes is set.
func reduceAlong(in Shape, axes []int64, keep, mixes bool) ([]Shape, error) {
	resolved, err := Axes(axes, len(in))
	if err != nil {
		return nil, err
	}
	var out Shape
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
	if out == nil {
		out = Shape{}
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

func topKShape(c *Inference, n *Node, in []Shape) ([]Shape, error) {
	k, err := c.IntsOf(n, 1)
	if err != nil {
		return nil, err
	}
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

func oneHotShape(c *Inference, n *Node, in []Shape) ([]Shape, error) {
	depth, err := c.IntsOf(n, 1)
	if err != nil {
		return nil, err
	}
	if len(depth) != 1 || depth[0] < 1 || n.Int("axis", -1) != -1 {
		return nil, errors.New("needs one depth and the last axis")
	}
	return []Shape{append(slices.Clone(in[0]), depth[0])}, nil
}
