package pca

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// Sessions lose nothing of a float64 matrix that is passed as the sum of two float32 ones: a sum of such matrices
// equals the float64 sum.
func TestProductsAreDouble(t *testing.T) {
	testinput.Runtime(t)
	r := rand.New(rand.NewPCG(1, 1))
	f := &rangeFinder{m: &moments{dim: 3000}, k: 5, workers: 2}
	a := mat.NewDense(f.k, f.m.dim, nil)
	a.Apply(func(_, _ int, _ float64) float64 { return 1 + 1e-5*r.NormFloat64() }, a)
	got := must.Get(f.cross(context.Background(), a.At, a.At))(t)
	var want mat.Dense
	want.Mul(a, a.T())
	if !mat.EqualApprox(got, &want, 1e-13*want.At(0, 0)) {
		t.Errorf("products\n%v, want\n%v", mat.Formatted(got), mat.Formatted(&want))
	}
}

// A power law is continued to the rank that leaves out the wanted variance.
func TestContinued(t *testing.T) {
	for _, alpha := range []float64{0.7, 1, 1.5, 2.5} {
		all := power(8*2000, alpha)
		const at = 100
		rest, leave := sum(all[at:]), 0.0
		want := 700
		leave = sum(all[want:])
		got := continued(all[at-1], at, rest, leave, len(all))
		if got < want || got > want+want/20 {
			t.Errorf("power %g: a rank of %d is predicted, not %d", alpha, got, want)
		}
	}
}

// BenchmarkFit fits streamed states of the size of a 64×64 image.
func BenchmarkFit(b *testing.B) {
	testinput.Runtime(b)
	const n, dim = 1024, 3 * 64 * 64
	rows := spectrum(n, dim, power(300, 1.5), 0.001)
	for _, target := range []Target{{Rank: 100}, {Variance: 0.9}} {
		b.Run(fmt.Sprintf("%+v", target), func(b *testing.B) {
			for b.Loop() {
				must.Get(Fit(context.Background(), dim, stream(rows), target, Options{}))(b)
			}
		})
	}
}
