package simplify

import (
	"cmp"
	"maps"
	"slices"

	"selfheal/models/onnx"
)

// rewrites bring nodes whose shape arithmetic names the batch into a form that holds
// for every batch, and write spatial and layout operators by simpler ones.
var rewrites = map[string]lowering{
	"Resize": resize, "MaxUnpool": unpool, "GatherND": gatherND, "LpPool": lpPool, "GlobalLpPool": lpPool,
	"Expand": expand, "Tile": tile, "ConstantOfShape": fillBatch, "Concat": openConcat, "Squeeze": squeezeAxes,
	"Dropout": dropout, "GatherElements": openIndices, "ScatterElements": openIndices,
	"GridSample": openIndices, "AffineGrid": affineGrid,
}

// openBatch rewrites a Reshape's target so that it holds for every batch: the dimension that is a multiple of the batch
// size is copied or inferred. In a model that was exported with a fixed batch it is the one, or a part of the one, that
// has as many values in front of it as the batch had. It reports true where the result is kept apart as rows.
func openBatch(s *simplifier, n *onnx.Node) bool {
	if n.Op != "Reshape" {
		return false
	}
	in := s.g.Shapes[n.Inputs[0]]
	t := slices.Clone(onnx.Sure(s.IntsOf(n, 1)))
	if !in.HasBatch() || s.fixedBatch > onnx.MaxDimension {
		return false
	}
	at := onnx.BatchIndex(t)
	fixed := at < 0 && s.fixedBatch > 0
	sizes, rest := slices.Clone(t), in.Items() // with 0 and -1 resolved; rest: what -1 stands for
	if fixed {
		rest *= s.fixedBatch
	}
	infer := -1
	for i, d := range t {
		if d == 0 && n.Int("allowzero", 0) == 0 && i < len(in) {
			if d = in[i]; d < 0 {
				return false // copies the batch already
			}
		}
		if k := onnx.BatchFactor(d); k > 0 {
			d = k
		}
		if sizes[i] = d; d == -1 && infer < 0 {
			infer = i
		} else if d < 1 || rest%d != 0 {
			return false // an error of the shape rule, if -1 does not stand for the batch
		} else {
			rest /= d
		}
	}
	if infer >= 0 {
		sizes[infer] = rest
	}
	if fixed {
		front := in.BeforeBatch()
		if len(sizes) == 2 && front > 1 && sizes[0]%s.fixedBatch == 0 &&
			toRows(s, n, []int64{sizes[0] / s.fixedBatch, sizes[1]}) {
			return true
		}
		for i, d := range sizes {
			if front == 1 && d%s.fixedBatch == 0 {
				at = i
				break
			}
			if front%d != 0 {
				return false
			}
			front /= d
		}
	} else if (at == 0 || infer == 0) && toRows(s, n, sizes) { // the batch is among the rows
		return true
	}
	if at < 0 {
		return false
	}
	if fixed {
		sizes[at] /= s.fixedBatch
	}
	if at == 0 && in[0] == onnx.Batch && sizes[0] == 1 {
		t[0] = 0 // copy the batch
		n.Set("allowzero", 0)
	} else {
		t = sizes
		t[at] = -1
	}
	n.Inputs[1] = s.g.AddConst(n.Outputs[0]+"/shape", onnx.IntTensor(t...))
	return false
}

// isBatch reports whether a size in shape arithmetic is the batch: open, or as exported.
func (s *simplifier) isBatch(d int64) bool {
	return d == onnx.BatchSize || s.fixedBatch > 0 && d == s.fixedBatch
}

// batchZeros gives zeros of the given rank whose axis at is the batch of tensor,
// the others 1: added to a constant they repeat it for every item.
func (s *simplifier) batchZeros(b *onnx.Builder, tensor string, rank, at int) string {
	x, kind := s.g.Shapes[tensor], s.TypeOf(tensor)
	var starts, ends, axes []int64
	for i, d := range x {
		if d > 1 {
			starts, ends, axes = append(starts, 0), append(ends, 1), append(axes, int64(i))
		}
	}
	if len(axes) > 0 {
		tensor = b.Op("Slice", tensor, b.Ints(starts...), b.Ints(ends...), b.Ints(axes...))
	}
	if kind != onnx.Float {
		tensor = b.OpWith("Cast", onnx.Attrs{"to": int64(onnx.Float)}, tensor)
	}
	shape := slices.Repeat([]int64{1}, rank)
	shape[at] = -1
	return b.Op("Reshape", b.Op("Clip", tensor, b.Float(0), b.Float(0)), b.Ints(shape...))
}

