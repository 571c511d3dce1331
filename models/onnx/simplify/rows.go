package simplify

import (
	"slices"

	"selfheal/models/onnx"
)

// Some networks lay the batch behind another dimension, as PyTorch's attention does with [tokens, N, features], and
// join the two into the rows of a matrix for a linear layer. An item's rows are then spread over the matrix, which no
// [Shape] can say. Simplify leaves such a tensor apart: rows maps it to the tensor that still has the dimensions, and
// the layer works on that.

// toRows takes a Reshape to a matrix whose rows join the batch with dimensions
// before it, and reports true; sizes is its target with every number known.
func toRows(s *simplifier, n *onnx.Node, sizes []int64) bool {
	x := s.g.Shapes[n.Inputs[0]]
	at := x.BatchAxis()
	if len(sizes) != 2 || at < 1 || x.Items() != sizes[0]*sizes[1] {
		return false
	}
	if x[at] != onnx.Batch { // a multiple: the batch, and apart from it the rest
		x = slices.Concat(x[:at], onnx.Shape{onnx.Batch, -x[at]}, x[at+1:])
	}
	cut := at + 1 // where the columns begin
	for cut < len(x) && x[cut:].Items() > sizes[1] {
		cut++
	}
	if x[cut:].Items() != sizes[1] || s.g.IsOutput(n.Outputs[0]) {
		return false
	}
	b := &onnx.Builder{G: s.g, Prefix: n.Outputs[0] + "/"}
	apart := b.Reshape(n.Inputs[0], append(slices.Clone(x[:cut]), sizes[1]))
	return s.setRows(n.Outputs[0], onnx.Sure(apart, b.Err()))
}

// setRows notes that matrix stands for the tensor apart, its last axis for columns. It reports true.
func (s *simplifier) setRows(matrix, apart string) bool {
	x := s.g.Shapes[apart]
	last := len(x) - 1
	s.rows[matrix], s.g.Shapes[matrix] = apart, onnx.Shape{-x[:last].Items(), x[last]}
	return true
}

// onRows writes a node that reads a matrix of rows for the tensor that it stands
// for. It reports false where the node reads none, or has been given that tensor.
func onRows(s *simplifier, n *onnx.Node) bool {
	which := slices.IndexFunc(n.Inputs, func(in string) bool { return s.rows[in] != "" })
	if which < 0 {
		return false
	}
	if n.Op == "Reshape" && which == 0 {
		n.Inputs[0] = s.rows[n.Inputs[0]]
		return false
	}
	matrix, x := s.g.Shapes[n.Inputs[which]], s.rows[n.Inputs[which]]
	apart := func(ok bool) { onnx.Require(ok, "works on %v, where the batch lies within the rows", matrix) }
	apart(len(n.Outputs) == 1 && !s.g.IsOutput(n.Outputs[0]))
	b := &onnx.Builder{G: s.g, Prefix: n.Outputs[0] + "/"}
	t, columns := "", matrix[1]
	switch {
	case n.Op == "Gemm" && which == 0 && n.Int("transA", 0) == 0 && s.rows[n.Input(1)] == "" &&
		s.rows[n.Input(2)] == "":
		w := n.Inputs[1]
		if n.Int("transB", 0) == 1 {
			w = b.Transpose(w, 1, 0)
		}
		t = b.Op("MatMul", x, scaled(b, n, "alpha", w))
		if c := n.Input(2); c != "" {
			shape := b.Shape(c)
			apart((len(shape) != 2 || shape[0] == 1) && !shape.HasBatch())
			t = b.Op("Add", t, scaled(b, n, "beta", c))
		}
	case n.Op == "MatMul" && which == 0 && len(s.g.Shapes[n.Inputs[1]]) == 2 && s.rows[n.Inputs[1]] == "":
		t = b.Op("MatMul", x, n.Inputs[1])
	case onnx.TraitsOf(n.Op).Pointwise && lowerings[n.Op] == nil:
		c := n.Clone()
		for i, in := range n.Inputs {
			if other := s.rows[in]; other != "" {
				c.Inputs[i] = other
			} else if shape := s.g.Shapes[in]; in != "" { // a number or one a column
				apart(len(shape) <= 2 && !shape.HasBatch() && (shape.Items() == 1 ||
					shape.Items() == columns && shape[len(shape)-1] == columns))
			}
		}
		c.Outputs[0] = s.g.Fresh(b.Prefix + n.Op)
		b.Append(c)
		t = c.Outputs[0]
	default:
		apart(false)
	}
	shape := b.Shape(onnx.Sure(t, b.Err()))
	last := len(shape) - 1
	onnx.Require(slices.Equal(shape[:last], s.g.Shapes[x][:last]), "changes the rows of a matrix that holds the batch")
	return s.setRows(n.Outputs[0], t)
}

