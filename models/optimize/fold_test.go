package optimize

import (
	"math/rand/v2"
	"slices"
	"testing"

	"selfheal/models/onnx"
)

// A scale moves into the weights behind it where that is exact: the network's
// gradient then has one multiplication less.
func TestScalesMove(t *testing.T) {
	g := build(t, "scales move")
	src := g.Clone()
	fold(src)
	rescale(src)
	ones := 0
	for _, n := range src.Nodes {
		if n.Op == "BatchNormalization" && !slices.ContainsFunc(src.Consts[n.Inputs[1]].Floats, func(s float32) bool { return s != 1 }) {
			ones++
		}
	}
	if ones != 1 {
		t.Errorf("%d scales moved, want 1: that without negative values", ones)
	}
}

// A factor of each channel, or one of all, moves into the convolutions behind it, and
// only if nothing else reads it and it is one a channel.
func TestFactorsMove(t *testing.T) {
	images := random(rand.New(rand.NewPCG(2, 2)), 2, onnx.Shape{onnx.Batch, 3, 6, 6})
	for _, c := range []struct {
		op    string
		shape onnx.Shape
		also  bool // something else reads the product
		first bool // the constant is the first input
		left  int
	}{
		{"Div", onnx.Shape{1, 3, 1, 1}, false, false, 0},
		{"Mul", onnx.Shape{3, 1, 1}, false, true, 0},
		{"Mul", onnx.Shape{}, false, false, 0},
		{"Div", onnx.Shape{1, 3, 1, 1}, true, false, 1},
		{"Div", onnx.Shape{1, 3, 1, 1}, false, true, 1},
		{"Div", onnx.Shape{6}, false, false, 1},
		{"Mul", onnx.Shape{3, 1, 6}, false, false, 1},
	} {
		n := network{&onnx.Builder{G: onnx.NewGraph("factor")}, rand.New(rand.NewPCG(1, 1))}
		x := n.Input("x", onnx.Shape{onnx.Batch, 3, 6, 6})
		k := onnx.FloatTensor(c.shape, make([]float32, c.shape.Items()))
		for i := range k.Floats {
			k.Floats[i] = 0.2 + n.r.Float32()
		}
		inputs := []string{n.Op("Abs", x), n.Const(k)}
		if c.first {
			slices.Reverse(inputs)
		}
		y := n.Op(c.op, inputs...)
		z := n.Op("Add", n.conv(y, 4, 3, 1), n.conv(y, 4, 1, 1))
		if c.also {
			z = n.Op("Add", z, n.conv(n.Op("Sin", y), 4, 3, 1))
		}
		n.Output("z", z)
		src := n.G.Clone()
		rescale(src)
		left := 0
		for _, node := range src.Nodes {
			if node.Op == c.op {
				left++
			}
		}
		if left != c.left {
			t.Errorf("%v: %d left, want %d", c, left, c.left)
		}
		if err := src.Verify(); err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		want, got := batch(t, n.G, 2, images), batch(t, src, 2, images)
		for i := range want {
			if d := difference(got[i][0], want[i][0]); d > 1e-6 {
				t.Errorf("%v: item %d differs by %.2g", c, i, d)
			}
		}
	}
}

// A normalisation behind a convolution becomes part of it, and only if nothing else reads between them.
func TestNormalizationFolds(t *testing.T) {
	n := network{&onnx.Builder{G: onnx.NewGraph("fold")}, rand.New(rand.NewPCG(1, 1))}
	x := n.Input("x", onnx.Shape{onnx.Batch, 3, 6, 6})
	a := n.norm(n.conv(x, 4, 3, 1), 0.5, 1.5)
	c := n.conv(a, 4, 3, 1)
	n.Output("y", n.Op("Add", n.norm(c, 0.5, 1.5), c))
	src := n.G.Clone()
	fold(src)
	count := 0
	for _, node := range src.Nodes {
		if node.Op == "BatchNormalization" {
			count++
		}
	}
	if count != 1 {
		t.Errorf("%d normalisations left, want 1", count)
	}
	r := rand.New(rand.NewPCG(2, 2))
	images := random(r, 2, n.G.Inputs[0].Shape)
	want, got := batch(t, n.G, 2, images), batch(t, src, 2, images)
	for i := range want {
		if d := difference(got[i][0], want[i][0]); d > 1e-6 {
			t.Errorf("item %d differs by %.2g", i, d)
		}
	}
}
