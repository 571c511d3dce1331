package pca

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"selfheal/models/ort"
)

const (
	// A row whose distance from the span of those before it is less than this share of
	// its length is one of them as far as sums of float32 products tell.
	dependent = 1e-6
	// Rows with products of up to this are made orthonormal by one step of Newton's
	// method, which squares it.
	nearly = 1e-4
	// How many rows and columns of a basis are worked on at once: what a product keeps in
	// float64 is small beside the basis.
	basisRows    = 256
	basisColumns = 512
)

// orthonormalise makes q of y: the same span, but for rows that depend on those before
// them, in whose place others are drawn; it counts those. Rounds of Cholesky's
// decomposition of the rows' products (CholeskyQR) go on until they are orthonormal.
func (f *rangeFinder) orthonormalise(ctx context.Context) (fresh int, err error) {
	dim, k := f.m.dim, f.k
	f.normalise()
	y := func(i, j int) float64 { return f.y[i*dim+j] }
	setY := func(i, j int, v float64) { f.y[i*dim+j] = v }
	for range 8 {
		gram, err := f.cross(ctx, y, y)
		if err != nil {
			return fresh, err
		}
		off := 0.0
		for i := range k {
			sum := -1.0
			for _, v := range gram.RawRowView(i) {
				sum += math.Abs(v)
			}
			off = max(off, sum, 1-gram.At(i, i))
		}
		if off <= nearly {
			// G^(−½) = I − (G − I)/2 + O(‖G − I‖²)
			gram.Apply(func(i, j int, v float64) float64 {
				if i == j {
					return (3 - v) / 2
				}
				return -v / 2
			}, gram)
			err := f.mix(ctx, gram.RawMatrix().Data, k, y, setY)
			clear(f.q)
			for i, v := range f.y[:k*dim] {
				f.q[i] = float32(v)
			}
			return fresh, err
		}
		transform, lost := inverseCholesky(gram)
		if err := f.mix(ctx, transform, k, y, setY); err != nil {
			return fresh, err
		}
		for _, i := range lost {
			f.drawInto(f.y[i*dim : (i+1)*dim])
		}
		fresh += len(lost)
		if len(lost) > 0 {
			f.normalise()
		}
	}
	return fresh, fmt.Errorf("%d directions of %d values can't be made orthonormal", k, dim)
}

// normalise scales the rows of y to length 1. Rows that vanish beside the longest stay 0.
func (f *rangeFinder) normalise() {
	dim, longest := f.m.dim, 0.0
	norms := make([]float64, f.k)
	for i := range norms {
		norms[i] = floats.Norm(f.y[i*dim:(i+1)*dim], 2)
		longest = max(longest, norms[i])
	}
	for i, n := range norms {
		scale := 0.0
		if n > 1e-12*longest {
			scale = 1 / n
		}
		floats.Scale(scale, f.y[i*dim:(i+1)*dim])
	}
}

// inverseCholesky returns M, row-major, such that the rows of M·Y are orthonormal, from
// the products of the rows of Y, whose lengths are 1: the inverse of the lower Cholesky
// factor. Rows that depend on those before them are left out and listed: their rows and
// columns of M are 0.
func inverseCholesky(gram *mat.Dense) (inverse []float64, lost []int) {
	k, _ := gram.Dims()
	factor := make([]float64, k*k)
	inverse = make([]float64, k*k)
	for i := range k {
		row := factor[i*k : (i+1)*k]
		for j := range i {
			if d := factor[j*k+j]; d > 0 {
				row[j] = (gram.At(i, j) - floats.Dot(row[:j], factor[j*k:j*k+j])) / d
			}
		}
		square := gram.At(i, i) - floats.Dot(row[:i], row[:i])
		if square <= dependent*dependent {
			clear(row)
			lost = append(lost, i)
			continue
		}
		row[i] = math.Sqrt(square)
		to := inverse[i*k : (i+1)*k]
		for j := range i {
			if row[j] != 0 {
				floats.AddScaled(to[:j+1], -row[j]/row[i], inverse[j*k:j*k+j+1])
			}
		}
		to[i] = 1 / row[i]
	}
	return inverse, lost
}

// projected is the eigendecomposition of QᵀCQ. With vectors it gives up y.
func (f *rangeFinder) projected(ctx context.Context, vectors bool) (*mat.EigenSym, error) {
	dim := f.m.dim
	t, err := f.cross(ctx, func(i, j int) float64 { return float64(f.q[i*dim+j]) },
		func(i, j int) float64 { return f.y[i*dim+j] })
	if err != nil {
		return nil, err
	}
	for i := range f.k { // symmetric but for rounding
		for j := range i {
			v := (t.At(i, j) + t.At(j, i)) / 2
			t.Set(i, j, v)
			t.Set(j, i, v)
		}
	}
	if vectors { // the last step: makes room
		f.y = nil
	}
	collect()
	return eigen(ctx, symmetric(t), vectors)
}

// cross is a·bᵀ for two k × dim matrices.
func (f *rangeFinder) cross(ctx context.Context, a, b func(i, j int) float64) (*mat.Dense, error) {
	k, tile, width := f.k, min(basisRows, f.k), min(basisColumns, f.m.dim)
	p, err := crossProduct(f.workers, tile, k, width)
	if err != nil {
		return nil, err
	}
	defer p.close()
	sum := make([]float64, k*k)
	for from := 0; from < f.m.dim; from += width {
		right := panel(b, 0, k, k, from, f.m.dim, width)
		err := p.each(ctx, (k+tile-1)/tile, func(task int) []ort.Tensor {
			return append(panel(a, task*tile, k, tile, from, f.m.dim, width), right...)
		}, func(task int, out []ort.Tensor) {
			to := sum[task*tile*k : min((task+1)*tile, k)*k]
			for i := range to {
				to[i] += float64(out[0].Data[i]) + float64(out[1].Data[i])
			}
		})
		if err != nil {
			return nil, err
		}
		collect()
	}
	return mat.NewDense(k, k, sum), nil
}

// mix hands the values of m·a to set, for m of rows × k, row-major, and a of k × dim;
// set may write to a.
func (f *rangeFinder) mix(ctx context.Context, m []float64, rows int, a func(i, j int) float64,
	set func(i, j int, v float64)) error {
	k, dim, tile, width := f.k, f.m.dim, min(basisRows, rows), min(basisColumns, f.m.dim)
	p, err := mixProduct(f.workers, tile, k, width)
	if err != nil {
		return err
	}
	defer p.close()
	of := func(i, j int) float64 { return m[i*k+j] }
	for from := 0; from < dim; from += width {
		right := panel(a, 0, k, k, from, dim, width)
		err := p.each(ctx, (rows+tile-1)/tile, func(task int) []ort.Tensor {
			return append(panel(of, task*tile, rows, tile, 0, k, k), right...)
		}, func(task int, out []ort.Tensor) {
			for i := range min(tile, rows-task*tile) {
				for j := range min(width, dim-from) {
					set(task*tile+i, from+j, float64(out[0].Data[i*width+j])+float64(out[1].Data[i*width+j]))
				}
			}
		})
		if err != nil {
			return err
		}
		collect()
	}
	return nil
}

// panel is a block of height × width of a matrix of rows × columns, zeros beyond its
// edges, from a row and a column on, as the sum of two tensors.
func panel(a func(i, j int) float64, row, rows, height, column, columns, width int) []ort.Tensor {
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
