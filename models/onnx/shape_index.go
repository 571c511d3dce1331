package onnx

import "slices"

func gatherShape(c *Inference, n *Node, in []Shape, a int) []Shape {
	x, d := in[0], in[0][a]
	Require(d >= 0, "picks from the batch")
	indices, _ := c.IntsOf(n, 1)
	for _, i := range indices {
		if i < -d || i >= d {
			Refuse("index %d is outside %v", i, x)
		}
	}
	return []Shape{slices.Concat(x[:a], in[1], x[a+1:])}
}

func expandShape(_ *Inference, _ *Node, in []Shape, target []int64) []Shape {
	Require(len(target) == 0 || slices.Min(target) >= 1, "expands to %v", target)
	return []Shape{Sure(Broadcast(in[0], target))}
}

func splitShape(c *Inference, n *Node, in []Shape, a int) []Shape {
	var out []Shape
	for _, part := range c.splitSizes(n, in[0][a]) {
		s := slices.Clone(in[0])
		s[a] = part
		out = append(out, s)
	}
	return out
}

// SplitSizes lists the sizes of a Split node's outputs along its axis. It refuses sizes that do not fit.
func (g *Graph) SplitSizes(n *Node) []int64 {
	in := g.Shapes[n.Input(0)]
	return (&Inference{Graph: g}).splitSizes(n, in[n.AxisOf(len(in))])
}

// splitSizes divides d, the size of the axis that n splits, among its outputs.
func (c *Inference) splitSizes(n *Node, d int64) (parts []int64) {
	Require(d >= 0, "splits the batch")
	if n.Input(1) != "" {
		parts = Sure(c.IntsOf(n, 1))
	} else {
		k := n.Int("num_outputs", int64(len(n.Outputs)))
		Require(k == int64(len(n.Outputs)), "num_outputs %d is not its number of outputs", k)
		size := (d + k - 1) / k
		for left := d; left > 0; left -= size {
			parts = append(parts, min(size, left))
		}
	}
	Require(len(parts) == len(n.Outputs), "gives %d parts to %d outputs", len(parts), len(n.Outputs))
	sum := int64(0)
	for _, p := range parts {
		Require(p >= 1 && p <= d, "parts %v don't fit %d", parts, d)
		sum += p
	}
	Require(sum == d, "parts %v don't add up to %d", parts, d)
	return parts
}

func tileShape(_ *Inference, _ *Node, in []Shape, repeats []int64) []Shape {
	Require(len(repeats) == len(in[0]), "repeats %v don't fit", repeats)
	out := slices.Clone(in[0])
	for i, r := range repeats {
		Require(r >= 1 && r <= MaxDimension, "repeats %v are out of range", repeats)
		Require(out[i] > 0 || r == 1, "repeats the batch")
		out[i] *= r
	}
	return []Shape{out}
}

func cumSumShape(_ *Inference, _ *Node, in []Shape, at []int64) []Shape {
	axes := Sure(Axes(at, len(in[0])))
	Require(len(axes) == 1 && in[0][axes[0]] >= 0, "adds up along the batch, or along no axis")
	return in[:1]
}

func triluShape(_ *Inference, _ *Node, in []Shape) []Shape {
	r := len(in[0])
	Require(r >= 2 && !in[0][r-2:].HasBatch(), "needs matrices without the batch in them")
	return in[:1]
}

// scatterNDShape handles tensors without a batch, such as masks filled by slices.
func scatterNDShape(_ *Inference, _ *Node, in []Shape) []Shape {
	Require(!slices.ContainsFunc(in[:3], Shape.HasBatch), "puts values into a batch")
	return in[:1]
}

// gatherNDShape handles tensors without a batch, such as tables that are read once.
func gatherNDShape(_ *Inference, n *Node, in []Shape) []Shape {
	x, at := in[0], in[1]
	Require(len(at) > 0 && !x.HasBatch() && !at.HasBatch() && n.Int("batch_dims", 0) == 0, "picks from the batch")
	last := len(at) - 1
	Require(at[last] <= int64(len(x)), "indices of shape %v don't fit %v", at, x)
	return []Shape{slices.Concat(at[:last], x[at[last]:])}
}

