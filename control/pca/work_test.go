package pca

import (
	"context"
	"math"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// A fit walks through the states as often as is expected.
func TestExpect(t *testing.T) {
	testinput.Runtime(t)
	for _, c := range []struct {
		name   string
		n, dim int
		target Target
	}{
		{"exact", 60, 40, Target{Variance: 0.9}},
		{"held", 60, 520, Target{Rank: 5}},
		{"streamed, rank", 300, 4200, Target{Rank: 10}},
		{"streamed, rank of the states", 30, 4200, Target{Rank: 29}},
		{"streamed, all of few states", 60, 4200, Target{Variance: 0.9}},
		{"streamed, share", 300, 4200, Target{Variance: 0.5}},
	} {
		rows, walks := spectrum(c.n, c.dim, power(100, 1.5), 0.001), 0
		w := must.Get(Expect(context.Background(), c.dim, c.n, stream(rows), c.target))(t)
		counted := func(ctx context.Context, yield func([]float32) error) error {
			walks++
			return stream(rows)(ctx, yield)
		}
		must.Get(Fit(context.Background(), c.dim, counted, c.target, Options{Workers: 2}))(t)
		if w.Walks != walks || !(w.Flops > 0) {
			t.Errorf("%s: %+v, of %d walks", c.name, w, walks)
		}
	}
	// A sample tells about how many components a share of the variance of more states takes.
	rows := spectrum(700, 150, power(150, 1.2), 0)
	d := decompose(t, rows)
	for _, share := range []float64{0.5, 0.9, 0.97} {
		want, _ := d.rank(Target{Variance: share})
		got := must.Get(expectedRank(context.Background(), 150, len(rows), stream(rows), Target{Variance: share}))(t)
		if math.Abs(float64(got-want)) > 0.25*float64(want) {
			t.Errorf("%.2f of the variance: rank %d expected, %d taken", share, got, want)
		}
	}
}
