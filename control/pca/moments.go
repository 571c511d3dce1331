package pca

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"selfheal/internal/number"
	"selfheal/models/ort"
)

// ChunkRows is how many states of dim values are held at once: up to 512 of them, up to
// 64 MiB. It depends on nothing else, so sums over states are taken in the same order
// whatever the batches are.
func ChunkRows(dim int) int { return min(512, max(16, 1<<24/dim)) }

// chunks collects states into the rows of a matrix and hands it over, full or, at the
// end, with zeros behind the n-th row. use may change it.
func chunks(ctx context.Context, dim int, states States, use func(x []float32, n int) error) error {
	x, n := make([]float32, ChunkRows(dim)*dim), 0
	err := states(ctx, func(state []float32) error {
		if len(state) != dim {
			return fmt.Errorf("a state has %d values, not %d", len(state), dim)
		}
		copy(x[n*dim:], state)
		if n++; n*dim < len(x) {
			return nil
		}
		full := n
		n = 0
		return use(x, full)
	})
	if err != nil || n == 0 {
		return err
	}
	clear(x[n*dim:])
	return use(x, n)
}

// moments are the mean and the total variance of states, in float64. Sums are taken of
// the differences from a shift near the mean: states that are all the same have the
// variance 0 exactly, and no digits are lost where the mean is large.
type moments struct {
	dim, n  int
	shift   []float32 // mean of the first chunk
	sum     []float64 // of the differences
	squares float64   // of the differences, summed
	mean    []float64
	trace   float64 // of the covariance (1/n)Σ(x−μ)(x−μ)ᵀ: the total variance
}

// add counts n states, the rows of x, and leaves their differences from the shift there.
func (m *moments) add(x []float32, n int) error {
	if m.shift == nil {
		m.shift, m.sum = make([]float32, m.dim), make([]float64, m.dim)
		first := make([]float64, m.dim)
		for i := range n {
			sum := 0.0
			for j, v := range x[i*m.dim : (i+1)*m.dim] {
				first[j] += float64(v)
				sum += float64(v)
			}
			if err := m.finite(sum, i); err != nil {
				return err
			}
		}
		for j, v := range first {
			m.shift[j] = float32(v / float64(n))
		}
	}
	for i := range n {
		row, squares := x[i*m.dim:(i+1)*m.dim], 0.0
		for j, v := range row {
			d := float64(v) - float64(m.shift[j])
			m.sum[j] += d
			squares += d * d
			row[j] = float32(d)
		}
		if err := m.finite(squares, i); err != nil {
			return err
		}
		m.squares += squares
	}
	m.n += n
	return nil
}

// finite refuses a state, the i-th of a chunk, by a sum over its values.
func (m *moments) finite(sum float64, i int) error {
	if !number.Finite(sum) {
		return fmt.Errorf("the clean state of image %d of the fit's data set is not finite", m.n+i)
	}
	return nil
}

// finish computes mean and trace.
func (m *moments) finish() {
	if m.n == 0 {
		return
	}
	m.mean = make([]float64, m.dim)
	variance := m.squares / float64(m.n)
	for j, v := range m.sum {
		d := v / float64(m.n)
		m.mean[j] = float64(m.shift[j]) + d
		variance -= d * d
	}
	m.trace = max(variance, 0)
}

// centre is the mean as it is subtracted from float32 states.
func (m *moments) centre() []float32 {
	mean := make([]float32, m.dim)
	for j, v := range m.mean {
		mean[j] = float32(v)
	}
	return mean
}

// covariance is the moments and the covariance matrix of states, in one walk. Products
// are of float64, of differences rounded to float32.
func covariance(ctx context.Context, dim int, states States, workers int) (*moments, *mat.Dense, error) {
	m := &moments{dim: dim}
	cov := make([]float64, dim*dim)
	rows, tile := ChunkRows(dim), min(dim, 512)
	p, err := outerProduct(workers, rows, dim, tile)
	if err != nil {
		return nil, nil, err
	}
	defer p.Close()
	err = chunks(ctx, dim, states, func(x []float32, n int) error {
		if err := m.add(x, n); err != nil {
			return err
		}
		defer collect()
		return each(ctx, p, (dim+tile-1)/tile, func(task int) []ort.Tensor {
			from := task * tile
			a, width := make([]float32, rows*tile), min(tile, dim-from)
			for i := range n {
				copy(a[i*tile:i*tile+width], x[i*dim+from:])
			}
			return []ort.Tensor{matrix(rows, dim, x), matrix(rows, tile, a)}
		}, func(task int, out []ort.Tensor) {
			addTo(cov[task*tile*dim:min((task+1)*tile, dim)*dim], out)
		})
	})
	if err != nil {
		return nil, nil, err
	}
	if m.finish(); m.n == 0 {
		return m, nil, nil
	}
	for i := range dim {
		row := cov[i*dim : (i+1)*dim]
		for j := range i + 1 { // the mean's distance from the shift; both halves the same
			v := row[j]/float64(m.n) - m.sum[i]*m.sum[j]/float64(m.n)/float64(m.n)
			row[j], cov[j*dim+i] = v, v
		}
	}
	return m, mat.NewDense(dim, dim, cov), nil
}
