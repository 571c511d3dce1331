package pca

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"selfheal/internal/vector"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// ChunkRows returns how many states of dim values are held at once: up to 512, up to 64 MiB. It depends on dim alone,
// so sums over states have the same order whatever the batches are.
func ChunkRows(dim int) int { return min(512, max(16, 1<<24/dim)) }

// chunks collects states into the rows of a matrix and calls use for each n rows. use may change the matrix; rows
// from the n-th on are 0.
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

// moments are the mean and the total variance of states, in float64. They are summed as differences from a shift near
// the mean: equal states have exactly the variance 0, and a large mean costs no digits.
type moments struct {
	dim, n  int
	shift   []float32 // mean of the first chunk
	sum     []float64 // sum of the differences
	squares float64   // sum of the squared differences
	mean    []float64
	trace   float64 // trace of the covariance (1/n)Σ(x−μ)(x−μ)ᵀ: the total variance
}

// add counts n states, the rows of x, and subtracts the shift from them in place.
func (m *moments) add(x []float32, n int) error {
	rows := slices.Collect(slices.Chunk(x[:n*m.dim], m.dim))
	if i := slices.IndexFunc(rows, func(row []float32) bool { return !vector.Finite(row) }); i >= 0 {
		return fmt.Errorf("the clean state of image %d of the fit's data set is not finite", m.n+i)
	}
	if m.shift == nil {
		m.shift, m.sum = make([]float32, m.dim), make([]float64, m.dim)
		first := make([]float64, m.dim)
		for _, row := range rows {
			for j, v := range row {
				first[j] += float64(v)
			}
		}
		for j, v := range first {
			m.shift[j] = float32(v / float64(n))
		}
	}
	for _, row := range rows {
		squares := 0.0
		for j, v := range row {
			d := float64(v) - float64(m.shift[j])
			m.sum[j] += d
			squares += d * d
			row[j] = float32(d)
		}
		m.squares += squares
	}
	m.n += n
	return nil
}

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

// centre returns the mean in float32, to subtract from states.
func (m *moments) centre() []float32 {
	return onnx.Each(m.mean, func(v float64) float32 { return float32(v) })
}

// covariance returns the moments and the covariance matrix of states after one walk. It multiplies in float64,
// differences rounded to float32.
func covariance(ctx context.Context, dim int, states States, workers int) (*moments, *mat.Dense, error) {
	m := &moments{dim: dim}
	cov := make([]float64, dim*dim)
	rows, tile := ChunkRows(dim), min(dim, 512)
	// x [rows dim] and a [rows tile], columns of x → aᵀ·x [tile dim].
	p, err := open("pca/outer", func(b *onnx.Builder) {
		x := b.Input("x", shape2(rows, dim))
		a := b.Input("a", shape2(rows, tile))
		narrow(b, b.OpWith("Gemm", onnx.Attrs{"transA": 1}, cast(b, onnx.Double, a), cast(b, onnx.Double, x)))
	})
	if err != nil {
		return nil, nil, err
	}
	defer p.Close()
	err = chunks(ctx, dim, states, func(x []float32, n int) error {
		if err := m.add(x, n); err != nil {
			return err
		}
		defer collect()
		return each(ctx, p, workers, (dim+tile-1)/tile, func(task int) []ort.Tensor {
			from := task * tile
			a, width := make([]float32, rows*tile), min(tile, dim-from)
			for i := range n {
				copy(a[i*tile:i*tile+width], x[i*dim+from:])
			}
			return []ort.Tensor{matrix(rows, dim, x), matrix(rows, tile, a)}
		}, func(task int, out []ort.Tensor) {
			for i := range cov[task*tile*dim : min((task+1)*tile, dim)*dim] {
				cov[task*tile*dim+i] += float64(out[0].Data[i]) + float64(out[1].Data[i])
			}
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
		for j := range i + 1 { // from the shift to the mean; both halves are the same
			v := row[j]/float64(m.n) - m.sum[i]*m.sum[j]/float64(m.n)/float64(m.n)
			row[j], cov[j*dim+i] = v, v
		}
	}
	return m, mat.NewDense(dim, dim, cov), nil
}
