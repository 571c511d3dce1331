package optimize

import (
	"gonum.org/v1/gonum/mat"

	"selfheal/models/onnx"
)

// An algorithm is Winograd's F(m) for 3 taps along one axis: it computes m outputs of the correlation y[i] = Σ_k
// g[k]·x[stride·i + k] from span inputs as y = A·((G·g) ⊙ (B·x)), with n < 3m products (Lavin & Gray 2016, section 4).
// The products are also over channels, so they become matrix products, one for each of the n entries.
type algorithm struct {
	m, n, span, stride int
	a, g, b            mat.Matrix // m×n, n×taps, n×span
}

// points maps a number to as many interpolation points besides infinity. The four points include fractions: the
// transforms are matrix products, for which all numbers cost the same, and these lose half as many bits as {0, ±1, ±2}.
var points = map[int][]float64{
	2: {0, 1},
	3: {0, 1, -1},
	4: {0, 1, -1, 0.5},
	5: {0, 2.0 / 3, -2.0 / 3, 4.0 / 3, -4.0 / 3},
}

// algorithmOf returns F(m), m 2 or 4, for a stride; nil if there is none.
func algorithmOf(m int, stride int64) *algorithm {
	switch stride {
	case 1:
		return toomCook(m, 3)
	case 2:
		return strided(m)
	}
	return nil
}

// toomCook returns F(m) for r taps with stride 1: m + r − 1 products instead of m·r.
func toomCook(m, r int) *algorithm {
	n := m + r - 1
	// Rows of powers evaluate a polynomial at the points, the last one at infinity.
	powers := func(degree int) *mat.Dense {
		rows := mat.NewDense(n, degree, nil)
		for i, x := range points[n-1] {
			v := 1.0
			for j := range degree {
				rows.Set(i, j, v)
				v *= x
			}
		}
		rows.Set(n-1, degree-1, 1)
		return rows
	}
	// Polynomials multiply as E⁻¹·((powers·g) ⊙ (powers·h)); the correlation is the
	// transpose of that in h (the transposition principle).
	var inverse mat.Dense
	if err := inverse.Inverse(powers(n)); err != nil {
		panic(err) // two points are equal or missing
	}
	return &algorithm{m: m, n: n, span: n, stride: 1, a: powers(m).T(), g: powers(r), b: inverse.T()}
}

// strided returns F(m) with a stride of 2: 2m + 1 products instead of 3m. The outer taps see only the even inputs, a
// correlation with 2 taps, and the middle tap the odd ones.
func strided(m int) *algorithm {
	even := toomCook(m, 2)
	n, span := even.n+m, 2*m+1
	a, g, b := mat.NewDense(m, n, nil), mat.NewDense(n, 3, nil), mat.NewDense(n, span, nil)
	for i := range even.n {
		g.Set(i, 0, even.g.At(i, 0))
		g.Set(i, 2, even.g.At(i, 1))
		for k := range even.span {
			b.Set(i, 2*k, even.b.At(i, k))
		}
	}
	a.Copy(even.a)
	for i := range m {
		a.Set(i, even.n+i, 1)
		g.Set(even.n+i, 1, 1)
		b.Set(even.n+i, 2*i+1, 1)
	}
	return &algorithm{m: m, n: n, span: span, stride: 2, a: a, g: g, b: b}
}

// tiled returns the matrices that apply the algorithm along an axis of the given size, padded by pad in front, with out
// outputs: [n·tiles, size] and [out, n·tiles], of float32 values. Products of one entry lie together.
func (s *algorithm) tiled(size, pad, out int) (into, back *mat.Dense) {
	tiles := s.tiles(out)
	into, back = mat.NewDense(s.n*tiles, size, nil), mat.NewDense(out, s.n*tiles, nil)
	for t := range tiles {
		for e := range s.n {
			row := e*tiles + t
			for k := range s.span {
				if at := t*s.m*s.stride - pad + k; at >= 0 && at < size {
					into.Set(row, at, float64(float32(s.b.At(e, k))))
				}
			}
			for i := range s.m {
				if at := t*s.m + i; at < out {
					back.Set(at, row, float64(float32(s.a.At(i, e))))
				}
			}
		}
	}
	return into, back
}

func (s *algorithm) tiles(out int) int { return (out + s.m - 1) / s.m }