// repeated gives a tensor of numbers whose axis at is 1 for every item of the batch that data holds.
func (s *simplifier) repeated(b *onnx.Builder, tensor, data string, at int) string {
	onnx.Must(b.Err())
	s.g.Opened = true
	rank, kind := len(s.g.Shapes[tensor]), s.TypeOf(tensor)
	onnx.Require(kind != onnx.Bool, "repeats truth values for every item of the batch")
	zeros := s.batchZeros(b, data, rank, at)
	if kind != onnx.Float {
		zeros = b.OpWith("Cast", onnx.Attrs{"to": int64(kind)}, zeros)
	}
	return b.Op("Add", tensor, zeros)
}

// expand repeats a tensor for every item where an Expand's target names the batch. A target with the number that the
// batch was exported with leaves that axis alone.
func expand(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	rest := slices.Clone(onnx.Sure(s.IntsOf(n, 1)))
	t, x := n.Inputs[0], s.g.Shapes[n.Inputs[0]]
	at := onnx.BatchIndex(rest)
	if front := len(rest) - len(x); at < 0 && s.fixedBatch > 0 && x.HasBatch() && front >= 0 {
		if axis := x.BatchAxis(); rest[front+axis]/s.fixedBatch == -x[axis] && rest[front+axis]%s.fixedBatch == 0 {
			at = front + axis
		}
	}
	if at < 0 {
		return ""
	}
	onnx.Require(x.HasBatch() || rest[at] == onnx.BatchSize,
		"repeats a constant more than once for every item of the batch")
	rest[at] = 1
	sizes := b.Ints(rest...)
	if x.HasBatch() {
		n.Inputs[1] = sizes
		return ""
	}
	if full := onnx.Sure(onnx.Broadcast(x, rest)); !slices.Equal(full, x) {
		kind := s.TypeOf(t)
		t = b.Op("Expand", t, sizes)
		s.SetType(t, kind)
	}
	return s.repeated(b, t, s.source[n.Inputs[1]], at+max(0, len(x)-len(rest)))
}

// tile repeats a constant for every item where a Tile's repeats name the batch.
func tile(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	rest := slices.Clone(onnx.Sure(s.IntsOf(n, 1)))
	at, x := slices.Index(rest, onnx.BatchSize), s.g.Shapes[n.Inputs[0]]
	if at < 0 {
		return ""
	}
	onnx.Require(!x.HasBatch() && len(x) == len(rest) && x[at] == 1,
		"repeats more than one value for every item of the batch")
	t := n.Inputs[0]
	if rest[at] = 1; slices.Max(rest) > 1 {
		kind := s.TypeOf(t)
		t = b.Op("Tile", t, b.Ints(rest...))
		s.SetType(t, kind)
	}
	return s.repeated(b, t, s.source[n.Inputs[1]], at)
}

// fillBatch is ConstantOfShape for every item of the batch.
func fillBatch(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	rest := slices.Clone(onnx.Sure(s.IntsOf(n, 0)))
	value, _ := n.Attrs["value"].(*onnx.Tensor)
	at, value := slices.Index(rest, onnx.BatchSize), cmp.Or(value, onnx.Scalar(0))
	onnx.Require(at >= 0 && value.DType == onnx.Float && value.Len() == 1,
		"fills a tensor whose size depends on the batch")
	rest[at] = 1
	onnx.Sure(rest, onnx.Shape(rest).Check())
	t := b.Op("Add", s.batchZeros(b, s.source[n.Inputs[0]], len(rest), at), b.Float(value.Floats[0]))
	return b.Op("Expand", t, b.Ints(rest...))
}

