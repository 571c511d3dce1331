package onnx

import (
	"errors"
	"fmt"
	"slices"
)

// reshapeShape resolves 0 (copy) and -1 (infer). What is inferred of a batch is the
// batch where the rest holds exactly one item, and else a multiple of it: that
// joins the batch with the dimensions behind it, as attention does with its heads.
func reshapeShape(c *Inference, n *Node, in []Shape, target []int64) ([]Shape, error) {
	x := in[0]
	out := make(Shape, len(target))
	infer, known, batch := -1, int64(1), false
	for i, d := range target {
		switch {
		case d == 0 && n.Int("allowzero", 0) == 0:
			if i >= len(x) {
				return nil, fmt.Errorf("target %v copies a dimension that is not there", target)
			}
			d = x[i]
		case BatchFactor(d) > 0:
			d = -BatchFactor(d)
		case d == -1:
			if infer >= 0 {
				return nil, fmt.Errorf("target %v infers two dimensions", target)
			}
			infer = i
			continue
		case d < -1:
			return nil, fmt.Errorf("target %v has a negative dimension", target)
		}
		if d > MaxDimension {
			return nil, fmt.Errorf("target %v has an impossible dimension", target)
		}
		out[i] = d
		if d < 0 {
			if batch {
				return nil, fmt.Errorf("target %v holds the batch twice", target)
			}
			batch, d = true, -d
		}
		if known *= d; known > maxItems {
			return nil, fmt.Errorf("target %v has more than %d values an item", target, int64(maxItems))
		}
	}
	items := x.Items()
	switch {
	case infer >= 0 && x.HasBatch() && !batch:
		if known == 0 || items%known != 0 {
			return nil, fmt.Errorf("target %v doesn't divide %d values", target, items)
		}
		out[infer], batch = -items/known, true
	case infer >= 0:
		if known == 0 || items%known != 0 {
			return nil, fmt.Errorf("target %v doesn't divide %d values", target, items)
		}
		out[infer] = items / known
	case known != items:
		return nil, fmt.Errorf("target %v has other than %d values an item", target, items)
	}
	if batch != x.HasBatch() {
		return nil, fmt.Errorf("target %v fixes the batch size", target)
	}
	if batch && out.BeforeBatch() != x.BeforeBatch() && !c.mixes {
		return nil, fmt.Errorf("target %v mixes the batch with other dimensions", target)
	}
	return []Shape{out}, nil
}

func flattenShape(_ *Inference, n *Node, in []Shape) ([]Shape, error) {
	x := in[0]
	a := n.Int("axis", 1)
	if a < 0 {
		a += int64(len(x))
	}
	if a < 0 || a > int64(len(x)) {
		return nil, fmt.Errorf("axis %d is outside the tensor", a)
	}
	if x.HasBatch() {
		if a < 1 || x[0] >= 0 {
			return nil, errors.New("mixes the batch with other dimensions")
		}
		return []Shape{{-x[:a].Items(), x[a:].Items()}}, nil
	}
	return []Shape{{x[:a].Items(), x[a:].Items()}}, nil
}

// Perm returns a Transpose node's permutation, reversed axes where none is given.
func Perm(n *Node, rank int) ([]int64, error) {
	def := Range(0, rank)
	slices.Reverse(def)
	p := n.Ints("perm", def)
	seen := make([]bool, rank)
	if len(p) != rank {
		return nil, fmt.Errorf("perm %v doesn't fit", p)
	}
	for _, d := range p {
		if d < 0 || d >= int64(rank) || seen[d] {
			return nil, fmt.Errorf("perm %v is not a permutation", p)
		}
		seen[d] = true
	}
	return p, nil
}

// Inverse is the permutation that undoes p.
func Inverse(p []int64) []int64 {
	inverse := make([]int64, len(p))
	for i, d := range p {
		inverse[d] = int64(i)
	}
	return inverse
}

