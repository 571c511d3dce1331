package simplify_test

import (
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
)

const flat = "../../../harness/testdata/flat/"

// broken opens a sample of scikit-learn's or XGBoost's after a change to its operator op.
func broken(t *testing.T, file, op string, change func(a onnx.Attrs)) error {
	t.Helper()
	g := must.Get(onnx.Decode(must.Get(onnx.Read(flat + file))(t).Data))(t)
	i := slices.IndexFunc(g.Nodes, func(n *onnx.Node) bool { return n.Op == op })
	change(g.Nodes[i].Attrs)
	return simplify.Prepare(g, simplify.Options{})
}

// A broken or unknown form of a classical operator is an error that names the node, never a panic.
func TestClassicalErrors(t *testing.T) {
	const trees = "TreeEnsembleClassifier"
	ints := func(name string, at int, v int64) func(onnx.Attrs) {
		return func(a onnx.Attrs) {
			list := slices.Clone(a[name].([]int64))
			list[at], a[name] = v, list
		}
	}
	set := func(name string, v any) func(onnx.Attrs) { return func(a onnx.Attrs) { a[name] = v } }
	for _, c := range []struct {
		file, op string
		change   func(onnx.Attrs)
		want     string
	}{
		{"pair.onnx", trees, ints("nodes_featureids", 0, 30), "reads column 30 of 30"},
		{"pair.onnx", trees, ints("nodes_truenodeids", 0, 99), "leads to a node that does not exist"},
		{"pair.onnx", trees, ints("nodes_truenodeids", 0, 0), "lead back to themselves"},
		{"pair.onnx", trees, ints("nodes_falsenodeids", 0, 1), "leads to one node twice"},
		{"pair.onnx", trees, ints("nodes_nodeids", 1, 0), "two nodes with one number"},
		{"pair.onnx", trees, ints("class_nodeids", 0, 99), "of a node that does not exist"},
		{"pair.onnx", trees, ints("class_ids", 0, 7), "gives a weight to class 7"},
		{"pair.onnx", trees, set("nodes_values", []float32{1}), "and 1 values for its nodes"},
		{"pair.onnx", trees, set("nodes_modes", []string(nil)), "and 0 values for its nodes"},
		{"pair.onnx", trees, set("class_weights", nil), "class_ids for 0 class_weights"},
		{"pair.onnx", trees, set("base_values", []float32{1, 2, 3}), "has 3 base_values for 1 scores"},
		{"pair.onnx", trees, set("classlabels_int64s", nil), "lists 0 classes"},
		{"pair.onnx", trees, set("post_transform", "PROBIT"), "post_transform PROBIT"},
		{"pair.onnx", trees, func(a onnx.Attrs) {
			modes := slices.Clone(a["nodes_modes"].([]string))
			i := slices.Index(modes, modes[0])
			modes[i], a["nodes_modes"] = "BRANCH_EQ", modes
		}, "compares by BRANCH_EQ and BRANCH_LT"},
		{"linear.onnx", "LinearClassifier", set("coefficients", []float32{1}),
			"has 1 coefficients for 30 columns and 2 classes"},
		{"linear.onnx", "LinearClassifier", set("intercepts", []float32{1}), "has 1 intercepts for 2 scores"},
		{"linear.onnx", "Scaler", set("offset", []float32{1, 2}), "has 2 values for 30 columns"},
		{"normalizer.onnx", "Normalizer", set("norm", "L3"), "unknown norm"},
	} {
		must.Refuse(t, broken(t, c.file, c.op, c.change), c.op, c.want)
	}
}

// The scores are taken from scikit-learn's outputs, and the label on demand; a ZipMap and texts go.
func TestScoresAreTaken(t *testing.T) {
	for file, want := range map[string][2]string{ // the output with and without Label
		"mlp.onnx":     {"output_label", "out_activations_result"},
		"forest.onnx":  {"label", "probabilities"},
		"xgboost.onnx": {"label", "probabilities"},
		"linear.onnx":  {"probabilities", "probabilities"},
	} {
		f := must.Get(onnx.Read(flat + file))(t)
		for i, label := range []bool{true, false} {
			g := must.Get(simplify.Open(f.Data, simplify.Options{Label: label}))(t)
			if len(g.Outputs) != 1 || g.Outputs[0].Name != want[i] {
				t.Errorf("%s, label %v: outputs %v", file, label, g.Outputs)
			}
			if got := g.Steps; got != (file == "forest.onnx" || file == "xgboost.onnx") {
				t.Errorf("%s rises in steps: %v", file, got)
			}
		}
	}
}

// A box and preprocessing by feature are nodes in front of a network of vectors, which may take images or rows.
func TestVectors(t *testing.T) {
	f := must.Get(onnx.Read(flat + "mlp.onnx"))(t)
	low, high := make([]float32, 64), slices.Repeat([]float32{16}, 64)
	o := simplify.Options{Box: [2][]float32{low, high}, Mean: low, Std: high}
	for image, want := range map[[3]int]onnx.Shape{
		{1, 8, 8}: {onnx.Batch, 1, 8, 8}, {1, 1, 64}: {onnx.Batch, 1, 1, 64}, {3, 8, 8}: {onnx.Batch, 1, 1, 64},
	} {
		g := must.Get(simplify.Open(f.Data, simplify.Options{}))(t)
		must.Do(t, simplify.Unflattened(g, image))
		if !slices.Equal(g.Inputs[0].Shape, want) {
			t.Errorf("images of %v: the input is %v", image, g.Inputs[0].Shape)
		}
		err := simplify.Preprocess(g, o)
		if want[3] == 64 {
			must.Do(t, err)
		} else {
			must.Refuse(t, err, "takes images of shape [N 1 8 8], not rows of 64 features")
		}
	}
	o.Box[0] = low[:3]
	must.Refuse(t, simplify.Preprocess(must.Get(simplify.Open(f.Data, simplify.Options{}))(t), o),
		"takes rows of 64 features, those of the data have 3")
}
