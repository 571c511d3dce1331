package control

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"selfheal/control/pca"
	"selfheal/internal/must"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// serve opens a graph in ONNX Runtime alone, as any other program would.
func serve(t *testing.T, g *onnx.Graph) *ort.Session {
	t.Helper()
	data := must.Get(g.Encode())(t)
	s := must.Get(ort.Open(g.Name, data))(t)
	t.Cleanup(s.Close)
	if in, out := s.Inputs(), s.Outputs(); len(in) != 1 || in[0] != "image" || len(out) != 1 || out[0] != "logits" {
		t.Fatalf("inputs %v, outputs %v", in, out)
	}
	return s
}

// distance returns the largest difference of two answers, relative to the largest logit.
func distance(a, b []float32) float64 {
	most, size := 0.0, 1e-9
	for i := range a {
		most = math.Max(most, math.Abs(float64(a[i])-float64(b[i])))
		size = math.Max(size, math.Abs(float64(a[i])))
	}
	return most / size
}

// The exported loop, in one batch of any size, answers as the controller does image by image, for every method and
// place, and not as the undefended network. The literal graph, with more nodes, does too.
func TestGraphAnswersAsTheController(t *testing.T) {
	for _, places := range [][]int{{0}, {2}, {3}, {0, 3}, {0, 1, 2, 3}} {
		for _, s := range solvers {
			c := defended(t, s, places...)
			g, literal := must.Get(c.Graph())(t), must.Get(c.Literal())(t)
			name := fmt.Sprintf("%v at %v", s, places)
			if g.Meta["solver"] != s.String() || g.Meta["control"] != c.Name || g.Meta["model"] != "net" {
				t.Errorf("%s: metadata %v", name, g.Meta)
			}
			if len(literal.Nodes) <= len(g.Nodes) {
				t.Errorf("%s: %d nodes, literally %d", name, len(g.Nodes), len(literal.Nodes))
			}
			for _, g := range []*onnx.Graph{g, literal} {
				answersAs(t, name, c, serve(t, g))
			}
		}
	}
}

// answersAs fails the test unless a loop's graph answers as the controller does.
func answersAs(t *testing.T, name string, c *Controller, session *ort.Session) {
	t.Helper()
	shape := c.net.Shape()
	for _, n := range []int{1, 3} {
		batch, _ := randomImage(uint64(n), n*shape.Size())
		in := ort.Tensor{Shape: []int64{int64(n), int64(shape.C), int64(shape.H), int64(shape.W)}, Data: batch}
		out := must.Get(session.Run([]ort.Tensor{in}))(t)
		for i := range n {
			image := batch[i*shape.Size() : (i+1)*shape.Size()]
			want := must.Get(c.Run(t.Context(), image))(t)
			got := out[0].Data[i*c.net.Classes() : (i+1)*c.net.Classes()]
			if d := distance(want.Logits, got); !(d <= 1e-5) {
				t.Errorf("%s, image %d of %d: logits %v, the controller's are %v", name, i, n, got, want.Logits)
			}
			alone := make([]float32, len(got))
			must.Do(t, c.net.Logits(t.Context(), image, alone))
			if distance(alone, got) < 1e-3 {
				t.Errorf("%s: the answer is the undefended network's; this test shows nothing", name)
			}
		}
	}
}

// The graph contains mean and std, and linear and identity embeddings. For a network of probabilities it gives their
// logarithms.
func TestGraphOfPreprocessedNetwork(t *testing.T) {
	pool := testPool(t, 4)
	chain := must.Get(open(t, pool, small(t, true),
		NetworkOptions{Probabilities: true,
			Options: simplify.Options{Mean: []float32{0.4, 0.6}, Std: []float32{0.2, 0.3}}}).Cut())(t)
	image := chain.StateShape(0)
	space := &pca.Subspace{Dim: 40, Rank: 2, Mean: make([]float32, 40), Components: make([]float32, 40*2)}
	for i := range space.Mean {
		space.Mean[i], space.Components[2*i+i%2] = 0.5, float32(math.Sqrt(1./20))
	}
	linear := must.Get(LinearEmbedding(image, space))(t)
	identity := must.Get(IdentityEmbedding(chain.StateShape(2)))(t)
	c := loop(t, chain, Solver{Method: Greedy}, Layer{0, linear}, Layer{2, identity})
	g := must.Get(c.Graph())(t)
	x, _ := randomImage(1, 40)
	out := must.Get(serve(t, g).Run([]ort.Tensor{{Shape: []int64{1, 2, 5, 4}, Data: x}}))(t)
	want := must.Get(c.Run(t.Context(), x))(t)
	if d := distance(want.Logits, out[0].Data); !(d <= 1e-5) {
		t.Errorf("logits %v, the controller's are %v", out[0].Data, want.Logits)
	}
}

// A greedy graph consists of its segments and embeddings alone. An unrolled one has each weight once, in standard
// operators.
func TestGraphIsSmall(t *testing.T) {
	c := defended(t, solvers[0], 0, 3)
	g := must.Get(c.Graph())(t)
	want := 1 // the output's name
	for _, s := range c.stages {
		want += len(s.plain.segment.Nodes)
		if s.controlled() {
			want += len(s.plain.embedding.Nodes)
		}
	}
	if len(g.Nodes) != want {
		t.Errorf("%d nodes for %d of segments and embeddings", len(g.Nodes), want)
	}
	once := g.Parameters()

	c = defended(t, solvers[1], 0, 3)
	g = must.Get(c.Graph())(t)
	seen, copies, stages := map[*onnx.Tensor]bool{}, 0, map[string]bool{}
	for name, tensor := range g.Consts {
		if seen[tensor] {
			t.Errorf("%q is stored twice", name)
		}
		seen[tensor] = true
	}
	for _, n := range g.Nodes {
		if n.Domain != "" {
			t.Errorf("%s is no standard operator", n)
		}
		if n.Op == "Conv" {
			copies++
		}
		stage, _, _ := strings.Cut(n.Outputs[0], "/")
		stages[stage] = true
	}
	for _, of := range []string{"F0", "H0", "F1", "H3"} { // F0/…, F0.2/…, F0.3/…
		if !stages[of] || stages[of+".0"] || stages[of+".1"] || !stages[of+".2"] || !stages[of+".3"] {
			t.Errorf("copies of %s are called otherwise: %v", of, slices.Sorted(maps.Keys(stages)))
		}
	}
	// Gradients of convolutions have the weights once more, flipped.
	if copies < 10 || g.Parameters() > 3*once {
		t.Errorf("%d convolutions, %d parameters, %d in the greedy network", copies, g.Parameters(), once)
	}
}