// openConcat repeats what a model that was exported with a batch of 1 joins to its data: a class token, which has the
// batch's 1.
func openConcat(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	data := slices.IndexFunc(n.Inputs, s.hasBatch)
	if data >= 0 {
		if x := s.g.Shapes[n.Inputs[data]]; n.AxisOf(len(x)) != x.BatchAxis() {
			s.repeat(b, n, n.Inputs[data])
		}
	}
	return ""
}

// repeat has a node's inputs that all items share, and that have the 1 of an exported batch, for every item of data. In
// a larger batch a 1 is no batch, unless all items were found to list the same.
func (s *simplifier) repeat(b *onnx.Builder, n *onnx.Node, data string) {
	d := s.g.Shapes[data]
	at := d.BatchAxis()
	for i, in := range n.Inputs {
		x := s.g.Shapes[in]
		if one := s.fixedBatch < 2 || s.shared[in]; one && len(x) == len(d) && d[at] == onnx.Batch && x[at] == 1 &&
			!x.HasBatch() {
			n.Inputs[i] = s.repeated(b, in, data, at)
		}
	}
}

// openIndices has data, indices and updates for every item where one of them was exported with a batch of 1: an index
// counts within its own item, and ONNX Runtime writes to no other.
func openIndices(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	if data := slices.IndexFunc(n.Inputs, s.hasBatch); data >= 0 {
		s.repeat(b, n, n.Inputs[data])
	}
	return ""
}

// shared has a constant that lists the same for each item of an exported batch above 1 list it once.
func shared(s *simplifier, n *onnx.Node) bool {
	data := slices.IndexFunc(n.Inputs, s.hasBatch)
	if row := onnx.TraitsOf(n.Op).Batch; s.fixedBatch < 2 || data < 0 || row == nil || !row.Aligned {
		return false
	}
	x := s.g.Shapes[n.Inputs[data]]
	for i, in := range n.Inputs {
		c := s.g.Consts[in]
		if c == nil || len(c.Shape) < len(x)-x.BatchAxis() {
			continue
		}
		at := len(c.Shape) - len(x) + x.BatchAxis()
		if c.Shape[at] != s.fixedBatch {
			continue
		}
		step, items := int(c.Shape[at+1:].Items()), int(s.fixedBatch)
		one := &onnx.Tensor{DType: c.DType, Shape: slices.Clone(c.Shape), Floats: ofOne(c.Floats, step, items),
			Ints: ofOne(c.Ints, step, items)}
		if one.Shape[at] = 1; one.Len() > 0 {
			n.Inputs[i] = s.g.AddConst(in+"/one", one)
			s.shared[n.Inputs[i]] = true
		}
	}
	return false
}

// ofOne are the values of the first of so many items, of step values each time; nil where another item has others.
func ofOne[T comparable](values []T, step, items int) (one []T) {
	for i, v := range values {
		first := i - i/step%items*step
		if values[first] != v {
			return nil
		}
		if first == i {
			one = append(one, v)
		}
	}
	return one
}

// poolIndices has a MaxPool's indices, which count in the whole batch, count within the item where another operator
// than a MaxUnpool of the same size reads them.
func poolIndices(s *simplifier, n *onnx.Node) bool {
	x := s.g.Shapes[n.Inputs[0]]
	if n.Op != "MaxPool" || len(n.Outputs) < 2 || n.Outputs[1] == "" || !x.HasBatch() {
		return false
	}
	at := n.Outputs[1]
	other := func(r *onnx.Node) bool { return r.Op != "MaxUnpool" || r.Input(1) != at || r.Input(0) == at }
	if !s.g.IsOutput(at) && !slices.ContainsFunc(s.reads[at], other) {
		s.pooled[at] = x
		return false
	}
	onnx.Require(x.BatchAxis() == 0, "counts its indices across the batch")
	s.g.Opened = true
	b := &onnx.Builder{G: s.g, Prefix: n.Outputs[0] + "/"}
	n.Outputs[1] = s.g.Fresh(at + "/batch")
	onnx.Must(s.Node(n))
	s.SetTypes(n)
	s.SetType(at, onnx.Int64)
	s.g.Nodes = append(s.g.Nodes, n)
	b.Named(at, "Mod", n.Outputs[1], b.Const(onnx.IntScalar(x.Items())))
	onnx.Must(b.Err())
	return true
}