// PyTorch's newer exporter writes some views as reading a tensor, made flat over
// the whole batch, at places that it counts itself: n·items + offset for item n.
// Simplify keeps both sides apart until they meet and reads each item by itself.
// An export of a fixed batch has the places counted already, as a constant.

// places are indices into a flat batch: items·n + offset, of the given shape,
// which has the batch at one axis and the offsets' there as 1.
type places struct {
	items   int64
	axis    int // of n
	offsets *onnx.Tensor
}

// strided handles the nodes of such a view. It reports true where it has.
func strided(s *simplifier, n *onnx.Node) bool {
	out := n.Outputs[0]
	p, counted := s.places[n.Input(0)]
	other := n.Input(1)
	if q, ok := s.places[other]; ok && !counted && (n.Op == "Mul" || n.Op == "Add") {
		p, counted, other = q, true, n.Inputs[0]
	}
	c := s.g.Consts[other]
	switch {
	case n.Op == "Range" && len(n.Inputs) == 3:
		start, step, limit := s.g.Consts[n.Inputs[0]], s.g.Consts[n.Inputs[2]], s.Ints[n.Inputs[1]]
		if start == nil || step == nil || len(start.Ints) != 1 || len(step.Ints) != 1 || start.Ints[0] != 0 ||
			step.Ints[0] != 1 || len(limit) != 1 || onnx.BatchFactor(limit[0]) != 1 {
			return false
		}
		return s.setPlaces(out, places{1, 0, onnx.IntTensor(0)})
	case n.Op == "Reshape" && s.flat[n.Inputs[0]] != "":
		n.Inputs[0] = s.flat[n.Inputs[0]] // the same values in the same order
		return strided(s, n)
	case n.Op == "Reshape" && s.g.Shapes[n.Inputs[0]].BatchAxis() == 0 && s.g.Shapes[n.Inputs[0]].Items() > 1:
		items := s.g.Shapes[n.Inputs[0]].Items()
		t := onnx.Sure(s.IntsOf(n, 1))
		if len(t) != 1 || s.g.IsOutput(out) {
			return false
		}
		onnx.Require(t[0] == -1 || onnx.BatchFactor(t[0]) == items ||
			s.fixedBatch > 0 && t[0]%items == 0 && t[0]/items == s.fixedBatch,
			"target %v is not the size of a flat batch of %d values an item", t, items)
		s.flat[out], s.g.Shapes[out] = n.Inputs[0], onnx.Shape{-items}
		return true
	case counted && n.Op == "Mul" && c != nil && len(c.Ints) == 1 && len(c.Shape) <= len(p.offsets.Shape) &&
		c.Ints[0] > 0 && c.Ints[0] < onnx.MaxDimension/p.items:
		o := &onnx.Tensor{DType: onnx.Int64, Shape: p.offsets.Shape}
		o.Ints = onnx.Each(p.offsets.Ints, func(v int64) int64 { return v * c.Ints[0] })
		return s.setPlaces(out, places{p.items * c.Ints[0], p.axis, o})
	case counted && n.Op == "Unsqueeze":
		o := &onnx.Tensor{DType: onnx.Int64, Ints: p.offsets.Ints}
		o.Shape = onnx.Sure(s.ShapesOf(n, s.g.Shapes[n.Inputs[0]]))[0]
		axis := o.Shape.BatchAxis()
		o.Shape[axis] = 1
		return s.setPlaces(out, places{p.items, axis, o})
	case counted && n.Op == "Add" && c != nil && c.DType != onnx.Float:
		o := addInts(p.offsets, c)
		onnx.Require(o != nil && len(o.Shape) == len(p.offsets.Shape) && o.Shape[p.axis] == 1,
			"counts places in the batch in a way that is not supported")
		return s.setPlaces(out, places{p.items, p.axis, o})
	case n.Op == "Gather" && s.flat[n.Inputs[0]] != "":
		return s.write(n, readPlaces)
	}
	flat := slices.ContainsFunc(n.Inputs, func(in string) bool { return s.flat[in] != "" })
	onnx.Require(!counted && !flat, "joins the items of the batch")
	return false
}

