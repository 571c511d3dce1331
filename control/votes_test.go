package control

import (
	"context"
	"math"
	"slices"
	"testing"

	"selfheal/attacks"
	"selfheal/internal/must"
	"selfheal/models/onnx"
)

// noisy returns a network of two classes whose logits are the two pixels, with normal noise of the scale; 0 is none.
func noisy(t *testing.T, scale float32) []byte {
	t.Helper()
	b := &onnx.Builder{G: onnx.NewGraph("noisy")}
	x := b.OpWith("Flatten", onnx.Attrs{"axis": 1}, b.Input("x", onnx.Shape{onnx.Batch, 1, 1, 2}))
	if scale > 0 {
		x = b.Op("Add", x, b.OpWith("RandomNormalLike", onnx.Attrs{"scale": scale}, x))
	}
	b.Output("logits", b.Op("Identity", x))
	return encoded(t, b)
}

// A network that draws random numbers answers with the fractions of its votes. Each image and seed has its own
// numbers. Attacks see the mean of its logits. Votes for a network without random numbers are an error.
func TestVotes(t *testing.T) {
	pool := testPool(t, 4)
	_, err := NewNetwork(pool, "still", noisy(t, 0), NetworkOptions{Votes: 5})
	must.Refuse(t, err, "votes are for networks that draw at random, and this one does not")
	const votes = 400
	n := open(t, pool, noisy(t, 0.3), NetworkOptions{Votes: votes, Seed: 7})
	x, out := []float32{0.6, 0.3}, make([]float32, 2)
	answer := func(seed uint64) []float32 {
		n.seed = seed
		must.Do(t, n.Answer(t.Context(), x, out))
		return slices.Clone(out)
	}
	first := answer(7)
	if !slices.Equal(first, answer(7)) || slices.Equal(first, answer(8)) {
		t.Error("an answer depends on the image and the seed, and on nothing else")
	}
	// The difference of two logits has the deviation 0.3·√2: class 0 wins with probability
	// Φ(0.3/(0.3·√2)) = 0.7602.
	for _, share := range []float32{first[0], 1 - first[1]} {
		if math.Abs(float64(share)-0.7602) > 4*math.Sqrt(0.76*0.24/votes) {
			t.Errorf("class 0 has the share %v of the votes", share)
		}
	}
	must.Do(t, n.Logits(t.Context(), x, out))
	if apart := 5 * 0.3 / math.Sqrt(averaged); math.Abs(float64(out[0]-x[0])) > apart || out[0] == x[0] {
		t.Errorf("the mean of %d logits is %v, the network's %v", averaged, out[0], x[0])
	}
	if got := [...]int{QuestionPasses(0), QuestionPasses(1), QuestionPasses(19), QuestionPasses(20),
		QuestionPasses(21)}; got != [...]int{1, 1, 19, 20, 20} {
		t.Errorf("a question takes %v passes", got)
	}
	var e attacks.Evaluation
	must.Do(t, n.Gradient(t.Context(), x, attacks.Margin, 0, -1, &e))
	if attacks.Linf.Distance(e.Logits, out) > 1e-6 || len(e.Gradient) != 2 || e.Gradient[0] == 0 {
		t.Errorf("the gradient is %v at %v", e.Gradient, e.Logits)
	}
}

// A network that draws and rounds has slopes, of which an attack sees the mean over its draws.
func TestVotesHaveSlopes(t *testing.T) {
	b := &onnx.Builder{G: onnx.NewGraph("dithered")}
	x := b.OpWith("Flatten", onnx.Attrs{"axis": 1}, b.Input("x", onnx.Shape{onnx.Batch, 1, 1, 2}))
	x = b.Op("Floor", b.Op("Add", b.Op("Mul", x, b.Float(4)), b.OpWith("RandomUniformLike", nil, x)))
	b.Output("logits", b.Op("Mul", x, x))
	n := open(t, testPool(t, 4), encoded(t, b), NetworkOptions{Votes: 40, Seed: 7})
	var e, sloped attacks.Evaluation
	at := []float32{0.6, 0.3}
	must.Do(t, n.Gradient(t.Context(), at, attacks.Margin, 0, -1, &e))
	must.Do(t, must.Get(n.Along(attacks.Slopes))(t).Gradient(t.Context(), at, attacks.Margin, 0, -1, &sloped))
	if e.Gradient[0] != 0 || !slices.Equal(e.Logits, sloped.Logits) {
		t.Errorf("the gradient is %v at %v, and slopes are at %v", e.Gradient, e.Logits, sloped.Logits)
	}
	// y = floor(4x + u)² has the slope 8·floor(4x + u), whose mean over u is 8·4x
	for i, want := range []float64{-8 * 4 * 0.6, 8 * 4 * 0.3} {
		if got := float64(sloped.Gradient[i]); math.Abs(got-want) > 8*4*0.5/math.Sqrt(averaged) {
			t.Errorf("the mean slope by pixel %d is %v, not about %v", i, got, want)
		}
	}
}

