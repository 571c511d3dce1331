package grad

import (
	"slices"

	"selfheal/models/onnx"
)

// y = x at constant indices along an axis: x̄ = g added up at them
func gather(c *Context, n *onnx.Node, gy []string, indices *onnx.Tensor) []string {
	x, y := c.Shape(n.Inputs[0]), c.Shape(n.Outputs[0])
	axis := n.AxisOf(len(x))
	from := slices.Clone(indices.Ints)
	for i, j := range from {
		if j < 0 {
			from[i] += x[axis]
		}
	}
	g := gy[0]
	if len(indices.Shape) != 1 { // the indices' axes as one
		flat := slices.Concat(y[:axis], onnx.Shape{int64(len(from))}, x[axis+1:])
		g = c.Reshape(g, flat)
	}
	return []string{c.pickBack(g, axis, from, x[axis])}
}

// y = data with updates added, or set, at indices: updates get g by index; data gets g, without the values that were
// overwritten
func scatterElements(c *Context, n *onnx.Node, gy []string) []string {
	gx, axis := make([]string, 3), onnx.Attrs{"axis": n.Axis()}
	reduction := n.Str("reduction", "none")
	onnx.Require(reduction == "add" || reduction == "none", "the reduction %q is not supported", reduction)
	if gx[0] = gy[0]; reduction == "none" && c.needs(n, 0) {
		gx[0] = c.OpWith("ScatterElements", axis, gy[0], n.Inputs[1], c.zerosLike(n.Inputs[2]))
	}
	if c.needs(n, 2) {
		gx[2] = c.OpWith("GatherElements", axis, gy[0], n.Inputs[1])
	}
	return gx
}

// y = the k largest values: x̄ = g at the places they came from
func topK(c *Context, n *onnx.Node, gy []string) []string {
	if gy[0] == "" {
		return []string{""}
	}
	return []string{c.scatterAdd(n.Axis(), c.zerosLike(n.Inputs[0]), c.output(n, 1), gy[0])}
}

// scatterAdd adds values to a tensor at indices along an axis.
func (c *Context) scatterAdd(axis int64, to, at, values string) string {
	return c.OpWith("ScatterElements", onnx.Attrs{"axis": axis, "reduction": "add"}, to, at, values)
}

// Linear maps along one axis: picking positions, and multiplying with a constant matrix. Slicing, padding, gathering
// and interpolating, and their transposes, reduce to these two.

// maxTerms is the number of cotangents of one position that are picked and added; for more, a 0/1 matrix is cheaper.
const maxTerms = 4

// pickBack is the transpose of picking positions along an axis of the given size. For y[i] = x[from[i]], and 0 for
// from[i] = -1, it returns x̄[j] = Σ g[i] over all i with from[i] = j.
func (c *Context) pickBack(g string, axis int, from []int64, size int64) string {
	count, most := make([]int, size), 1 // one term of zeros if nothing was picked
	for _, j := range from {
		if j >= 0 {
			count[j]++
			most = max(most, count[j])
		}
	}
	if most > maxTerms {
		m := matrix(int64(len(from)), size)
		for i, j := range from {
			if j >= 0 {
				m.Floats[int64(i)*size+j] = 1
			}
		}
		return c.weighted(g, axis, m)
	}
	terms := make([][]int64, most) // terms[k][j] is the k-th last i with from[i] = j, or -1
	for k := range terms {
		terms[k] = slices.Repeat([]int64{-1}, int(size))
	}
	for i, j := range from {
		if j >= 0 {
			count[j]--
			terms[count[j]][j] = int64(i)
		}
	}
	total := ""
	for _, at := range terms {
		total = c.total(total, c.pick(g, axis, at))
	}
	return total
}

