package control

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/internal/must"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/ort"
)

// small returns a Conv net of three classes, with or without a softmax at its end.
func small(t *testing.T, softmax bool) []byte {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	b := &onnx.Builder{G: onnx.NewGraph("small")}
	x := b.Input("x", onnx.Shape{onnx.Batch, 2, 5, 4})
	draw := func(shape ...int64) string { return b.Const(weights(r, 0.5, shape...)) }
	padded := onnx.Attrs{"pads": []int64{1, 1, 1, 1}}
	stem := b.OpWith("Conv", padded, x, draw(3, 2, 3, 3))
	joined := b.Op("Add", b.Op("Relu", b.OpWith("Conv", padded, b.Op("Relu", stem), draw(3, 3, 3, 3))), stem)
	z := b.Op("Gemm", b.OpWith("Flatten", nil, b.Op("GlobalAveragePool", joined)), draw(3, 3))
	if softmax {
		z = b.OpWith("Softmax", onnx.Attrs{"axis": -1}, z)
	}
	b.Output("out", z)
	return encoded(t, b)
}

// A network of probabilities has the margins and gradients of the same network with logits.
func TestProbabilities(t *testing.T) {
	pool := testPool(t, 4)
	logits := open(t, pool, small(t, false), NetworkOptions{})
	probabilities := open(t, pool, small(t, true), NetworkOptions{Probabilities: true})
	x, _ := randomImage(4, 40)
	var a, b attacks.Evaluation
	for _, loss := range []attacks.Loss{attacks.CrossEntropy, attacks.Margin, attacks.LogitDifference} {
		must.Do(t, logits.Gradient(t.Context(), x, loss, 1, 2, &a))
		must.Do(t, probabilities.Gradient(t.Context(), x, loss, 1, 2, &b))
		if math.Abs(float64(a.Loss-b.Loss)) > 1e-5 ||
			math.Abs(attacks.LogitMargin(a.Logits, 1)-attacks.LogitMargin(b.Logits, 1)) > 1e-5 {
			t.Errorf("%v: loss %v and margin %v from logits, %v and %v from probabilities", loss, a.Loss,
				attacks.LogitMargin(a.Logits, 1), b.Loss, attacks.LogitMargin(b.Logits, 1))
		}
		if want := loss.Value(a.Logits, 1, 2); math.Abs(want-float64(a.Loss)) > 1e-5 {
			t.Errorf("%v: the graph's loss is %v, its formula gives %v", loss, a.Loss, want)
		}
		for i := range a.Gradient {
			if math.Abs(float64(a.Gradient[i]-b.Gradient[i])) > 1e-5 {
				t.Fatalf("%v: gradients differ at %d: %v and %v", loss, i, a.Gradient[i], b.Gradient[i])
			}
		}
	}
}

func TestPlaces(t *testing.T) {
	pool := testPool(t, 4)
	n := open(t, pool, small(t, false), NetworkOptions{})
	c, err := n.Cut()
	if err != nil || len(c.Segments) != 4 { // stem, join, pooled features
		t.Fatalf("%v, %v; want 4 segments", c, err)
	}
	stem := c.Segments[1].Inputs[0].Name
	for _, row := range []struct {
		at   At
		want int
		err  string
	}{
		{At{}, 0, ""}, {At{Boundary: 2}, 2, ""}, {At{Last: true}, 3, ""}, {At{Tensor: stem}, 1, ""},
		{At{Boundary: 4}, 0, "boundaries 0 to 3"}, {At{Boundary: 1}, 1, ""}, {At{Boundary: 3}, 3, ""},
		{At{Boundary: -1}, 0, "boundaries 0 to 3"}, {At{Tensor: "nowhere"}, 0, `"nowhere"`},
	} {
		cut, err := n.Cut(row.at)
		if row.err != "" {
			if err == nil || !strings.Contains(err.Error(), row.err) {
				t.Errorf("%v: error %v, want one with %q", row.at, err, row.err)
			}
			continue
		}
		if err != nil || cut.Places[0] != row.want {
			t.Errorf("%v: %+v, %v; want segment %d", row.at, cut, err, row.want)
		}
	}
	// The given boundaries, plus those that a control names.
	m := open(t, pool, small(t, false), NetworkOptions{At: []string{}})
	if c, err := m.Cut(At{Last: true}); err != nil || len(c.Segments) != 2 {
		t.Errorf("%v, %v; want 2 segments", c, err)
	}
	// Another place changes no index: boundary 2 stays the join.
	relu := ""
	for _, node := range n.Graph.Nodes {
		if node.Op == "GlobalAveragePool" {
			relu = node.Outputs[0]
		}
	}
	more, err := n.Cut(At{Tensor: relu}, At{Boundary: 2})
	if err != nil || len(more.Segments) != 5 {
		t.Fatalf("%v, %v; want 5 segments", more, err)
	}
	if at := more.Places[1]; more.Segments[at].Inputs[0].Name != c.Segments[2].Inputs[0].Name {
		t.Errorf("boundary 2 is segment %d", at)
	}
	if _, err := ONNXEmbedding(small(t, false), c.StateShape(0)); err == nil {
		t.Error("a classifier passes for an embedding")
	}
	sides := onnxtest.New(17, -1, 2, -1, -1).Node("Relu x → y").Bytes(-1, 2, -1, -1) // which it leaves open
	must.Get(ONNXEmbedding(sides, c.StateShape(0)))(t)
	g := must.Get(IdentityEmbedding(c.StateShape(1)))(t)
	if _, err := NewController(c, "twice", Solver{Method: Greedy}, []Layer{{1, g}, {1, g}}); err == nil {
		t.Error("two layers at one place are no error")
	}
	// No control, no change: E(x) = x leaves u = 0 and costs nothing.
	k := loop(t, c, Solver{Method: MSA, Outer: 2, Inner: 3, Regularization: 0.1, LearningRate: 0.1}, Layer{1, g})
	x, _ := randomImage(5, 40)
	o, err := k.Run(t.Context(), x)
	if err != nil || o.Objective != 0 || o.Norm != 0 {
		t.Errorf("identity: objective %v, norm %v, %v", o.Objective, o.Norm, err)
	}
}

