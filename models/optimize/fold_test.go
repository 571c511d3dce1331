package optimize

import (
	"slices"
	"testing"

	"selfheal/models/onnx"
)

// A scale moves into the following weights if that is exact: the network's gradient then has one multiplication less.
func TestScalesMove(t *testing.T) {
	g := build(t, "scales move")
	fold(g)
	rescale(g)
	ones := 0
	for _, n := range g.Nodes {
		scaled := func() bool {
			return slices.ContainsFunc(g.Consts[n.Inputs[1]].Floats, func(s float32) bool { return s != 1 })
		}
		if n.Op == "BatchNormalization" && !scaled() {
			ones++
		}
	}
	if ones != 1 {
		t.Errorf("%d scales moved, want 1: that without negative values", ones)
	}
}

// folded checks how many nodes of an operator a pass leaves in a graph, and that the result is the same.
func folded(t *testing.T, g *onnx.Graph, pass func(*onnx.Graph), op string, left int) {
	t.Helper()
	after := g.Clone()
	pass(after)
	if got := operators(after, op); got != left {
		t.Errorf("%d %s left, want %d", got, op, left)
	}
	images := random(1, 2, g.Inputs[0].Shape)
	near(t, batch(t, after, images), batch(t, g, images), 1e-6)
}

// A factor of each channel, or one for all, moves into the following convolutions, but only if nothing else reads it
// and it is constant within a channel.
func TestFactorsMove(t *testing.T) {
	for _, c := range []struct {
		name  string
		op    string
		shape onnx.Shape
		left  int
	}{
		{"a channel", "Div", onnx.Shape{1, 3, 1, 1}, 0},
		{"the constant first", "Mul", onnx.Shape{3, 1, 1}, 0},
		{"one number", "Mul", onnx.Shape{}, 0},
		{"read twice", "Div", onnx.Shape{1, 3, 1, 1}, 1},
		{"the constant first", "Div", onnx.Shape{1, 3, 1, 1}, 1},
		{"a column", "Div", onnx.Shape{6}, 1},
		{"a row of a channel", "Mul", onnx.Shape{3, 1, 6}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := grow(t, 1, onnx.Shape{onnx.Batch, 3, 6, 6}, func(n network, x string) string {
				k := onnx.FloatTensor(c.shape, make([]float32, c.shape.Items()))
				for i := range k.Floats {
					k.Floats[i] = 0.2 + n.r.Float32()
				}
				inputs := []string{n.Op("Abs", x), n.Const(k)}
				if c.name == "the constant first" {
					slices.Reverse(inputs)
				}
				y := n.Op(c.op, inputs...)
				z := n.Op("Add", n.conv(y, 4, 3, 1), n.conv(y, 4, 1, 1))
				if c.name == "read twice" {
					z = n.Op("Add", z, n.conv(n.Op("Sin", y), 4, 3, 1))
				}
				return z
			})
			folded(t, g, rescale, c.op, c.left)
		})
	}
}

// A normalisation after a convolution becomes part of it, but only if nothing else reads the tensor between them.
func TestNormalizationFolds(t *testing.T) {
	g := grow(t, 1, onnx.Shape{onnx.Batch, 3, 6, 6}, func(n network, x string) string {
		c := n.conv(n.norm(n.conv(x, 4, 3, 1), 0.5, 1.5), 4, 3, 1)
		return n.Op("Add", n.norm(c, 0.5, 1.5), c)
	})
	folded(t, g, fold, "BatchNormalization", 1)
}

// A single channel's scale of 0 or less keeps a normalisation before a ReLU as it is.
func TestNegativeScalesStay(t *testing.T) {
	for scale, moves := range map[float32]bool{0.7: true, -0.7: false, 0: false} {
		g := grow(t, 1, onnx.Shape{onnx.Batch, 3, 6, 6}, func(n network, x string) string {
			c := n.conv(x, 4, 3, 1)
			y := n.Op("BatchNormalization", c, n.Const(onnx.FloatVector([]float32{1.2, scale, 0.8, 1.1})),
				n.vector(4, -0.3, 0.3), n.vector(4, -0.3, 0.3), n.vector(4, 0.5, 1.5))
			return n.conv(n.Op("Relu", y), 4, 3, 1)
		})
		after := g.Clone()
		rescale(after)
		for i, n := range after.Nodes {
			if n.Op == "BatchNormalization" && slices.Equal(n.Inputs, g.Nodes[i].Inputs) == moves {
				t.Errorf("scale %v: moved %v, want %v", scale, !moves, moves)
			}
		}
		images := random(1, 2, g.Inputs[0].Shape)
		near(t, batch(t, after, images), batch(t, g, images), 1e-6)
	}
}
