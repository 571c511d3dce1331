package pca

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"

	"selfheal/models/ort"
)

const (
	firstGuess = 256 // directions that a share of the variance is first sought in
	powers     = 2   // multiplications by the covariance between the sketch and the last walk
)

// oversampling is how many directions are carried beyond the components wanted. A component's error falls with the ratio
// of the eigenvalue behind the last direction to its own, which a fixed number would leave near 1 for large ranks.
func oversampling(rank int) int { return max(32, rank/8) }

// rangeFinder finds the leading eigenvectors of a covariance C that is too large to be
// held, by randomised subspace iteration (Halko, Martinsson, Tropp 2011, algorithms 4.4
// and 5.3) with a walk through the states for each multiplication:
//
//	Y = C·Ω for random Ω; then, powers times, Q = orth(Y), Y = C·Q;
//	Q = orth(Y); the eigenvectors of C within the span of Q, by QᵀCQ.
//
// C·Q is (1/n)Σ (x−μ)·((x−μ)ᵀQ), a chunk of states at a time in float32, summed over chunks in float64. Products with Q
// are float64, Q itself is kept in float32. The first walk takes the moments too. For a share of the variance, 256
// directions tell how the eigenvalues fall off, and the number of directions follows from that.
type rangeFinder struct {
	m       *moments
	states  States
	target  Target
	workers int
	random  *rand.Rand
	most    int        // components
	limit   int        // of k
	k       int        // directions
	q       []float32  // orthonormal, one a row; zeros up to a multiple of tile()
	y       *mat.Dense // C·q or, before orthonormalise, what q is made of, k × dim
}

// streamed fits from walks through the states.
func streamed(ctx context.Context, dim int, states States, target Target, o Options) (*Subspace, error) {
	key := sha256.Sum256(binary.LittleEndian.AppendUint64([]byte("pca/"), o.Seed))
	f := &rangeFinder{m: &moments{dim: dim}, states: states, target: target, workers: o.Workers,
		random: rand.New(rand.NewChaCha8(key)), y: new(mat.Dense)}
	f.most = o.limit(dim)
	f.limit = min(f.most+oversampling(f.most), dim)
	start := firstGuess
	if target.Rank > 0 {
		start = target.Rank + oversampling(target.Rank)
	}
	f.resize(min(start, f.limit))
	f.round()
	if err := f.multiply(ctx); err != nil {
		return nil, err
	}
	if err := f.m.check(target, f.most); err != nil {
		return nil, err
	}
	f.limit = min(f.limit, f.m.n-1) // n centred states span no more
	if f.k > f.limit {
		f.resize(f.limit)
	}

	made, redrawn := 1, false // multiplications that made the youngest directions of y
	for {
		fresh, err := f.orthonormalise(ctx)
		if err != nil {
			return nil, err
		}
		if err := f.multiply(ctx); err != nil {
			return nil, err
		}
		// Directions that depended on others were drawn anew: at right angles to the others they show what large
		// eigenvalues hide, which is worth walks once.
		if made++; fresh > 0 && !redrawn {
			made, redrawn = 1, true
		}
		captured := f.captured()
		enough := target.Rank > 0 || captured >= target.Variance*f.m.trace
		exhausted := captured >= (1-1e-7)*f.m.trace // as far as float32 tells
		last := made >= powers+2
		if exhausted || last && (enough || f.k == f.limit) {
			return f.ritz(ctx)
		}
		if !enough && f.k < f.limit && (last || made == 2) {
			k, err := f.predict(ctx)
			if err != nil {
				return nil, err
			}
			f.resize(k)
			made, redrawn = 0, true
		}
	}
}

// tile is how many directions are multiplied at once: 256, fewer of large states and
// where there would be less than four tiles.
func (f *rangeFinder) tile() int {
	return max(16, min((f.k/4+15)/16*16, 256, (1<<23/f.m.dim)/16*16))
}

// resize makes room for k directions, of which random ones are drawn into y behind those
// that are there.
func (f *rangeFinder) resize(k int) {
	y := mat.NewDense(k, f.m.dim, nil)
	data := y.RawMatrix().Data
	draw(f.random, data[copy(data, f.y.RawMatrix().Data):])
	f.k, f.y = k, y
	f.q = make([]float32, (k+f.tile()-1)/f.tile()*f.tile()*f.m.dim)
	collect()
}

