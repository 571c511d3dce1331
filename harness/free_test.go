package harness_test

import (
	"path/filepath"
	"slices"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/gate"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testplan"
)

const free = testplan.Bundled + `
controls:
  pca: {solver: {method: greedy}, layers: [{at: last, embedding: {kind: linear, fit: train, rank: 4}}]}
attacks:
  turn: {kind: spatial, rotation: 60, translation: 4, queries: 30}
  square: {kind: patch, sides: [3, 5], steps: 4}
suites:
  told: {dataset: test, models: [robust], controls: [pca], attacks: [turn, square], save_adversarial: true,
         mode: oblivious}
  white: {dataset: test, models: [robust], controls: [pca], attacks: [turn, square], mode: whitebox-through}
`

// Attacks without norm and epsilon make cells without them: one for each side of a patch. Saved images are the clean
// ones, turned and shifted as records say, or changed in such a square.
func TestAttacksWithoutNorm(t *testing.T) {
	p := testplan.Plan(t, free, 2, 8)
	f, records, out := runFor(t, p)
	names := []string{"turn", "square:3", "square:5"}
	if len(f.Cells) != 16 || f.Attacks["square"].Norm != nil || len(f.Attacks["square"].Epsilons) > 0 {
		t.Errorf("%d cells, %+v", len(f.Cells), f.Attacks["square"])
	}
	for _, c := range f.Cells {
		if c.Error != "" || c.Norm != nil || c.Epsilon != 0 ||
			(c.Attack != "none") != slices.Contains(names, c.Attack) {
			t.Errorf("%+v", c)
		}
	}
	set := must.Get(dataset.Open(p.Config.Dataset("test").Spec, testplan.Repository(t), 0))(t)
	defer set.Close()
	moved, changed := 0, 0
	for i, name := range names {
		files := must.Get(filepath.Glob(filepath.Join(out, "adversarial", "told_robust_"+[]string{"turn", "square-3",
			"square-5"}[i]+"_0_*")))(t)
		if len(files) != 1 {
			t.Fatalf("%s: %d files", name, len(files))
		}
		_, saved, err := dataset.ReadArray(config.Folder("/"), files[0])
		must.Do(t, err)
		of := slices.DeleteFunc(slices.Clone(records), func(r result.Record) bool {
			return r.Suite != "told" || r.Defense != "none" || r.Attack != name
		})
		for k := range set.Len() {
			_, pixels, _, err := set.Image(k)
			must.Do(t, err)
			shape := attacks.Shape{C: set.Shape()[0], H: set.Shape()[1], W: set.Shape()[2]}
			x := saved[k*len(pixels) : (k+1)*len(pixels)]
			if r := of[k]; r.Rotation != nil {
				moved++
				pose := attacks.Pose{Rotation: *r.Rotation, X: r.Translation[0], Y: r.Translation[1]}
				if most := (attacks.Pose{Rotation: 60, X: 4, Y: 4}); !slices.Equal(pose.Move(pixels, shape), x) ||
					!most.Holds(pose) || r.Verdict == 1 || name != "turn" {
					t.Errorf("%s, image %d: not moved by %+v, verdict %d", name, k, pose, r.Verdict)
				}
			} else if far := p.Jobs[0].Trials[i].Within(); !slices.Equal(pixels, x) {
				changed++
				_, err := far.Measure(pixels, x, shape)
				must.Do(t, err)
			}
		}
	}
	if moved == 0 || changed == 0 {
		t.Errorf("%d images moved, %d changed", moved, changed)
	}
	sameAnywhere(t, p, testplan.Plan(t, free, 1, 3), out)
	must.Get(gate.NewBaseline(f, config.DefaultGate()))(t)
}

// Attacks without a norm refuse the keys that others have for it.
func TestAttacksWithoutNormAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ set, words string }{
		{"attacks.turn.norm=linf", "norm can't be given with kind spatial: it has no norm and no epsilon"},
		{"attacks.square.pixels=8bit", "pixels can't be given with kind patch"},
		{"attacks.square.sides=[4, 4]", "\"4\" is listed twice"},
		{"attacks.square.sides=0", "a whole number from 1 up"},
		{"attacks.square.side=4", "unknown key"},
		{"suites.told.solver={attack: turn}", "turn is of kind spatial, a study takes an attack with one epsilon"},
	} {
		_, err := config.Parse("test.yaml", []byte(free), testplan.Repository(t), c.set,
			"controls.pca.solver.method=msa")
		must.Refuse(t, err, c.words)
	}
}
