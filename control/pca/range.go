package pca

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"selfheal/models/onnx"
	"selfheal/models/ort"
)

const (
	firstGuess = 256 // directions of the first search for a fraction of the variance
	powers     = 2   // multiplications by the covariance between the sketch and the last walk
	// A row is dependent if its distance from the span of the rows before it is less than this fraction of its
	// length.
	dependent = 1e-6
	// One step of Newton's method makes rows orthonormal if their products are at most this, and squares the error.
	nearly = 1e-4
	// Rows and columns of one product, so that its float64 copies are small beside the basis.
	basisRows    = 256
	basisColumns = 512
)

// oversampling returns how many directions are carried beyond the wanted components. A component's error falls with
// the ratio of the eigenvalue after the last direction to its own; with a fixed number this ratio would be near 1 for
// large ranks.
func oversampling(rank int) int { return max(32, rank/8) }

// rangeFinder finds the leading eigenvectors of a covariance C that is too large for memory, by randomised subspace
// iteration (Halko, Martinsson, Tropp 2011, algorithms 4.4 and 5.3). Each multiplication is a walk through the
// states:
//
//	Y = C·Ω for random Ω; then, powers times, Q = orth(Y), Y = C·Q;
//	Q = orth(Y); the eigenvectors of C within the span of Q, by QᵀCQ.
//
// C·Q is (1/n)Σ (x−μ)·((x−μ)ᵀQ): float32 within a chunk of states, float64 over chunks. Products with Q are float64;
// Q itself is kept in float32. The first walk also takes the moments. For a fraction of the variance, 256 directions
// show how the eigenvalues fall off, and from that follows the number of directions.
type rangeFinder struct {
	m       *moments
	states  States
	target  Target
	workers int
	random  *rand.Rand
	limit   int        // upper bound of k
	k       int        // number of directions
	q       []float32  // orthonormal rows; zeros up to a multiple of tile()
	y       *mat.Dense // C·q or, before orthonormalise, the rows to make q of; k × dim
}

