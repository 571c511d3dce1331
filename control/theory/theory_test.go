package theory

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"selfheal/internal/must"
)

var quick = Options{Quick: true}

// quickly returns the quick result, computed once.
var quickly = sync.OnceValues(func() (*Result, error) { return Run(context.Background(), quick) })

func result(t *testing.T, o Options) *Result {
	t.Helper()
	r := must.Get(Run(context.Background(), o))(t)
	return r
}

func TestChecks(t *testing.T) {
	for _, seed := range []uint64{0, 1} {
		o := quick
		o.Seed = seed
		r := must.Get(quickly())(t)
		if seed > 0 {
			r = result(t, o)
		}
		for _, c := range r.Checks {
			if !c.Pass {
				t.Errorf("seed %d, %s, %s: %v %s %v ± %v fails", seed, c.Part, c.Name, c.Measured, c.Relation,
					c.Expected, c.Tolerance)
			}
		}
		if !r.Passed() || len(r.Checks) < 30 {
			t.Errorf("seed %d: %d checks, passed %v", seed, len(r.Checks), r.Passed())
		}
	}
}

// wrongFactors lists claims, a wrong factor for each, the experiments that depend on it, and some checks that then
// fail.
const wrongFactors = `
accuracy 0.9 | linear reactive defence | clean accuracy, perturbed accuracy, controlled accuracy
accuracy 0.9 | margins on a curve, proposition 1 | same point, data on the curve
margin gain 0.9 | linear reactive defence | margin of F∘P
line margin 1.01 | linear reactive defence, margins on a curve | margin of F, Euclidean margin
contraction 0.1 | linear reactive defence | projection contracts
contraction 2 | linear reactive defence | projection contracts
medial axis 0.999 | margins on a curve | projection margin
geodesic 0.3 | margins on a curve | geodesic, bounded by the manifold margin
geodesic 1.2 | margins on a curve | bounded by the manifold margin
gain 5 | margins on a curve | projection enlarges the margin
ratio 0.9 | proposition 1 | expected ratio, expected projection, equality at r = d
ratio 1.1 | proposition 1 | expected ratio, expected projection, nearly tight, equality at r = d
closed form 0.95 | proposition 1 | closed form
alpha 0.9 | theorem 1 | feedback gain, product form, orthogonal layers, error bound
linear bound 0.9 | theorem 1 | error bound, orthogonal layers
linear bound 1.1 | theorem 1 | tight at t = 1
recursion 0.9 | controls of the whole | recursion
greedy objective 0.5 | controls of the whole | no worse than greedy
gain of the whole 0.5 | controls of the whole | lower for c ≠ 0
small c 0.9 | controls of the whole | greedy for c → 0
nonlinear bound 0.9 | theorem 2 | error bound, tight in the flat case
linearisation 0.001 | theorem 2 | linearisation error
linearisation 3 | theorem 2 | linearisation error
order 0.75 | theorem 2 | order
square 0.5 | theorem 2 | squares of a sum
general constant 0.05 | any submersion | error constant
mixture 1e-9 | any submersion | orthogonal mixtures
linearised system 0.9 | theorem 2 | no linearisation error, order
control 0.01 | theorem 2, manifold curvature | manifold and tangent control, error constant
control 2 | theorem 2, manifold curvature | manifold and tangent control, error constant
growth 2 | manifold curvature | grows with curvature
curvature 0.99 | manifold curvature | curvature of the curve, curvature of the manifolds, manifolds follow the layers
leading error 1.1 | manifold curvature | error by curvature
`

// Every check can fail: a wrong factor makes the checks that depend on it fail, and all factors together cover all
// checks.
func TestWrongFactors(t *testing.T) {
	failed := map[string]bool{}
	for row := range strings.Lines(strings.TrimSpace(wrongFactors)) {
		columns := strings.Split(strings.TrimSpace(row), " | ")
		end := strings.LastIndex(columns[0], " ")
		o := quick
		o.wrong = map[string]float64{columns[0][:end]: must.Get(strconv.ParseFloat(columns[0][end+1:], 64))(t)}
		fails := map[string]bool{}
		for i, e := range experiments {
			if !slices.Contains(strings.Split(columns[1], ", "), e.name) {
				continue
			}
			for _, row := range e.run(&Result{}, o, o.random(uint64(i+1))) {
				if !row.Pass {
					fails[row.Name] = true
					failed[e.name+": "+row.Name] = true
				}
			}
		}
		for name := range strings.SplitSeq(columns[2], ", ") {
			if !fails[name] {
				t.Errorf("%s: %q still passes", columns[0], name)
			}
		}
	}
	for _, row := range must.Get(quickly())(t).Checks {
		if !failed[row.Part+": "+row.Name] {
			t.Errorf("nothing makes %s, %s fail", row.Part, row.Name)
		}
	}
}

func TestSameSeedSameNumbers(t *testing.T) {
	a := must.Get(json.Marshal(must.Get(quickly())(t)))(t)
	b := must.Get(json.Marshal(result(t, quick)))(t)
	if string(a) != string(b) {
		t.Error("two runs of one seed differ")
	}
}

func TestCancelled(t *testing.T) {
	for _, part := range []int{0, 1, 5} { // cancelled as an experiment begins: the first, one in between, the last
		ctx, cancel := context.WithCancel(context.Background())
		o, begun := quick, 0
		o.Progress = func(string) {
			if begun == part {
				cancel()
			}
			begun++
		}
		if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) || begun != part+1 {
			t.Errorf("part %d: %v after %d experiments", part, err, begun)
		}
		cancel()
	}
}

