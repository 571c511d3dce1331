package pca

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"selfheal/models/ort"
)

const (
	// A row is dependent when its distance from the span of those before it is less than this share of its length.
	dependent = 1e-6
	// Rows with products of up to this are made orthonormal by one step of Newton's method, which squares it.
	nearly = 1e-4
	// Rows and columns worked on at once: what a product keeps in float64 is small beside the basis.
	basisRows    = 256
	basisColumns = 512
)

// orthonormalise makes q of y: the same span, but for rows that depend on those before them, in whose place others are
// drawn; it counts those. Cholesky's decomposition of the rows' products (CholeskyQR) is repeated until they are
// orthonormal.
func (f *rangeFinder) orthonormalise(ctx context.Context) (fresh int, err error) {
	f.normalise()
	for range 8 {
		gram, err := f.cross(ctx, f.y.At, f.y.At)
		if err != nil {
			return fresh, err
		}
		off := 0.0
		for i := range f.k {
			sum := -1.0
			for _, v := range gram.RawRowView(i) {
				sum += math.Abs(v)
			}
			off = max(off, sum, 1-gram.At(i, i))
		}
		var lost []int
		transform, last := gram, off <= nearly
		if last { // G^(−½) = I − (G − I)/2 + O(‖G − I‖²)
			gram.Apply(func(i, j int, v float64) float64 {
				if i == j {
					return (3 - v) / 2
				}
				return -v / 2
			}, gram)
		} else {
			transform, lost = inverseCholesky(gram)
		}
		if err := f.mix(ctx, transform.At, f.k, f.y.At, f.y.Set); err != nil {
			return fresh, err
		}
		if last {
			f.round()
			return fresh, nil
		}
		for _, i := range lost {
			draw(f.random, f.y.RawRowView(i))
		}
		if fresh += len(lost); len(lost) > 0 {
			f.normalise()
		}
	}
	return fresh, fmt.Errorf("%d directions of %d values can't be made orthonormal", f.k, f.m.dim)
}

// round makes q of y.
func (f *rangeFinder) round() {
	clear(f.q)
	for i, v := range f.y.RawMatrix().Data {
		f.q[i] = float32(v)
	}
}

// normalise scales the rows of y to length 1. Rows that vanish beside the longest stay 0.
func (f *rangeFinder) normalise() {
	norms := make([]float64, f.k)
	for i := range norms {
		norms[i] = floats.Norm(f.y.RawRowView(i), 2)
	}
	longest := slices.Max(norms)
	for i, n := range norms {
		scale := 0.0
		if n > 1e-12*longest {
			scale = 1 / n
		}
		floats.Scale(scale, f.y.RawRowView(i))
	}
}

// inverseCholesky returns M such that the rows of M·Y are orthonormal, from the products of the rows of Y, of length 1:
// the inverse of the lower Cholesky factor. Dependent rows are listed: their rows and columns of M are 0.
func inverseCholesky(gram *mat.Dense) (inverse *mat.Dense, lost []int) {
	k, _ := gram.Dims()
	factor := mat.NewDense(k, k, nil)
	inverse = mat.NewDense(k, k, nil)
	for i := range k {
		row := factor.RawRowView(i)
		for j := range i {
			if d := factor.At(j, j); d > 0 {
				row[j] = (gram.At(i, j) - floats.Dot(row[:j], factor.RawRowView(j)[:j])) / d
			}
		}
		square := gram.At(i, i) - floats.Dot(row[:i], row[:i])
		if square <= dependent*dependent {
			clear(row)
			lost = append(lost, i)
			continue
		}
		row[i] = math.Sqrt(square)
		to := inverse.RawRowView(i)
		for j := range i {
			if row[j] != 0 {
				floats.AddScaled(to[:j+1], -row[j]/row[i], inverse.RawRowView(j)[:j+1])
			}
		}
		to[i] = 1 / row[i]
	}
	return inverse, lost
}

// projected is the eigendecomposition of QᵀCQ. With vectors it gives up y.
func (f *rangeFinder) projected(ctx context.Context, vectors bool) ([]float64, *mat.Dense, error) {
	t, err := f.cross(ctx, f.direction, f.y.At)
	if err != nil {
		return nil, nil, err
	}
	if vectors { // the last step: makes room
		f.y = nil
	}
	collect()
	return eigen(ctx, t, vectors)
}

func (f *rangeFinder) direction(i, j int) float64 { return float64(f.q[i*f.m.dim+j]) }

// entry is a value of a matrix in a row and a column.
type entry func(i, j int) float64

// cross is a·bᵀ for two k × dim matrices.
func (f *rangeFinder) cross(ctx context.Context, a, b entry) (*mat.Dense, error) {
	k, dim, tile, width := f.k, f.m.dim, min(basisRows, f.k), min(basisColumns, f.m.dim)
	sum := make([]float64, k*k)
	err := f.panels(ctx, k, 1, b, func(row, from int) []ort.Tensor { return panel(a, row, k, tile, from, dim, width) },
		func(row, _ int, out []ort.Tensor) { addTo(sum[row*k:min(row+tile, k)*k], out) })
	return mat.NewDense(k, k, sum), err
}

// mix hands the values of m·a to set, for m of rows × k and a of k × dim; set may write to a.
func (f *rangeFinder) mix(ctx context.Context, m entry, rows int, a entry, set func(i, j int, v float64)) error {
	k, dim, tile, width := f.k, f.m.dim, min(basisRows, rows), min(basisColumns, f.m.dim)
	return f.panels(ctx, rows, 0, a, func(row, _ int) []ort.Tensor { return panel(m, row, rows, tile, 0, k, k) },
		func(row, from int, out []ort.Tensor) {
			for i := range min(tile, rows-row) {
				for j := range min(width, dim-from) {
					set(row+i, from+j, float64(out[0].Data[i*width+j])+float64(out[1].Data[i*width+j]))
				}
			}
		})
}

// panels multiplies left's rows, some at a time, by b or, with transB = 1, bᵀ, a panel of b's columns after the other.
// left and use are told the first row and column; left's panels are as wide as b's with transB, else as b is high.
func (f *rangeFinder) panels(ctx context.Context, rows, transB int, b entry, left func(row, from int) []ort.Tensor,
	use func(row, from int, out []ort.Tensor)) error {
	k, dim, tile, width := f.k, f.m.dim, min(basisRows, rows), min(basisColumns, f.m.dim)
	a := shape2(tile, k)
	if transB == 1 {
		a = shape2(tile, width)
	}
	p, err := panelProduct(f.workers, a, shape2(k, width), transB)
	if err != nil {
		return err
	}
	defer p.Close()
	for from := 0; from < dim; from += width {
		right := panel(b, 0, k, k, from, dim, width)
		err := each(ctx, p, (rows+tile-1)/tile,
			func(task int) []ort.Tensor { return append(left(task*tile, from), right...) },
			func(task int, out []ort.Tensor) { use(task*tile, from, out) })
		if err != nil {
			return err
		}
		collect()
	}
	return nil
}

// panel is a block of a matrix from a row and a column on, zeros beyond its edges, as the sum of two tensors.
func panel(a entry, row, rows, height, column, columns, width int) []ort.Tensor {
	high, low := make([]float32, height*width), make([]float32, height*width)
	for i := range min(height, rows-row) {
		for j := range min(width, columns-column) {
			v := a(row+i, column+j)
			h := float32(v)
			high[i*width+j], low[i*width+j] = h, float32(v-float64(h))
		}
	}
	return []ort.Tensor{matrix(height, width, high), matrix(height, width, low)}
}