// pick returns t's positions at along an axis, each at most once, and 0 for at = -1: its gradient is a pick too.
func (c *Context) pick(t string, axis int, at []int64) string {
	shape := c.Shape(t)
	first := slices.IndexFunc(at, func(i int64) bool { return i >= 0 })
	if first >= 0 {
		n := int64(0) // length of the run that begins at first
		for first+int(n) < len(at) && at[first+int(n)] == at[first]+n {
			n++
		}
		rest := at[first+int(n):]
		if !slices.ContainsFunc(rest, func(i int64) bool { return i >= 0 }) {
			if n < shape[axis] {
				t = c.Op("Slice", t, c.Ints(at[first]), c.Ints(at[first]+n), c.Ints(int64(axis)))
			}
			return c.padAxis(t, axis, int64(first), int64(len(rest)))
		}
	}
	at, zeros := slices.Clone(at), int64(0)
	for i, j := range at {
		if j < 0 { // a separate zero for each
			at[i] = shape[axis] + zeros
			zeros++
		}
	}
	return c.OpWith("Gather", onnx.Attrs{"axis": axis}, c.padAxis(t, axis, 0, zeros), c.Ints(at...))
}

// padAxis puts zeros before and behind t along one axis.
func (c *Context) padAxis(t string, axis int, before, behind int64) string {
	if before == 0 && behind == 0 {
		return t
	}
	pads := make([]int64, 2*len(c.Shape(t)))
	pads[axis], pads[axis+len(pads)/2] = before, behind
	return c.Op("Pad", t, c.Ints(pads...))
}

// maxMatrix bounds the number of values in a constant that a rule makes.
const maxMatrix = 1 << 24

// matrix returns a constant of zeros, [rows, columns].
func matrix(rows, columns int64) *onnx.Tensor {
	onnx.Require(rows <= maxMatrix/columns, "needs a matrix of %d × %d values", rows, columns)
	return onnx.FloatTensor(onnx.Shape{rows, columns}, make([]float32, rows*columns))
}

// weighted is [Context.along] for a matrix with few values other than 0: only those multiply infinite or NaN values of
// t.
func (c *Context) weighted(t string, axis int, m *onnx.Tensor) string {
	var from, to []int64
	var weights []float32
	for i, w := range m.Floats {
		if w != 0 {
			from, to = append(from, int64(i)/m.Shape[1]), append(to, int64(i)%m.Shape[1])
			weights = append(weights, w)
		}
	}
	column := slices.Repeat(onnx.Shape{1}, len(c.Shape(t))-axis) // one value for each position, to broadcast
	column[0] = int64(len(from))
	no := c.Const(&onnx.Tensor{DType: onnx.Bool, Shape: onnx.Shape{}, Ints: []int64{0}})
	zeros := func(t string) string { return c.Op("Where", no, t, c.Float(0)) } // of NaN too
	values := c.Op("Mul", c.OpWith("Gather", onnx.Attrs{"axis": axis}, t, c.Ints(from...)),
		c.Const(onnx.FloatTensor(column, weights)))
	at := c.Op("Add", c.OpWith("Cast", onnx.Attrs{"to": int64(onnx.Int64)}, zeros(values)),
		c.Const(&onnx.Tensor{DType: onnx.Int64, Shape: column, Ints: to}))
	first := c.Op("Slice", zeros(t), c.Ints(0), c.Ints(1), c.Ints(int64(axis)))
	exact := c.scatterAdd(int64(axis), c.padAxis(first, axis, 0, m.Shape[1]-1), at, values)
	return c.Guarded(no, c.along(t, axis, m), exact)
}

// along multiplies t with a constant matrix m along one axis other than the batch: y[…j…] = Σ_i t[…i…]·m[i, j].
func (c *Context) along(t string, axis int, m *onnx.Tensor) string {
	rank := len(c.Shape(t))
	switch {
	case axis == rank-1 && rank > 1:
		return c.Op("MatMul", t, c.Const(m))
	case axis == rank-2:
		return c.Op("MatMul", c.Const(m.Transposed()), t)
	case rank == 1:
		return c.Op("Squeeze", c.along(c.Op("Unsqueeze", t, c.Ints(0)), 1, m), c.Ints(0))
	}
	return c.swap(c.along(c.swap(t, axis, rank-1), rank-1, m), axis, rank-1)
}
