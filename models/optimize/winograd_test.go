package optimize

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
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
	normal := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = r.NormFloat64()
		}
		return v
	}
	type shape struct{ m, stride, size, pad int }
	var shapes []shape
	for _, m := range []int{2, 4} {
		for _, stride := range []int{1, 2} {
			for size := 3; size < 14; size++ {
				for pad := range 3 {
					shapes = append(shapes, shape{m, stride, size, pad})
				}
			}
		}
	}
	for _, c := range shapes {
		s := algorithmOf(c.m, int64(c.stride))
		if s.n >= c.m*3 {
			t.Errorf("%+v takes %d products, the definition %d", c, s.n, c.m*3)
		}
		x, g := normal(c.size), normal(3)
		want := correlate(x, g, c.stride, c.pad, (c.size+2*c.pad-3)/c.stride+1)
		into, back := s.tiled(c.size, c.pad, len(want))
		var u, products, got mat.VecDense
		u.MulVec(s.g, mat.NewVecDense(3, g))
		products.MulVec(into, mat.NewVecDense(c.size, x))
		for row := range products.Len() {
			products.SetVec(row, products.AtVec(row)*u.AtVec(row/s.tiles(len(want))))
		}
		got.MulVec(back, &products)
		for i, v := range want {
			if math.Abs(got.AtVec(i)-v) > 1e-5 { // the matrices are float32
				t.Errorf("%+v: output %d is %v, want %v", c, i, got.AtVec(i), v)
			}
		}
	}
	if algorithmOf(2, 3) != nil {
		t.Error("there is an algorithm for a stride of 3")
	}
}
