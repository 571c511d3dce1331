package pca

import (
	"context"
	"errors"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Work is about what a fit takes.
type Work struct {
	Walks int `json:"walks"` // through the states
	// Flops are floating-point operations at the speed of gonum's product of matrices on one core; others
	// count as so many of these as take their time. Serial ones are done on one core, others on all.
	Flops  float64 `json:"flops"`
	Serial float64 `json:"serial"`
}

// What an operation of a fit costs, in those of gonum's product, and how often what depends on the states is
// repeated, as it mostly is: measured on a Xeon with AVX-512.
const (
	doubles      = 2.8   // times as fast as gonum's are ONNX Runtime's products of float64,
	singles      = 14    // and of float32
	eigenvectors = 32    // of a k × k matrix, divided by k³
	collection   = 1.2e7 // of garbage, by collect
	converged    = 7     // blocks of a Krylov basis, for ranks that are not larger than three of them
	rounds       = 3     // of [rangeFinder.orthonormalise]
)

// Expect estimates the work of [Fit] on n states. How many components a share of the variance takes is told from a
// sample of the states, of which it reads one chunk ([ChunkRows]) at most.
func Expect(ctx context.Context, dim, n int, sample States, target Target) (Work, error) {
	rank, most := target.Rank, MaxRank(dim)
	if rank == 0 {
		var err error
		if rank, err = expectedRank(ctx, dim, n, sample, target); err != nil {
			return Work{}, err
		}
	}
	rank = max(min(rank, most, n-1), 1)
	chunk := ChunkRows(dim)
	rows := float64((n + chunk - 1) / chunk * chunk) // the last chunk is filled with zeros
	if dim > denseDim {
		return streamedWork(dim, n, rank, rows, target), nil
	}
	d := float64(dim)
	w := Work{Walks: 1, Flops: 2 * rows * d * d / doubles}
	if dim <= exactDim {
		w.Serial += eigenvectors * d * d * d
	} else {
		w.addKrylov(dim, n, rank, target)
	}
	return w, nil
}

// addKrylov adds the work of [blockKrylov].
func (w *Work) addKrylov(dim, n, rank int, target Target) {
	limit := min(krylovLimit(dim, MaxRank(dim)), n-1+krylovBlock) // n centred states span no more
	size := krylovStart(rank)
	if target.Rank == 0 {
		size = krylovBeyond(blocks(rank + rank/4 + krylovBlock)) // the basis that has the share
	}
	size = min(blocks(size), limit)
	d := float64(dim)
	ritz := func(size int) {
		k := float64(size)
		w.Serial += eigenvectors * k * k * k
		w.Flops += 2 * k * d * (k + float64(rank))
	}
	for ritz(size); size < min(limit, max(converged*krylovBlock, 2*rank+krylovBlock)); ritz(size) {
		size = min(blocks(krylovNext(size)), limit)
	}
	k := float64(size)
	w.Flops += 2*k*d*d + 4*k*k*d // products, and two rounds of making them orthogonal to those before
}

// blocks is the size of a basis of whole blocks.
func blocks(size int) int { return (size + krylovBlock - 1) / krylovBlock * krylovBlock }

// streamedWork is that of [streamed], rows states with those that fill the last chunk.
func streamedWork(dim, n, rank int, rows float64, target Target) Work {
	var w Work
	walk := func(directions, walks int) {
		tile := (&rangeFinder{m: &moments{dim: dim}, k: directions}).tile()
		d, k, tiled := float64(dim), float64(directions), float64((directions+tile-1)/tile*tile)
		each := 4*rows*d*tiled/singles + rounds*(4*k*k*d/doubles+2*d/basisColumns*collection)
		w.Walks += walks
		w.Flops += float64(walks)*each + 2*k*k*d/doubles
		w.Serial += eigenvectors * k * k * k
	}
	limit := min(MaxRank(dim)+oversampling(MaxRank(dim)), dim, n-1)
	whole := powers + 2
	if target.Rank > 0 {
		k := min(rank+oversampling(rank), limit)
		if k == n-1 { // one walk has seen all that there is, the second shows it
			whole = 2
		}
		walk(k, whole)
		return w
	}
	k := min(firstGuess, limit)
	switch {
	case k == n-1:
		walk(k, 2)
	case rank+oversampling(rank) <= k:
		walk(k, whole)
	default:
		walk(k, 2)
		if k = min(directions(rank, k), limit); k == n-1 {
			whole = 1
		}
		walk(k, whole)
	}
	return w
}

// expectedRank is how many components a share of the variance of n states will take, by a sample of them.
func expectedRank(ctx context.Context, dim, n int, sample States, target Target) (int, error) {
	enough := errors.New("one chunk is enough")
	m := &moments{dim: dim}
	var products *mat.Dense
	err := chunks(ctx, dim, sample, func(x []float32, count int) error {
		if err := m.add(x, count); err != nil {
			return err
		}
		centred := mat.NewDense(count, dim, nil)
		centred.Apply(func(i, j int, _ float64) float64 {
			return float64(x[i*dim+j]) - m.sum[j]/float64(count)
		}, centred)
		products = new(mat.Dense)
		products.Mul(centred, centred.T())
		return enough
	})
	if err != nil && err != enough {
		return 0, err
	}
	if m.n < 2 { // which [Fit] refuses
		return 1, nil
	}
	values, _, err := eigen(ctx, products, false)
	if err != nil {
		return 0, err
	}
	trust := m.n // all states tell everything; of fewer the later eigenvalues are too small
	if m.n < n {
		trust = max(m.n/6, 1)
	}
	trace := floats.Sum(values)
	rank, share := cutoff(values, trace, target, trust)
	if m.n == n || share >= target.Variance {
		return rank, nil
	}
	return continued(values[rank-1], rank, (1-share)*trace, (1-target.Variance)*trace, min(dim, n-1)), nil
}
