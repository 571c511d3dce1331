package bounds

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// No point on its sides of some kinks beats a bound of these cuts, and cuts at the worst kinks raise bounds.
func TestNoPointBeatsACut(t *testing.T) {
	testinput.Runtime(t)
	for _, name := range []string{"residual", "pooled", "mixed", "joined", "tanh", "sigmoid", "gated"} {
		n := prepared(t, "testdata/"+name+".onnx", simplify.Options{}, Unit)
		run := observed(t, n) // which decides the sides
		rng := rand.New(rand.NewPCG(31, 32))
		x := make([]float32, n.size(n.input))
		held, raised, cutAt := 0, 0, 0
		for trial := range 6 {
			for i := range x {
				x[i] = rng.Float32()
			}
			region := Ball(x, []float64{inf, 2, 1}[trial%3], []float64{0.1, 0.8, 4}[trial%3], 0, 1)
			row := make([]float64, n.Classes())
			for j := range row {
				row[j] = rng.NormFloat64() // no float32: the bounds, of cuts too, have slack for its rounding
			}
			root := must.Get(n.Root(t.Context(), region))(t)
			if trial >= 3 {
				root = must.Get(root.refine(t.Context()))(t)
			}
			b := must.Get(root.branch(row, []float64{math.Inf(1)}))(t)
			part := b.whole()
			must.Do(t, b.bound(t.Context(), climb{alphaSteps, alphaRate}, part))
			for range 5 {
				if len(part.worst) == 0 {
					break
				}
				halves := []*domain{b.cutAt(part, part.worst[0], true), b.cutAt(part, part.worst[0], false)}
				must.Do(t, b.bound(t.Context(), climb{cutSteps, cutRate}, halves...))
				half := halves[rng.IntN(2)]
				_, apart := b.seedsOf(half)
				if rounded := apart[0]; !(rounded > 0 && half.bounds[0].Slack >= rounded) {
					t.Fatalf("%s: a slack of %g, rounding the row takes %g", name, half.bounds[0].Slack, rounded)
				}
				if cutAt++; half.bounds[0].Least() > part.bounds[0].Least() {
					raised++
				}
				part = half
				points := make([]float32, 400*len(x))
				drawn(region, rng, points)
				out := run(points)
			points:
				for p := range 400 {
					for _, c := range part.cuts {
						z := out[1+c.stage].Data[p*n.size(n.stages[c.stage].tensor)+c.value]
						if c.above && float64(z) < c.at || !c.above && float64(z) > c.at {
							continue points
						}
					}
					value := 0.0
					for j, v := range row {
						value += v * float64(out[0].Data[p*len(row)+j])
					}
					if held++; !(value >= part.bounds[0].Least()) {
						t.Fatalf("%s, %d cuts: %.9g, proven was %.9g", name, len(part.cuts), value,
							part.bounds[0].Least())
					}
				}
			}
		}
		t.Logf("%s: %d points on their sides, %d of %d cuts raised the bound", name, held, raised, cutAt)
		if held < 300 || raised < cutAt*3/4 {
			t.Errorf("%s: %d points, %d of %d bounds raised", name, held, raised, cutAt)
		}
	}
}

// observed runs a network on points: its outputs, and the inputs of its stages.
func observed(t *testing.T, n *Network) func(points []float32) []ort.Tensor {
	t.Helper()
	g := n.graph.Clone()
	for _, s := range n.stages {
		g.Outputs = append(g.Outputs, onnx.Value{Name: s.tensor, DType: onnx.Float, Shape: g.Shapes[s.tensor]})
	}
	run := must.Get(ort.OpenGraph(g))(t)
	t.Cleanup(func() { run.Close() })
	return func(points []float32) []ort.Tensor {
		shape := append([]int64{int64(len(points) / n.size(n.input))}, n.graph.Shapes[n.input][1:]...)
		return must.Get(run.Run([]ort.Tensor{{Shape: shape, Data: points}}))(t)
	}
}

// Rows that cannot be at their limits together are told so by a weighted sum of them, and rows that can be are not.
func TestRowsTogether(t *testing.T) {
	testinput.Runtime(t)
	n := prepared(t, "testdata/residual.onnx", simplify.Options{}, Unit)
	run := must.Get(ort.OpenGraph(n.graph))(t)
	defer run.Close()
	rng := rand.New(rand.NewPCG(33, 34))
	k := n.Classes()
	for trial := range 6 {
		x := make([]float32, n.size(n.input))
		for i := range x {
			x[i] = rng.Float32()
		}
		rows, at := make([]float64, 2*k), make([]float64, 2)
		shape := append([]int64{1}, n.graph.Shapes[n.input][1:]...)
		y := must.Get(run.Run([]ort.Tensor{{Shape: shape, Data: x}}))(t)[0].Data
		for j := range k {
			rows[j] = rng.NormFloat64()
			rows[k+j] = -2 * rows[j]
			for i := range at {
				at[i] += rows[i*k+j] * float64(y[j])
			}
		}
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
