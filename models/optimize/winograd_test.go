package optimize

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// correlate is the definition: y[i] = Σ_a g[a]·x[stride·i + a − pad].
func correlate(x, g []float64, stride, pad, out int) []float64 {
	y := make([]float64, out)
	for i := range y {
		for a, v := range g {
			if at := stride*i + a - pad; at >= 0 && at < len(x) {
				y[i] += v * x[at]
			}
		}
	}
	return y
}

// Every algorithm computes the correlation, whatever the axis' size, stride and padding.
func TestAlgorithms(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for _, m := range []int{2, 4} {
		for _, stride := range []int{1, 2} {
			s, err := algorithmOf(m, int64(stride))
			if err != nil {
				t.Fatal(err)
			}
			if s.n >= m*3 {
				t.Errorf("F(%d) with stride %d takes %d products, the definition %d", m, stride, s.n, m*3)
			}
			for size := 3; size < 14; size++ {
				for _, pad := range []int{0, 1, 2} {
					name := fmt.Sprintf("F(%d), stride %d, size %d, pad %d", m, stride, size, pad)
					out := (size+2*pad-3)/stride + 1
					x, g := make([]float64, size), make([]float64, 3)
					for _, v := range [][]float64{x, g} {
						for i := range v {
							v[i] = r.NormFloat64()
						}
					}
					into, back, tiles := s.tiled(size, pad, out)
					rows := s.n * tiles
					products := make([]float64, rows)
					for row := range products {
						u := 0.0
						for a, w := range s.g[row/tiles] {
							u += w * g[a]
						}
						for i, v := range x {
							products[row] += u * float64(into[row*size+i]) * v
						}
					}
					for i, want := range correlate(x, g, stride, pad, out) {
						got := 0.0
						for row, p := range products {
							got += float64(back[i*rows+row]) * p
						}
						if math.Abs(got-want) > 1e-5 { // the matrices are float32
							t.Errorf("%s: output %d is %v, want %v", name, i, got, want)
						}
					}
				}
			}
		}
	}
	if _, err := algorithmOf(2, 3); err == nil {
		t.Error("there is an algorithm for a stride of 3")
	}
	if _, err := toomCook(9, 3); err == nil {
		t.Error("there are points for F(9, 3)")
	}
}
