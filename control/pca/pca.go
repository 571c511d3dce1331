// Package pca fits principal subspaces of clean states, for linear embeddings. [Fit] walks several times through
// [States] and returns a [Subspace]; a [Cache] keeps subspaces by [Key]. The same states and seed give the same bits
// with any number of workers, and the states are never all in memory.
package pca

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Subspace is a fitted principal subspace: E(x) = Mean + (x − Mean)·V·Vᵀ.
type Subspace struct {
	Dim, Rank  int
	Mean       []float32
	Components []float32 // V, row-major Dim × Rank, orthonormal columns, largest variance first
	Variance   float64   // fraction of the clean states' variance in the span of V
	Samples    int
}

// Target says how many components to keep: exactly Rank if that is above 0, otherwise the fewest that keep the
// fraction Variance of the variance. States of more than 4096 values have no exact fit and may keep a few more.
type Target struct {
	Variance float64
	Rank     int
}

// Capped reports whether s keeps less variance than asked for, because no more components exist or [MaxRank] allows
// no more.
func (t Target) Capped(s *Subspace) bool { return t.Rank == 0 && s.Variance < t.Variance-1e-6 }

// States streams clean states, always in the same order. yield must not keep the slice. A fit walks through them
// several times.
type States func(ctx context.Context, yield func(state []float32) error) error

// Options configure the search for a subspace.
type Options struct {
	Seed    uint64 // of the random directions at the start of the search
	Workers int    // concurrent products; 0: as many as there are cores. They change no bit
}

const (
	exactDim      = 512     // up to this size all eigenvectors of the covariance are computed
	denseDim      = 4096    // up to this size the covariance is held in memory: 8·dim² bytes
	maxComponents = 1 << 25 // values of all components together: 128 MiB
)

var maxRank = 2048 // a subspace of more components would not be a bottleneck; tests change it

// MaxRank returns how many components a subspace of states of dim values may have: 2048 or, beyond 16,384 values, so
// many that all components together have at most 2²⁵ values, but at least 16.
func MaxRank(dim int) int { return min(dim, maxRank, max(maxComponents/dim, 16)) }

// Fit fits the principal subspace of states of dim values.
//
// Up to 512 values the eigendecomposition of the covariance, summed in float64, is exact. Up to 4096 values a
// randomised block Krylov method (Musco & Musco 2015) finds the leading eigenvectors, to 1e-6 of the largest
// eigenvalue. For more values Fit multiplies the states by random directions as they stream by (see rangeFinder).
// This takes five or six walks through them, and memory for the components only.
//
// The rank stops at [MaxRank] components, even if the wanted variance takes more; Subspace.Variance says how much was
// reached. The same states and seed give the same bits with any number of workers.
func Fit(ctx context.Context, dim int, states States, target Target, o Options) (*Subspace, error) {
	if o.Workers <= 0 {
		o.Workers = runtime.NumCPU()
	}
	fit := streamed
	if dim <= denseDim {
		fit = dense
	}
	s, err := fit(ctx, dim, states, target, o)
	collect()
	return s, err
}

func dense(ctx context.Context, dim int, states States, target Target, o Options) (*Subspace, error) {
	m, cov, err := covariance(ctx, dim, states, o.Workers)
	if err != nil {
		return nil, err
	}
	if err := m.check(target); err != nil {
		return nil, err
	}
	var values []float64
	var vectors *mat.Dense // one in each row
	if dim <= exactDim {
		values, vectors, err = eigen(ctx, cov, true)
	} else {
		values, vectors, err = blockKrylov(ctx, cov, m.trace, target, o)
	}
	if err != nil {
		return nil, err
	}
	rank, kept := cutoff(values, m.trace, target, MaxRank(dim))
	s := m.subspace(rank, kept)
	for r := range rank {
		for i, v := range vectors.RawRowView(r) {
			s.Components[i*rank+r] = float32(v)
		}
	}
	return s, nil
}

func (m *moments) check(target Target) error {
	if m.n < 2 {
		return fmt.Errorf("a linear embedding needs two clean states or more, got %d", m.n)
	}
	if m.trace == 0 {
		return fmt.Errorf("the %d clean states are all the same: "+
			"there is no variance that a linear embedding could keep", m.n)
	}
	if most := min(MaxRank(m.dim), m.n-1); target.Rank > most {
		return fmt.Errorf("rank %d is more than %d, the most for %d states of %d values", target.Rank, most, m.n, m.dim)
	}
	return nil
}

// subspace returns a subspace with the states' mean and no components yet.
func (m *moments) subspace(rank int, kept float64) *Subspace {
	return &Subspace{Dim: m.dim, Rank: rank, Variance: kept, Samples: m.n, Mean: m.centre(),
		Components: make([]float32, m.dim*rank)}
}

// noise is the fraction of the largest eigenvalue below which an eigenvalue is rounding error.
const noise = 1e-12

// cutoff returns how many of the descending eigenvalues to keep, at most limit, and their fraction of the trace.
func cutoff(values []float64, trace float64, target Target, limit int) (rank int, share float64) {
	sum := 0.0
	for _, v := range values {
		enough := target.Rank == 0 && sum >= target.Variance*trace
		if enough || rank == limit || rank == target.Rank && rank > 0 || v <= noise*values[0] {
			break
		}
		sum += v
		rank++
	}
	return max(rank, 1), math.Min(sum/trace, 1)
}

// eigen returns the eigenvalues, descending, of a matrix that is symmetric apart from rounding and, if vectors is
// set, its eigenvectors as rows. The decomposition takes up to minutes and can't be stopped: when ctx is cancelled,
// eigen returns and the decomposition ends by itself.
func eigen(ctx context.Context, a *mat.Dense, vectors bool) ([]float64, *mat.Dense, error) {
	d, _ := a.Dims()
	for i := range d {
		for j := i + 1; j < d; j++ { // symmetrises the upper half, which gonum reads
			a.Set(i, j, (a.At(i, j)+a.At(j, i))/2)
		}
	}
	e, done := new(mat.EigenSym), make(chan bool, 1)
	go func() { done <- e.Factorize(mat.NewSymDense(d, a.RawMatrix().Data), vectors) }()
	select {
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	case converged := <-done:
		if !converged {
			return nil, nil, errors.New("the covariance's eigendecomposition did not converge")
		}
	}
	values := e.Values(nil)
	slices.Reverse(values)
	if !vectors {
		return values, nil, nil
	}
	var columns mat.Dense
	e.VectorsTo(&columns)
	rows := mat.NewDense(d, d, nil)
	rows.Apply(func(r, i int, _ float64) float64 { return columns.At(i, d-1-r) }, rows)
	return values, rows, nil
}