// winograd writes a 3×3 convolution by algorithm s along both axes:
//
//	V = B·x·Bᵀ of every tile, U = G·w·Gᵀ, M = V·U over the channels for each of
//	the n² entries, y = A·M·Aᵀ
//
// with tiles of both axes in one product. U is computed from w by constant operators, once when the network is loaded.
func (w *rewriter) winograd(n *onnx.Node, weight *onnx.Tensor, win onnx.Window, s *algorithm) string {
	x := w.inHWNC(n.Inputs[0])
	in, out := w.src.Shapes[n.Inputs[0]], w.src.Shapes[n.Outputs[0]]
	c, o, e := in[1], out[1], int64(s.n)
	b0, a0 := s.tiled(int(in[2]), int(win.Pads[0]), int(out[2]))
	b1, a1 := s.tiled(int(in[3]), int(win.Pads[1]), int(out[3]))
	t0, t1 := int64(s.tiles(int(out[2]))), int64(s.tiles(int(out[3])))

	g := w.matrix(kronecker(s.g, s.g))
	u := w.Op("MatMul", g, w.Const(onnx.FloatTensor(onnx.Shape{9, c * o}, taps(weight))))
	if t0 == 1 && t1 == 1 { // both axes in one product, because matrices with few rows are slow
		v := w.Op("MatMul", w.matrix(kronecker(b0, b1)), w.Reshape(x, onnx.Shape{in[2] * in[3], -1}))
		m := w.each(w.Reshape(v, onnx.Shape{e * e, -1, c}), w.Reshape(u, onnx.Shape{e * e * c, o}))
		y := w.Op("MatMul", w.matrix(kronecker(a0, a1)), w.Reshape(m, onnx.Shape{e * e, -1}))
		return w.Reshape(y, onnx.Shape{out[2], out[3], -1, o})
	}

	v := w.Op("MatMul", w.matrix(b0), w.Reshape(x, onnx.Shape{in[2], -1})) // [e·t0, W·N·C]
	v = w.Op("MatMul", w.matrix(b1), w.Reshape(v, onnx.Shape{e * t0, in[3], -1}))
	v = w.Reshape(v, onnx.Shape{e, t0, e, -1, c}) // [e, t0, e, t1·N, C]

	m := ""
	if c*o < manyWeights {
		m = w.Op("MatMul", v, w.Reshape(u, onnx.Shape{e, 1, e, c, o}))
	} else {
		m = w.entries(v, w.Reshape(u, onnx.Shape{e * e * c, o}))
	}

	y := w.Op("MatMul", w.matrix(a1), w.Reshape(m, onnx.Shape{e * t0, e * t1, -1})) // [e·t0, W', N·O]
	y = w.Op("MatMul", w.matrix(a0), w.Reshape(y, onnx.Shape{e * t0, -1}))
	return w.Reshape(y, onnx.Shape{out[2], out[3], -1, o})
}

// entries multiplies the tiles v, [e, t0, e, t1·N, C], with the weights u, [e²·C, O], by a matrix product for each
// entry. One batched product would read and rearrange the weights again for every row of tiles. With many weights and
// few tiles that costs more than these copies of the tiles.
func (w *rewriter) entries(v, u string) string {
	s := w.Shape(v)
	e, t0, o := s[0], s[1], w.Shape(u)[1]
	swap := []int64{0, 2, 1, 3, 4}
	m := w.each(w.Reshape(w.Transpose(v, swap...), onnx.Shape{e * e, -1, s[4]}), u)
	return w.Transpose(w.Reshape(m, onnx.Shape{e, e, t0, -1, o}), swap...)
}

// each multiplies each of the matrices v, [n, rows, C], with its own of the weights u, [n·C, O].
func (w *rewriter) each(v, u string) string {
	n := w.Shape(v)[0]
	split := onnx.Attrs{"axis": 0, "num_outputs": n}
	tiles, weights := w.Multi("Split", split, int(n), v), w.Multi("Split", split, int(n), u)
	products := make([]string, n)
	for i := range tiles {
		products[i] = w.Op("MatMul", tiles[i], weights[i])
	}
	return w.OpWith("Concat", onnx.Attrs{"axis": 0}, products...)
}

func (w *rewriter) matrix(m mat.Matrix) string {
	rows, columns := m.Dims()
	t := onnx.FloatTensor(onnx.Shape{int64(rows), int64(columns)}, make([]float32, rows*columns))
	for i := range t.Floats {
		t.Floats[i] = float32(m.At(i/columns, i%columns))
	}
	return w.Const(t)
}

// kronecker returns the matrix that applies a and b to the axes of a plane, seen as a vector.
func kronecker(a, b mat.Matrix) *mat.Dense {
	var k mat.Dense
	k.Kronecker(a, b)
	return &k
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