// A single logit or probability means two classes. Other answers are unchanged.
func TestTwoClasses(t *testing.T) {
	for _, c := range []struct {
		answer        []float64
		probabilities bool
		want          []float64
	}{
		{[]float64{2}, false, []float64{0, 2}}, {[]float64{0.25}, true, []float64{0.75, 0.25}},
		{[]float64{1, 2}, false, []float64{1, 2}}, {[]float64{0.5, 0.25, 0.25}, true, []float64{0.5, 0.25, 0.25}},
	} {
		if got := TwoClasses(c.answer, c.probabilities); !slices.Equal(got, c.want) {
			t.Errorf("%v, probabilities %v: %v, want %v", c.answer, c.probabilities, got, c.want)
		}
	}
}

// constant is a file with the same answer for every image.
type constant []float32

func (c constant) Logits(_ context.Context, _, out []float32) error { copy(out, c); return nil }
func (constant) Close()                                             {}

// If a loop controls the image alone, the file answers for it as for the undefended network.
func TestLoopByFile(t *testing.T) {
	c := newChain(t, testPool(t, 2), 6, 5, 4)
	_, layers := linears(t, c, 0)
	k := loop(t, c.cut, Solver{Method: Greedy, Regularization: 0.1}, layers...)
	x, _ := randomImage(3, 6)
	want, got := constant{4, 3, 2, 1}, make([]float32, 4)
	must.Do(t, k.Logits(t.Context(), x, got))
	if k.ByFile() || slices.Equal(got, want) {
		t.Fatalf("without a file: %v", got)
	}
	must.Do(t, c.net.AnsweredBy(want))
	must.Do(t, k.Logits(t.Context(), x, got))
	if !k.ByFile() || !slices.Equal(got, want) {
		t.Errorf("with one: %v", got)
	}
}

// A gradient costs the forward pass and up to thrice as much again.
func TestFlopsOfGradients(t *testing.T) {
	c := newChain(t, testPool(t, 2), 40, 30, 20)
	forward, all := c.net.FLOPs(), must.Get(c.net.losses.flops())(t)
	if forward < 2*40*30 || all < 2*forward-2*40*30 || all > 4*forward {
		t.Errorf("%d operations forward, %d with the gradient", forward, all)
	}
}

// The gap is the difference's length relative to the first network's gradient, for the loss where it is largest.
func TestApart(t *testing.T) {
	pool := testPool(t, 4)
	scaled := func(by float32) *Network {
		b := &onnx.Builder{G: onnx.NewGraph("scaled")}
		x := b.OpWith("Flatten", onnx.Attrs{"axis": 1}, b.Input("x", onnx.Shape{onnx.Batch, 1, 1, 2}))
		b.Output("logits", b.Op("Mul", x, b.Float(by)))
		return open(t, pool, encoded(t, b), NetworkOptions{})
	}
	image := func(int) (attacks.Image, error) { return attacks.Image{Pixels: []float32{0.2, 0.7}}, nil }
	one, other := scaled(1), scaled(1.5)
	none := must.Get(Apart(t.Context(), one, one, 3, image))(t)
	must.Do(t, none.Check())
	must.Have(t, none.String(), "up to 0 of their length away from the CPU provider's (ce)") // of equals the first
	gap := must.Get(Apart(t.Context(), one, other, 3, image))(t)
	must.Refuse(t, gap.Check(), "are up to 0.64 of their length away", "(ce)") // 1.5·σ(0.75)/σ(0.5) − 1
}
