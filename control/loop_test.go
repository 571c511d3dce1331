package control

import (
	"context"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"selfheal/internal/must"
)

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
			k := loop(t, c.cut, m.s, Layer{T: stage, Embedding: l.g})
			o := must.Get(k.Run(t.Context(), x))(t)
			far := 0.0
			for i, v := range o.Controls[stage] {
				far = math.Max(far, math.Abs(float64(v)-want.AtVec(i)))
			}
			if far < m.from || far > m.to {
				t.Errorf("%v at %d: off the optimum by %g, want between %g and %g", m.s.Method, stage, far, m.from,
					m.to)
			}
		}
	}
}

// An image alone and the same image in a batch have the same logits, bit for bit.
func TestControlDoesNotDependOnTheBatch(t *testing.T) {
	solver := Solver{Method: MSA, Outer: 2, Inner: 4, Regularization: 0.001, LearningRate: 0.05, Momentum: 0.5}
	run := func(batch int, which []int) map[int][]float32 {
		pool := testPool(t, batch)
		c := newChain(t, pool, 12, 9, 7, 5)
		_, layers := linears(t, c, 0, 2)
		k := loop(t, c.cut, solver, layers...)
		logits := make([][]float32, len(which))
		if err := ForEach(t.Context(), pool, len(which), 0, func(ctx context.Context, i int) error {
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
