package onnx

import "slices"

// reshapeShape resolves 0 (copy) and -1 (infer). A size inferred from a batch is the batch itself if the other sizes
// hold exactly one item. Otherwise it is a multiple of the batch, which joins it with the following dimensions, as
// attention does with its heads.
func reshapeShape(c *Inference, n *Node, in []Shape, target []int64) []Shape {
	x := in[0]
	out := make(Shape, len(target))
	infer, known, batch := -1, int64(1), false
	for i, d := range target {
		switch {
		case d == 0 && n.Int("allowzero", 0) == 0:
			Require(i < len(x), "target %v copies a dimension that is not there", target)
			d = x[i]
		case BatchFactor(d) > 0:
			d = -BatchFactor(d)
		case d == -1:
			Require(infer < 0, "target %v infers two dimensions", target)
			infer = i
			continue
		default:
			Require(d >= 0, "target %v has a negative dimension", target)
		}
		Require(d <= MaxDimension, "target %v has an impossible dimension", target)
		out[i] = d
		if d < 0 {
			Require(!batch, "target %v holds the batch twice", target)
			batch, d = true, -d
		}
		known *= d
		Require(known <= maxItems, "target %v has more than %d values an item", target, int64(maxItems))
	}
	items := x.Items()
	if infer < 0 {
		Require(known == items, "target %v has other than %d values an item", target, items)
	} else {
		Require(known != 0 && items%known == 0, "target %v doesn't divide %d values", target, items)
		if out[infer] = items / known; x.HasBatch() && !batch {
			out[infer], batch = -out[infer], true
		}
	}
	Require(batch == x.HasBatch(), "target %v fixes the batch size", target)
	Require(!batch || out.BeforeBatch() == x.BeforeBatch() || c.mixes,
		"target %v mixes the batch with other dimensions", target)
	return []Shape{out}
}

func flattenShape(_ *Inference, n *Node, in []Shape) []Shape {
	x := in[0]
	a := n.Axis()
	if a < 0 {
		a += int64(len(x))
	}
	Require(a >= 0 && a <= int64(len(x)), "axis %d is outside the tensor", a)
	rows, columns := x[:a].Items(), x[a:].Items()
	if x.HasBatch() {
		Require(a >= 1 && x[0] < 0, "mixes the batch with other dimensions")
		rows = -rows
	}
	return []Shape{{rows, columns}}
}

// Perm returns a Transpose node's permutation; by default the axes are reversed. It refuses what is none.
func Perm(n *Node, rank int) []int64 {
	axes := Range(0, rank)
	slices.Reverse(axes)
	p := n.Ints("perm", axes)
	Require(len(p) == rank, "perm %v doesn't fit", p)
	for _, a := range axes {
		Require(slices.Contains(p, a), "perm %v is not a permutation", p)
	}
	return p
}

// Inverse returns the permutation that undoes p.
func Inverse(p []int64) []int64 {
	inverse := make([]int64, len(p))
	for i, d := range p {
		inverse[d] = int64(i)
	}
	return inverse
}

func transposeShape(_ *Inference, n *Node, in []Shape) []Shape {
	return []Shape{Each(Perm(n, len(in[0])), func(d int64) int64 { return in[0][d] })}
}

func concatShape(_ *Inference, _ *Node, in []Shape, a int) []Shape {
	out := slices.Clone(in[0])
	for _, s := range in[1:] {
		Require(len(s) == len(out), "ranks differ: %v", s)
		for i := range s {
			Require(i == a || s[i] == out[i], "%v and %v differ off axis %d", out, s, a)
		}
		Require(s[a] >= 0 && out[a] >= 0, "joins along the batch")
		out[a] += s[a]
	}
	return []Shape{out}
}

func sliceShape(c *Inference, n *Node, in []Shape) []Shape {
	starts, ends := Sure(c.IntsOf(n, 1)), Sure(c.IntsOf(n, 2))
	axes := Sure(c.IntsOr(n, 3, Range(0, len(starts))))
	steps := Sure(c.IntsOr(n, 4, slices.Repeat([]int64{1}, len(starts))))
	Require(len(ends) == len(starts) && len(axes) == len(starts) && len(steps) == len(starts),
		"starts, ends, axes and steps differ in length")
	out := slices.Clone(in[0])
	for i, a := range Sure(Axes(axes, len(in[0]))) {
		if out[a] < 0 {
			Require(starts[i] == 0 && ends[i] > 1<<30 && steps[i] == 1, "slices the batch")
			continue
		}
		_, out[a] = SliceRange(starts[i], ends[i], steps[i], out[a])
	}
	return []Shape{out}
}

// SliceRange resolves one axis of a Slice to the first index and the number of indices. It refuses impossible steps.
func SliceRange(start, end, step, d int64) (first, count int64) {
	Require(step != 0 && step <= MaxDimension && step >= -MaxDimension, "its step is %d", step)
	norm := func(v, lo, hi int64) int64 {
		if v < 0 {
			v += d
		}
		return min(max(v, lo), hi)
	}
	if step > 0 {
		s, e := norm(start, 0, d), norm(end, 0, d)
		return s, max(0, (e-s+step-1)/step)
	}
	s, e := norm(start, 0, d-1), norm(end, -1, d-1)
	return s, max(0, (s-e-step-1)/-step)
}

func squeezeShape(c *Inference, n *Node, in []Shape) []Shape {
	axes := Sure(c.IntsOr(n, 1, in[0].Ones()))
	for _, a := range Sure(Axes(axes, len(in[0]))) {
		Require(in[0][a] == 1, "axis %d is not 1", a)
	}
	return reduceAlong(in[0], axes, false, false)
}

func unsqueezeShape(_ *Inference, _ *Node, in []Shape, axes []int64) []Shape {
	resolved := Sure(Axes(axes, len(in[0])+len(axes)))
	out := slices.Clone(in[0])
	slices.Sort(resolved)
	Require(len(slices.Compact(slices.Clone(resolved))) == len(axes), "axes %v name one twice", axes)
	for _, a := range resolved {
		out = slices.Insert(out, a, 1)
	}
	return []Shape{out}
}
