package open_test

import (
	"slices"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/open"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

// The other images are of other classes, or of the one to reach, the nearest first.
func TestOthers(t *testing.T) {
	testinput.Runtime(t)
	const config = testplan.Bundled + `
attacks: {pgd: {kind: pgd, norm: l2, epsilon: 0.5}}
suites: {s: {dataset: test, models: [robust], attacks: [pgd]}}`
	p := testplan.Plan(t, config, 1, 2, "datasets.test.limit=100")
	o := must.Get(open.New(p.Config, open.Options{}))(t)
	defer o.Close()
	b := must.Get(o.Job(t.Context(), p.Jobs[0]))(t)
	defer b.Close()
	im := must.Get(b.Set.Read(0))(t)
	for target, fits := range map[string]func(label int) bool{
		"":  func(label int) bool { return label != im.Label },
		"7": func(label int) bool { return label == 7 },
	} {
		recipe := must.Get(attacks.Setup{Kind: "pgd", Norm: attacks.L2, Target: target}.Make(0.5, 10))(t)
		all := must.Get(b.Set.Others(recipe, 10)(im))(t)
		last := 0.0
		for _, x := range all {
			label := -1
			for i := range b.Set.Len() {
				if o := must.Get(b.Set.Read(i))(t); slices.Equal(o.Pixels, x) {
					label = o.Label
				}
			}
			d := attacks.L2.Distance(x, im.Pixels)
			if !fits(label) || d < last {
				t.Errorf("target %q: class %d at %.2f after %.2f", target, label, d, last)
			}
			last = d
		}
		if len(all) != 8 {
			t.Errorf("target %q: %d images", target, len(all))
		}
	}
}
