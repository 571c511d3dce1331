package control

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"testing"

	"selfheal/attacks"
)

// through is testdata/through.json: PyTorch's float64 gradients through the unrolled
// solver on a bundled network; scripts/goldens_control.py wrote it.
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
		Image, Through, Detached string
		Logits                   []float64
		Loss                     float64
	}
}

func unpack(t *testing.T, text string) []float32 {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float32, len(data)/4)
	if err := binary.Read(bytes.NewReader(data), binary.LittleEndian, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// The gradients of the controlled loss, with the controls held and through the solver,
// are PyTorch's: its autograd goes through every sweep, adjoint and inner step.
func TestGradientsAgreeWithPyTorch(t *testing.T) {
	data, err := os.ReadFile("testdata/through.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden through
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		data, err := os.ReadFile("../models/zoo/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	pool := testPool(t, 8)
	net, err := NewNetwork(pool, "standard", read("preact_standard.onnx"), NetworkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(net.Close)
	chain, err := net.Cut(At{Last: true})
	if err != nil {
		t.Fatal(err)
	}
	last, err := chain.Index(At{Last: true})
	if err != nil {
		t.Fatal(err)
	}
	var layers []Layer
	for at, name := range map[int]string{0: "input_ae.onnx", last: "hidden_ae.onnx"} {
		g, err := ONNXEmbedding(read(name), chain.StateShape(at))
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, Layer{T: at, Embedding: g})
	}
	methods := map[string]Method{"greedy": Greedy, "msa": MSA, "pmp": PMP}
	for i, g := range golden.Cases {
		s := g.Solver
		c, err := NewController(chain, s.Name, Solver{Method: methods[s.Name], Outer: s.Outer, Inner: s.Inner,
			Regularization: s.Regularization, LearningRate: s.LearningRate, Momentum: s.Momentum}, layers)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range []struct {
			knowledge Knowledge
			want      []float32
		}{{Through, unpack(t, g.Through)}, {Detached, unpack(t, g.Detached)}} {
			d := whiteBox(t, c, k.knowledge)
			var e attacks.Evaluation
			if err := d.Gradient(context.Background(), unpack(t, g.Image), attacks.CrossEntropy, g.Label, -1,
				&e); err != nil {
				t.Fatal(err)
			}
			for j, z := range e.Logits {
				if math.Abs(float64(z)-g.Logits[j]) > 1e-3 {
					t.Errorf("case %d, %s: logit %d is %v, PyTorch says %v", i, s.Name, j, z, g.Logits[j])
				}
			}
			off, size := attacks.L2.Distance(e.Gradient, k.want), attacks.L2.Length(k.want)
			t.Logf("case %d, %s, knowledge %d: off by %.2g", i, s.Name, k.knowledge, off/size)
			if !(off <= 1e-3*size) {
				t.Errorf("case %d, %s, knowledge %d: the gradient is off by %.2g of its norm %.4g", i, s.Name,
					k.knowledge, off/size, size)
			}
		}
		c.Close()
	}
}
