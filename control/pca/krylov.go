package pca

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
)

const (
	krylovBlock = 64
	// The last Ritz vector in use has converged when ‖C·v − λ·v‖ ≤ tolerance·λ_1.
	krylovTolerance = 1e-6
)

// blockKrylov returns the leading eigenvalues, descending, and eigenvectors (as rows) of a covariance, as many as
// target needs. The basis starts with random directions, grows by one block for each product and stays orthonormal.
func blockKrylov(ctx context.Context, cov *mat.Dense, trace float64, target Target, o Options) ([]float64, *mat.Dense,
	error) {
	dim, _ := cov.Dims()
	most := MaxRank(dim)
	limit := min(dim, most+most/2+4*krylovBlock)
	basis := mat.NewDense(limit, dim, nil)    // Q, one vector a row
	products := mat.NewDense(limit, dim, nil) // Q·C
	rng := rand.New(rand.NewPCG(o.Seed, uint64(dim)))
	block := mat.NewDense(min(krylovBlock, limit), dim, nil)
	draw(rng, block.RawMatrix().Data)
	size, next, captured := 0, 0, 0.0
	for {
		added := extend(basis, size, block)
		if added > 0 {
			fresh, p := rows(basis, size, size+added), rows(products, size, size+added)
			if p.Mul(fresh, cov); ctx.Err() != nil {
				return nil, nil, ctx.Err()
			}
			for i := range added {
				captured += mat.Dot(fresh.RowView(i), p.RowView(i))
			}
			size, block = size+added, p
		}
		full := added == 0 || size == limit
		if next == 0 { // the final size of the basis is not known yet
			switch {
			case target.Rank > 0:
				next = target.Rank + target.Rank/4 + 2*krylovBlock
			case captured >= target.Variance*trace:
				next = size + size/4 + krylovBlock
			}
		}
		if !full && (next == 0 || size < next) {
			continue
		}
		values, vectors, residual, err := rayleighRitz(ctx, basis, products, size, trace, target, most, full)
		if err != nil || full || residual <= krylovTolerance*values[0] {
			return values, vectors, err
		}
		next = size + size/8 + krylovBlock
	}
}

// rows returns some rows of a matrix and shares their memory.
func rows(m *mat.Dense, from, to int) *mat.Dense {
	_, columns := m.Dims()
	return m.Slice(from, to, 0, columns).(*mat.Dense)
}

// extend orthogonalises the rows of block against the first size rows of basis and each other, twice for full
// accuracy, and appends them. It returns how many independent rows it appended; rows beyond the basis' room are
// dropped.
func extend(basis *mat.Dense, size int, block *mat.Dense) int {
	limit, _ := basis.Dims()
	n, _ := block.Dims()
	if n = min(n, limit-size); n == 0 {
		return 0
	}
	y := mat.DenseCopyOf(rows(block, 0, n))
	scale := mat.Norm(y, 2)
	for range 2 * min(size, 1) {
		q := rows(basis, 0, size)
		var weights, part mat.Dense
		weights.Mul(y, q.T())
		part.Mul(&weights, q)
		y.Sub(y, &part)
	}
	added := 0
	for i := range n {
		v := y.RowView(i).(*mat.VecDense)
		for range 2 {
			for j := range added {
				u := basis.RowView(size + j)
				v.AddScaledVec(v, -mat.Dot(v, u), u)
			}
		}
		norm := mat.Norm(v, 2)
		if norm <= 1e-10*scale || norm == 0 {
			continue
		}
		v.ScaleVec(1/norm, v)
		basis.SetRow(size+added, v.RawVector().Data)
		added++
	}
	return added
}

// rayleighRitz returns the eigenpairs of the covariance restricted to the first size rows of basis, as many as target
// keeps, and the residual ‖C·v − λ·v‖ of the last one. A basis that can't grow is full.
func rayleighRitz(ctx context.Context, basis, products *mat.Dense, size int, trace float64, target Target, most int,
	full bool) ([]float64, *mat.Dense, float64, error) {
	q, w := rows(basis, 0, size), rows(products, 0, size)
	var t mat.Dense
	t.Mul(q, w.T())
	values, all, err := eigen(ctx, &t, true)
	if err != nil {
		return nil, nil, 0, err
	}
	rank, share := cutoff(values, trace, target, most)
	if target.Rank == 0 && share < target.Variance && !full {
		return values, nil, math.Inf(1), nil // the basis is still too small
	}
	coords := rows(all, 0, rank)
	var vectors, last mat.Dense
	vectors.Mul(coords, q)
	last.Mul(rows(coords, rank-1, rank), w)
	residual := 0.0
	for i, v := range vectors.RawRowView(rank - 1) {
		d := last.At(0, i) - values[rank-1]*v
		residual += d * d
	}
	return values[:rank], &vectors, math.Sqrt(residual), nil
}
