package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"selfheal/internal/must"
	"selfheal/internal/number"
)

// objective computes ½‖E_t(x_t + u_t) − (x_t + u_t)‖² + (c/2)‖u_t‖² at each layer of a linear
// system, and their sum, in float64 and without any of the package's code.
func objective(c *chain, layers map[int]*linear, reg float64, image []float64, u []*mat.VecDense) (sum float64,
	each []float64) {
	x := mat.NewVecDense(len(image), slices.Clone(image))
	for t, a := range c.a {
		if u[t] != nil {
			x.AddVec(x, u[t])
			var d mat.VecDense
			d.SubVec(layers[t].embed(x), x)
			each = append(each, mat.Dot(&d, &d)/2+reg/2*mat.Dot(u[t], u[t]))
			sum += each[len(each)-1]
		}
		next := new(mat.VecDense)
		next.MulVec(a, x)
		x = next
	}
	return sum, each
}

func doubles(u [][]float32) []*mat.VecDense {
	out := make([]*mat.VecDense, len(u))
	for t, v := range u {
		if v == nil {
			continue
		}
		out[t] = mat.NewVecDense(len(v), nil)
		for i, x := range v {
			out[t].SetVec(i, float64(x))
		}
	}
	return out
}

func near(a, b, relative float64) bool {
	return math.Abs(a-b) <= relative*math.Max(math.Abs(a), math.Abs(b))
}