func transposeShape(_ *Inference, n *Node, in []Shape) ([]Shape, error) {
	p, err := Perm(n, len(in[0]))
	if err != nil {
		return nil, err
	}
	out := make(Shape, len(p))
	for i, d := range p {
		out[i] = in[0][d]
	}
	return []Shape{out}, nil
}

func concatShape(_ *Inference, _ *Node, in []Shape, a int) ([]Shape, error) {
	out := slices.Clone(in[0])
	for _, s := range in[1:] {
		if len(s) != len(out) {
			return nil, fmt.Errorf("ranks differ: %v", s)
		}
		for i := range s {
			if i != a && s[i] != out[i] {
				return nil, fmt.Errorf("%v and %v differ off axis %d", out, s, a)
			}
		}
		if s[a] < 0 || out[a] < 0 {
			return nil, errors.New("joins along the batch")
		}
		out[a] += s[a]
	}
	return []Shape{out}, nil
}

func sliceShape(c *Inference, n *Node, in []Shape) ([]Shape, error) {
	starts, err := c.IntsOf(n, 1)
	if err != nil {
		return nil, err
	}
	ends, err := c.IntsOf(n, 2)
	if err != nil {
		return nil, err
	}
	axes, err := c.IntsOr(n, 3, Range(0, len(starts)))
	if err != nil {
		return nil, err
	}
	steps, err := c.IntsOr(n, 4, slices.Repeat([]int64{1}, len(starts)))
	if err != nil {
		return nil, err
	}
	if len(ends) != len(starts) || len(axes) != len(starts) || len(steps) != len(starts) {
		return nil, errors.New("starts, ends, axes and steps differ in length")
	}
	resolved, err := Axes(axes, len(in[0]))
	if err != nil {
		return nil, err
	}
	out := slices.Clone(in[0])
	for i, a := range resolved {
		d := out[a]
		if d < 0 {
			if starts[i] == 0 && ends[i] > 1<<30 && steps[i] == 1 {
				continue
			}
			return nil, errors.New("slices the batch")
		}
		_, count, err := SliceRange(starts[i], ends[i], steps[i], d)
		if err != nil {
			return nil, err
		}
		out[a] = count
	}
	return []Shape{out}, nil
}

// SliceRange resolves one axis of a Slice: the first index and how many are taken.
func SliceRange(start, end, step, d int64) (first, count int64, err error) {
	if step == 0 || step > MaxDimension || step < -MaxDimension {
		return 0, 0, fmt.Errorf("its step is %d", step)
	}
	norm := func(v, lo, hi int64) int64 {
		if v < 0 {
			v += d
		}
		return min(max(v, lo), hi)
	}
	if step > 0 {
		s, e := norm(start, 0, d), norm(end, 0, d)
		return s, max(0, (e-s+step-1)/step), nil
	}
	s, e := norm(start, 0, d-1), norm(end, -1, d-1)
	return s, max(0, (s-e-step-1)/-step), nil
}

func squeezeShape(c *Inference, n *Node, in []Shape) ([]Shape, error) {
	axes, err := c.IntsOr(n, 1, in[0].Ones())
	if err != nil {
		return nil, err
	}
	resolved, err := Axes(axes, len(in[0]))
	if err != nil {
		return nil, err
	}
	for _, a := range resolved {
		if in[0][a] != 1 {
			return nil, fmt.Errorf("axis %d is not 1", a)
		}
	}
	return reduceAlong(in[0], axes, false, false)
}

func unsqueezeShape(_ *Inference, _ *Node, in []Shape, axes []int64) ([]Shape, error) {
	resolved, err := Axes(axes, len(in[0])+len(axes))
	if err != nil {
		return nil, err
	}
	out := slices.Clone(in[0])
	slices.Sort(resolved)
	if len(slices.Compact(slices.Clone(resolved))) != len(axes) {
		return nil, fmt.Errorf("axes %v name one twice", axes)
	}
	for _, a := range resolved {
		out = slices.Insert(out, a, 1)
	}
	return []Shape{out}, nil
}