// readPlaces writes a Gather of places in a flat batch as one of places in each item.
func readPlaces(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	x := s.flat[n.Inputs[0]]
	items := s.g.Shapes[x].Items()
	p, ok := s.places[n.Inputs[1]]
	if !ok {
		p, ok = countedPlaces(s.g.Consts[n.Inputs[1]], items, s.fixedBatch)
	}
	onnx.Require(ok && p.items == items && n.Axis() == 0 &&
		!slices.ContainsFunc(p.offsets.Ints, func(v int64) bool { return v < 0 || v >= items }),
		"reads places of other items of the batch")
	t := b.Reshape(x, onnx.Shape{onnx.Batch, items})
	if !slices.Equal(p.offsets.Ints, onnx.Range(0, int(items))) {
		t = b.OpWith("Gather", onnx.Attrs{"axis": 1}, t, b.Ints(p.offsets.Ints...))
	}
	front := append(onnx.Shape{onnx.Batch}, slices.Delete(slices.Clone(p.offsets.Shape), p.axis, p.axis+1)...)
	return b.Transpose(b.Reshape(t, front), slices.Insert(onnx.Range(1, len(front)), p.axis, 0)...)
}

// countedPlaces finds the places that a constant lists for the batch of the export, in front, if every item reads
// the same places of its own values.
func countedPlaces(c *onnx.Tensor, items, batch int64) (p places, ok bool) {
	if c == nil || len(c.Shape) == 0 || c.Shape[0] != batch || len(c.Ints) == 0 {
		return p, false
	}
	each := len(c.Ints) / int(batch)
	for i, v := range c.Ints {
		if v-c.Ints[i%each] != int64(i/each)*items {
			return p, false
		}
	}
	offsets := &onnx.Tensor{DType: onnx.Int64, Shape: slices.Concat(onnx.Shape{1}, c.Shape[1:]), Ints: c.Ints[:each]}
	return places{items, 0, offsets}, true
}

func (s *simplifier) setPlaces(name string, p places) bool {
	shape := slices.Clone(p.offsets.Shape)
	shape[p.axis] = onnx.Batch
	s.places[name], s.g.Shapes[name] = p, shape
	return true
}

// addInts adds two constants of integers, broadcast; nil where they do not fit.
func addInts(a, b *onnx.Tensor) *onnx.Tensor {
	shape, err := onnx.Broadcast(a.Shape, b.Shape)
	if err != nil || shape.Items() > maxFold {
		return nil
	}
	rank := len(shape)
	from, and := shape.Places(a.Shape.Padded(rank).Strides()), shape.Places(b.Shape.Padded(rank).Strides())
	out := &onnx.Tensor{DType: onnx.Int64, Shape: shape, Ints: make([]int64, len(from))}
	for i := range out.Ints {
		out.Ints[i] = a.Ints[from[i]] + b.Ints[and[i]]
	}
	return out
}
