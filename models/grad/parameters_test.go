package grad_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/grad"
	"selfheal/models/grad/gradtest"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// classifier is Conv, Tanh, GlobalAveragePool and Gemm, with random weights.
func classifier(t *testing.T) *onnx.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	weight := func(shape ...int64) *onnx.Tensor {
		return onnx.FloatTensor(shape, gradtest.Vector(r, int(onnx.Shape(shape).Items())))
	}
	b := &onnx.Builder{G: onnx.NewGraph("classifier")}
	x := b.Input("input", onnx.Shape{onnx.Batch, 2, 5, 5})
	for name, w := range map[string]*onnx.Tensor{
		"conv.weight": weight(4, 2, 3, 3), "conv.bias": weight(4), "fc.weight": weight(3,
			4), "fc.bias": weight(3), "label": weight(1),
	} {
		b.G.AddConst(name, w)
	}
	h := b.Op("Tanh", b.Op("Conv", x, "conv.weight", "conv.bias"))
	h = b.Op("Reshape", b.Op("GlobalAveragePool", h), b.Ints(0, 4))
	z := b.OpWith("Gemm", onnx.Attrs{"transB": 1}, h, "fc.weight", "fc.bias")
	b.Output("logits", b.Op("Mul", z, "label"))
	must.Do(t, b.Err())
	return b.G
}

// The gradient of the losses' sum by every parameter agrees with differences, as
// does that by the image, which is Loss's.
func TestParametersOfALoss(t *testing.T) {
	testinput.Runtime(t)
	net := classifier(t)
	names := []string{"fc.bias", "conv.weight", "label", "conv.bias", "fc.weight"}
	for _, head := range []string{"ce", "margin", "logit-difference"} {
		g := must.Get(grad.Parameters(net, grad.Objective{Head: head, Parameters: names, Image: true}))(t)
		s := must.Get(ort.Open(g.Name, must.Get(g.Encode())(t)))(t)
		defer s.Close()
		wantOut := []string{grad.Logits, grad.LossValue}
		for _, n := range names {
			wantOut = append(wantOut, grad.ParameterGradient(n))
		}
		if wantOut = append(wantOut, grad.Gradient); !slices.Equal(s.Outputs(), wantOut) {
			t.Errorf("outputs %v, want %v", s.Outputs(), wantOut)
		}
		const batch = 3
		r := gradtest.Rand(head, "parameters")
		in := []ort.Tensor{
			{Shape: []int64{batch, 2, 5, 5}, Data: gradtest.Vector(r, batch*50)},
			{Shape: []int64{batch, 3}, Data: []float32{1, 0, 0, 0, 0, 1, 0, 0, 1}},
		}
		if grad.Heads[head].Targeted {
			in = append(in, ort.Tensor{Shape: []int64{batch, 3}, Data: []float32{0, 1, 0, 1, 0, 0, 0, 1, 0}})
		}
		first := len(in)
		for _, n := range names {
			in = append(in, ort.Tensor{Shape: net.Consts[n].Shape, Data: net.Consts[n].Floats})
		}
		if len(s.Inputs()) != len(in) {
			t.Fatalf("inputs %v", s.Inputs())
		}
		out := must.Get(s.Run(in))(t)
		f := func(at [][]float32) (float64, error) {
			moved := slices.Clone(in)
			moved[0].Data = at[0]
			for i := range names {
				moved[first+i].Data = at[i+1]
			}
			out, err := s.Run(moved)
			if err != nil {
				return 0, err
			}
			sum := 0.0
			for _, v := range out[1].Data {
				sum += float64(v)
			}
			return sum, nil
		}
		at, gradient := [][]float32{in[0].Data}, [][]float32{out[len(out)-1].Data}
		for i := range names {
			at, gradient = append(at, in[first+i].Data), append(gradient, out[2+i].Data)
		}
		for i := range at {
			only := make([][]float32, len(at))
			only[i] = gradient[i]
			e := must.Get(gradtest.Directional(f, at, only, r, 3))(t)
			if !(e <= gradtest.Tolerance) {
				t.Errorf("%s, argument %d: the difference quotient is off by %.2g of the gradient's norm", head, i, e)
			}
		}
	}
}

func TestParametersErrors(t *testing.T) {
	net := classifier(t)
	whole := slices.IndexFunc(net.Nodes, func(n *onnx.Node) bool { return n.Op == "Reshape" })
	for _, c := range []struct {
		objective grad.Objective
		want      string
	}{
		{grad.Objective{}, "no parameters"},
		{grad.Objective{Parameters: []string{"fc"}}, `no constant "fc"`},
		{grad.Objective{Parameters: []string{net.Nodes[whole].Inputs[1]}}, "does not hold float32"},
		{grad.Objective{Parameters: []string{"fc.bias", "fc.bias"}}, "named twice"},
		{grad.Objective{Head: "hinge", Parameters: []string{"fc.bias"}}, `unknown loss "hinge"`},
		{grad.Objective{Head: "dlr-targeted", Parameters: []string{"fc.bias"}}, "at least 4 classes"},
	} {
		_, err := grad.Parameters(net, c.objective)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.objective, err, c.want)
		}
	}
	if _, ok := net.Consts["fc.bias"]; !ok || len(net.Inputs) != 1 {
		t.Error("the network was changed")
	}
	b := &onnx.Builder{G: onnx.NewGraph("constant")}
	x := b.Input("x", onnx.Shape{onnx.Batch, 2})
	w := b.Const(onnx.FloatTensor(onnx.Shape{2}, []float32{1, 2}))
	y := b.Op("Mul", x, w)
	if _, err := grad.Backward(b, map[string]string{y: x}, []string{w}); err == nil || !strings.Contains(err.Error(),
		"is a constant") {
		t.Errorf("a gradient by a constant: %v", err)
	}
}
