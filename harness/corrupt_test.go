package harness_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/forecast"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

const corruptions = testplan.Bundled + `
controls:
  pca: {solver: {method: greedy}, layers: [{at: last, embedding: {kind: linear, fit: train, rank: 4}}]}
attacks:
  weather: {kind: corruption, names: [fog, contrast], severities: [2, 5]}
suites:
  told: {dataset: test, models: [other], controls: [pca], attacks: [weather], save_adversarial: true, mode: oblivious}
  white: {dataset: test, models: [other], controls: [pca], attacks: [weather], mode: whitebox-through}
`

// Every corruption and severity is a cell without norm and epsilon. In every mode, every classifier answers on the
// same pixels: the corruption of each image, right or wrong, under the seed.
func TestCorruptions(t *testing.T) {
	p := testplan.Plan(t, corruptions, 2, 8, "models.other.path="+tiny(t, 300))
	f, records, out := runFor(t, p)
	names := []string{"weather:fog:2", "weather:fog:5", "weather:contrast:2", "weather:contrast:5"}
	set := must.Get(dataset.Open(p.Config.Dataset("test").Spec, testplan.Repository(t), 0))(t)
	defer set.Close()
	verdicts := map[string]string{} // by defense and attack
	for _, c := range f.Cells {
		if !strings.Contains(c.Attack, ":") {
			continue
		}
		if c.Norm != nil || c.Epsilon != 0 || c.Recipe != "corruption/1" || len(c.Steps) > 0 || c.Error != "" {
			t.Errorf("%+v", c)
		}
		key := c.Defense + c.Attack
		if before, ok := verdicts[key]; ok && before != c.Verdicts {
			t.Errorf("%s, %s: %s in one mode, %s in another", c.Defense, c.Attack, before, c.Verdicts)
		}
		verdicts[key] = c.Verdicts
	}
	if len(verdicts) != 2*len(names) || len(f.Cells) != 4*(1+len(names)) {
		t.Errorf("%d cells, %d of corruptions", len(f.Cells), len(verdicts))
	}
	for i, c := range p.Config.Attack("weather").Corruptions {
		files := must.Get(filepath.Glob(filepath.Join(out, "adversarial", "told_other_weather-"+strings.ReplaceAll(
			c.String(), ":", "-")+"_*")))(t)
		if len(files) != 1 {
			t.Fatalf("%s: %d files", c, len(files))
		}
		_, saved, err := dataset.ReadArray(config.Folder("/"), files[0])
		must.Do(t, err)
		size := len(saved) / set.Len()
		of := slices.DeleteFunc(slices.Clone(records), func(r result.Record) bool {
			return r.Suite != "told" || r.Defense != "pca" || r.Attack != names[i]
		})
		for k := range set.Len() {
			id, pixels, label, err := set.Image(k)
			must.Do(t, err)
			want := must.Get(c.Apply(attacks.Image{ID: id, Pixels: pixels}, 3))(t)
			if !slices.Equal(saved[k*size:(k+1)*size], want) {
				t.Errorf("%s: image %d is another one than the corruption makes", c, id)
			}
			if r := of[k]; r.Norm != attacks.Linf.Distance(pixels, want) || r.FirstSuccess != nil || r.Epsilon != 0 ||
				r.Label != label {
				t.Errorf("%+v", r)
			}
		}
	}
	sameAnywhere(t, p, testplan.Plan(t, corruptions, 1, 3, "models.other.path="+p.Config.Model("other").Path), out)
}

// The plan lists corruptions in a line each, their cells can be verified, and the error for images that can't be
// corrupted is one line.
func TestCorruptionsAreTold(t *testing.T) {
	testinput.Runtime(t)
	path := tiny(t, 300)
	p := testplan.Plan(t, corruptions, 2, 8, "models.other.path="+path,
		"suites.told.published={other: {weather: [50, 51], none: [60, 61]}}")
	text := must.Get(forecast.Describe(p, nil, nil))(t)
	for _, want := range []string{"weather:fog ", "severities 2, 5", "4 of the 4 numbers of the config"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	and := strings.Replace(corruptions, "attacks:\n", "attacks:\n  short: {kind: fgsm, norm: linf, epsilon: 0.1}\n", 1)
	behind := testplan.Plan(t, and, 2, 8, "models.other.path="+path, "suites.told.attacks=[weather, short]")
	must.Have(t, must.Get(forecast.Describe(behind, nil, nil))(t), "weather:fog ", "  short ")
	for _, c := range []struct{ set, words string }{
		{"attacks.weather.names=[rain]", "names[0] must be one of gaussian_noise"},
		{"attacks.weather.severities=6", "a whole number from 1 to 5"},
		{"attacks.weather.epsilon=1", "epsilon can't be given with kind corruption"},
		{"suites.told.solver={attack: weather}",
			"weather is of kind corruption, a study takes an attack with one epsilon"},
	} {
		_, err := config.Parse("test.yaml", []byte(corruptions), testplan.Repository(t), c.set,
			"controls.pca.solver.method=msa")
		must.Refuse(t, err, c.words)
	}
}