// squeezeAxes names the axes that a Squeeze without any drops: in a batch of one item the batch would be among them.
// Without any it does nothing, and is left out: ONNX Runtime takes an empty list for no list.
func squeezeAxes(s *simplifier, _ *onnx.Builder, n *onnx.Node) string {
	x := s.g.Shapes[n.Inputs[0]]
	if given, err := s.IntsOf(n, 1); n.Input(1) != "" && (err != nil || len(given) > 0) || x == nil {
		return ""
	}
	axes := x.Ones()
	if len(axes) == 0 {
		return n.Inputs[0]
	}
	n.SetInput(1, s.g.AddConst(n.Outputs[0]+"/axes", onnx.IntTensor(axes...)))
	return ""
}

// gatherND writes a GatherND of data by constant indices as a Gather along the axes that they count in, made one. Data
// without a batch is a table then, which the runtime reads by itself.
func gatherND(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	x := s.g.Shapes[n.Inputs[0]]
	if !x.HasBatch() {
		return ""
	}
	at, depth := s.flatPlaces(n, x)
	t := b.Reshape(n.Inputs[0], slices.Concat(onnx.Shape{x[:depth].Items()}, x[depth:]))
	return b.OpWith("Gather", onnx.Attrs{"axis": 0}, t, b.Const(at))
}

// lpPool writes the p-norm of each window as the root of an average pool of |x|^p
// times the window's size. The norm is held at its root, as other norms are.
func lpPool(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	t, x := n.Inputs[0], s.g.Shapes[n.Inputs[0]]
	onnx.Sure(s.ShapesOf(n, x))
	p := n.Int("p", 2)
	onnx.Require(p == 1 || p == 2, "has p = %d; 1 and 2 are supported", p)
	if p == 1 {
		t = b.Op("Abs", t)
	} else {
		t = b.Op("Mul", t, t)
	}
	size := x[2:].Items()
	if n.Op == "GlobalLpPool" {
		t = b.Op("GlobalAveragePool", t)
	} else {
		w := onnx.Sure(onnx.NodeWindow(n, nil))
		onnx.Require(slices.Max(w.Dilations) == 1, "dilations are not supported")
		size = onnx.Shape(w.Kernel).Items()
		t = b.OpWith("AveragePool", onnx.Attrs{
			"kernel_shape": slices.Clone(w.Kernel), "strides": slices.Clone(w.Strides), "pads": slices.Clone(w.Pads),
			"ceil_mode": n.Int("ceil_mode", 0), "count_include_pad": 1,
		}, t)
	}
	t = b.Op("Mul", t, b.Float(float32(size)))
	if p == 2 {
		t = b.Op("Sqrt", b.Op("Clip", t, b.Float(tiny)))
	}
	return t
}

// openSizes brings a Resize to scales of every dimension or, without those, to the sizes of all but the batch. Sizes
// that name the batch, which they fix, become scales where they are whole: the form that ONNX Runtime runs fastest.
func openSizes(s *simplifier, n *onnx.Node) {
	x := s.g.Shapes[n.Inputs[0]]
	at := onnx.Sure(onnx.Axes(n.Ints("axes", nil), len(x)))
	delete(n.Attrs, "axes")
	if n.Input(3) == "" {
		if len(at) > 0 {
			all := spread("scales", onnx.Sure(s.FloatsOf(n, 2)), at, slices.Repeat([]float32{1}, len(x)))
			n.Inputs[2] = s.g.AddConst(n.Outputs[0]+"/scales", onnx.FloatVector(all))
		}
		return
	}
	sizes := onnx.Sure(s.IntsOf(n, 3))
	if len(at) > 0 {
		all := slices.Clone(x)
		if i := slices.Index(all, onnx.Batch); i >= 0 {
			all[i] = onnx.BatchSize
		}
		sizes = spread("sizes", sizes, at, all)
	}
	onnx.Require(len(sizes) == len(x) && len(x) >= 2 && x[0] == onnx.Batch, "sizes %v don't fit %v", sizes, x)
	onnx.Require(s.isBatch(sizes[0]), "sizes %v fix the batch size", sizes)
	scales := []float32{1}
	for i, d := range sizes[1:] {
		onnx.Require(d >= 1 && x[i+1] >= 1, "sizes %v are out of range", sizes[1:])
		if d%x[i+1] == 0 {
			scales = append(scales, float32(d/x[i+1]))
		}
	}
	if len(scales) == len(sizes) {
		n.Inputs = []string{n.Inputs[0], "", s.g.AddConst(n.Outputs[0]+"/scales", onnx.FloatVector(scales))}
		return
	}
	n.Inputs = []string{n.Inputs[0], "", "", s.g.AddConst(n.Outputs[0]+"/sizes", onnx.IntTensor(sizes[1:]...))}
	n.Set("axes", onnx.Range(1, len(sizes)))
}

