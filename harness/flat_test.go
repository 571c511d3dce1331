package harness_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/attacks"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/models/onnx"
	pb "selfheal/models/onnx/onnxpb"
)

// rowsOf is a config of networks of rows of features, made by scripts/goldens/flat_samples.py.
const rowsOf = `version: 1
datasets:
  digits: {format: npz, path: harness/testdata/flat/digits.npz, layout: flat, box: {low: 0, high: 16}}
  cancer: {format: parquet, path: harness/testdata/flat/cancer.parquet, layout: flat, box: {low: 0, high: 5000}}
models:
  mlp: {path: harness/testdata/flat/mlp.onnx, output: probabilities}
  forest: {path: harness/testdata/flat/forest.onnx, output: probabilities}
  xgboost: {path: harness/testdata/flat/xgboost.onnx, output: probabilities}
  linear: {path: harness/testdata/flat/linear.onnx, output: probabilities}
  normalizer: {path: harness/testdata/flat/normalizer.onnx, output: probabilities}
  pair: {path: harness/testdata/flat/pair.onnx, output: probabilities}
  label: {path: harness/testdata/flat/pair.onnx, output: label}
attacks:
  square: {kind: square, norm: linf, epsilon: 0.05, queries: 20}
  ce: {kind: apgd-ce, norm: linf, epsilon: 0.05}
suites:
  digits: {dataset: digits, models: [mlp, forest, xgboost], attacks: [square]}
  cancer: {dataset: cancer, models: [linear, normalizer, pair], attacks: [square, ce]}
  labels: {dataset: cancer, models: [label], attacks: []}
`

// The file, and the network opened from it for the gradients, answer rows of features as scikit-learn's and XGBoost's
// files do in ONNX Runtime for Python.
func TestRowsAnswer(t *testing.T) {
	testinput.Runtime(t)
	var want map[string]struct {
		Scores [][]float64
		Labels []string
	}
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("testdata/flat/answers.json"))(t), &want))
	cfg := testplan.Plan(t, rowsOf, 1, 8).Config
	o := must.Get(open.New(cfg, open.Options{}))(t)
	defer o.Close()
	for _, s := range cfg.Suites {
		set := must.Get(o.Scored(s.Dataset))(t)
		for _, name := range s.Models {
			net := must.Get(o.Network(t.Context(), cfg.Model(name), s.Dataset))(t)
			if net.File() == nil {
				t.Fatalf("%s: its file does not answer: %q", name, net.Graph.Notices)
			}
			golden := want[name]
			if name == "label" {
				golden = want["pair"]
			}
			for i := range set.Len() {
				im := must.Get(set.Read(i))(t)
				z, copied := make([]float32, net.Classes()), make([]float32, net.Classes())
				must.Do(t, net.Logits(t.Context(), im.Pixels, z))
				must.Do(t, net.CopyLogits(t.Context(), im.Pixels, copied))
				if name == "label" {
					if got, own := attacks.Argmax(z), attacks.Argmax(copied); own != got ||
						fmt.Sprint(got) != golden.Labels[i] {
						t.Fatalf("label of row %d is %d and %d, want %s", i, got, own, golden.Labels[i])
					}
					continue
				}
				for k, p := range golden.Scores[i] {
					file, own := math.Exp(float64(z[k])), math.Exp(float64(copied[k]))
					if math.Abs(file-p) > 2e-5 || math.Abs(own-p) > 2e-5 {
						t.Fatalf("%s, row %d, class %d: %v by the file, %v by the opened network, want %v", name, i, k,
							file, own, p)
					}
				}
			}
			net.Close()
		}
	}
}

// An ensemble of trees has no gradients: an attack that takes them is refused, and the message names those that don't.
func TestTreesRefuseGradients(t *testing.T) {
	testinput.Runtime(t)
	cfg := testplan.Plan(t, rowsOf, 1, 8).Config
	o := must.Get(open.New(cfg, open.Options{}))(t)
	defer o.Close()
	net := must.Get(o.Network(t.Context(), cfg.Model("pair"), "cancer"))(t)
	defer net.Close()
	for _, trial := range must.Get(plan.Trials(cfg.Attack("ce")))(t) {
		_, err := open.RecipeFor(trial, net)
		must.Refuse(t, err, "pair is an ensemble of trees", "attack ce takes them", "square, hop-skip-jump, rays")
	}
	for _, trial := range must.Get(plan.Trials(cfg.Attack("square")))(t) {
		must.Get(open.RecipeFor(trial, net))(t)
	}
}

// A file whose own label contradicts the scores that are taken out of it is not judged by them.
func TestContradictedScores(t *testing.T) {
	testinput.Runtime(t)
	lying := filepath.Join(t.TempDir(), "lying.onnx")
	must.Do(t, os.WriteFile(lying, must.Get(os.ReadFile("testdata/flat/normalizer.onnx"))(t), 0o644))
	edited(t, lying, func(g *pb.GraphProto) { // the label is 1 − label
		one := &pb.TensorProto{Name: proto.String("one"), DataType: proto.Int32(int32(onnx.Int64)),
			Int64Data: []int64{1}}
		g.Initializer = append(g.Initializer, one)
		for _, n := range g.Node {
			if n.Output[0] == "output_label" {
				n.OpType, n.Input, n.Attribute = proto.String("Sub"), []string{"one", "label"}, nil
			}
		}
	})
	for path, wrong := range map[string]string{
		"harness/testdata/flat/normalizer.onnx": "", lying: "gives the label [",
	} {
		cfg := testplan.Plan(t, rowsOf, 1, 8, "models.normalizer.path="+path,
			"suites.cancer.models=[normalizer]", "suites.cancer.attacks=[]", "default_suites=[cancer]").Config
		o := must.Get(open.New(cfg, open.Options{}))(t)
		net := must.Get(o.Network(t.Context(), cfg.Model("normalizer"), "cancer"))(t)
		row := must.Get(must.Get(o.Scored("cancer"))(t).Read(0))(t)
		_, err := open.Alone(net).Logits(t.Context(), row.Pixels)
		if wrong == "" {
			must.Do(t, err)
		} else {
			must.Refuse(t, err, wrong)
		}
		net.Close()
		o.Close()
	}
}
