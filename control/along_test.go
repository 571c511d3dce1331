package control

import (
	"math"
	"os"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"selfheal/attacks"
	"selfheal/internal/lists"
	"selfheal/internal/must"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/opened"
)

func alongIn(t *testing.T, o attacks.Oracle, gradient string) attacks.Oracle {
	t.Helper()
	by := must.Get(attacks.Along(o, gradient))(t)
	if by == nil {
		t.Fatalf("no gradient %s", gradient)
	}
	return by
}

// A controlled network also follows the gradient detached from its controls, and the bare network's. The answers stay
// its own.
func TestAlong(t *testing.T) {
	for _, s := range solvers {
		c := defended(t, s, 0, 2)
		through, detached := whiteBox(t, c, Through), whiteBox(t, c, Detached)
		x, _ := randomImage(3, c.net.shape.Size())
		own := gradient(t, through, x, attacks.CrossEntropy, 1, 3)
		for name, want := range map[string]attacks.Oracle{attacks.Detached: detached, attacks.Bare: c.net} {
			got, of := gradient(t, alongIn(t, through, name), x, attacks.CrossEntropy, 1, 3),
				gradient(t, want, x, attacks.CrossEntropy, 1, 3)
			if !slices.Equal(got.Gradient, of.Gradient) || slices.Equal(got.Gradient, own.Gradient) {
				t.Errorf("%v: the gradient %s is another", s.Method, name)
			}
			for k, z := range got.Logits {
				if math.Abs(float64(z-own.Logits[k])) > 1e-5 {
					t.Errorf("%v, %s: logit %d is %v, not %v", s.Method, name, k, z, own.Logits[k])
				}
			}
			if math.Abs(float64(got.Loss-own.Loss)) > 1e-5 {
				t.Errorf("%v, %s: the loss is %v, not %v", s.Method, name, got.Loss, own.Loss)
			}
		}
		all, bare := must.Get(through.Cost())(t), must.Get(alongIn(t, through, attacks.Bare).(*following).Cost())(t)
		if want := (Cost{all.Logits, 1 + all.Logits, 1}); bare != want {
			t.Errorf("%v: along the bare network a pass costs %v, want %v", s.Method, bare, want)
		}
		got := must.Get(alongIn(t, through, attacks.Detached).(*following).Cost())(t)
		if want := must.Get(detached.Cost())(t); got != want || got.Backward > all.Backward {
			t.Errorf("%v: detached a pass costs %v, through %v", s.Method, got, all)
		}
		for o, name := range map[attacks.Oracle]string{detached: attacks.Detached, c.net: attacks.Bare} {
			if by := must.Get(attacks.Along(o, name))(t); by != nil {
				t.Errorf("%v: %T has %s", s.Method, o, name)
			}
		}
	}
}

// A network that rounds its image has no gradient of its own; along slopes it has those of the network without
// rounding, which has some of its own, at the rounded image, and its own answers.
func TestAlongSlopes(t *testing.T) {
	plain := defended(t, solvers[0], 0).net
	b := &onnx.Builder{G: onnx.NewGraph("rounded")}
	x := b.Input("x", plain.Graph.Inputs[0].Shape)
	x = b.Op("Div", b.Op("Round", b.Op("Mul", x, b.Float(8))), b.Float(8))
	b.Output("y", b.Call(plain.Graph, x))
	rounded := open(t, testPool(t, 2), encoded(t, b), NetworkOptions{})
	image, _ := randomImage(5, plain.shape.Size())
	at := slices.Clone(image)
	for i, v := range at {
		at[i] = float32(math.RoundToEven(float64(8*v)) / 8)
	}
	want := gradient(t, alongIn(t, plain, attacks.Slopes), at, attacks.Margin, 1, 0)
	got := gradient(t, alongIn(t, rounded, attacks.Slopes), image, attacks.Margin, 1, 0)
	own := gradient(t, rounded, image, attacks.Margin, 1, 0)
	for i, g := range want.Gradient {
		if math.Abs(float64(got.Gradient[i]-g)) > 1e-5 || own.Gradient[i] != 0 {
			t.Fatalf("value %d: %v, not %v; its own %v", i, got.Gradient[i], g, own.Gradient[i])
		}
	}
	if math.Abs(float64(got.Loss-want.Loss)) > 1e-5 {
		t.Errorf("loss %v, not %v", got.Loss, want.Loss)
	}
}

// Along slopes a network whose ReLUs are Clips or are part of its quantisation keeps their gates: the direction is
// nearly that of its own gradient.
func TestSlopesKeepGates(t *testing.T) {
	read := func(file string) []byte { return must.Get(os.ReadFile(file))(t) }
	g := must.Get(opened.Graph(&onnx.File{Data: read("../models/zoo/preact_robust.onnx")}, simplify.Options{}, nil))(t)
	must.Do(t, g.Rewrite(func(b *onnx.Builder, n *onnx.Node) bool {
		if n.Op == "Relu" {
			b.Append(&onnx.Node{Op: "Clip", Inputs: []string{n.Inputs[0], b.Float(0), b.Float(6)}, Outputs: n.Outputs})
		}
		return n.Op == "Relu"
	}))
	for name, data := range map[string][]byte{
		"ReLU6":   must.Get(g.Encode())(t),
		"QDQ":     read("../harness/testdata/quantised/preact_standard-qdq.onnx"),
		"QLinear": read("../harness/testdata/quantised/preact_standard-qoperator-uint8.onnx"),
	} {
		n := open(t, testPool(t, 8), data, NetworkOptions{})
		along := alongIn(t, n, attacks.Slopes)
		for image := range slices.Chunk(read("../models/zoo/shapes10/test.bin")[:4*3073], 3073) {
			x := lists.Map(image[1:], func(v byte) float32 { return float32(v) / 255 })
			double := func(o attacks.Oracle) []float64 {
				e := gradient(t, o, x, attacks.Margin, int(image[0]), 0)
				return lists.Map(e.Gradient, func(v float32) float64 { return float64(v) })
			}
			own, by := double(n), double(along)
			if cosine := floats.Dot(own, by) / floats.Norm(own, 2) / floats.Norm(by, 2); !(cosine > 0.8) {
				t.Errorf("%s: the cosine between slopes and gradient is %.3f", name, cosine)
			}
		}
	}
}