// draw writes standard normal numbers.
func draw(r *rand.Rand, to []float64) {
	for i := range to {
		to[i] = r.NormFloat64()
	}
}

// multiply walks through the states: y = C·q. The first walk finds the moments and takes the mean of the first chunk
// for the states', which moves y a little.
func (f *rangeFinder) multiply(ctx context.Context) error {
	dim, tile, rows := f.m.dim, f.tile(), ChunkRows(f.m.dim)
	p, err := sketchProduct(f.workers, rows, dim, tile)
	if err != nil {
		return err
	}
	defer p.Close()
	centred := f.m.add
	if f.m.mean != nil {
		mean := f.m.centre()
		centred = func(x []float32, n int) error {
			for row := range slices.Chunk(x[:n*dim], dim) {
				for j := range row {
					row[j] -= mean[j]
				}
			}
			return nil
		}
	}
	y := f.y.RawMatrix().Data
	clear(y)
	err = chunks(ctx, dim, f.states, func(x []float32, n int) error {
		if err := centred(x, n); err != nil {
			return err
		}
		defer collect()
		return each(ctx, p, len(f.q)/dim/tile, func(task int) []ort.Tensor {
			return []ort.Tensor{matrix(rows, dim, x), matrix(tile, dim, f.q[task*tile*dim:])}
		}, func(task int, out []ort.Tensor) {
			to := y[min(task*tile, f.k)*dim : min((task+1)*tile, f.k)*dim]
			for i := range to {
				to[i] += float64(out[0].Data[i])
			}
		})
	})
	if err != nil {
		return err
	}
	if f.m.mean == nil {
		f.m.finish()
	}
	scale := 1 / float64(max(f.m.n, 1))
	for i := range y {
		y[i] *= scale
	}
	return nil
}

// captured is the variance within the span of q, the trace of QᵀCQ.
func (f *rangeFinder) captured() float64 {
	sum := 0.0
	for i, v := range f.y.RawMatrix().Data {
		sum += float64(f.q[i]) * v
	}
	return sum
}

// predict says how many directions a share of the variance will take: the better half of the eigenvalues found so far
// is continued by a power law that adds up to the whole variance.
func (f *rangeFinder) predict(ctx context.Context) (int, error) {
	values, _, err := f.projected(ctx, false)
	if err != nil {
		return 0, err
	}
	half := max(f.k/2, 1)
	sum := 0.0
	for _, v := range slices.Backward(values[:half]) {
		sum += v
	}
	rank := continued(values[half-1], half, f.m.trace-sum, (1-f.target.Variance)*f.m.trace, min(f.m.dim, f.m.n-1))
	return min(max(rank+2*oversampling(rank), f.k+f.k/4), f.limit), nil
}

// continued says how many components leave out no more than leave of a spectrum whose eigenvalue number at is value and
// whose later ones, up to number last, add up to rest and fall off as a power.
func continued(value float64, at int, rest, leave float64, last int) int {
	// Σ_{i>at} value·(i/at)^−α falls as α grows.
	tail := func(alpha float64, until float64) (int, float64) {
		sum := 0.0
		for i := at + 1; i <= last; i++ {
			sum += value * math.Pow(float64(i)/float64(at), -alpha)
			if sum >= until {
				return i, sum
			}
		}
		return last, sum
	}
	low, high := 0.0, 20.0
	for range 40 {
		middle := (low + high) / 2
		if _, sum := tail(middle, math.Inf(1)); sum > rest {
			low = middle
		} else {
			high = middle
		}
	}
	rank, _ := tail(high, rest-leave)
	return rank
}

// ritz ends the search with the eigenvectors of C within the span of q.
func (f *rangeFinder) ritz(ctx context.Context) (*Subspace, error) {
	values, vectors, err := f.projected(ctx, true)
	if err != nil {
		return nil, err
	}
	rank, kept := cutoff(values, f.m.trace, f.target, f.most)
	s := f.m.subspace(rank, kept)
	set := func(r, j int, v float64) { s.Components[j*rank+r] = float32(v) }
	return s, f.mix(ctx, vectors.At, rank, f.direction, set)
}
