package ort

import (
	"math"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/vector"
	"selfheal/models/grad"
	"selfheal/models/onnx"
)

// Any number of waiting items takes few runs that are nearly full.
func TestOpenVINOSizes(t *testing.T) {
	p := &Program{on: Target{Provider: ProviderOpenVINO}}
	runs := func(waiting int) (all []int) {
		for ; waiting > 0; waiting -= all[len(all)-1] {
			all = append(all, p.size(waiting))
		}
		return all
	}
	for waiting, want := range map[int][]int{
		1: {1}, 2: {1, 1}, 3: {4}, 5: {4, 1}, 11: {4, 4, 4}, 12: {16}, 16: {16}, 18: {16, 1, 1}, 64: {16, 16, 16, 16},
	} {
		if got := runs(waiting); !slices.Equal(got, want) {
			t.Errorf("%d wait: %v, not %v", waiting, got, want)
		}
	}
}

// A convolution of an image in two halves, the first of which is the image in bf16, equals the convolution of the
// image. If anything else reads the image, or the convolution has groups, the graph stays as it is.
func TestInHalves(t *testing.T) {
	t.Parallel()
	shape := onnx.Shape{onnx.Batch, 3, 4, 4}
	build := func(group int, also bool) *onnx.Graph {
		b := &onnx.Builder{G: onnx.NewGraph("halves")}
		x := b.Input("image", shape)
		w := onnx.FloatTensor(onnx.Shape{6, int64(3 / group), 2, 2}, make([]float32, 6*3/group*4))
		for i := range w.Floats {
			w.Floats[i] = float32(math.Sin(float64(i)))
		}
		bias := onnx.FloatTensor(onnx.Shape{6}, []float32{1, 2, 3, 4, 5, 6})
		y := b.OpWith("Conv", onnx.Attrs{"kernel_shape": []int64{2, 2}, "group": group, "pads": []int64{1, 0, 0, 1}}, x,
			b.Const(w), b.Const(bias))
		if also {
			b.Output("also", b.Op("Relu", x))
		}
		b.Output("y", y)
		return must.Get(b.Done())(t)
	}
	for _, g := range []*onnx.Graph{build(3, false), build(1, true)} {
		if before := len(g.Inputs[0].Shape); inHalves(g) || !slices.Equal(g.Inputs[0].Shape, shape) || before != 4 {
			t.Errorf("%v", g.Inputs[0].Shape)
		}
	}
	g := build(1, false)
	want := must.Get(g.Encode())(t)
	if !inHalves(g) || g.Inputs[0].Shape[1] != 6 {
		t.Fatalf("%v", g.Inputs[0].Shape)
	}
	image := make([]float32, 48)
	for i := range image {
		image[i] = float32(i%7)/8 + float32(i)/1000
	}
	high, low := make([]float32, 48), make([]float32, 48)
	vector.Halves(image, high, low)
	run := func(model []byte, in []float32) []float32 {
		pool := newPool(t, 1, 1)
		prog := must.Get(pool.Compile("halves", model))(t)
		out := make([]float32, prog.Outputs()[0].Size)
		must.Do(t, pool.Run(t.Context(), prog, [][]float32{in}, [][]float32{out}))
		return out
	}
	whole, parts := run(want, image), run(must.Get(g.Encode())(t), append(high, low...))
	for i := range whole {
		if math.Abs(float64(whole[i]-parts[i])) > 1e-5 {
			t.Errorf("value %d is %v, not %v", i, parts[i], whole[i])
		}
	}
}

// The gradient of a pool of 2×2 windows by comparisons equals that by indices, also in ties; other pools keep theirs.
func TestPooledByHalves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		attrs  onnx.Attrs
		halves bool
	}{{onnx.Attrs{"kernel_shape": []int64{2, 2}, "strides": []int64{2, 2}}, true},
		{onnx.Attrs{"kernel_shape": []int64{2, 2}}, false},
		{onnx.Attrs{"kernel_shape": []int64{2, 2}, "strides": []int64{2, 2}, "pads": []int64{1, 1, 1, 1}}, false},
		{onnx.Attrs{"kernel_shape": []int64{3, 3}, "strides": []int64{2, 2}}, false}} {
		b := &onnx.Builder{G: onnx.NewGraph("pool")}
		x := b.Input("x", onnx.Shape{onnx.Batch, 2, 6, 8})
		y := b.OpWith("MaxPool", c.attrs, b.Op("Relu", x))
		w := b.Input("w", b.Shape(y))
		gradient := must.Get(grad.Backward(b, map[string]string{y: w}, []string{x}))(t)
		b.Output("y", y)
		b.Output("gradient", gradient[x])
		model := must.Get(must.Get(b.Done())(t).Encode())(t)
		g := must.Get(forOpenVINO(model))(t)
		scatters := slices.ContainsFunc(g.Nodes, func(n *onnx.Node) bool { return n.Op == "ScatterElements" })
		if scatters == c.halves {
			t.Errorf("%v: scatters: %v", c.attrs, scatters)
		}
		in := []Tensor{{Shape: []int64{3, 2, 6, 8}}, {Shape: slices.Concat([]int64{3}, b.Shape(y)[1:])}}
		for k := range in {
			in[k].Data = make([]float32, onnx.Shape(in[k].Shape).Items())
			for i := range in[k].Data { // with many ties
				in[k].Data[i] = float32((7*i*i+3*i+k)%5) - 1.5
			}
		}
		of := func(model []byte) []Tensor {
			s := must.Get(Open("pool", model))(t)
			t.Cleanup(s.Close)
			return must.Get(s.Run(in))(t)
		}
		want, got := of(model), of(must.Get(g.Encode())(t))
		for i := range want {
			if !slices.Equal(want[i].Data, got[i].Data) {
				t.Errorf("%v: output %d is %v, not %v", c.attrs, i, got[i].Data, want[i].Data)
			}
		}
	}
}