// An experiment whose solver does not converge is an error.
func TestDiverged(t *testing.T) {
	defer func(all []experiment) { experiments = all }(experiments)
	experiments = []experiment{{"steep", func(*Result, Options, *rand.Rand) []Check {
		at := newton([]float64{0}, 1, func([]float64) ([]float64, *mat.Dense) { return []float64{1}, identity(1) })
		return []Check{atMost("", "", at[0], 1, 0)}
	}}}
	if _, err := Run(t.Context(), quick); !errors.Is(err, errDiverged) {
		t.Error(err)
	}
}

// A circle, whose curvature, length and projection are known.
func TestCurve(t *testing.T) {
	c := newCurve(0, 0.3, 2, 50)
	if got := c.length(0.4, 1.9); math.Abs(got-1.5) > 1e-12 {
		t.Errorf("length %v", got)
	}
	if got := c.curvature(1); math.Abs(got-1) > 1e-12 {
		t.Errorf("curvature %v", got)
	}
	for _, p := range []struct{ angle, radius, want float64 }{{1, 0.4, 1}, {1.3, 7, 1.3}, {0.1, 1, 0.3}, {2.5, 2, 2}} {
		if got := c.project(Point{}.plus(p.radius, heading(p.angle))); math.Abs(got-p.want) > 1e-10 {
			t.Errorf("a point at %v projects to %v", p.angle, got)
		}
	}
	c = newCurve(curveBulge, curveEnd, 2*math.Pi-curveEnd, 401)
	for i := range 20 { // the nearest point of a much finer sample
		x := Point{}.plus(0.2+0.1*float64(i), heading(0.7*float64(i)))
		got, best := c.at(c.project(x)).minus(x).norm(), math.Inf(1)
		for j := range 200_000 {
			best = min(best, c.at(c.from+(c.to-c.from)*float64(j)/199_999).minus(x).norm())
		}
		if math.Abs(got-best) > 1e-8 {
			t.Errorf("%v: %v, by brute force %v", x, got, best)
		}
	}
}

// The layers' derivatives and the bound on their second derivative are right.
func TestLayer(t *testing.T) {
	rng := quick.random(99)
	l := randomLayer(rng, 5, 0.2)
	beta := l.hessianBound()
	largest := 0.0
	for range 2000 {
		x, z := normals(rng, 5), unit(rng, 5)
		const h = 1e-4
		high, low, here := l.apply(plus(x, h, z)), l.apply(plus(x, -h, z)), l.apply(x)
		first, second := plus(high, -1, low), plus(plus(high, 1, low), -2, here)
		floats.Scale(1/(2*h), first)
		floats.Scale(1/(h*h), second)
		if off := norm(minus(first, times(l.jacobian(x), z))); off > 1e-7 {
			t.Fatalf("Jacobian off by %v", off)
		}
		if off := norm(minus(second, l.second(x, z))); off > 1e-6 {
			t.Fatalf("second derivative off by %v", off)
		}
		largest = max(largest, norm(l.second(x, z)))
	}
	if largest > beta || largest < beta/20 {
		t.Errorf("largest second derivative %v, bound %v", largest, beta)
	}
}

// The control is a stationary point of its own objective, and the projection the nearest point.
func TestSubmersion(t *testing.T) {
	rng := quick.random(98)
	tangent, normal := frame(gaussian(rng, 6, 2))
	f := newSubmersion(normals(rng, 6), tangent, normal, randomForms(rng, 2, 4, 0.3))
	if math.Abs(f.sigma-0.3) > 1e-12 {
		t.Errorf("σ = %v", f.sigma)
	}
	for range 1000 { // no direction bends more
		if got := norm(f.bent(unit(rng, 2))); got > f.sigma*(1+1e-9) {
			t.Fatalf("bends by %v", got)
		}
	}
	x := plus(f.base, 0.2, unit(rng, 6))
	u := f.control(x, 0.1)
	objective := func(u []float64) float64 {
		v := f.value(f.local(plus(x, 1, u)))
		return 0.5*floats.Dot(v, v) + 0.05*floats.Dot(u, u)
	}
	p := f.project(x)
	if off := norm(f.value(f.local(p))); off > 1e-12 {
		t.Errorf("the projection is off the manifold by %v", off)
	}
	for range 500 {
		if step := plus(u, 1e-3, unit(rng, 6)); objective(step) <= objective(u) {
			t.Fatal("a better control is near")
		}
		s, _ := f.local(p)
		s = plus(s, 1e-3, unit(rng, 2))
		if q := f.global(s, scale(0.5, f.bent(s))); norm(minus(q, x)) <= norm(minus(p, x)) {
			t.Fatal("a nearer point is on the manifold")
		}
	}
}

// Tangent spaces are carried by the Jacobians, and control leaves the clean run as it is.
func TestSmoothNet(t *testing.T) {
	n := randomNet(quick.random(97), 6, 2, 4, 0.2, 0.3)
	for i, f := range n.manifolds {
		if off := norm(minus(f.base, n.states[i])); off > 0 {
			t.Errorf("x_%d is off its manifold's base by %v", i, off)
		}
		var off mat.Dense
		off.Sub(product(f.tangent, f.tangent.T()), product(n.linear.bases[i], n.linear.bases[i].T()))
		if got := spectral(&off); got > 1e-12 {
			t.Errorf("tangent space %d off by %v", i, got)
		}
	}
	run := n.run(make([]float64, 6), 0.1, 0.1)
	if got := floats.Max(run.errors); got > 1e-12 {
		t.Errorf("the clean run is moved by %v", got)
	}
}