// traceOf collects the points of an image's trace.
func traceOf(t *testing.T, k *Controller, image []float32, d Detail) []Point {
	t.Helper()
	var all []Point
	if err := k.Trace(t.Context(), image, d,
		func(p Point) error { all = append(all, p); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// followed lists the solvers of the tests below.
var followed = []Solver{
	{Method: Greedy, Regularization: 0.1},
	{Method: MSA, Outer: 3, Inner: 4, Regularization: 0.1, LearningRate: 0.05, Momentum: 0.5},
	{Method: MSA, Outer: 2, Inner: 1, Regularization: 0.5, LearningRate: 0.2},
	{Method: PMP, Outer: 5, Regularization: 0.001, LearningRate: 0.05, Momentum: 0.5},
}

// eachLoop calls fn with every solver above and every placing of embeddings.
func eachLoop(t *testing.T, fn func(name string, c *chain, k *Controller, layers map[int]*linear)) {
	t.Helper()
	pool := testPool(t, 8)
	c := newChain(t, pool, 12, 9, 7, 5)
	for _, places := range [][]int{{0}, {1}, {2}, {0, 2}, {1, 2}, {0, 1, 2}} {
		layers, list := linears(t, c, places...)
		for _, s := range followed {
			fn(fmt.Sprintf("%v at %v", s, places), c, loop(t, c.cut, s, list...), layers)
		}
	}
}

// agree compares numbers with the independent implementation's.
func agree(t *testing.T, name string, got []float32, want *mat.VecDense) {
	t.Helper()
	for i, v := range got {
		if math.Abs(float64(v)-want.AtVec(i)) > 1e-5 {
			t.Errorf("%s[%d] is %v, want %v", name, i, v, want.AtVec(i))
		}
	}
}

// At every point the objective belongs to the point's controls: computed anew from these it is the same. The controls
// at the greedy start and after each sweep, and the logits with them, equal the independent implementation's. The
// points come in the solver's order.
func TestTraceTellsTheObjective(t *testing.T) {
	eachLoop(t, func(name string, c *chain, k *Controller, layers map[int]*linear) {
		image, exact := randomImage(4, 12)
		points := traceOf(t, k, image, EachStep)
		s := k.Solver
		want := 1
		if s.Method != Greedy {
			want += s.Outer * k.Solver.steps() * len(layers)
		}
		if len(points) != want {
			t.Fatalf("%s: %d points, want %d", name, len(points), want)
		}
		seen := map[float64]bool{}
		for i, p := range points {
			seen[p.Objective] = true
			j, _ := objective(c, layers, s.Regularization, exact, doubles(p.Controls))
			if !near(p.Objective, j, 1e-5) {
				t.Errorf("%s, point %d: objective %v, of its controls %v", name, i, p.Objective, j)
			}
			if i > 0 && p.Passes <= points[i-1].Passes {
				t.Errorf("%s, point %d: %v passes after %v", name, i, p.Passes, points[i-1].Passes)
			}
			if p.Done {
				short := s
				if short.Outer = p.Sweep; i == 0 {
					short.Method = Greedy
				}
				logits, u := reference(c, layers, short, exact)
				agree(t, fmt.Sprintf("%s, sweep %d: logits", name, p.Sweep), p.Logits, logits)
				for at := range layers {
					agree(t, fmt.Sprintf("%s, sweep %d: u_%d", name, p.Sweep, at), p.Controls[at], u[at])
				}
			}
			if i == 0 {
				if p.Sweep != 0 || p.Layer != -1 || !p.Done {
					t.Errorf("%s: the greedy start is %+v", name, p)
				}
				continue
			}
			// Layers from the last to the first, each with all its steps.
			n := i - 1
			if p.Sweep != 1+n/(k.Solver.steps()*len(layers)) || p.Step != 1+n%k.Solver.steps() ||
				layers[p.Layer] == nil ||
				p.Done != (p.Layer == k.first && p.Step == k.Solver.steps()) {
				t.Errorf("%s, point %d: sweep %d, layer %d, step %d, done %v", name, i, p.Sweep, p.Layer, p.Step,
					p.Done)
			}
			// A step moves its own layer's control and no other.
			for at := range layers {
				if moved := !slices.Equal(p.Controls[at], points[i-1].Controls[at]); moved != (at == p.Layer) {
					t.Errorf("%s, point %d at layer %d: the control of layer %d moved: %v", name, i, p.Layer, at, moved)
				}
			}
		}
		if len(seen) != want {
			t.Errorf("%s: only %d values of the objective among %d points", name, len(seen), want)
		}
	})
}

// The first point is the greedy start, and the last one the outcome of an untraced solver, to the bit. The end of a
// sweep is the outcome of a solver of so many sweeps, at its cost. Tracing sweeps alone gives the same points.
func TestTraceEndsAsTheSolverDoes(t *testing.T) {
	eachLoop(t, func(name string, _ *chain, k *Controller, _ map[int]*linear) {
		image, _ := randomImage(5, 12)
		points := traceOf(t, k, image, EachStep)
		var ends []Point
		for _, p := range points {
			if p.Done {
				ends = append(ends, p)
			}
		}
		for i, p := range traceOf(t, k, image, EachSweep) {
			if p.Objective != ends[i].Objective || p.Passes != ends[i].Passes || p.Sweep != i ||
				!slices.Equal(p.Logits, ends[i].Logits) {
				t.Errorf("%s: sweep %d is %+v, among its steps %+v", name, i, p, ends[i])
			}
		}
		for i, p := range ends {
			s := k.Solver
			if i == 0 {
				s = Solver{Method: Greedy, Regularization: s.Regularization}
			} else {
				s.Outer = i
			}
			short := must.Get(k.WithSolver(s))(t)
			o := must.Get(short.Run(t.Context(), image))(t)
			if p.Objective != o.Objective || !slices.Equal(p.Logits, o.Logits) || ends[0].Objective != o.Greedy {
				t.Errorf("%s, sweep %d: objective %v and logits %v, unwatched %v and %v", name, i, p.Objective,
					p.Logits, o.Objective, o.Logits)
			}
			for at, u := range o.Controls {
				if !slices.Equal(u, p.Controls[at]) {
					t.Errorf("%s, sweep %d: u_%d is %v, unwatched %v", name, i, at, p.Controls[at], u)
				}
			}
			if !near(p.Passes, short.Passes(), 1e-12) {
				t.Errorf("%s, sweep %d: %v passes, a solver that stops there %v", name, i, p.Passes, short.Passes())
			}
		}
		if last := ends[len(ends)-1]; last.Sweep != k.Solver.Outer {
			t.Errorf("%s: the last point is of sweep %d", name, last.Sweep)
		}
	})
}

// Reporting the sweeps' costs does not change the outcome, to the bit. The layers' losses and norms equal those
// computed anew from the controls, and add up to the objective.
func TestRunTraced(t *testing.T) {
	eachLoop(t, func(name string, c *chain, k *Controller, layers map[int]*linear) {
		image, exact := randomImage(9, 12)
		plain := must.Get(k.Run(t.Context(), image))(t)
		o := must.Get(k.RunTraced(t.Context(), image))(t)
		want := 1
		if k.Solver.Method != Greedy {
			want += k.Solver.Outer
		}
		if len(o.Sweeps) != want || plain.Sweeps != nil {
			t.Fatalf("%s: %d sweeps, want %d; unwatched %d", name, len(o.Sweeps), want, len(plain.Sweeps))
		}
		if last := o.Sweeps[want-1]; o.Sweeps[0].Objective != plain.Greedy || last.Objective != plain.Objective ||
			!slices.Equal(last.Layers, plain.Layers) {
			t.Errorf("%s: from %v to %+v, unwatched from %v to %v %v", name, o.Sweeps[0].Objective, last, plain.Greedy,
				plain.Objective, plain.Layers)
		}
		sweeps := o.Sweeps
		o.Sweeps = nil
		if !reflect.DeepEqual(o, plain) {
			t.Errorf("%s: %+v, unwatched %+v", name, o, plain)
		}
		for s, sweep := range sweeps {
			sum := 0.0
			for _, l := range sweep.Layers {
				sum += l.Loss
			}
			if !near(sum, sweep.Objective, 1e-12) || len(sweep.Layers) != len(layers) {
				t.Errorf("%s, sweep %d: %d layers, whose losses add up to %v, not %v", name, s, len(sweep.Layers), sum,
					sweep.Objective)
			}
		}
		u := doubles(plain.Controls)
		_, losses := objective(c, layers, k.Solver.Regularization, exact, u)
		for i, at := range slices.Sorted(maps.Keys(layers)) {
			l, norm := plain.Layers[i], mat.Norm(u[at], 2)
			if l.T != at || !near(l.Norm, norm, 1e-12) || !near(l.Loss, losses[i], 1e-5) {
				t.Errorf("%s: layer %+v, the control at %d has norm %v and loss %v", name, l, at, norm, losses[i])
			}
		}
	})
}

// The points count the passes that the programs made, without the cost of looking: at each point a pass from the
// first controlled state with its embeddings.
func TestTraceCountsThePassesMade(t *testing.T) {
	eachLoop(t, func(name string, c *chain, k *Controller, layers map[int]*linear) {
		image, _ := randomImage(6, 12)
		look := int64(0)
		for t, s := range k.stages[k.first:] {
			look += s.passes[segment].flops
			if layers[k.first+t] != nil {
				look += s.passes[embed].flops
			}
		}
		for _, d := range []Detail{EachSweep, EachStep} {
			before := k.made()
			points := traceOf(t, k, image, d)
			answer := int64(0) // the last point counts this answer, and its look makes it
			from := k.first
			if k.Solver.Method == Greedy {
				from = k.last
			}
			for _, s := range k.stages[from:] {
				answer += s.passes[segment].flops
			}
			made := k.made() - before - int64(len(points))*look + answer
			if got := float64(made) / float64(c.net.FLOPs()); !near(got, points[len(points)-1].Passes, 1e-12) {
				t.Errorf("%s: %v passes made, %v stated", name, got, points[len(points)-1].Passes)
			}
		}
	})
}

// A solver that diverges is followed to its end.
func TestTraceOfADivergingSolver(t *testing.T) {
	c := newChain(t, testPool(t, 8), 12, 9, 7, 5)
	_, layers := linears(t, c, 0, 2)
	k := loop(t, c.cut, Solver{Method: MSA, Outer: 3, Inner: 20, LearningRate: 1e6}, layers...)
	image, _ := randomImage(7, 12)
	points := traceOf(t, k, image, EachSweep)
	if last := points[len(points)-1].Objective; len(points) != 4 || number.Finite(last) {
		t.Errorf("%d points, the last objective %v", len(points), last)
	}
}

func TestTraceEndsWithAnError(t *testing.T) {
	c := newChain(t, testPool(t, 8), 12, 9, 7, 5)
	k := loop(t, c.cut, followed[1], Layer{T: 0, Embedding: newLinear(t, c, 0, 3).g})
	image, _ := randomImage(8, 12)
	enough, seen := errors.New("enough"), 0
	err := k.Trace(t.Context(), image, EachStep, func(Point) error {
		if seen++; seen == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || seen != 3 {
		t.Errorf("%v after %d points", err, seen)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.Trace(ctx, image, EachStep, func(Point) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	greedy := must.Get(k.WithSolver(followed[0]))(t)
	if _, err := greedy.WithSolver(followed[1]); err == nil {
		t.Error("a greedy loop takes a solver that needs gradients")
	}
}