// A network of many weights has one program for all losses, with the same values and gradients as a program for each
// loss.
func TestOneProgramForAllLosses(t *testing.T) {
	pool := testPool(t, 4)
	own := open(t, pool, small(t, false), NetworkOptions{})
	defer func(was int64) { manyWeights = was }(manyWeights)
	manyWeights = 0
	shared := open(t, pool, small(t, false), NetworkOptions{})
	x := make([]float32, own.Shape().Size())
	for i := range x {
		x[i] = float32(i%7) / 7
	}
	ctx := t.Context()
	tried := 0
	for _, loss := range attacks.Losses() {
		var a, b attacks.Evaluation
		manyWeights = 1 << 40
		refused := own.Gradient(ctx, x, loss, 1, 2, &a)
		manyWeights = 0
		if err := shared.Gradient(ctx, x, loss, 1, 2, &b); (err == nil) != (refused == nil) {
			t.Fatalf("%v: %v, alone %v", loss, err, refused)
		} else if err != nil {
			continue // too few classes for this loss
		}
		tried++
		if a.Loss != b.Loss || !slices.Equal(a.Gradient, b.Gradient) || !slices.Equal(a.Logits, b.Logits) {
			t.Errorf("%v differs: loss %v, alone %v", loss, b.Loss, a.Loss)
		}
	}
	if tried < 4 {
		t.Errorf("only %d losses were tried", tried)
	}
	programs := map[*ort.Program]bool{}
	for _, h := range shared.losses.heads {
		programs[h.program] = true
	}
	if len(programs) != 1 {
		t.Errorf("%d programs, want one", len(programs))
	}
}

// otherwise is a file that answers the opposite of the opened network.
type otherwise struct {
	on    *Network
	asked int
}

func (f *otherwise) Logits(ctx context.Context, x, out []float32) error {
	f.asked++
	err := f.on.CopyLogits(ctx, x, out)
	for i := range out {
		out[i] = -out[i]
	}
	return err
}

func (f *otherwise) Close() {}

// Gradients of a network whose file rounds are its own, and without rounding and clipping only where all are clipped.
func TestGradientsByFile(t *testing.T) {
	b := &onnx.Builder{G: onnx.NewGraph("file")}
	z := b.OpWith("Flatten", onnx.Attrs{"axis": 1}, b.Input("x", onnx.Shape{onnx.Batch, 1, 1, 2}))
	scale, zero := b.Float(0.5/255), b.Const(&onnx.Tensor{DType: onnx.Uint8, Shape: onnx.Shape{}, Ints: []int64{0}})
	b.Output("logits", b.Op("DequantizeLinear", b.Op("QuantizeLinear", z, scale, zero), scale, zero))
	n := open(t, testPool(t, 2), encoded(t, b), NetworkOptions{})
	must.Do(t, n.AnsweredBy(&otherwise{on: n}))
	for x, want := range map[[2]float32][2]bool{{0.2, 0.3}: {true, true}, {0.2, 0.7}: {true, false},
		{0.7, 0.2}: {false, true}, {0.7, 0.9}: {true, true}} {
		var e attacks.Evaluation
		must.Do(t, n.Gradient(t.Context(), x[:], attacks.CrossEntropy, 0, 1, &e))
		if got := [2]bool{e.Gradient[0] != 0, e.Gradient[1] != 0}; got != want {
			t.Errorf("at %v: %v", x, e.Gradient)
		}
	}
}

// The opened network answers a sample if its answer is clear, and the file does otherwise. For classes alone and for
// a file that rounds, the file always answers.
func TestSamples(t *testing.T) {
	pool := testPool(t, 4)
	logits := func(labels, levels bool, x0, x1 float32) (class, asked int) {
		b := &onnx.Builder{G: onnx.NewGraph("file")}
		b.Output("logits", b.OpWith("Flatten", onnx.Attrs{"axis": 1}, b.Input("x", onnx.Shape{onnx.Batch, 1, 1, 2})))
		n := open(t, pool, encoded(t, b), NetworkOptions{})
		f := &otherwise{on: n}
		must.Do(t, n.AnsweredBy(f))
		n.Labels = labels
		if levels {
			n.Graph.Levels = true
		}
		out := make([]float32, 2)
		must.Do(t, n.Sample(t.Context(), func(x []float32) { x[0], x[1] = x0, x1 }, out))
		return attacks.Argmax(out), f.asked
	}
	for _, c := range []struct {
		labels, levels bool
		x0, x1         float32
		class, asked   int
	}{
		{false, false, 0.2, 0.3, 1, 0},
		{false, false, 0.2999, 0.3, 0, 1},
		{false, false, 299.8, 300, 0, 1}, // as a fraction of the largest
		{false, false, 0.2, float32(math.NaN()), 0, 1},
		{true, false, 0.2, 0.3, 0, 1},
		{false, true, 0.2, 0.3, 0, 1},
	} {
		if class, asked := logits(c.labels, c.levels, c.x0, c.x1); class != c.class || asked != c.asked {
			t.Errorf("%+v: class %d, the file asked %d times", c, class, asked)
		}
	}
}