func streamed(ctx context.Context, dim int, states States, target Target, o Options) (*Subspace, error) {
	key := sha256.Sum256(binary.LittleEndian.AppendUint64([]byte("pca/"), o.Seed))
	f := &rangeFinder{m: &moments{dim: dim}, states: states, target: target, workers: o.Workers,
		random: rand.New(rand.NewChaCha8(key)), y: new(mat.Dense)}
	f.limit = min(MaxRank(dim)+oversampling(MaxRank(dim)), dim)
	start := firstGuess
	if target.Rank > 0 {
		start = target.Rank + oversampling(target.Rank)
	}
	f.resize(min(start, f.limit))
	f.round()
	if err := f.multiply(ctx); err != nil {
		return nil, err
	}
	if err := f.m.check(target); err != nil {
		return nil, err
	}
	f.limit = min(f.limit, f.m.n-1) // n centred states span no more than n − 1 dimensions
	if f.k > f.limit {
		f.resize(f.limit)
	}

	made, redrawn := 1, false // made counts the multiplications of the youngest directions of y
	for {
		fresh, err := f.orthonormalise(ctx)
		if err != nil {
			return nil, err
		}
		if err := f.multiply(ctx); err != nil {
			return nil, err
		}
		// The directions in place of dependent ones are new. At right angles to the others they show what large
		// eigenvalues hide, which is worth two more walks, once.
		if made++; fresh > 0 && !redrawn {
			made, redrawn = 1, true
		}
		captured := f.captured()
		enough := target.Rank > 0 || captured >= target.Variance*f.m.trace
		exhausted := captured >= (1-1e-7)*f.m.trace // no variance is left, as far as float32 tells
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

// tile returns how many directions are multiplied at once: 256, fewer for large states and if there would be less
// than four tiles.
func (f *rangeFinder) tile() int {
	return max(16, min((f.k/4+15)/16*16, 256, (1<<23/f.m.dim)/16*16))
}

// resize makes room for k directions and draws random ones into y after those that are there.
func (f *rangeFinder) resize(k int) {
	y := mat.NewDense(k, f.m.dim, nil)
	data := y.RawMatrix().Data
	draw(f.random, data[copy(data, f.y.RawMatrix().Data):])
	f.k, f.y = k, y
	f.q = make([]float32, (k+f.tile()-1)/f.tile()*f.tile()*f.m.dim)
	collect()
}

func draw(r *rand.Rand, to []float64) {
	for i := range to {
		to[i] = r.NormFloat64()
	}
}

// multiply walks through the states and computes y = C·q. The first walk also finds the moments; it uses the mean of
// the first chunk for the states' mean, which moves y a little.
func (f *rangeFinder) multiply(ctx context.Context) error {
	dim, tile, rows := f.m.dim, f.tile(), ChunkRows(f.m.dim)
	// x [rows dim], q [tile dim] → (x·qᵀ)ᵀ·x [tile dim], in float32.
	p, err := open("pca/sketch", func(b *onnx.Builder) {
		x := b.Input("x", shape2(rows, dim))
		weights := b.OpWith("Gemm", onnx.Attrs{"transB": 1}, x, b.Input("b", shape2(tile, dim)))
		b.Output("p", b.OpWith("Gemm", onnx.Attrs{"transA": 1}, weights, x))
	})
	if err != nil {
		return err
	}
	defer p.Close()
	first, mean := f.m.mean == nil, f.m.centre()
	y := f.y.RawMatrix().Data
	clear(y)
	err = chunks(ctx, dim, f.states, func(x []float32, n int) error {
		if first {
			if err := f.m.add(x, n); err != nil {
				return err
			}
		} else {
			for i := range x[:n*dim] {
				x[i] -= mean[i%dim]
			}
		}
		defer collect()
		return each(ctx, p, f.workers, len(f.q)/dim/tile, func(task int) []ort.Tensor {
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
	if first {
		f.m.finish()
	}
	scale := 1 / float64(max(f.m.n, 1))
	for i := range y {
		y[i] *= scale
	}
	return nil
}

// captured returns the variance within the span of q, the trace of QᵀCQ.
func (f *rangeFinder) captured() float64 {
	sum := 0.0
	for i, v := range f.y.RawMatrix().Data {
		sum += float64(f.q[i]) * v
	}
	return sum
}

// predict estimates how many directions a fraction of the variance takes. It continues the better half of the
// eigenvalues found so far by a power law that adds up to the whole variance.
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

// continued returns how many components leave out at most leave of a spectrum. Eigenvalue number at is value; the
// later ones, up to number last, add up to rest and fall off as a power.
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
	rank, kept := cutoff(values, f.m.trace, f.target, MaxRank(f.m.dim))
	s := f.m.subspace(rank, kept)
	set := func(r, j int, v float64) { s.Components[j*rank+r] = float32(v) }
	return s, f.product(ctx, vectors.At, rank, f.direction, 0, set)
}

// orthonormalise makes q of y with the same span. It draws new rows for those that depend on rows before them, and
// returns their number. It repeats Cholesky's decomposition of the rows' products (CholeskyQR) until the rows are
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
		if err := f.product(ctx, transform.At, f.k, f.y.At, 0, f.y.Set); err != nil {
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

// round stores y as q, in float32.
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

// inverseCholesky returns M such that the rows of M·Y are orthonormal: the inverse of the lower Cholesky factor. gram
// has the products of the rows of Y, which have length 1. lost lists the dependent rows: their rows and columns of M
// are 0.
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

// projected returns the eigendecomposition of QᵀCQ. If vectors is set, it frees y.
func (f *rangeFinder) projected(ctx context.Context, vectors bool) ([]float64, *mat.Dense, error) {
	t, err := f.cross(ctx, f.direction, f.y.At)
	if err != nil {
		return nil, nil, err
	}
	if vectors { // the last step no longer needs y
		f.y = nil
	}
	collect()
	return eigen(ctx, t, vectors)
}

func (f *rangeFinder) direction(i, j int) float64 { return float64(f.q[i*f.m.dim+j]) }

// entry is a value of a matrix in a row and a column.
type entry func(i, j int) float64

// cross returns a·bᵀ for two k × dim matrices.
func (f *rangeFinder) cross(ctx context.Context, a, b entry) (*mat.Dense, error) {
	k, sum := f.k, make([]float64, f.k*f.k)
	err := f.product(ctx, a, k, b, 1, func(i, j int, v float64) { sum[i*k+j] += v })
	return mat.NewDense(k, k, sum), err
}

// product calls use with the values of a·b or, for transB = 1, with summands of the values of a·bᵀ. b is k × dim;
// product takes one panel of its columns after the other. a has rows × k or, for transB = 1, rows × dim values. use
// may write to b.
func (f *rangeFinder) product(ctx context.Context, a entry, rows int, b entry, transB int,
	use func(i, j int, v float64)) error {
	k, dim, tile, width := f.k, f.m.dim, min(basisRows, rows), min(basisColumns, f.m.dim)
	inner, outer := k, width
	if transB == 1 {
		inner, outer = width, k
	}
	p, err := open("pca/panel", func(g *onnx.Builder) {
		narrow(g, g.OpWith("Gemm", onnx.Attrs{"transB": transB}, wide(g, "a", shape2(tile, inner)),
			wide(g, "b", shape2(k, width))))
	})
	if err != nil {
		return err
	}
	defer p.Close()
	for from := 0; from < dim; from += width {
		right := panel(b, 0, k, k, from, dim, width)
		leftFrom, leftColumns, to, columns := 0, k, from, min(width, dim-from)
		if transB == 1 {
			leftFrom, leftColumns, to, columns = from, dim, 0, k
		}
		err := each(ctx, p, f.workers, (rows+tile-1)/tile, func(task int) []ort.Tensor {
			return append(panel(a, task*tile, rows, tile, leftFrom, leftColumns, inner), right...)
		}, func(task int, out []ort.Tensor) {
			for i := range min(tile, rows-task*tile) {
				for j := range columns {
					use(task*tile+i, to+j, float64(out[0].Data[i*outer+j])+float64(out[1].Data[i*outer+j]))
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

// panel returns a block of a matrix that starts at a row and a column, with zeros beyond the matrix's edges, as the
// sum of two tensors.
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