// elementsShape handles GatherElements and ScatterElements, whose indices must not exceed the data's shape.
func elementsShape(c *Inference, n *Node, in []Shape) []Shape {
	x, at := alongAxis(c, n, in)[0], in[1]
	along := n.AxisOf(len(x))
	Require(len(at) == len(x), "indices of shape %v don't fit %v", at, x)
	for i, d := range at {
		Require(i == along || d <= x[i] && (d < 0) == (x[i] < 0), "indices of shape %v don't fit %v", at, x)
	}
	if n.Op == "GatherElements" {
		return in[1:2]
	}
	Require(slices.Equal(in[2], at), "updates of shape %v don't fit indices of %v", in[2], at)
	return in[:1]
}

func reduceShape(c *Inference, n *Node, in []Shape) []Shape {
	axes := Sure(c.IntsOr(n, 1, nil))
	if len(axes) == 0 {
		if n.Int("noop_with_empty_axes", 0) == 1 {
			return in[:1]
		}
		axes = Range(0, len(in[0]))
	}
	return reduceAlong(in[0], axes, n.Int("keepdims", 1) == 1, c.mixes && n.Op == "ReduceSum")
}

// reduceAlong drops axes, or keeps them as 1; the batch only where mixes is set.
func reduceAlong(in Shape, axes []int64, keep, mixes bool) []Shape {
	resolved := Sure(Axes(axes, len(in)))
	out := Shape{}
	for i, d := range in {
		reduced := slices.Contains(resolved, i)
		Require(!reduced || d >= 0 || mixes, "reduces the batch")
		if !reduced {
			out = append(out, d)
		} else if keep {
			out = append(out, 1)
		}
	}
	return []Shape{out}
}

func argShape(_ *Inference, n *Node, in []Shape) []Shape {
	return reduceAlong(in[0], []int64{n.Axis()}, n.Int("keepdims", 1) == 1, false)
}

func gemmShape(c *Inference, n *Node, in []Shape) []Shape {
	Require(len(in[0]) == 2 && len(in[1]) == 2, "needs two matrices")
	m, k := in[0][0], in[0][1]
	if n.Int("transA", 0) == 1 {
		m, k = k, m
	}
	k2, p := in[1][0], in[1][1]
	if n.Int("transB", 0) == 1 {
		k2, p = p, k2
	}
	Require(k == k2 && (k >= 0 || c.mixes), "inner dimensions of %v and %v differ or are the batch", in[0], in[1])
	out := Shape{m, p}
	if n.Input(2) != "" {
		full, err := Broadcast(in[2], out)
		Require(err == nil && slices.Equal(full, out), "its input %q has shape %v, which does not fit %v", n.Inputs[2],
			in[2], out)
	}
	return []Shape{out}
}

func matMulShape(c *Inference, _ *Node, in []Shape) []Shape {
	a, b := in[0], in[1]
	Require(len(a) >= 2 && len(b) >= 2, "needs two inputs of rank 2 or more")
	row, column := len(a)-2, len(b)-1
	Require(a[row+1] == b[column-1] && (a[row+1] >= 0 || c.mixes),
		"inner dimensions of %v and %v differ or are the batch", a, b)
	return []Shape{append(Sure(Broadcast(a[:row], b[:column-1])), a[row], b[column])}
}

func topKShape(_ *Inference, n *Node, in []Shape, k []int64) []Shape {
	a := n.AxisOf(len(in[0]))
	Require(len(k) == 1 && k[0] >= 1 && k[0] <= in[0][a], "can't take the top %v of %v", k, in[0])
	out := slices.Clone(in[0])
	out[a] = k[0]
	return []Shape{out, out}
}

func oneHotShape(_ *Inference, n *Node, in []Shape, depth []int64) []Shape {
	Require(len(depth) == 1 && depth[0] >= 1 && n.Axis() == -1, "needs one depth and the last axis")
	return []Shape{append(slices.Clone(in[0]), depth[0])}
}
