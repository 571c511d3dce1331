package forecast

import (
	"strings"
	"testing"
	"testing/fstest"

	"selfheal/attacks"
	"selfheal/harness/plan"
	"selfheal/internal/must"
	"selfheal/internal/testplan"
)

// countedConfig is small enough to count by hand: PGD makes 4 steps, so at most 5 forward and
// 4 backward passes an image.
const countedConfig = `
version: 1
datasets:
  images: {format: npz, path: images.npz, limit: 30, classes: 7}
models:
  rn-18: {path: a.onnx}
  rn-34: {path: b.onnx}
controls:
  loop: {solver: {method: greedy}, layers: [{at: input, embedding: {kind: onnx, path: e.onnx}}]}
  more: {solver: {method: greedy}, layers: [{at: last, embedding: {kind: onnx, path: e.onnx}}]}
attacks:
  pgd: {kind: pgd, norm: linf, epsilon: 8/255, steps: 4}
suites:
  first: {dataset: images, models: [rn-18, rn-34], controls: [loop, more], attacks: [pgd], mode: oblivious,
          published: {rn-18: {none: [90, 80], pgd: [10, null]}}}
  again: {dataset: images, models: [rn-18], attacks: [pgd]}
  through: {dataset: images, models: [rn-18], controls: [loop], attacks: [pgd], mode: whitebox-through}
  repeated: {dataset: images, models: [rn-18], controls: [loop], attacks: [pgd], mode: whitebox-through}
`

func describe(t *testing.T, rates map[string]float64, limit int, suites ...string) string {
	t.Helper()
	cfg := testplan.Config(t, fstest.MapFS{}, countedConfig, suites)
	cfg.Limit = limit
	p := must.Get(plan.New(cfg))(t)
	return must.Get(Describe(p, rates, nil))(t)
}

// contains checks for texts in their order.
func contains(t *testing.T, text string, want ...string) {
	t.Helper()
	rest := text
	for _, w := range want {
		_, after, ok := strings.Cut(rest, w)
		if !ok {
			t.Errorf("no %q at its place in\n%s", w, text)
			continue
		}
		rest = after
	}
}

// Without any file a description still says what was assumed, marks cells without a published number and counts every
// pass once.
func TestDescribe(t *testing.T) {
	f, g := int64(0), int64(0)
	p := must.Get(plan.New(testplan.Config(t, fstest.MapFS{}, countedConfig, nil)))(t)
	r := must.Get(p.Jobs[0].Trials[0].Recipe(7, attacks.AnyShape))(t)
	for _, c := range r.Components {
		cf, cg := c.Passes(7)
		f, g = f+int64(cf), g+int64(cg)
	}
	if f < 4 || g != 4 {
		t.Fatalf("PGD-4 makes %d forward and %d backward passes", f, g)
	}

	text := describe(t, nil, 0, "first")
	contains(t, text,
		"suite first, model rn-18, 30 images of images, oblivious\n",
		"an estimate, as images.npz is absent (30 images as the config says) and a.onnx is absent (7 classes as "+
			"the data set)\n",
		"none (clean)             defenses: none, loop, more (extra)\n",
		"defenses: none, loop (extra), more (extra); pgd/1, linf, epsilon 8/255: at most "+count(30*f)+" forward, "+
			count(30*g)+" backward\n",
		"model rn-34", "defenses: none (extra), loop (extra), more (extra)\n",
		"suite first: 12 cells, 3 of the 3 numbers of the config, 9 extra; at most "+count(60*f)+" forward and "+
			count(60*g)+" backward passes of one image; controlled passes: 240\n",
		"12 cells; attacks: at most "+count(60*f)+" forward", "time: no rate is known",
	)

	// The second suite attacks the first's network again; the third attacks a controlled network, and the fourth that
	// one again.
	text = describe(t, map[string]float64{"": 0.5, "rn-34": 1}, 10, "first", "again", "through",
		"repeated")
	contains(t, text, "10 images as --limit says", "suite again", ", made once with suite first\n", "suite through",
		", made once with suite first\n", "suite repeated",
		"22 cells; attacks: at most "+count(20*f)+" forward and "+count(20*g)+" backward passes of one image; "+
			"controlled passes: "+count(10*(2*2*2)+2*10*2+10*(f+g))+"\n",
		"time: at most "+
			Duration(float64(10*(2+f+g))/0.5+float64(10*(2+f+g))+3*float64(10*2)/0.5)+
			" at the given rates")
	contains(t, describe(t, map[string]float64{"rn-34": 1}, 10, "first"),
		"time: no rate is known for rn-18; the others: at most ")
	both := must.Get(plan.New(testplan.Config(t, fstest.MapFS{}, countedConfig, []string{"first"},
		"suites.first.mode=null")))(t)
	contains(t, must.Get(Describe(both, nil, nil))(t), ", oblivious, whitebox-through\n",
		"suite first: 16 cells, 3 of the 3 numbers of the config, 13 extra; ", "\n16 cells; ")
	bare := must.Get(plan.New(testplan.Config(t, fstest.MapFS{}, countedConfig, []string{"first"},
		"suites.first.controls=null",
		"suites.first.published=null")))(t)
	contains(t, must.Get(Describe(bare, nil, nil))(t), "suite first, model rn-18, 30 images of images, whitebox\n")
}

// Published numbers without a cell are named.
func TestDescribeNamesWhatIsNotRun(t *testing.T) {
	text := strings.Replace(countedConfig, "published: {rn-18: {none: [90, 80], pgd: [10, null]}}", "published: table7",
		1)
	p := must.Get(plan.New(testplan.Config(t, fstest.MapFS{}, text, []string{"first"}, "suites.first.models=[rn-18]",
		"attacks.pgd.epsilon=2/255")))(t)
	got := must.Get(Describe(p, nil, nil))(t)
	// Clean images alone give the table's cells: none and loop of RN-18.
	contains(t, got, "suite first: 6 cells, 2 of the 18 numbers of table7, 4 extra; not run: rn-18 / none / pgd-linf, ",
		"rn-18 / loop / aa-linf, RN-34, RN-50; at most ")
}
