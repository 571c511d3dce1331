package optimize

import (
	"slices"

	"selfheal/models/onnx"
)

// conv writes a convolution in the wide layout where that is cheaper, counting
// what the input's change of layout costs. It reports false where the node is to stay.
func (t *tuner) conv(n *onnx.Node) (bool, error) {
	w, ok := t.src.Consts[n.Inputs[1]]
	in, out := t.src.Shapes[n.Inputs[0]], t.src.Shapes[n.Outputs[0]]
	if !ok || !t.isImage(n.Inputs[0]) || n.Int("group", 1) != 1 || t.isOutput(n.Outputs[0]) {
		return false, nil
	}
	var bias []float32
	if b := n.Input(2); b != "" {
		k, ok := t.src.Consts[b]
		if !ok {
			return false, nil
		}
		bias = k.Floats
	}
	win, err := onnx.NodeWindow(n, w.Shape[2:])
	if err != nil || slices.ContainsFunc(win.Dilations, func(d int64) bool { return d != 1 }) {
		return false, err
	}
	stay, move := direct(w.Shape, out), 0.0
	if !t.isWide(n.Inputs[0]) {
		move = turned(in)
	}
	if !t.plain[n.Inputs[0]] {
		stay += turned(in)
	}
	y := ""
	switch {
	case win.Kernel[0] == 1 && win.Kernel[1] == 1:
		if !t.isWide(n.Inputs[0]) || slices.ContainsFunc(win.Pads, func(p int64) bool { return p != 0 }) {
			return false, nil
		}
		y = t.product(n, w, win)
	case win.Kernel[0] == 3 && win.Kernel[1] == 3:
		s, cost := cheapest(t.sizes, w.Shape, in, out, win)
		// The layer behind is mostly of the same kind and finds its input turned.
		if s == nil || cost > worthwhile*stay || cost+move > stay {
			return false, nil
		}
		t.weights += int64(s.n*s.n) * w.Shape[0] * w.Shape[1]
		y = t.filter(n, w, win, s)
	default:
		return false, nil
	}
	if bias != nil {
		y = t.Op("Add", y, t.perChannel(bias))
	}
	t.wide[n.Outputs[0]] = y
	return true, t.Err()
}

// cheapest chooses among the algorithms of the given numbers of outputs for a 3×3
// kernel; nil where there is none.
func cheapest(sizes []int, w, in, out onnx.Shape, win onnx.Window) (best *algorithm, cost float64) {
	if win.Strides[0] != win.Strides[1] || in[1] < minChannels || out[1] < minChannels {
		return nil, 0
	}
	for _, m := range sizes {
		s, err := algorithmOf(m, win.Strides[0])
		if err != nil {
			return nil, 0
		}
		// ONNX Runtime's product of a single row rounds in an order of its own, unless
		// its weights are constants (see entries): otherwise two tiles at least. With
		// stride 2 a single tile has more weights to read than it saves.
		single := int(min(out[2], out[3])) <= m
		if single && (w[0]*w[1] < manyAlone || s.stride > 1 || int(min(out[2], out[3])) < m) {
			continue
		}
		if c := filtered(s, in, out); best == nil || c < cost {
			best, cost = s, c
		}
	}
	return best, cost
}

func algorithmOf(m int, stride int64) (*algorithm, error) {
	if stride == 1 {
		return toomCook(m, 3)
	}
	if stride == 2 {
		return strided(m)
	}
	return nil, errStride
}

// product is a 1×1 convolution: a matrix product over the channels, at every
// stride-th place.
func (t *tuner) product(n *onnx.Node, w *onnx.Tensor, win onnx.Window) string {
	x := t.inWide(n.Inputs[0])
	for axis, stride := range win.Strides {
		x = t.everyOther(x, int64(axis), stride)
	}
	o, c := w.Shape[0], w.Shape[1]
	m := onnx.FloatTensor(onnx.Shape{c, o}, make([]float32, c*o))
	for i := range o {
		for j := range c {
			m.Floats[j*o+i] = w.Floats[i*c+j]
		}
	}
	return t.Op("MatMul", x, t.Const(m))
}

// everyOther takes the places 0, stride, 2·stride … of an axis.
func (t *tuner) everyOther(x string, axis, stride int64) string {
	if stride == 1 {
		return x
	}
	return t.Op("Slice", x, t.Ints(0), t.Ints(t.Shape(x)[axis]), t.Ints(axis), t.Ints(stride))
}

