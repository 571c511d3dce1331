package control

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"selfheal/attacks"
	"selfheal/internal/must"
	"selfheal/models/onnx"
)

// headed returns a network on 3×8×8 images whose outputs have these shapes after the batch.
func headed(t *testing.T, outputs map[string][]int64, order ...string) []byte {
	t.Helper()
	b := &onnx.Builder{G: onnx.NewGraph("headed")}
	flat := b.Op("Flatten", b.Input("x", onnx.Shape{onnx.Batch, 3, 8, 8}))
	for _, name := range order {
		shape := outputs[name]
		y := b.Op("MatMul", flat, b.Const(onnx.Filled(0.01, 3*8*8, onnx.Shape(shape).Items())))
		b.Output(name, b.Op("Reshape", y, b.Ints(append([]int64{-1}, shape...)...)))
	}
	return encoded(t, b)
}

// A network that is not a classifier is refused by a message that says what it looks like and what to do. Dimensions
// of 1 are dropped.
func TestNoClassifier(t *testing.T) {
	pool := testPool(t, 2)
	for _, c := range []struct {
		shapes map[string][]int64
		order  []string
		output string
		want   string // "": it opens
	}{
		{map[string][]int64{"y": {10, 1, 1}}, []string{"y"}, "", ""},
		{map[string][]int64{"y": {1, 10}}, []string{"y"}, "", ""},
		{map[string][]int64{"y": {21, 8, 8}}, []string{"y"}, "",
			`output "y" has shape [N 21 8 8]: it looks like a segmentation, 21 values for each pixel, which has a ` +
				`task (--task); a classifier gives [N classes] or, of two classes, [N]; export the network with the ` +
				"layers that give these"},
		{map[string][]int64{"y": {64, 2, 2}}, []string{"y"}, "", "maps of features, 64 of 2×2"},
		{map[string][]int64{"y": {64, 2, 1}}, []string{"y"}, "", "maps of features, 64 of 2×1"},
		{map[string][]int64{"y": {1, 8, 8}}, []string{"y"}, "", "a segmentation, a value for each pixel"},
		{map[string][]int64{"y": {3, 8, 8}}, []string{"y"}, "", "looks like an image, as an auto-encoder gives"},
		{map[string][]int64{"y": {84, 300}}, []string{"y"}, "", "a detection, 84 values for each of 300 boxes"},
		{map[string][]int64{"boxes": {300, 4}, "scores": {300}, "masks": {2, 4, 4}},
			[]string{"boxes", "scores", "masks"}, "",
			"where another of its outputs does, output_name (--output-name) takes it: scores [N 300]"},
		{map[string][]int64{"features": {16, 2, 2}, "logits": {10}}, []string{"features", "logits"}, "logits", ""},
	} {
		o := NetworkOptions{}
		o.Output = c.output
		n, err := NewNetwork(pool, "headed", headed(t, c.shapes, c.order...), o)
		switch {
		case c.want != "":
			must.Refuse(t, err, c.want)
		case err != nil || n.Classes() != 10:
			t.Errorf("%v: %v", c.shapes, err)
		}
		if err == nil {
			n.Close()
		}
	}
}

// A label beside another output's scores is refused by a message that names that output.
func TestLabelBesideScores(t *testing.T) {
	b := &onnx.Builder{G: onnx.NewGraph("headed")}
	flat := b.Op("Flatten", b.Input("x", onnx.Shape{onnx.Batch, 3, 8, 8}))
	scores := b.Op("Slice", flat, b.Ints(0), b.Ints(10), b.Ints(1))
	b.Output("label", b.OpWith("ArgMax", onnx.Attrs{"axis": int64(1), "keepdims": int64(0)}, scores))
	b.Output("scores", scores)
	_, err := NewNetwork(testPool(t, 2), "headed", encoded(t, b), NetworkOptions{})
	must.Refuse(t, err, `output "label" is a label, of ArgMax`,
		"take another output by output_name (--output-name), scores [N 10], for attacks that see logits")
}

// A single logit z means two classes with the logits 0 and z, as in PyTorch's binary cross-entropy; a sigmoid's
// output is the probability of the second. scripts/goldens/single_samples.py wrote both files.
func TestSingleLogit(t *testing.T) {
	var want struct {
		Logits    []float64
		Gradients [][]float64
	}
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("testdata/single.json"))(t), &want))
	pool := testPool(t, 4)
	for _, form := range []string{"column", "vector", "sigmoid"} {
		probabilities := form == "sigmoid"
		net := open(t, pool, must.Get(os.ReadFile("testdata/single_"+form+".onnx"))(t),
			NetworkOptions{Probabilities: probabilities})
		if net.Classes() != 2 || len(want.Logits) == 0 {
			t.Fatalf("%s: %d classes", form, net.Classes())
		}
		for n, z := range want.Logits {
			x := levelsOf(n, net.Shape().Size())
			var e attacks.Evaluation
			must.Do(t, net.Gradient(t.Context(), x, attacks.CrossEntropy, n%2, -1, &e))
			if margin := attacks.LogitMargin(e.Logits, 1); math.Abs(margin-z) > 1e-5 {
				t.Errorf("%s, image %d: the margin of class 1 is %v, PyTorch's logit %v", form, n, margin, z)
			}
			if !probabilities && e.Logits[0] != 0 {
				t.Errorf("%s: the first logit is %v", form, e.Logits[0])
			}
			for i, v := range want.Gradients[n] {
				if math.Abs(v-float64(e.Gradient[i])) > 1e-6 {
					t.Fatalf("%s, image %d: the gradient is %v at %d, PyTorch's %v", form, n, e.Gradient[i], i, v)
				}
			}
		}
	}
}

// A network may have as many classes as attacks keep numbers for.
func TestMostClasses(t *testing.T) {
	pool := testPool(t, 1)
	for classes, refused := range map[int]bool{mostClasses: false, mostClasses + 1: true} {
		b := &onnx.Builder{G: onnx.NewGraph("wide")}
		flat := b.Op("Flatten", b.Input("x", onnx.Shape{onnx.Batch, 1, 1, 1}))
		b.Output("y", b.Op("Expand", flat, b.Ints(1, int64(classes))))
		n, err := NewNetwork(pool, "wide", encoded(t, b), NetworkOptions{})
		if refused {
			must.Refuse(t, err, "a classifier has at most 1048576 classes")
		} else if must.Do(t, err); n.Classes() != classes {
			t.Errorf("%d classes", n.Classes())
		}
	}
}
