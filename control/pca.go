package control

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// Subspace is a fitted principal subspace: E(x) = Mean + (x − Mean)·V·Vᵀ.
type Subspace struct {
	Dim, Rank  int
	Mean       []float32
	Components []float32 // V, row-major Dim × Rank, orthonormal columns, largest variance first
	Variance   float64   // share of the clean states' variance that V keeps
	Samples    int
}

// Target says how many components to keep: the fewest that keep the share
// Variance of the variance, or exactly Rank where that is above 0.
type Target struct {
	Variance float64
	Rank     int
}

// States streams clean states: it calls yield once for each, always in the same
// order; yield must not keep the slice.
type States func(ctx context.Context, yield func(state []float32) error) error

const (
	denseDim = 4096 // up to here the covariance matrix is held: 8·dim² bytes
	exactDim = 512  // up to here it is factorised whole
	maxRank  = 2048 // a subspace of more components would not be a bottleneck
	chunk    = 512  // states that are multiplied at once
)

// FitPCA fits the principal subspace of states of dim values. Up to 512
// dimensions the covariance's eigendecomposition is exact. Above, a randomised
// block Krylov method (Musco & Musco 2015) grows a basis until it holds the
// share of the variance asked for and the Ritz vectors in use have converged:
// from the covariance matrix up to 4096 dimensions, from the streamed states
// beyond. When that takes more than 2048 components the rank stops there;
// Subspace.Variance says what was reached.
func FitPCA(ctx context.Context, dim int, states States, target Target) (*Subspace, error) {
	m, err := newMoments(ctx, dim, states, dim <= denseDim)
	if err != nil {
		return nil, err
	}
	if m.n < 2 || m.trace <= 0 {
		return nil, fmt.Errorf("needs two clean states or more that differ, got %d", m.n)
	}
	if most := min(dim, maxRank, m.n-1); target.Rank > most {
		return nil, fmt.Errorf("rank %d is more than %d, the most for %d states of %d values", target.Rank, most, m.n, dim)
	}
	var values []float64
	var vectors *mat.Dense // one a row
	if dim <= exactDim {
		values, vectors, err = exactEigen(m.cov)
	} else {
		apply := m.applyDense
		if m.cov == nil {
			apply = func(ctx context.Context, b *mat.Dense) (*mat.Dense, error) { return m.applyStreamed(ctx, states, b) }
		}
		values, vectors, err = blockKrylov(ctx, dim, m.trace, target, apply)
	}
	if err != nil {
		return nil, err
	}
	rank, kept := cutoff(values, m.trace, target)
	s := &Subspace{Dim: dim, Rank: rank, Variance: kept, Samples: m.n, Mean: make([]float32, dim), Components: make([]float32, dim*rank)}
	for i, v := range m.mean {
		s.Mean[i] = float32(v)
	}
	for r := range rank {
		for i, v := range vectors.RawRowView(r) {
			s.Components[i*rank+r] = float32(v)
		}
	}
	return s, nil
}

// noise is the share of the largest eigenvalue below which one is rounding.
const noise = 1e-12

// cutoff finds how many of the descending eigenvalues are kept, and their share of the trace.
func cutoff(values []float64, trace float64, target Target) (rank int, share float64) {
	sum := 0.0
	for _, v := range values {
		if rank == maxRank || target.Rank > 0 && rank == target.Rank || target.Rank == 0 && sum >= target.Variance*trace || v <= noise*values[0] {
			break
		}
		sum += v
		rank++
	}
	return max(rank, 1), math.Min(sum/trace, 1)
}

// moments are the mean, the total variance and, where it fits, the covariance of the states.
type moments struct {
	dim, n int
	mean   []float64
	trace  float64
	cov    *mat.Dense // nil when not held
}

