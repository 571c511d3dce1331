package vector_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"selfheal/internal/vector"
)

// The walks over windows give, bit for bit, what loops over their places give, whether windows overlap or not.
func TestWindows(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for round := range 300 {
		w := vector.Windows{C: 1 + rng.IntN(3), H: 5 + rng.IntN(4), W: 5 + rng.IntN(4), Side: 1 + rng.IntN(5)}
		w.Top, w.Left = rng.IntN(w.H-w.Side+1), rng.IntN(w.W-w.Side+1)
		w.Top2, w.Left2 = rng.IntN(w.H-w.Side+1), rng.IntN(w.W-w.Side+1)
		squares, row, col := round%2 == 0, w.Side, 1
		if round%4 < 2 {
			row, col = 1, w.Side
		}
		power := func(v float32) float64 {
			if squares {
				return float64(v) * float64(v)
			}
			return float64(abs(v))
		}
		at := func(c, top, left int) int { return (c*w.H+top)*w.W + left }
		v, shape := sample(rng, w.C*w.H*w.W), sample(rng, w.Side*w.Side)
		signs, k := make([]float32, w.C), sample(rng, w.C)
		first, rest, sums := make([]float64, w.C), make([]float64, w.C), make([]float64, w.C)
		scales := make([]float64, w.C)
		want, wantOut := slices.Clone(v), []float32(nil)
		wantFirst, wantRest, wantSums := make([]float64, w.C), make([]float64, w.C), make([]float64, w.C)
		for c := range w.C {
			signs[c], scales[c] = float32(1-2*rng.IntN(2)), rng.Float64()
			for i := range w.Side * w.Side {
				y, x := i/w.Side, i%w.Side
				d := v[at(c, w.Top+y, w.Left+x)]
				wantFirst[c] += power(d)
				out := signs[c]*shape[y*row+x*col] + float32(d*k[c])
				wantOut, wantSums[c] = append(wantOut, out), wantSums[c]+power(out)
				y, x = w.Top2+y, w.Left2+x
				if y < w.Top || y >= w.Top+w.Side || x < w.Left || x >= w.Left+w.Side {
					wantRest[c] += power(v[at(c, y, x)])
				}
				want[at(c, y, x)] = 0
			}
			for i := range w.Side * w.Side {
				to := at(c, w.Top+i/w.Side, w.Left+i%w.Side)
				want[to] = float32(float64(wantOut[c*w.Side*w.Side+i]) * scales[c])
			}
		}
		out, held, got := make([]float32, w.Area()), make([]float32, 2*w.Area()), slices.Clone(v)
		vector.WindowSums(got, w, squares, first, rest)
		vector.WindowAdd(got, w, shape, row, col, signs, k, squares, out, sums)
		if !slices.EqualFunc(slices.Concat(first, rest, sums), slices.Concat(wantFirst, wantRest, wantSums), equal) {
			t.Fatalf("%+v: sums %v %v %v, want %v %v %v", w, first, rest, sums, wantFirst, wantRest, wantSums)
		}
		vector.WindowWrite(got, w, out, scales, held)
		if !same(out, wantOut) || !same(got, want) {
			t.Fatalf("%+v: %v and %v, want %v and %v", w, out, got, wantOut, want)
		}
		if vector.WindowRestore(got, w, held); !same(got, v) {
			t.Fatalf("%+v: %v, want %v again", w, got, v)
		}
	}
}

// Shrinking some blocks gives what shrinking all values does, and leaves the others alone.
func TestShrinkBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	for _, n := range append(lengths[1:], 1024, 5000) {
		for range 20 {
			x, y, out := make([]float32, n), make([]float32, n), make([]float32, n)
			low, high := make([]float32, n), make([]float32, n)
			blocks, marked := vector.NewBlocks(n), vector.NewBlocks(n)
			for i := range x {
				x[i] = rng.Float32()
			}
			for range 1 + rng.IntN(4) {
				from := rng.IntN(n)
				to := min(n, from+1+rng.IntN(30))
				for i := from; i < to; i++ {
					y[i] = float32(rng.NormFloat64())
				}
				marked.Mark(from, to)
			}
			radius := 5 * rng.Float64()
			want := make([]float32, n)
			vector.Shrink(x, y, vector.Shrinkage(x, y, radius, low, high), want)
			if blocks.NotZero(y); !slices.Equal(blocks, marked) {
				t.Fatalf("%d values: blocks %x, want %x", n, blocks, marked)
			}
			copy(out, x)
			vector.ShrinkBlocks(x, y, radius, blocks, low, high, out)
			if !same(out, want) {
				t.Fatalf("%d values: %v, want %v", n, out, want)
			}
		}
	}
}
