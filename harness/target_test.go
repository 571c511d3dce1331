package harness_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/open"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testplan"
)

// Under an attack with a target an image is broken where the network's own answer to the saved image is the target, and
// nowhere else; images of the target's class stand as clean ones do. Under a control, too, only the target breaks one.
func TestTargets(t *testing.T) {
	own := make([]int, 256) // of the whole file's images
	var lines strings.Builder
	for id := range own {
		own[id] = id * 7 % 10
		fmt.Fprintln(&lines, own[id])
	}
	list := filepath.Join(t.TempDir(), "targets.txt")
	must.Do(t, os.WriteFile(list, []byte(lines.String()), 0o600))
	p := testplan.Plan(t, testplan.Bundled+`
save_adversarial: true
controls:
  pca: {solver: {method: greedy}, layers: [{at: input, embedding: {kind: linear, fit: train, rank: 8}}]}
attacks:
  next: {kind: pgd, norm: linf, epsilon: 0.08, steps: 5, target: next}
  third: {kind: fmn, norm: l2, epsilon: [0.5, 4], steps: 20, target: 3}
  own: {kind: apgd-ce, norm: linf, epsilon: 0.08, steps: 5, target: file}
suites:
  all: {dataset: test, models: [standard], controls: [pca], attacks: [next, third, own], mode: oblivious}
`, 2, 8, "datasets.test.limit=15", "datasets.test.targets="+list)
	f, records, out := runFor(t, p)
	opener := must.Get(open.New(p.Config, open.Options{}))(t)
	defer opener.Close()
	job := must.Get(opener.Job(t.Context(), p.Jobs[0]))(t)
	defer job.Close()
	must.Do(t, job.Defend(t.Context(), true))
	clean := map[string][]result.Record{}
	for _, r := range records {
		if r.Attack == "none" {
			clean[r.Defense] = append(clean[r.Defense], r)
		}
	}
	at, reached, elsewhere := map[string]int{}, 0, 0
	for _, r := range records {
		if r.Attack == "none" {
			continue
		}
		cell := r.ID
		i := at[cell.Name()]
		at[cell.Name()]++
		files := must.Get(filepath.Glob(filepath.Join(out, "adversarial", "all_standard_"+r.Attack+"_"+
			r.Epsilon.String()+"_*")))(t)
		if len(files) != 1 {
			t.Fatalf("%s: %d files", cell.Name(), len(files))
		}
		shape, x := must.Get2(dataset.ReadArray(config.Folder("/"), files[0]))(t)
		size := len(x) / shape[0]
		z := must.Get(job.Classifier(r.Defense).Logits(t.Context(), x[i*size:(i+1)*size]))(t)
		target := map[string]int{"next": (r.Label + 1) % 10, "third": 3, "own": own[r.Image]}[r.Attack]
		if p := attacks.Confidence(z, attacks.Argmax(z)); math.Abs(p-r.Confidence) > 1e-6 {
			t.Errorf("%s, image %d: confidence %v, want %v", cell.Name(), r.Image, r.Confidence, p)
		}
		class, before := attacks.Argmax(z), clean[r.Defense][i].Verdict
		changed := r.Norm > 0
		want := before
		if changed {
			if want = 1; class == target {
				want = 0
			}
		}
		if r.Verdict != want || changed && (r.Margin > 0) != (want == 1) || target == r.Label && changed {
			t.Errorf("%s, image %d of class %d: verdict %d, class %d, target %d, clean %d, margin %v", cell.Name(),
				r.Image, r.Label, r.Verdict, class, target, before, r.Margin)
		}
		switch {
		case changed && class == target:
			reached++
		case changed:
			elsewhere++
		}
		if r.Defense == "none" && changed && class != target {
			t.Errorf("%s, image %d: kept, although it is no success", cell.Name(), r.Image)
		}
	}
	if reached < 10 || elsewhere == 0 {
		t.Errorf("%d images reached the target, %d do not under the control", reached, elsewhere)
	}
	if a := f.Attacks["next"]; a.Recipe != "pgd/1+target-next" || a.Title != "PGD-5, towards the next class" {
		t.Errorf("recipe %s, title %s", a.Recipe, a.Title)
	}
	_, err := open.RecipeFor(must.Get(plan.Trials(&config.Attack{Name: "x", Epsilons: []float64{.1},
		Setup: attacks.Setup{Kind: "pgd", Target: "10"}}))(t)[0], job.Net)
	must.Refuse(t, err, "target 10 is no class of a model of 10")
}
