package grad

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// A transposed convolution of groups by phases gives what it gives as it is; one of a single group stays.
func TestPhased(t *testing.T) {
	testinput.Runtime(t)
	pool := ort.NewPool(1, 2)
	defer pool.Close()
	r := rand.New(rand.NewPCG(3, 4))
	random := func(n int64) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		return v
	}
	for _, c := range []struct {
		channels, group, kernel, pad, size int64
		phased                             bool
	}{
		{8, 8, 3, 1, 40, true}, {8, 8, 5, 2, 35, true}, {6, 3, 3, 1, 33, true}, {8, 8, 2, 0, 34, true},
		{8, 1, 3, 1, 40, false},
	} {
		name := fmt.Sprintf("%+v", c)
		b := &onnx.Builder{G: onnx.NewGraph("test")}
		x := b.Input("x", onnx.Shape{onnx.Batch, c.channels, c.size, c.size})
		weight := onnx.Shape{c.channels, c.channels / c.group, c.kernel, c.kernel}
		w := b.Const(onnx.FloatTensor(weight, random(weight.Items())))
		y := b.OpWith("Conv", onnx.Attrs{"group": c.group, "strides": []int64{2, 2},
			"pads": slices.Repeat([]int64{c.pad}, 4), "kernel_shape": []int64{c.kernel, c.kernel}}, x, w)
		b.Output("y", b.Op("Relu", y))
		must.Do(t, b.Err())
		g := must.Get(VJP(b.G))(t)
		phased := must.Get(Phased(g))(t)
		transposed := func(n *onnx.Node) bool { return n.Op == "ConvTranspose" }
		if !slices.ContainsFunc(g.Nodes, transposed) || slices.ContainsFunc(phased.Nodes, transposed) == c.phased {
			t.Fatalf("%s: phased wrongly", name)
		}
		var dx [2][]float32
		for i, form := range []*onnx.Graph{g, phased} {
			p := compile(t, pool, form)
			r = rand.New(rand.NewPCG(5, 6)) // the same image and cotangent
			in := [][]float32{random(int64(p.Inputs()[0].Size)), random(int64(p.Inputs()[1].Size))}
			dx[i] = make([]float32, p.Outputs()[1].Size)
			must.Do(t, pool.Run(context.Background(), p, in, [][]float32{nil, dx[i]}))
		}
		for i, want := range dx[0] {
			if math.Abs(float64(want-dx[1][i])) > 1e-5 {
				t.Fatalf("%s: value %d is %v, not %v", name, i, dx[1][i], want)
			}
		}
	}
}