func spread[T any](what string, values []T, at []int, all []T) []T {
	onnx.Require(len(values) == len(at), "%s %v don't fit %d axes", what, values, len(at))
	for i, a := range at {
		all[a] = values[i]
	}
	return all
}

// resize is openSizes, and turns the interpolation of lines into that of images one pixel high: ONNX Runtime takes a
// batch of lines for a volume, and an item's result would depend on its place in the batch.
func resize(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	openSizes(s, n)
	x := s.g.Shapes[n.Inputs[0]]
	if mode := n.Str("mode", "nearest"); len(x) != 3 || mode != "linear" && mode != "cubic" {
		return ""
	}
	out := onnx.Sure(s.ShapesOf(n, x))[0]
	onnx.Require(x[1] == out[1], "resizes the channels")
	inputs := []string{b.Op("Reshape", n.Inputs[0], b.Ints(0, x[1], 1, x[2])), ""}
	attrs := maps.Clone(n.Attrs)
	if n.Input(3) == "" {
		scale := onnx.Sure(s.FloatsOf(n, 2))[2]
		inputs = append(inputs, b.Const(onnx.FloatVector([]float32{1, 1, 1, scale})))
	} else {
		inputs = append(inputs, "", b.Ints(x[1], 1, out[2]))
		attrs["axes"] = onnx.Range(1, 4)
	}
	return b.Op("Reshape", b.OpWith("Resize", attrs, inputs...), b.Ints(0, x[1], out[2]))
}

// unpool drops a MaxUnpool's output_shape, which names the batch, if that follows from the window. If the
// tensor differs from the one that a MaxPool counts the indices in, over the whole batch, or if they are not a
// MaxPool's, the node becomes a scatter within each item.
func unpool(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	x := s.g.Shapes[n.Inputs[0]]
	inferred := onnx.Unpooled(n, x)
	out := inferred
	if n.Input(2) != "" {
		size := onnx.Sure(s.IntsOf(n, 2))
		onnx.Require(len(size) == len(x) && size[1] == x[1] && s.isBatch(size[0]),
			"output_shape %v doesn't fit %v", size, x)
		out = append(onnx.Shape{onnx.Batch, x[1]}, size[2:]...)
		onnx.Sure(out, out.Check())
	}
	from := s.pooled[n.Inputs[1]]
	if slices.Equal(out, inferred) && from.Items() == out.Items() && from != nil {
		n.Inputs = n.Inputs[:2]
		return ""
	}
	s.repeat(b, n, n.Inputs[0])
	onnx.Require(slices.Equal(s.g.Shapes[n.Inputs[1]], x), "its indices have another shape than its input")
	items, planes := out.Items(), b.Ints(0, x.Items())
	flat, at := b.Op("Reshape", n.Inputs[0], planes), b.Op("Reshape", n.Inputs[1], planes)
	if from != nil {
		at = b.Op("Mod", at, b.Const(onnx.IntScalar(from.Items())))
	}
	zero := b.Op("Slice", flat, b.Ints(0), b.Ints(1), b.Ints(1))
	zeros := b.Op("Expand", b.Op("Clip", zero, b.Float(0), b.Float(0)), b.Ints(1, items))
	y := b.OpWith("ScatterElements", onnx.Attrs{"axis": 1}, zeros, at, flat)
	return b.Op("Reshape", y, b.Ints(append([]int64{0}, out[1:]...)...))
}
