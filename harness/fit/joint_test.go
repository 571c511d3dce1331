package fit

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/models/onnx/simplify"
)

const joint = testplan.Bundled + `
controls:
  both:
    layers:
      - at: input
        embedding: {kind: autoencoder, fit: train, path: %[1]s/front.onnx, architecture: conv-ae, width: 2, epochs: 2,
          batch: 32, held_out: 4, models: [standard],
          objective: {kind: adversarial, norm: l2, epsilon: 0.3, joint: true}}
      - {at: last, embedding: {kind: along, path: %[1]s/features.onnx, architecture: mlp-ae, width: 4, weight: 0.02}}
attacks: {}
suites:
  s: {dataset: test, models: [standard], controls: [both], attacks: [], mode: oblivious}
`

// A joint training makes two files of one training, and makes both again, to the bit, if one is missing.
func TestJointFit(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	cfg := testplan.Config(t, testplan.Repository(t), fmt.Sprintf(joint, dir), nil)
	paths := []string{filepath.Join(dir, "front.onnx"), filepath.Join(dir, "features.onnx")}
	fit := func(kept bool) (files []string) {
		t.Helper()
		all := must.Get(Fit(t.Context(), cfg, Options{Control: "both"}))(t)
		for i, path := range paths {
			files = append(files, string(must.Get(os.ReadFile(path))(t)))
			if all[i].Path != path || all[i].Kept != kept {
				t.Errorf("%+v", all[i])
			}
		}
		return files
	}
	estimated := func(want int) {
		t.Helper()
		if all := must.Get(Estimate(t.Context(), cfg, "both"))(t); len(all) != want {
			t.Errorf("estimated are %+v", all)
		}
	}
	estimated(1)
	first := fit(false)
	ids, own := map[string]bool{}, []string{}
	for _, path := range paths {
		g, _ := must.Get2(simplify.Load(path, simplify.Options{}))(t)
		m := g.Meta
		ids[m["training"]], own = true, append(own, m["at"], m["weight"], m["begun_with"], m["reconstruction"])
	}
	if len(ids) != 1 || own[0] != "input" || own[4] == "input" || own[1] != "0.1" || own[5] != "0.02" ||
		own[2] != "architecture conv-ae" || own[6] != "architecture mlp-ae" || own[3] == own[7] {
		t.Errorf("trainings %v, of each embedding %q", ids, own)
	}
	estimated(0)
	fit(true)
	for i, path := range paths {
		must.Do(t, os.Remove(path))
		estimated(1)
		if again := fit(false); again[0] != first[0] || again[1] != first[1] {
			t.Errorf("without file %d other embeddings are trained", i)
		}
	}
	must.Do(t, os.Remove(paths[1]))
	other := testplan.Config(t, testplan.Repository(t), fmt.Sprintf(joint, dir), nil,
		"controls.both.layers.0.embedding.epochs=3")
	_, err := Fit(t.Context(), other, Options{Control: "both"})
	misconfigured(t, err, "front.onnx is of another training")
	must.Do(t, os.WriteFile(paths[1], []byte("mine"), 0o644))
	_, err = Fit(t.Context(), cfg, Options{Control: "both"})
	misconfigured(t, err, "features.onnx is there already and does not say")
	_, err = Fit(t.Context(), cfg, Options{Control: "both", Seeds: 2})
	misconfigured(t, err, "--seeds is for trainings of one embedding")
}
