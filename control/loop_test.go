package control

import (
	"context"
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// The loop is followed exactly: the controls and logits of every method, with
// every placing of the embeddings, are those of the independent implementation.
func TestLoopIsFollowedExactly(t *testing.T) {
	pool := testPool(t, 8)
	c := newChain(t, pool, 12, 9, 7, 5)
	for _, places := range [][]int{{0}, {1}, {2}, {0, 2}, {0, 1, 2}} {
		layers := map[int]*linear{}
		var list []Layer
		for _, at := range places {
			layers[at] = newLinear(t, c, at, 3)
			list = append(list, Layer{T: at, Embedding: layers[at].g})
		}
		for _, s := range []Solver{
			{Method: Greedy, Regularization: 0.001},
			{Method: MSA, Outer: 3, Inner: 10, Regularization: 0.001, LearningRate: 0.05, Momentum: 0.5},
			{Method: MSA, Outer: 2, Inner: 3, Regularization: 0.5, LearningRate: 0.2},
			{Method: PMP, Outer: 7, Regularization: 0.001, LearningRate: 0.05, Momentum: 0.5},
		} {
			k, err := NewController(c.cut, "test", s, list)
			if err != nil {
				t.Fatal(err)
			}
			x, xd := randomImage(1, 12)
			o, err := k.Run(context.Background(), x)
			if err != nil {
				t.Fatal(err)
			}
			logits, u := reference(c, layers, s, xd)
			name := fmt.Sprintf("%v at %v", s.Method, places)
			for i, z := range o.Logits {
				if math.Abs(float64(z)-logits.AtVec(i)) > 1e-5 {
					t.Errorf("%s: logit %d is %v, want %v", name, i, z, logits.AtVec(i))
				}
			}
			for at := range c.a {
				if (o.Controls[at] == nil) != (u[at] == nil) {
					t.Fatalf("%s: control at %d", name, at)
				}
				for i, v := range o.Controls[at] {
					if math.Abs(float64(v)-u[at].AtVec(i)) > 1e-5 {
						t.Errorf("%s: u_%d[%d] is %v, want %v", name, at, i, v, u[at].AtVec(i))
					}
				}
			}
			k.Close()
		}
	}
}

// With one linear embedding the optimum is u = −(cI + QᵀQ)⁻¹QᵀQ(x − μ), Q = I − P:
// −Q(x − μ)/(1 + c). At c = 0.5 the greedy control is far from it.
func TestMSAReachesTheClosedForm(t *testing.T) {
	pool := testPool(t, 8)
	c := newChain(t, pool, 12, 6, 4)
	for _, stage := range []int{0, 1} {
		l := newLinear(t, c, stage, 3)
		const reg = 0.5
		x, xd := randomImage(2, 12)
		state := mat.NewVecDense(12, xd)
		if stage == 1 {
			state = new(mat.VecDense)
			state.MulVec(c.a[0], mat.NewVecDense(12, xd))
		}
		var want mat.VecDense
		want.SubVec(l.embed(state), state)
		want.ScaleVec(1/(1+reg), &want)
		for _, m := range []struct {
			s        Solver
			from, to float64
		}{
			{Solver{Method: MSA, Outer: 6, Inner: 20, Regularization: reg, LearningRate: 0.3, Momentum: 0.3}, 0, 1e-4},
			{Solver{Method: Greedy, Regularization: reg}, 0.3, math.Inf(1)},
		} {
			k, err := NewController(c.cut, "test", m.s, []Layer{{T: stage, Embedding: l.g}})
			if err != nil {
				t.Fatal(err)
			}
			o, err := k.Run(context.Background(), x)
			if err != nil {
				t.Fatal(err)
			}
			far := 0.0
			for i, v := range o.Controls[stage] {
				far = math.Max(far, math.Abs(float64(v)-want.AtVec(i)))
			}
			if far < m.from || far > m.to {
				t.Errorf("%v at %d: off the optimum by %g, want between %g and %g", m.s.Method, stage, far, m.from,
					m.to)
			}
			k.Close()
		}
	}
}

// On a linear system, at a stable rate, every further sweep lowers the objective
// (but for float32 rounding), and the greedy start is above all of them.
func TestObjectiveFallsOnLinearSystems(t *testing.T) {
	pool := testPool(t, 8)
	c := newChain(t, pool, 12, 9, 7, 5)
	var layers []Layer
	for at := range 3 {
		layers = append(layers, Layer{T: at, Embedding: newLinear(t, c, at, 3).g})
	}
	x, _ := randomImage(3, 12)
	last, greedy := math.Inf(1), 0.0
	for outer := 1; outer <= 8; outer++ {
		k, err := NewController(c.cut, "test", Solver{Method: MSA, Outer: outer, Inner: 2, Regularization: 0.1,
			LearningRate: 0.05}, layers)
		if err != nil {
			t.Fatal(err)
		}
		o, err := k.Run(context.Background(), x)
		if err != nil {
			t.Fatal(err)
		}
		if o.Objective > last*(1+1e-6) {
			t.Errorf("sweep %d raises the objective from %g to %g", outer, last, o.Objective)
		}
		last, greedy = o.Objective, o.Greedy
		k.Close()
	}
	if last >= greedy {
		t.Errorf("objective %g after 8 sweeps, greedy has %g", last, greedy)
	}
}

// An image alone and the same image in a batch have the same logits, bit for bit.
func TestControlDoesNotDependOnTheBatch(t *testing.T) {
	solver := Solver{Method: MSA, Outer: 2, Inner: 4, Regularization: 0.001, LearningRate: 0.05, Momentum: 0.5}
	run := func(batch int, which []int) map[int][]float32 {
		pool := testPool(t, batch)
		c := newChain(t, pool, 12, 9, 7, 5)
		k, err := NewController(c.cut, "test", solver, []Layer{{T: 0, Embedding: newLinear(t, c, 0, 3).g},
			{T: 2, Embedding: newLinear(t, c, 2, 2).g}})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		logits := make([][]float32, len(which))
		if err := ForEach(context.Background(), pool, len(which), 0, func(ctx context.Context, i int) error {
			x, _ := randomImage(uint64(which[i]), 12)
			o, err := k.Run(ctx, x)
			if err == nil {
				logits[i] = o.Logits
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		out := map[int][]float32{}
		for i, w := range which {
			out[w] = logits[i]
		}
		return out
	}
	all := run(16, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17})
	alone := run(1, []int{5})
	pair := run(2, []int{9, 5})
	for i := range all[5] {
		if all[5][i] != alone[5][i] || all[5][i] != pair[5][i] {
			t.Fatalf("logits of one image: in a batch %v, alone %v, in a pair %v", all[5], alone[5], pair[5])
		}
	}
}

// The cost that a control states is what it takes, program by program.
func TestPassesAreThoseMade(t *testing.T) {
	pool := testPool(t, 8)
	c := newChain(t, pool, 12, 9, 7, 5)
	for _, places := range [][]int{{0}, {1}, {2}, {0, 2}, {0, 1, 2}} {
		var layers []Layer
		for _, at := range places {
			layers = append(layers, Layer{T: at, Embedding: newLinear(t, c, at, 3).g})
		}
		for _, s := range []Solver{{Method: Greedy}, {Method: MSA, Outer: 3, Inner: 4, LearningRate: 0.01},
			{Method: PMP, Outer: 5, LearningRate: 0.01}} {
			k, err := NewController(c.cut, "test", s, layers)
			if err != nil {
				t.Fatal(err)
			}
			x, _ := randomImage(6, 12)
			if err := k.Logits(context.Background(), x, make([]float32, 5)); err != nil {
				t.Fatal(err)
			}
			made := k.made()
			if got := float64(made) / float64(c.net.FLOPs()); math.Abs(got-k.Passes()) > 1e-9 {
				t.Errorf("%v at %v: %v passes made, %v stated", s.Method, places, got, k.Passes())
			}
			k.Close()
		}
	}
}
