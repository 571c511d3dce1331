package harness_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/config"
	"selfheal/harness/forecast"
	"selfheal/harness/gate"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
)

const bracketing = `
controls:
  kept: {solver: {method: greedy}, layers: [{at: input, embedding: {kind: identity}}]}
  rooted: {solver: {method: greedy}, layers: [{at: input, embedding: {kind: onnx, path: FOLDER/rooted.onnx}}]}
attacks:
  linf: {kind: bracket, norm: linf, budget: 5m, epsilon: [0.02, 0.1]}
  l2: {kind: bracket, norm: l2, budget: 5m}
  l1: {kind: bracket, norm: l1, budget: 5m}
  pgd: {kind: pgd, norm: linf, epsilon: 0.05, steps: 10}
suites:
  all: {dataset: test, models: [brightness], controls: [kept, rooted], attacks: [linf, l2, l1, pgd], mode: oblivious}
`

// On a network that is linear in its images the radius of each is known. Bounds prove it to a thousandth and attacks
// break the image there, in every norm; shards give the same. Without bounds nothing is proven.
func TestBracketOfALinearNetwork(t *testing.T) {
	testinput.NumbersAlone(t)
	text := linear(t, bracketing)
	plan := func(sets ...string) *plan.Plan {
		return testplan.Plan(t, text, 1, 4, append(sets, "datasets.test.limit=2")...)
	}
	f, records, _ := runFor(t, plan())
	part := []string{"suites.all.attacks=[linf]", "suites.all.controls=[kept]"}
	_, _, one := runFor(t, plan(part...))
	sameEnd(t, "merged", one, merged(t, plan(part...), 2))
	dual := map[string]float64{"linf": side * side, "l2": side, "l1": 1}
	told := 0
	for _, r := range records {
		norm := f.Attacks[r.Attack].Norm
		if (r.Proven != nil) != f.Attacks[r.Attack].Brackets() || r.Proven != nil && r.Broken == nil {
			t.Fatalf("%+v", r)
		}
		if r.Proven == nil || r.Defense == "rooted" && *r.Proven == 0 {
			continue
		}
		told++
		radius := max(*r.CleanMargin, 0) / 2 / dual[*norm]
		apart := float64(*r.Broken) - *r.Proven
		if *r.Proven > radius*(1+1e-5) || *r.Proven < radius*0.99-1e-4 || float64(*r.Broken) < radius*(1-1e-5) ||
			apart > 0.03*radius+1e-4 || r.Verdict != min(int(math.Ceil(radius)), 1) || r.Norm != 0 {
			t.Errorf("%s, image %d, %s: [%g, %g] of %g, verdict %d", r.Attack, r.Image, r.Defense, *r.Proven, *r.Broken,
				radius, r.Verdict)
		}
	}
	if told < 10 {
		t.Errorf("%d records", told)
	}
	for _, c := range f.Cells {
		if !f.Attacks[c.Attack].Brackets() {
			continue
		}
		sum, proven, left := 0.0, 0, 0
		for _, r := range records {
			if r.Attack == c.Attack && r.Defense == c.Defense {
				sum += float64(*r.Broken) - *r.Proven
				if r.Verdict == 1 && *r.Proven >= 0.02 {
					proven++
				}
				if r.Verdict == 1 && *r.Broken > 0.02 {
					left++
				}
			}
		}
		noBounds := slices.ContainsFunc(c.Warnings, func(w result.Warning) bool { return w.ID == "not-bounded" })
		if c.Epsilon != 0 || c.Area == nil || math.Abs(*c.Area-sum/float64(c.N)) > 1e-9 ||
			noBounds != (c.Defense == "rooted") || len(c.Brackets) != len(f.Attacks[c.Attack].Epsilons) {
			t.Errorf("%+v", c)
		} else if b := c.Brackets; c.Attack == "linf" && (b[0].Proven != proven || b[0].Left != left) {
			t.Errorf("%s: %+v, not %d and %d", c.Defense, b, proven, left)
		}
	}
	must.Get(gate.NewBaseline(f, config.DefaultGate()))(t)
	must.Have(t, must.Get(forecast.Describe(testplan.Plan(t, text, 1, 4), nil, nil))(t),
		"bracket/4, linf: 5m0s for each image and defense\n")
}

// All images share the budget, and results found within it count.
func TestBracketEndsWithItsBudget(t *testing.T) {
	text := strings.ReplaceAll(linear(t, bracketing), "5m", "1ms")
	f, records, _ := runFor(t, testplan.Plan(t, text, 1, 4))
	for _, c := range f.Cells {
		if f.Attacks[c.Attack].Brackets() && c.Seconds > 5 {
			t.Errorf("%s took %g s", c.Attack, c.Seconds)
		}
	}
	for _, r := range records {
		if r.Proven != nil && r.Broken != nil && float64(*r.Broken) < *r.Proven {
			t.Errorf("%+v", r)
		}
	}
}

func TestBracketIsRefused(t *testing.T) {
	t.Parallel()
	for set, words := range map[string]string{
		"attacks.linf.budget=10":              "a length of time, such as 10s or 1m30s",
		"attacks.linf.budget=-3s":             "a length of time",
		"attacks.l2.norm=l0":                  "bracket exists only in linf, l2 and l1, not in l0",
		"attacks.linf.epsilon=[2]":            "in linf nothing is farther than 1",
		"attacks.linf.pixels=8bit":            "pixels can't be given with kind bracket",
		"attacks.pgd={kind: pgd, norm: linf}": `attacks.pgd lacks the key "epsilon"`,
	} {
		_, err := config.Parse("test.yaml", []byte(testplan.Bundled+bracketing), testplan.Repository(t), set,
			"suites.all.models=[robust]")
		must.Refuse(t, err, words)
	}
}
