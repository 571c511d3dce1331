package bounds

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/onnx/simplify"
)

// A linear bound where another one is at most 0 is below the least value there, which for a box is a fractional
// knapsack's. Four runs for the multiplier gain most of what the best one does, always four fifths.
func TestClip(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 42))
	const n = 40
	raised, lost, trials := map[float64]int{}, 0.0, 0.0
	for trial := range 300 {
		p := []float64{inf, 2, 1}[trial%3]
		x, f, g := make([]float32, n), Linear{A: make([]float32, n)}, Linear{A: make([]float32, n)}
		for i := range n {
			x[i] = rng.Float32()
			f.A[i], g.A[i] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
		}
		region := Ball(x, p, map[float64]float64{inf: 0.1, 2: 0.5, 1: 1.5}[p], 0, 1)
		least, most := region.least(g.A, nil), 0.0
		for i := range g.A {
			most += float64(g.A[i]) * float64(x[i])
		}
		f.At0, g.At0 = rng.NormFloat64(), -least-(most-least)*0.4*rng.Float64() // g is above 0 at the centre
		of, gamma := newForm(region, f), 0.0
		unknown := math.Inf(-1)
		found := newGiven(region, g).clip(of, unknown, &gamma)
		if again := newGiven(region, g).clip(of, unknown, &gamma); again < found-1e-9*math.Abs(found) {
			t.Errorf("trial %d: %g, from its multiplier on %g", trial, found, again)
		}
		if found = max(found, of.least); found > of.least {
			raised[p]++
		}
		if known := newGiven(region, g).clip(of, found+1, &gamma); known != found+1 {
			t.Errorf("trial %d: %g was known, now %g", trial, found+1, known)
		}
		exact := math.Inf(1)
		if p == inf {
			exact = knapsack(f, g, region)
		}
		for range 3000 { // points where g is at most 0, most of them between that where it is least and others
			point := make([]float32, n)
			lambda := math.Exp(3 * rng.NormFloat64())
			sum := make([]float32, n)
			for i := range sum {
				sum[i] = f.A[i] + float32(lambda)*g.A[i]
			}
			region.least(sum, point)
			at, value := g.At0, f.At0
			for i, v := range point {
				at += float64(g.A[i]) * float64(v)
				value += float64(f.A[i]) * float64(v)
			}
			if at <= -1e-4 && value < found {
				t.Fatalf("trial %d, l%g: %g at a point, bounded by %g", trial, p, value, found)
			}
		}
		if gain := exact - of.least; p == inf && gain > 1e-9 {
			if found > exact+1e-9 || found < exact-0.2*gain {
				t.Errorf("trial %d: %g is bounded by %g, without g by %g", trial, exact, found, of.least)
			}
			lost, trials = lost+(exact-found)/gain, trials+1
		}
	}
	t.Logf("%.3g of what is to be gained is lost on average", lost/trials)
	if lost/trials > 0.03 {
		t.Errorf("%g of what is to be gained is lost on average", lost/trials)
	}
	for p, some := range raised {
		if some < 50 {
			t.Errorf("l%g: %d of 100 bounds raised", p, some)
		}
	}
}

// knapsack returns the least value of f in a box where g is at most 0: from the point where f is least, values move to
// their other ends if that lowers g at the least cost, the last of them in part.
func knapsack(f, g Linear, box Region) float64 {
	value, above := f.At0, g.At0
	type move struct{ lowers, costs float64 }
	var moves []move
	for i, a := range f.A {
		from, to := box.Lower[i], box.Upper[i]
		if a < 0 {
			from, to = to, from
		}
		value += float64(a) * float64(from)
		above += float64(g.A[i]) * float64(from)
		far := float64(to) - float64(from)
		if lowers := -float64(g.A[i]) * far; lowers > 0 {
			moves = append(moves, move{lowers, float64(a) * far})
		}
	}
	slices.SortFunc(moves, func(a, b move) int {
		if a.costs/a.lowers < b.costs/b.lowers {
			return -1
		}
		return 1
	})
	for _, m := range moves {
		if above <= 0 {
			break
		}
		share := min(1, above/m.lowers)
		value, above = value+share*m.costs, above-share*m.lowers
	}
	return value
}

// No point's values leave the ranges of a domain that holds it, and no bound of a domain is beaten, among points whose
// row is as low as is assumed.
func TestNoPointLeavesARange(t *testing.T) {
	for _, name := range cuttable {
		n := prepared(t, "testdata/"+name+".onnx", simplify.Options{}, Unit)
		run := observed(t, n)
		rng := rand.New(rand.NewPCG(43, 44))
		held, narrowed := 0, 0
		for _, region := range balls(n, rng, narrow, 3) {
			row := normals(rng, n.Classes())
			root := must.Get(must.Get(n.Root(t.Context(), region))(t).refine(t.Context()))(t)
			whole := must.Get(root.Part(t.Context(), row, nil))(t).Bounds[0].Least()
			out := run(region, rng, 2000)
			least := slices.Sorted(slices.Values(products(row, len(row), out[0].Data)))[40] // some are below the limit
			b := must.Get(root.branch(row, []float64{least}))(t)
			part := b.whole()
			must.Do(t, b.bound(t.Context(), climb{alphaSteps, alphaRate}, part))
			if b.assumed = headroom * part.lacks; !(b.assumed > 0) {
				t.Fatalf("%s: %g is the least of some points, proven is %g", name, least, whole)
			}
			for depth := range 12 {
				if len(part.worst) == 0 {
					break
				}
				halves := b.halves(t, part)
				left := undecided(halves)
				if len(left) == 0 {
					break
				}
				part = left[rng.IntN(len(left))]
				if depth%3 == 2 {
					must.Do(t, b.bound(t.Context(), climb{cutSteps, cutRate}, part)) // in its own ranges
				}
				if part.clipped {
					narrowed++
				}
				for _, half := range halves {
					held += b.hold(t, name, half, out, least+b.assumed)
				}
			}
		}
		t.Logf("%s: %d points held, %d domains narrowed", name, held, narrowed)
		if held < 150 || narrowed < 2 {
			t.Errorf("%s: %d points held, %d domains narrowed", name, held, narrowed)
		}
	}
}

// A region has as many values as the input, from a finite number to one that is no smaller, and a radius.
func TestRegions(t *testing.T) {
	least, most, nan := float32(-inf), float32(inf), float32(math.NaN())
	for _, c := range []struct {
		lower, upper float32
		want         string // "" of a region
	}{
		{0, 1, ""}, {1, 1, ""}, {1, 0, "goes from 1 to 0"}, {least, 1, "goes from -Inf to 1"},
		{0, most, "goes from 0 to +Inf"}, {least, most, "goes from -Inf to +Inf"}, {most, most,
			"goes from +Inf to +Inf"},
		{nan, 1, "goes from NaN to 1"}, {0, nan, "goes from 0 to NaN"},
	} {
		r := Region{Lower: []float32{0, c.lower}, Upper: []float32{0, c.upper}}
		if err := r.Check(2); c.want != "" {
			must.Refuse(t, err, "value 1 of the region "+c.want)
		} else if err != nil {
			t.Error(err)
		}
		must.Refuse(t, r.Check(3), "a region of 2 to 2 values for an input of 3")
		r.Centre, r.P, r.Epsilon = []float32{0, 0}, 2, -1
		must.Refuse(t, r.Check(2), "a ball of radius -1 in the norm l2")
	}
}
