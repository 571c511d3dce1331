package onnx

import (
	"errors"
	"fmt"
	"slices"
)

// reshapeShape resolves 0 (copy) and -1 (infer). What is inferred of a batch is the
// batch where the rest holds exactly one item, and else a multiple of it: that
// joins the batch with the dimensions behind it, as attention does with its heads.
func reshapeShape(c *inference, n *Node, in []Shape) ([]Shape, error) {
	target, err := c.intsOf(n, 1)
	if err != nil {
		return nil, err
	}
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
		case symFactor(d) > 0:
			d = -symFactor(d)
		case d == -1:
			if infer >= 0 {
				return nil, fmt.Errorf("target %v infers two dimensions", target)
			}
			infer = i
			continue
		case d < -1:
			return nil, fmt.Errorf("target %v has a negative dimension", target)
		}
		if d > maxDimension {
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
	if batch && before(out) != before(x) && !c.mixes {
		return nil, fmt.Errorf("target %v mixes the batch with other dimensions", target)
	}
	return []Shape{out}, nil
}

// before is the number of values that a step of the batch lies after.
func before(s Shape) int64 { return s[:batchAxis(s)].Items() }

func flattenShape(_ *inference, n *Node, in []Shape) ([]Shape, error) {
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
	def := make([]int64, rank)
	for i := range def {
		def[i] = int64(rank - 1 - i)
	}
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

func transposeShape(_ *inference, n *Node, in []Shape) ([]Shape, error) {
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

func concatShape(_ *inference, n *Node, in []Shape) ([]Shape, error) {
	a, err := axis(n, "axis", 1, len(in[0]))
	if err != nil {
		return nil, err
	}
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

func sliceShape(c *inference, n *Node, in []Shape) ([]Shape, error) {
	starts, err := c.intsOf(n, 1)
	if err != nil {
		return nil, err
	}
	ends, err := c.intsOf(n, 2)
	if err != nil {
		return nil, err
	}
	axes := make([]int64, len(starts))
	for i := range axes {
		axes[i] = int64(i)
	}
	if n.Input(3) != "" {
		if axes, err = c.intsOf(n, 3); err != nil {
			return nil, err
		}
	}
	steps := slices.Repeat([]int64{1}, len(starts))
	if n.Input(4) != "" {
		if steps, err = c.intsOf(n, 4); err != nil {
			return nil, err
		}
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
		_, count, err := sliceRange(starts[i], ends[i], steps[i], d)
		if err != nil {
			return nil, err
		}
		out[a] = count
	}
	return []Shape{out}, nil
}

// sliceRange resolves one axis of a Slice: the first index and how many are taken.
func sliceRange(start, end, step, d int64) (first, count int64, err error) {
	if step == 0 || step > maxDimension || step < -maxDimension {
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

// SliceStart is the first position that a Slice takes of an axis of size d.
func SliceStart(start, step, d int64) int64 {
	if start < 0 {
		start += d
	}
	if step < 0 {
		return min(max(start, 0), d-1)
	}
	return min(max(start, 0), d)
}

func squeezeShape(c *inference, n *Node, in []Shape) ([]Shape, error) {
	var axes []int64
	if n.Input(1) == "" {
		for i, d := range in[0] {
			if d == 1 {
				axes = append(axes, int64(i))
			}
		}
	} else {
		var err error
		if axes, err = c.intsOf(n, 1); err != nil {
			return nil, err
		}
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

func unsqueezeShape(c *inference, n *Node, in []Shape) ([]Shape, error) {
	axes, err := c.intsOf(n, 1)
	if err != nil {
		return nil, err
	}
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

func gatherShape(c *inference, n *Node, in []Shape) ([]Shape, error) {
	if len(in) < 2 {
		return nil, errors.New("needs two inputs")
	}
	a, err := axis(n, "axis", 0, len(in[0]))
	if err != nil {
		return nil, err
	}
	if in[0][a] < 0 {
		return nil, errors.New("picks from the batch")
	}
	if indices, err := c.intsOf(n, 1); err == nil {
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

func expandShape(c *inference, n *Node, in []Shape) ([]Shape, error) {
	target, err := c.intsOf(n, 1)
	if err != nil {
		return nil, err
	}
	s := Shape(slices.Clone(target))
	for i := range s {
		if s[i] < 1 {
			return nil, fmt.Errorf("expands to %v", target)
		}
	}
	out, err := Broadcast(in[0], s)
	return []Shape{out}, err
}

func splitShape(c *inference, n *Node, in []Shape) ([]Shape, error) {
	a, err := axis(n, "axis", 0, len(in[0]))
	if err != nil {
		return nil, err
	}
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
	a, err := axis(n, "axis", 0, len(in))
	if err != nil {
		return nil, err
	}
	return (&inference{g: g}).splitSizes(n, in[a])
}

// splitSizes divides d, the size of the axis that n splits, among its outputs.
func (c *inference) splitSizes(n *Node, d int64) (parts []int64, err error) {
	if d < 0 {
		return nil, errors.New("splits the batch")
	}
	if n.Input(1) != "" {
		if parts, err = c.intsOf(n, 1); err != nil {
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
func tileShape(c *inference, n *Node, in []Shape) ([]Shape, error) {
	repeats, err := c.intsOf(n, 1)
	if err != nil {
		return nil, err
	}
	if len(repeats) != len(in[0]) {
		return nil, fmt.Errorf("repeats %v don't fit", repeats)
	}
	out := slices.Clone(in[0])
	for i, r := range repeats {
		switch {
		case r < 1 || r > maxDimension:
			return nil, fmt.Errorf("repeats %v are out of range", repeats)
		case out[i] > 0:
			out[i] *= r
		case r != 1:
			return nil, errors.New("repeats the batch")
		}
	}
	return []Shape{out}, nil
}

func cumSumShape(c *inference, n *Node, in []Shape) ([]Shape, error) {
	at, err := c.intsOf(n, 1)
	if err != nil {
		return nil, err
	}
	axes, err := Axes(at, len(in[0]))
	if err != nil {
		return nil, err
	}
	if len(axes) != 1 || in[0][axes[0]] < 0 {
		return nil, errors.New("adds up along the batch, or along no axis")
	}
	return []Shape{in[0]}, nil
}

func triluShape(_ *inference, n *Node, in []Shape) ([]Shape, error) {
	if r := len(in[0]); r < 2 || in[0][r-2:].HasBatch() {
		return nil, errors.New("needs matrices without the batch in them")
	}
	return []Shape{in[0]}, nil
}

// padAllAxes gives a Pad's widths for every axis where it names some, as it may
// from operator set 18 on.
func (g *Graph) padAllAxes(n *Node) error {
	if n.Input(3) == "" {
		return nil
	}
	x := g.Shapes[n.Input(0)]
	axes, ok1 := g.Consts[n.Input(3)]
	pads, ok2 := g.Consts[n.Input(1)]
	if !ok1 || !ok2 || x == nil {
		return errors.New("its pads and axes must be constants")
	}
	at, err := Axes(axes.Ints, len(x))
	if err != nil {
		return err
	}
	if len(pads.Ints) != 2*len(at) {
		return fmt.Errorf("pads %v don't fit %d axes", pads.Ints, len(at))
	}
	all := make([]int64, 2*len(x))
	for i, a := range at {
		all[a], all[a+len(x)] = pads.Ints[i], pads.Ints[i+len(at)]
	}
	n.Inputs = n.Inputs[:3]
	n.Inputs[1] = g.AddConst(n.Outputs[0]+"/pads", IntTensor(all...))
	return nil
}

// scatterNDShape is for tensors without a batch: masks, which are filled by slices.
func scatterNDShape(_ *inference, _ *Node, in []Shape) ([]Shape, error) {
	if in[0].HasBatch() || in[1].HasBatch() || in[2].HasBatch() {
		return nil, errors.New("puts values into a batch")
	}
	return []Shape{in[0]}, nil
}

// gatherNDShape is for tensors without a batch: tables that are read once.
func gatherNDShape(_ *inference, n *Node, in []Shape) ([]Shape, error) {
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
