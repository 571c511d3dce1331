package control

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"testing"

	"selfheal/attacks"
	"selfheal/internal/must"
)

// through is testdata/through.json, written by scripts/goldens/control.py: PyTorch's float64 gradients through the
// unrolled solver on a bundled network.
type through struct {
	Cases []struct {
		Solver struct {
			Name           string
			Outer, Inner   int
			Regularization float64
			LearningRate   float64 `json:"learning_rate"`
			Momentum       float64
		}
		Label                    int
		Image, Through, Detached []byte // float32 numbers
		Logits                   []float64
	}
}

func unpack(t *testing.T, data []byte) []float32 {
	t.Helper()
	out := make([]float32, len(data)/4)
	must.Do(t, binary.Read(bytes.NewReader(data), binary.LittleEndian, out))
	return out
}

// The gradients of the controlled loss, with the controls held and through the solver, equal PyTorch's, whose
// autograd differentiates every sweep, adjoint and inner step.
func TestGradientsAgreeWithPyTorch(t *testing.T) {
	data := must.Get(os.ReadFile("testdata/through.json"))(t)
	var golden through
	must.Do(t, json.Unmarshal(data, &golden))
	read := func(name string) []byte {
		return must.Get(os.ReadFile("../models/zoo/" + name))(t)
	}
	pool := testPool(t, 8)
	net := open(t, pool, read("preact_standard.onnx"), NetworkOptions{})
	chain := must.Get(net.Cut(At{Last: true}))(t)
	last := chain.Places[0]
	var layers []Layer
	for at, name := range map[int]string{0: "input_ae.onnx", last: "hidden_ae.onnx"} {
		layers = append(layers, Layer{at, must.Get(ONNXEmbedding(read(name), chain.StateShape(at)))(t)})
	}
	for i, g := range golden.Cases {
		s := g.Solver
		c := loop(t, chain, Solver{Method(s.Name), s.Outer, s.Inner, s.Regularization, s.LearningRate, s.Momentum},
			layers...)
		for k, want := range map[Knowledge][]byte{Through: g.Through, Detached: g.Detached} {
			want := unpack(t, want)
			e := gradient(t, whiteBox(t, c, k), unpack(t, g.Image), attacks.CrossEntropy, g.Label, -1)
			for j, z := range e.Logits {
				if math.Abs(float64(z)-g.Logits[j]) > 1e-3 {
					t.Errorf("case %d, %s: logit %d is %v, PyTorch says %v", i, s.Name, j, z, g.Logits[j])
				}
			}
			off, size := attacks.L2.Distance(e.Gradient, want), attacks.L2.Length(want)
			if !(off <= 1e-3*size) {
				t.Errorf("case %d, %s, knowledge %d: the gradient is off by %.2g of its norm %.4g", i, s.Name, k,
					off/size, size)
			}
		}
	}
}
