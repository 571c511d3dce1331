package lists

import (
	"math"
	"slices"
	"testing"
)

// Quantiles agree with numpy.quantile's.
func TestQuantile(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		xs      []float64
		q, want float64
	}{
		{[]float64{7}, 0.5, 7},
		{[]float64{0.2390, 0.1696}, 0.5, 0.2043},
		{[]float64{5, 1, 3}, 0.5, 3},
		{[]float64{4, 1, 3, 2}, 0.5, 2.5},
		{[]float64{4, 1, 3, 2}, 0, 1},
		{[]float64{4, 1, 3, 2}, 1, 4},
		{[]float64{4, 1, 3, 2}, 0.1, 1.3},
		{[]float64{1, 2, 3, 4, 5, 6}, 0.9, 5.5},
		{[]float64{inf, 1, inf, 2}, 0.5, inf},
		{[]float64{inf, 1, 2}, 0.5, 2},
		{[]float64{inf, inf}, 0.5, inf},
		{[]float64{-inf, 1}, 0.5, -inf},
	} {
		given := slices.Clone(c.xs)
		if got := Quantile(c.xs, c.q); got != c.want && !(math.Abs(got-c.want) < 1e-15) {
			t.Errorf("quantile %g of %v is %v, want %v", c.q, c.xs, got, c.want)
		}
		if c.q == 0.5 && Median(c.xs) != Quantile(c.xs, c.q) {
			t.Errorf("median of %v is %v", c.xs, Median(c.xs))
		}
		if !slices.Equal(given, c.xs) {
			t.Errorf("%v was changed", given)
		}
	}
}

func TestIndices(t *testing.T) {
	if got := Indices(6, func(i int) bool { return i%2 == 1 }); !slices.Equal(got, []int{1, 3, 5}) {
		t.Error(got)
	}
	if got := To(3); !slices.Equal(got, []int{0, 1, 2}) {
		t.Error(got)
	}
}