// filter is a 3×3 convolution by algorithm s along both axes:
//
//	V = B·x·Bᵀ of every tile, U = G·w·Gᵀ, M = V·U over the channels for each of
//	the n² entries, y = A·M·Aᵀ
//
// with tiles of both axes in one product. U is computed from w by constant
// operators, once when the network is loaded.
func (t *tuner) filter(n *onnx.Node, w *onnx.Tensor, win onnx.Window, s *algorithm) string {
	x := t.inWide(n.Inputs[0])
	in, out := t.src.Shapes[n.Inputs[0]], t.src.Shapes[n.Outputs[0]]
	c, o, e := in[1], out[1], int64(s.n)
	matrix := func(rows, columns int64, v []float32) string {
		return t.Const(onnx.FloatTensor(onnx.Shape{rows, columns}, v))
	}
	b0, a0, t0 := s.tiled(int(in[2]), int(win.Pads[0]), int(out[2]))
	b1, a1, t1 := s.tiled(int(in[3]), int(win.Pads[1]), int(out[3]))
	n0, n1 := e*int64(t0), e*int64(t1)

	u := t.Op("MatMul", matrix(e*e, 9, s.kernel()), matrix(9, c*o, taps(w)))
	if t0 == 1 && t1 == 1 { // both axes in one product, as matrices of few rows are slow
		v := t.Op("MatMul", matrix(n0*n1, in[2]*in[3], kronecker(b0, b1, n0, n1)), t.Reshape(x, onnx.Shape{in[2] * in[3], -1}))
		m := t.each(t.Reshape(v, onnx.Shape{e * e, -1, c}), t.Reshape(u, onnx.Shape{e * e * c, o}))
		y := t.Op("MatMul", matrix(out[2]*out[3], n0*n1, kronecker(a0, a1, out[2], out[3])), t.Reshape(m, onnx.Shape{e * e, -1}))
		return t.Reshape(y, onnx.Shape{out[2], out[3], -1, o})
	}

	v := t.Op("MatMul", matrix(n0, in[2], b0), t.Reshape(x, onnx.Shape{in[2], -1})) // [n0, W·N·C]
	v = t.Op("MatMul", matrix(n1, in[3], b1), t.Reshape(v, onnx.Shape{n0, in[3], -1}))
	v = t.Reshape(v, onnx.Shape{e, int64(t0), e, -1, c}) // [e, t0, e, t1·N, C]

	m := ""
	if c*o < manyWeights {
		m = t.Op("MatMul", v, t.Reshape(u, onnx.Shape{e, 1, e, c, o}))
	} else {
		m = t.entries(v, t.Reshape(u, onnx.Shape{e * e * c, o}))
	}

	y := t.Op("MatMul", matrix(out[3], n1, a1), t.Reshape(m, onnx.Shape{n0, n1, -1})) // [n0, W', N·O]
	y = t.Op("MatMul", matrix(out[2], n0, a0), t.Reshape(y, onnx.Shape{n0, -1}))
	return t.Reshape(y, onnx.Shape{out[2], out[3], -1, o})
}

// entries multiplies the tiles v, [e, t0, e, t1·N, C], with the weights u,
// [e²·C, O], by a matrix product for each entry. One batched product would read
// the weights anew, and rearrange them, for every row of tiles, which costs more
// than these copies of the tiles where there are many weights and few tiles.
func (t *tuner) entries(v, u string) string {
	s := t.Shape(v)
	e, t0, o := s[0], s[1], t.Shape(u)[1]
	swap := onnx.Attrs{"perm": []int64{0, 2, 1, 3, 4}}
	m := t.each(t.Reshape(t.OpWith("Transpose", swap, v), onnx.Shape{e * e, -1, s[4]}), u)
	return t.OpWith("Transpose", swap, t.Reshape(m, onnx.Shape{e, e, t0, -1, o}))
}

// each multiplies each of the matrices v, [n, rows, C], with its own of the weights u,
// [n·C, O].
func (t *tuner) each(v, u string) string {
	n := t.Shape(v)[0]
	split := onnx.Attrs{"axis": 0, "num_outputs": n}
	tiles, weights := t.Multi("Split", split, int(n), v), t.Multi("Split", split, int(n), u)
	products := make([]string, n)
	for i := range tiles {
		products[i] = t.Op("MatMul", tiles[i], weights[i])
	}
	return t.OpWith("Concat", onnx.Attrs{"axis": 0}, products...)
}

// kronecker is the product of matrices of p and q rows: the one that does to both axes
// of a plane, as a vector, what they do to each.
func kronecker(a, b []float32, p, q int64) []float32 {
	m, n := len(a)/int(p), len(b)/int(q)
	out := make([]float32, 0, len(a)*len(b))
	for i := range int(p) {
		for k := range int(q) {
			for _, x := range a[i*m : (i+1)*m] {
				for _, y := range b[k*n : (k+1)*n] {
					out = append(out, x*y)
				}
			}
		}
	}
	return out
}

// kernel is the matrix [n², 9] that makes U of a kernel's taps: G ⊗ G.
func (s *algorithm) kernel() []float32 {
	k := make([]float32, 0, s.n*s.n*9)
	for _, p := range s.g {
		for _, q := range s.g {
			for _, x := range p {
				for _, y := range q {
					k = append(k, float32(x*y))
				}
			}
		}
	}
	return k
}

// taps turns a weight [O, C, 3, 3] into [9, C, O].
func taps(w *onnx.Tensor) []float32 {
	o, c := int(w.Shape[0]), int(w.Shape[1])
	out := make([]float32, len(w.Floats))
	for i := range o {
		for j := range c {
			for k := range 9 {
				out[(k*c+j)*o+i] = w.Floats[(i*c+j)*9+k]
			}
		}
	}
	return out
}
