package opened

import (
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
)

// The comparison finds an opened network that answers an image among others differently than the file does alone, in
// floats and if the file rounds, and a file whose answer depends on the others in its batch. A network that computes
// the same passes.
func TestHold(t *testing.T) {
	testinput.Runtime(t)
	network := func(compute func(b *onnx.Builder, x string) string) *onnx.Graph {
		b := &onnx.Builder{G: onnx.NewGraph("opened")}
		b.Output("y", compute(b, b.Input("x", onnx.Shape{onnx.Batch, 3, 2, 2})))
		return must.Get(b.Done())(t)
	}
	twice := func(b *onnx.Builder, x string) string { return b.Op("Add", x, x) }
	all := func(b *onnx.Builder, x string) string { return b.Op("Add", x, b.Sum(x, []int64{0})) }
	file := func(batch int64, nodes string) *onnx.File {
		return &onnx.File{Data: onnxtest.New(17, batch, 3, 2, 2).Node(nodes).Bytes(batch, 3, 2, 2)}
	}
	for _, c := range []struct {
		name    string
		file    *onnx.File
		compute func(b *onnx.Builder, x string) string
		rounds  bool
		want    string // "": it passes
	}{
		{"the same", file(1, "Add x x → y"), twice, false, ""},
		{"the same of two", file(2, "Add x x → y"), twice, false, ""},
		{"the batch summed", file(1, "Add x x → y"), all, false, "image 1 of 3"},
		{"the batch summed, of a file that rounds", file(1, "Add x x → y"), all, true, "image 1 of 3"},
		{"a little of it, of a file that rounds", file(1, "Add x x → y"), func(b *onnx.Builder, x string) string {
			return b.Op("Add", twice(b, x), b.Op("Mul", b.Sum(x, []int64{0}), b.Float(1e-3)))
		}, true, "among others"},
		{"another function", file(1, "Neg x → y"), twice, false, "image 1 of 3"},
		{"a little more", file(1, "Add x x → y"), func(b *onnx.Builder, x string) string {
			return b.Op("Add", twice(b, x), b.Float(3e-4))
		}, false, "image 1 of 3"},
		{"what the last bit makes", file(1, "k=1000000.0; Mul x k → z; Sin z → y"),
			func(b *onnx.Builder, x string) string { return b.Op("Sin", b.Op("Div", x, b.Float(1e-6))) }, false, ""},
		{"a file that mixes", file(2, "a=0,; ReduceSum x a → s; Add x s → y"),
			all, false, "of 3"},
	} {
		g := network(c.compute)
		g.Rounds = c.rounds
		err := hold(c.file, g, simplify.Options{})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	mixed := file(2, "a=0,; ReduceSum x a → s; c=0.01; Mul s c → v; Add x v → y")
	same := network(func(b *onnx.Builder, x string) string { return b.Op("Mul", x, b.Float(1.02)) })
	err := hold(mixed, same, simplify.Options{})
	if err == nil || !strings.Contains(err.Error(), "on the other images") {
		t.Error(err)
	}
}

// The file receives the images as the options say: normalised, with channels last, and in levels.
func TestImages(t *testing.T) {
	testinput.Runtime(t)
	for name, c := range map[string]struct {
		file onnxtest.File
		o    simplify.Options
	}{
		"normalised": {onnxtest.New(17, 1, 3, 2, 2).Node("Exp x → e; Flatten e → y"),
			simplify.Options{Scale: 255, Mean: []float32{120, 110, 100}, Std: []float32{60, 50, 40}}},
		"channels last": {onnxtest.New(17, 1, 5, 6, 3).Node("c[6,3]=0.5; CumSum x a → e; a=2; Flatten e → y"),
			simplify.Options{}},
	} {
		size := int64(12)
		if name == "channels last" {
			size = 90
		}
		f := &onnx.File{Data: c.file.Bytes(1, size)}
		g := must.Get(Graph(f, c.o, nil))(t)
		if !g.Opened || len(g.Notices) > 1 {
			t.Errorf("%s: opened %v, %v", name, g.Opened, g.Notices)
		}
		other := g.Clone()
		other.Outputs[0].Name = (&onnx.Builder{G: other}).Op("Neg", other.Outputs[0].Name)
		if hold(f, other, c.o) == nil {
			t.Errorf("%s: another function passes", name)
		}
	}
}
