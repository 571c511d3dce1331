package optimize

import "fmt"

// An algorithm computes m outputs of a one-dimensional correlation
// y[i] = Σ_a g[a]·x[stride·i + a] from span inputs as y = A·((G·g) ⊙ (B·x)), with
// fewer products than m·len(g) (Winograd; Lavin & Gray 2016, section 4). The
// products are over channels too, so they become matrix products, one for each of
// the n entries.
type algorithm struct {
	m, n, span, stride int
	a, g, b            [][]float64 // m×n, n×taps, n×span
}

// Interpolation points besides infinity, by their number. Those of four come in
// fractions because the transforms are matrix products, for which all numbers
// cost the same, and these lose half as many bits as {0, ±1, ±2}.
var points = map[int][]float64{
	1: {0},
	2: {0, 1},
	3: {0, 1, -1},
	4: {0, 1, -1, 0.5},
	5: {0, 2.0 / 3, -2.0 / 3, 4.0 / 3, -4.0 / 3},
}

// toomCook is the algorithm F(m, r) with stride 1: m + r − 1 products instead of m·r.
func toomCook(m, r int) (*algorithm, error) {
	n := m + r - 1
	p, ok := points[n-1]
	if !ok {
		return nil, fmt.Errorf("no interpolation points for F(%d, %d)", m, r)
	}
	// Rows of powers evaluate a polynomial at the points, the last one at infinity.
	powers := func(degree int) [][]float64 {
		rows := zeros(n, degree)
		for i, x := range p {
			v := 1.0
			for j := range degree {
				rows[i][j] = v
				v *= x
			}
		}
		rows[n-1][degree-1] = 1
		return rows
	}
	// Polynomials multiply as E⁻¹·((powers·g) ⊙ (powers·h)); the correlation is the
	// transpose of that in h (the transposition principle).
	inverse, err := invert(powers(n))
	if err != nil {
		return nil, err
	}
	return &algorithm{m: m, n: n, span: n, stride: 1, a: transpose(powers(m)), g: powers(r), b: transpose(inverse)}, nil
}

// strided is the algorithm for 3 taps and a stride of 2: the outer taps see the
// even inputs only, a correlation F(m, 2), and the middle tap the odd ones:
// 2m + 1 products instead of 3m.
func strided(m int) (*algorithm, error) {
	even, err := toomCook(m, 2)
	if err != nil {
		return nil, err
	}
	n, span := even.n+m, 2*m+1
	s := &algorithm{m: m, n: n, span: span, stride: 2, a: zeros(m, n), g: zeros(n, 3), b: zeros(n, span)}
	for i := range even.n {
		s.g[i][0], s.g[i][2] = even.g[i][0], even.g[i][1]
		for k := range even.span {
			s.b[i][2*k] = even.b[i][k]
		}
	}
	for i := range m {
		copy(s.a[i], even.a[i])
		s.a[i][even.n+i], s.g[even.n+i][1], s.b[even.n+i][2*i+1] = 1, 1, 1
	}
	return s, nil
}

// tiled applies the algorithm along an axis of the given size, padded by pad
// before it, to give out outputs: matrices [n·tiles, size] and [out, n·tiles] in
// row-major order, entry-major: products of one entry lie together.
func (s *algorithm) tiled(size, pad, out int) (into, back []float32, tiles int) {
	tiles = s.tiles(out)
	into, back = make([]float32, s.n*tiles*size), make([]float32, out*s.n*tiles)
	for t := range tiles {
		for e := range s.n {
			row := e*tiles + t
			for k := range s.span {
				if at := t*s.m*s.stride - pad + k; at >= 0 && at < size {
					into[row*size+at] = float32(s.b[e][k])
				}
			}
			for i := range s.m {
				if at := t*s.m + i; at < out {
					back[at*s.n*tiles+row] = float32(s.a[i][e])
				}
			}
		}
	}
	return into, back, tiles
}

// tiles is how many applications give that many outputs.
func (s *algorithm) tiles(out int) int { return (out + s.m - 1) / s.m }

func zeros(rows, columns int) [][]float64 {
	m := make([][]float64, rows)
	for i := range m {
		m[i] = make([]float64, columns)
	}
	return m
}

func transpose(m [][]float64) [][]float64 {
	t := zeros(len(m[0]), len(m))
	for i := range m {
		for j, v := range m[i] {
			t[j][i] = v
		}
	}
	return t
}
