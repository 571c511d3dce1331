package bounds

import (
	"math"
	"math/rand/v2"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
)

// A sum rounds as often as it has terms that are not 0, and the runtime's values differ by no more.
func TestZerosRoundNothing(t *testing.T) {
	testinput.Runtime(t)
	const values, live, outputs = 200, 40, 3
	rng := rand.New(rand.NewPCG(51, 52))
	weights := make([]float32, values*outputs)
	for i := range weights {
		weights[i] = float32(rng.NormFloat64())
	}
	b := &onnx.Builder{G: onnx.NewGraph("summed")}
	x := b.Op("Relu", b.Input("x", onnx.Shape{onnx.Batch, values}))
	b.Output("y", b.Op("MatMul", x, b.Const(onnx.FloatTensor(onnx.Shape{values, outputs}, weights))))
	must.Do(t, b.Err())
	n := ready(t, b.G, Unit)
	lower, upper := make([]float64, values), make([]float64, values)
	for i := range lower {
		lower[i], upper[i] = -1, -0.5
		if i < live {
			upper[i] = 1
		}
	}
	region := Box(lower, upper)
	out := must.Get((&proof{Network: n, region: region}).inner(t.Context(), IBP))(t)
	const other = outputs + 1 + 8 // of coefficients, readers and folded constants
	points := drawn(region, rng, 1000)
	y := asked(t, b.G)(points)[0].Data
	for i := range outputs {
		size := 0.0
		for j := range live {
			size += math.Abs(float64(weights[j*outputs+i]))
		}
		want := slackFactor * gamma(Unit, values+other) / (values + other) * (live + other) * size
		if got := float64(out.wrong[i]); math.Abs(got/want-1) > 1e-5 {
			t.Errorf("output %d may differ by %g, not by %g", i, got, want)
		}
		for p := range 1000 {
			exact := 0.0
			for j, v := range points[p*values : (p+1)*values] {
				exact += max(float64(v), 0) * float64(weights[j*outputs+i])
			}
			if off := math.Abs(float64(y[p*outputs+i]) - exact); off > float64(out.wrong[i]) {
				t.Errorf("point %d, output %d: off by %g, proven was %g", p, i, off, out.wrong[i])
			}
		}
	}
}
