package optimize

import (
	"math/rand/v2"
	"slices"
	"testing"

	"selfheal/models/onnx"
)

// A subtraction at the front comes off, and what it subtracted is told value by value;
// any other front stays.
func TestCentre(t *testing.T) {
	item := onnx.Shape{onnx.Batch, 3, 4, 5}
	for _, c := range []struct {
		name  string
		mean  onnx.Shape
		front func(n network, x, mean string) string
		want  bool
	}{
		{"a channel", onnx.Shape{1, 3, 1, 1}, func(n network, x, mean string) string { return n.Op("Sub", x, mean) }, true},
		{"no batch", onnx.Shape{3, 1, 1}, func(n network, x, mean string) string { return n.Op("Sub", x, mean) }, true},
		{"one number", onnx.Shape{}, func(n network, x, mean string) string { return n.Op("Sub", x, mean) }, true},
		{"an image", onnx.Shape{3, 4, 5}, func(n network, x, mean string) string { return n.Op("Sub", x, mean) }, true},
		{"a row", onnx.Shape{5}, func(n network, x, mean string) string { return n.Op("Sub", x, mean) }, true},
		{"from a mean", onnx.Shape{1, 3, 1, 1}, func(n network, x, mean string) string { return n.Op("Sub", mean, x) }, false},
		{"an addition", onnx.Shape{1, 3, 1, 1}, func(n network, x, mean string) string { return n.Op("Add", x, mean) }, false},
		{"read twice", onnx.Shape{1, 3, 1, 1}, func(n network, x, mean string) string { return n.Op("Mul", n.Op("Sub", x, mean), x) }, false},
		{"no constant", onnx.Shape{1, 3, 1, 1}, func(n network, x, _ string) string { return n.Op("Sub", x, n.Op("Sin", x)) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := network{&onnx.Builder{G: onnx.NewGraph("centre")}, rand.New(rand.NewPCG(1, 1))}
			x := n.Input("x", item)
			k := onnx.FloatTensor(c.mean, make([]float32, c.mean.Items()))
			for i := range k.Floats {
				k.Floats[i] = n.r.Float32()
			}
			n.Output("y", n.conv(c.front(n, x, n.Const(k)), 2, 3, 1))
			if err := n.Err(); err != nil {
				t.Fatal(err)
			}
			g, mean := Centre(n.G)
			if (mean != nil) != c.want || (g == n.G) == c.want {
				t.Fatalf("a mean of %d values", len(mean))
			}
			if mean == nil {
				return
			}
			if err := g.Verify(); err != nil {
				t.Fatal(err)
			}
			images := random(rand.New(rand.NewPCG(2, 2)), 2, item)
			centred := make([][]float32, len(images))
			for i, im := range images {
				centred[i] = make([]float32, len(im))
				for j, v := range im {
					centred[i][j] = v - mean[j]
				}
			}
			want, got := batch(t, n.G, 2, images), batch(t, g, 2, centred)
			for i := range want {
				if !slices.Equal(got[i][0], want[i][0]) {
					t.Errorf("item %d differs", i)
				}
			}
		})
	}
}