func newMoments(ctx context.Context, dim int, states States, dense bool) (*moments, error) {
	m := &moments{dim: dim, mean: make([]float64, dim)}
	if dense {
		m.cov = mat.NewDense(dim, dim, nil)
	}
	squares := 0.0
	rows := mat.NewDense(chunk, dim, nil)
	err := inChunks(ctx, states, rows, func(c *mat.Dense) error {
		n, _ := c.Dims()
		for i := range n {
			for j, v := range c.RawRowView(i) {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					return errors.New("a clean state is not finite")
				}
				m.mean[j] += v
				squares += v * v
			}
		}
		m.n += n
		if dense {
			addOuter(m.cov, c)
		}
		return nil
	})
	if err != nil || m.n == 0 {
		return m, err
	}
	for j := range m.mean {
		m.mean[j] /= float64(m.n)
		squares -= float64(m.n) * m.mean[j] * m.mean[j]
	}
	m.trace = squares / float64(m.n)
	if dense {
		for i := range dim {
			row := m.cov.RawRowView(i)
			for j := i; j < dim; j++ {
				row[j] = row[j]/float64(m.n) - m.mean[i]*m.mean[j]
				m.cov.Set(j, i, row[j])
			}
		}
	}
	return m, nil
}

// inChunks collects states into the rows of a matrix and hands it over, full or
// partly filled at the end.
func inChunks(ctx context.Context, states States, rows *mat.Dense, use func(*mat.Dense) error) error {
	size, dim := rows.Dims()
	n := 0
	flush := func() error {
		if n == 0 {
			return nil
		}
		part := rows.Slice(0, n, 0, dim).(*mat.Dense)
		n = 0
		return use(part)
	}
	err := states(ctx, func(state []float32) error {
		if len(state) != dim {
			return fmt.Errorf("a state has %d values, not %d", len(state), dim)
		}
		row := rows.RawRowView(n)
		for i, v := range state {
			row[i] = float64(v)
		}
		if n++; n == size {
			return flush()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// addOuter adds CᵀC to the upper triangle of sum, panel by panel, so that
// gonum's parallel product does the work and half of it is left out.
func addOuter(sum, c *mat.Dense) {
	const panel = 512
	n, dim := c.Dims()
	var part mat.Dense
	for i := 0; i < dim; i += panel {
		left := c.Slice(0, n, i, min(i+panel, dim)).(*mat.Dense)
		right := c.Slice(0, n, i, dim)
		part.Reset()
		part.Mul(left.T(), right)
		to := sum.Slice(i, min(i+panel, dim), i, dim).(*mat.Dense)
		to.Add(to, &part)
	}
}

// applyDense multiplies the rows of b by the covariance.
func (m *moments) applyDense(ctx context.Context, b *mat.Dense) (*mat.Dense, error) {
	var out mat.Dense
	out.Mul(b, m.cov)
	return &out, ctx.Err()
}

// applyStreamed does the same from the states: (1/n) Σ (b·x)xᵀ − (b·μ)μᵀ.
func (m *moments) applyStreamed(ctx context.Context, states States, b *mat.Dense) (*mat.Dense, error) {
	k, _ := b.Dims()
	out := mat.NewDense(k, m.dim, nil)
	var weights, part mat.Dense
	err := inChunks(ctx, states, mat.NewDense(chunk, m.dim, nil), func(c *mat.Dense) error {
		weights.Reset()
		weights.Mul(b, c.T())
		part.Reset()
		part.Mul(&weights, c)
		out.Add(out, &part)
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	out.Scale(1/float64(m.n), out)
	mean := mat.NewDense(1, m.dim, m.mean)
	weights.Reset()
	weights.Mul(b, mean.T())
	part.Reset()
	part.Mul(&weights, mean)
	out.Sub(out, &part)
	return out, nil
}

// exactEigen returns the covariance's eigenvalues, descending, and eigenvectors as rows.
func exactEigen(cov *mat.Dense) ([]float64, *mat.Dense, error) {
	d, _ := cov.Dims()
	var e mat.EigenSym
	if !e.Factorize(mat.NewSymDense(d, cov.RawMatrix().Data), true) {
		return nil, nil, errors.New("the covariance's eigendecomposition did not converge")
	}
	values := e.Values(nil)
	var v mat.Dense
	e.VectorsTo(&v)
	vectors := mat.NewDense(d, d, nil)
	out := make([]float64, d)
	for r := range d {
		out[r] = values[d-1-r]
		for i := range d {
			vectors.Set(r, i, v.At(i, d-1-r))
		}
	}
	return out, vectors, nil
}
