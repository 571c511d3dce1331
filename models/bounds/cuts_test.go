package bounds

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"selfheal/internal/must"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// No point on its sides of some kinks beats a bound of these cuts, and cuts at the worst kinks raise bounds.
func TestNoPointBeatsACut(t *testing.T) {
	for _, name := range cuttable {
		n := prepared(t, "testdata/"+name+".onnx", simplify.Options{}, Unit)
		run := observed(t, n) // which decides the sides
		rng := rand.New(rand.NewPCG(31, 32))
		held, raised, cutAt := 0, 0, 0
		for trial, region := range balls(n, rng, wide, 4) {
			row := normals(rng, n.Classes()) // no float32: the bounds, of cuts too, have slack for its rounding
			root := must.Get(n.Root(t.Context(), region))(t)
			if trial%2 == 1 {
				root = must.Get(root.refine(t.Context()))(t)
			}
			b := must.Get(root.branch(row, []float64{math.Inf(1)}))(t)
			part := b.whole()
			must.Do(t, b.bound(t.Context(), climb{alphaSteps, alphaRate}, part))
			for range 5 {
				if len(part.worst) == 0 {
					break
				}
				half := b.halves(t, part)[rng.IntN(2)]
				_, apart := b.seedsOf(half)
				if rounded := apart[0]; !(rounded > 0 && half.bounds[0].Slack >= rounded) {
					t.Fatalf("%s: a slack of %g, rounding the row takes %g", name, half.bounds[0].Slack, rounded)
				}
				if cutAt++; half.bounds[0].Least() > part.bounds[0].Least() {
					raised++
				}
				part = half
				held += b.hold(t, name, part, run(region, rng, 400), math.Inf(1))
			}
		}
		t.Logf("%s: %d points on their sides, %d of %d cuts raised the bound", name, held, raised, cutAt)
		if held < 200 || raised < cutAt*3/4 {
			t.Errorf("%s: %d points, %d of %d bounds raised", name, held, raised, cutAt)
		}
	}
}

// cuttable are the goldens' networks whose regions can be cut.
var cuttable = []string{"residual", "pooled", "mixed", "joined", "tanh", "sigmoid", "gated"}

func normals(rng *rand.Rand, count int) []float64 {
	v := make([]float64, count)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	return v
}

// halves cuts a domain at its worst place and bounds both sides.
func (b *branching) halves(t *testing.T, d *domain) []*domain {
	t.Helper()
	halves := []*domain{b.cutAt(d, d.worst[0], true), b.cutAt(d, d.worst[0], false)}
	must.Do(t, b.bound(t.Context(), climb{cutSteps, cutRate}, halves...))
	return halves
}

// hold holds those of some points that a domain has and whose row is at most a limit against what is known of it.
func (b *branching) hold(t *testing.T, name string, d *domain, out []ort.Tensor, most float64) (held int) {
	t.Helper()
points:
	for p, value := range products(b.numbers, b.Classes(), out[0].Data) {
		if value > most {
			continue
		}
		z := func(stage, j int) float64 {
			return float64(out[1+stage].Data[p*b.size(b.stages[stage].tensor)+j])
		}
		for _, c := range d.cuts {
			if v := z(c.stage, c.value); c.above && v < c.at || !c.above && v > c.at {
				continue points
			}
		}
		if held++; d.lacks < 0 || value < d.bounds[0].Least() {
			t.Fatalf("%s, %d cuts: %.9g at a point, proven was %.9g, and that it lacks %g", name, len(d.cuts), value,
				d.bounds[0].Least(), d.lacks)
		}
		for i, r := range d.ranges {
			for k := range r.lower {
				v := z(i, b.known[i].own.bending[k])
				if v < float64(r.lower[k]) || v > float64(r.upper[k]) {
					t.Fatalf("%s, %d cuts, stage %d: %g at a point, proven was [%g, %g]", name, len(d.cuts), i, v,
						r.lower[k], r.upper[k])
				}
			}
		}
	}
	return held
}

// Rows that cannot be at their limits together are told so by a weighted sum of them, and rows that can be are not.
func TestRowsTogether(t *testing.T) {
	n := prepared(t, "testdata/residual.onnx", simplify.Options{}, Unit)
	run, rng := asked(t, n.graph), rand.New(rand.NewPCG(33, 34))
	k := n.Classes()
	for trial := range 3 {
		x, rows := uniform(rng, n.size(n.input)), normals(rng, k)
		for _, v := range rows[:k] {
			rows = append(rows, -2*v)
		}
		at := products(rows, k, run(x)[0].Data)
		root := must.Get(n.Root(t.Context(), Ball(x, inf, 0.3, 0, 1)))(t)
		for _, short := range []float64{-0.1, 0.1} {
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
			if short > 0 {
				ctx, stop = context.WithTimeout(t.Context(), time.Second/2)
			}
			_, proven, err := root.Branch(ctx, rows, []float64{at[0], at[1] + short}, 1, nil)
			stop()
			if want := short < 0; proven != want || err != nil && want {
				t.Errorf("trial %d, %g: proven %v, %v", trial, short, proven, err)
			}
		}
	}
}
