package simplify_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// A network without a batch gives for each item of a batch what the file gives for it alone.
func TestLift(t *testing.T) {
	testinput.Runtime(t)
	for _, one := range []struct {
		shape []int64
		nodes string
	}{
		{[]int64{4}, "Relu x → y"},
		{[]int64{}, "Relu x → y"}, // a single number
		{[]int64{4}, "w[4,3]=0.5; MatMul x w → y"},
		{[]int64{4}, "w[3,4]=0.5; MatMul w x → y"},
		{[]int64{4, 2}, "w[3,4]=0.5; MatMul w x → y"},
		{[]int64{4, 2}, "w[2,3]=0.5; MatMul x w → y"},
		{[]int64{4, 2}, "w[2,3]=0.5; b[3]=0.25; Gemm x w b → y alpha=0.5 beta=2.0"},
		{[]int64{4, 2}, "w[3,4]=0.5; b[2,1]=0.25; Gemm x w b → y transA=1 transB=1"},
		{[]int64{4, 2}, "Transpose x → t; MatMul x t → y"},
		{[]int64{4, 2}, "Transpose x → y perm=1,0"},
		{[]int64{4}, "b[4]=0.5; Add x b → y"},
		{[]int64{4}, "b[2,3,4]=0.5; Mul b x → y"},
		{[]int64{4, 2}, "i=0; Gather x i → v axis=0; Sub x v → y"},
		{[]int64{4, 2}, "i=1,; Gather x i → y axis=1"},
		{[]int64{4, 2}, "Flatten x → y axis=0"},
		{[]int64{4, 2}, "Flatten x → y axis=-1"},
		{[]int64{4, 2, 3}, "s=0,-1; Reshape x s → y"},
		{[]int64{2, 4}, "s=-1,; Reshape x s → v; Softmax v → y axis=0"},
		{[]int64{4, 2}, "Softmax x → y axis=0"},
		{[]int64{4, 2}, "Softmax x → y"},
		{[]int64{4, 2}, "LogSoftmax x → y axis=-2"},
		{[]int64{4, 2}, "Concat x x → y axis=0"},
		{[]int64{4, 2}, "c[3,2]=0.5; Concat c x → y axis=0"},
		{[]int64{4, 2}, "Split x → y z axis=1"},
		{[]int64{4, 2}, "s=1,; e=3,; Slice x s e → y"},
		{[]int64{4, 2}, "s=0,; e=1,; a=1,; Slice x s e a → y"},
		{[]int64{4, 1}, "a=1,; Squeeze x a → y"},
		{[]int64{4, 1}, "Squeeze x → y"},
		{[]int64{4}, "a=0,-1; Unsqueeze x a → y"},
		{[]int64{4, 2}, "p=1,0,0,2; Pad x p → y"},
		{[]int64{4, 2}, "a=0,; ReduceSum x a → y keepdims=0"},
		{[]int64{4, 2}, "ReduceMax x → y"},
		{[]int64{4, 2}, "ReduceMean x → y"},
		{[]int64{4, 2}, "Shape x → s; Reshape x s → y"},
		{[]int64{4, 2}, "w[2]=0.5; LayerNormalization x w → y axis=1"},
		{[]int64{1, 2, 3, 3}, "k[2,2,2,2]=0.5; Conv x k → c; GlobalAveragePool c → y"},
		{[]int64{9}, "s=1,1,3,3; Reshape x s → i; MaxPool i → y kernel_shape=2,2"},
		{[]int64{4}, "i=1.0; Greater x i → m; z=0.0; Where m x z → y"},
		{[]int64{4}, "Min x x x → y"},
		{[]int64{4}, "Sum x x x → y"},
	} {
		file := onnxtest.New(17, one.shape...).Node(one.nodes)
		y := onnxtest.Value("y", 1)
		y.Type.GetTensorType().Shape = nil // whatever comes out
		file.Graph.Output = append(file.Graph.Output, y)
		data := must.Get(proto.Marshal(file.ModelProto))(t)
		g := must.Get(onnx.Decode(data))(t)
		err := simplify.Prepare(g, simplify.Options{Literal: true, Whole: true})
		if len(one.shape) == 0 {
			if err == nil || !strings.Contains(err.Error(), "a single number") {
				t.Error(err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v %s: %v", one.shape, one.nodes, err)
			continue
		}
		if in := g.Inputs[0].Shape; in[0] != onnx.Batch || len(in) != len(one.shape)+1 {
			t.Errorf("%s: the input has shape %v", one.nodes, in)
		}
		const n = 3
		original := original(t, data)
		rng := rand.New(rand.NewPCG(1, 2))
		items := original.Inputs()
		x := make([]float32, n*items)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		out := together(t, g, n, x).Data
		for k := range n {
			y := must.Get(original.Run(x[k*items : (k+1)*items]))(t)
			if own := out[k*len(out)/n : (k+1)*len(out)/n]; ort.Agree(y, own) != nil {
				t.Errorf("%v %s: item %d: %v, the file gives %v", one.shape, one.nodes, k, own, y)
			}
		}
	}
	// An operator on a batch of its own is refused.
	g := must.Get(onnx.Decode(onnxtest.New(17, 2, 2, 3, 3).Node("k[2,2,2,2]=0.5; Conv x k → y").Bytes()))(t)
	err := simplify.Prepare(g, simplify.Options{Whole: true})
	if err == nil || !strings.Contains(err.Error(), "works on a batch of 2 in a network without one") {
		t.Error(err)
	}
}
