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
	ids, places := map[string]bool{}, []string{}
	for _, path := range paths {
		g, _ := must.Get2(simplify.Load(path, simplify.Options{}))(t)
		ids[g.Meta["training"]], places = true, append(places, g.Meta["at"])
	}
	if len(ids) != 1 || places[0] != "input" || places[1] == "input" {
		t.Errorf("trainings %v at %v", ids, places)
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
	_, err := Fit(t.Context(), cfg, Options{Control: "both", Seeds: 2})
	misconfigured(t, err, "--seeds is for trainings of one embedding")
}
