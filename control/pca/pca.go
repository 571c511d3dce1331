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
	Variance   float64   // share of the clean states' variance that V keeps
	Samples    int
}

// Target says how many components to keep: the fewest that keep the share Variance of the variance (perhaps a few more
// for states of more than 4096 values, whose fit is not exact), or exactly Rank where that is above 0.
type Target struct {
	Variance float64
	Rank     int
}

// Capped reports whether s ends before it keeps the share asked for: no more components exist or are allowed
// ([MaxRank]).
func (t Target) Capped(s *Subspace) bool { return t.Rank == 0 && s.Variance < t.Variance-1e-6 }

// States streams clean states in one order; yield must not keep the slice. A fit walks through them several times.
type States func(ctx context.Context, yield func(state []float32) error) error

// Options say how a subspace is sought.
type Options struct {
	Seed    uint64 // of the random directions that the search begins with
	Workers int    // products side by side; 0: as many as there are cores. They don't change a bit
}

const (
	exactDim      = 512     // up to here the covariance is factorised whole
	denseDim      = 4096    // up to here it is held: 8·dim² bytes
	maxComponents = 1 << 25 // values of all components together: 128 MiB
)

var maxRank = 2048 // a subspace of more components would not be a bottleneck; a variable for tests

// MaxRank is how many components a subspace of states of dim values may have: 2048, and beyond 16,384 values so many
// that together they have 2²⁵ values, but 16 at least.
func MaxRank(dim int) int { return min(dim, maxRank, max(maxComponents/dim, 16)) }

// Fit fits the principal subspace of states of dim values.
//
// Up to 512 values the eigendecomposition of the covariance, summed in float64, is exact. Up to 4096 values the leading
// eigenvectors are found by a randomised block Krylov method (Musco & Musco 2015), to 1e-6 of the largest eigenvalue.
// States of more values are multiplied by random directions as they stream by (see rangeFinder): that needs five or six
// walks through them, and memory for the components only.
//
// The rank stops at [MaxRank] components, even if the share of the variance asked for takes more; Subspace.Variance
// says how much was reached. The same states and seed give the same bits with any number of workers.
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
	var vectors *mat.Dense // one a row
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

// subspace is one of the states' mean, without components yet.
func (m *moments) subspace(rank int, kept float64) *Subspace {
	return &Subspace{Dim: m.dim, Rank: rank, Variance: kept, Samples: m.n, Mean: m.centre(),
		Components: make([]float32, m.dim*rank)}
}

// noise is the share of the largest eigenvalue below which one is rounding.
const noise = 1e-12

// cutoff finds how many of the descending eigenvalues are kept, limit at most, and their share of the trace.
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

// eigen returns the eigenvalues, descending, of a matrix that is symmetric but for rounding, and with vectors its
// eigenvectors as rows. That takes up to minutes and can't be stopped: when ctx is cancelled it ends by itself.
func eigen(ctx context.Context, a *mat.Dense, vectors bool) ([]float64, *mat.Dense, error) {
	d, _ := a.Dims()
	for i := range d {
		for j := i + 1; j < d; j++ { // the upper half is read
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
