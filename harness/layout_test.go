package harness_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/run"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
)

// asKeras writes a bundled network as Keras's exports are: channels last. With rescaling it takes values in [0,256),
// which it scales itself before channels come to the front, and has its features as first output.
func asKeras(t *testing.T, rescaling bool) (path string) {
	t.Helper()
	g, _ := must.Get2(simplify.Load("../models/zoo/preact_robust.onnx", simplify.Options{}))(t)
	b := &onnx.Builder{G: onnx.NewGraph("keras")}
	x := b.Input("image", onnx.Shape{onnx.Batch, 32, 32, 3})
	if rescaling {
		x = b.Op("Mul", x, b.Float(1.0/256))
	}
	first := b.OpWith("Transpose", onnx.Attrs{"perm": []int64{0, 3, 1, 2}}, x)
	z := b.Inline(g, map[string]string{g.Inputs[0].Name: first})[g.Outputs[0].Name]
	if rescaling {
		b.Output("features", b.Op("Relu", z))
	}
	b.Output("scores", z)
	must.Do(t, b.Err())
	path = filepath.Join(t.TempDir(), "keras.onnx")
	must.Do(t, os.WriteFile(path, must.Get(b.G.Encode())(t), 0o644))
	return path
}

// A network with channels last comes to what its twin with channels first comes to, bit for bit, in every attack.
func TestChannelsLast(t *testing.T) {
	last, rescaling := asKeras(t, false), asKeras(t, true)
	var made, names []string
	for _, s := range attacks.Specs {
		if s.Versions != nil || s.Kind == attacks.BoundsKind {
			continue // it is made of others, or its slack counts the twins' further operations
		}
		norms := s.Norms
		if norms == nil {
			norms = attacks.Norms()
		}
		for _, n := range norms {
			cheap := ""
			for _, p := range s.Parameters {
				switch p.Name {
				case "steps":
					cheap += ", steps: 3"
				case "queries":
					cheap += ", queries: 20"
				case "restarts", "targets":
					cheap += ", " + p.Name + ": 1"
				}
			}
			epsilon := []string{"8/255", "0.5", "12"}[n]
			names = append(names, fmt.Sprintf("a%d", len(names)))
			made = append(made, fmt.Sprintf("  %s: {kind: %s, norm: %s, epsilon: %s%s}\n", names[len(names)-1], s.Kind,
				n, epsilon, cheap))
		}
	}
	text := strings.Replace(testplan.Bundled, "  other:", fmt.Sprintf(`  keras: {path: %s}
  rescaling: {path: %s, preprocess: {scale: 256}, output_name: scores, layout: nhwc}
  other:`, last, rescaling), 1) + "attacks:\n" + strings.Join(made, "") + `
controls:
  healed: {solver: {method: greedy}, layers: [{at: input, embedding: {kind: onnx, path: models/zoo/input_ae.onnx}}]}
suites:
  twins: {dataset: test, models: [robust, keras, rescaling], controls: [healed], attacks: [` +
		strings.Join(names, ", ") + "]}\n"
	f, records, _ := runFor(t, testplan.Plan(t, text, 2, 8, "datasets.test.limit=4"))
	n := len(records) / 3
	for i := range n {
		for k, twin := range []string{"keras", "rescaling"} {
			other := records[(k+1)*n+i]
			if other.Model != twin {
				t.Fatalf("a record of %s", other.Model)
			}
			other.Model = "robust"
			got, want := must.Get(json.Marshal(other))(t), must.Get(json.Marshal(records[i]))(t)
			if !bytes.Equal(got, want) {
				t.Errorf("%s: %s, its twin %s", twin, got, want)
			}
		}
	}
	if p := f.Models["rescaling"]; p.Preprocess == nil || p.Preprocess.Scale != 256 || p.OutputName != "scores" ||
		p.Layout != simplify.ChannelsLast {
		t.Errorf("the results have %+v", p)
	}
	g, _ := must.Get2(simplify.Load(last, simplify.Options{}))(t)
	if slices.ContainsFunc(g.Nodes, func(n *onnx.Node) bool { return n.Op == "Transpose" }) {
		t.Error("Transposes that undo each other stay")
	}
}

// What is said of a model's input and output must fit it.
func TestWrongLayout(t *testing.T) {
	testinput.Runtime(t)
	path := asKeras(t, true)
	for options, words := range map[string]string{
		"output_name: logits":       `has no output "logits"; its outputs are features, scores`,
		"layout: nchw":              "the images have shape [3 32 32], the model takes [32 32 3]",
		"preprocess: {mean: [1,2]}": "mean has 2 values, the image 3 channels",
	} {
		text := strings.Replace(sparse, "  other:", fmt.Sprintf("  keras: {path: %s, %s}\n  other:", path, options), 1)
		p := testplan.Plan(t, text, 1, 8, "datasets.test.limit=1", "suites.some.models=[keras]")
		_, err := run.Run(t.Context(), p, run.Options{Out: t.TempDir()})
		misconfigured(t, err, words)
	}
}
