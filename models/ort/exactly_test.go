package ort_test

import (
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/grad"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// silent makes the gradient of √relu(x) by x: g/(2√x) for x > 0, otherwise 0. If its masks multiply instead of
// selecting, they compute 0·∞.
func silent(t *testing.T) *onnx.Graph {
	b := &onnx.Builder{G: onnx.NewGraph("silent")}
	b.Output("y", b.Op("Sqrt", b.Op("Relu", b.Input("x", onnx.Shape{onnx.Batch, 3}))))
	must.Do(t, b.Err())
	return must.Get(grad.VJP(b.G))(t)
}

var silentGradient = []float32{0.25, 0, 0}

// Items for which multiplying masks give NaN are run again by masks that select, and no others.
func TestExactly(t *testing.T) {
	pool := ort.NewPool(1, 2)
	defer pool.Close()
	g, made := silent(t), 0
	compile := func(g *onnx.Graph, options ...ort.CompileOption) *ort.Program {
		return must.Get(pool.Compile(g.Name, must.Get(g.Encode())(t), options...))(t)
	}
	prog := compile(g.Unguarded(), ort.Exactly(func() (*ort.Program, error) {
		made++
		return compile(g), nil
	}))
	defer prog.Close()
	run := func(x ...float32) []float32 {
		y, dx := make([]float32, 3), make([]float32, 3)
		must.Do(t, pool.Run(t.Context(), prog, [][]float32{x, {1, 1, 1}}, [][]float32{y, dx}))
		return dx
	}
	if got := run(4, 1, 1); got[0] != 0.25 || got[1] != 0.5 || made != 0 {
		t.Errorf("%v, made %d programs", got, made)
	}
	for range 2 {
		if got := run(4, -1, 0); !slices.Equal(got, silentGradient) || made != 1 {
			t.Errorf("%v, made %d programs", got, made)
		}
	}
}

// The same holds for runs of sessions.
func TestExactSession(t *testing.T) {
	s := must.Get(ort.OpenGraph(silent(t)))(t)
	defer s.Close()
	shape := []int64{1, 3}
	for range 2 {
		out := must.Get(s.Run([]ort.Tensor{{Shape: shape, Data: []float32{4, -1, 0}},
			{Shape: shape, Data: []float32{1, 1, 1}}}))(t)
		if !slices.Equal(out[1].Data, silentGradient) {
			t.Errorf("the gradient is %v", out[1].Data)
		}
	}
}
