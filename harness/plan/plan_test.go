package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"selfheal/harness/plan"
	"selfheal/internal/must"
	"selfheal/internal/testplan"
)

// A plan that is too large for any machine is refused before it is made.
func TestTooLarge(t *testing.T) {
	const text = `
version: 1
datasets: {d: {format: npz, path: d.npz}}
models: {%s}
attacks: {f: {kind: fgsm, norm: linf, epsilon: [%s]}, p: {kind: patch, sides: [%s]}}
suites: {s: {dataset: d, models: [%s], attacks: [%s], mode: %s}}
`
	listed := func(n int, format string) string {
		var all []string
		for i := range n {
			all = append(all, strings.ReplaceAll(format, "#", fmt.Sprint(i+1)))
		}
		return strings.Join(all, ", ")
	}
	for _, c := range []struct {
		models, epsilons, sides int
		attacks, mode, sets     string
		wrong                   string
	}{
		{2, 2, 2, "f, p", "transfer", "seeds=2", ""},
		{1001, 1, 1, "f", "transfer", "seed=1", "the suites up to s have 1003002 cells"},
		{1000, 1, 1, "f", "oblivious", "seeds=1000", "have 1001000 cells"},
		{100, 9999, 1, "f, p", "oblivious", "seed=1", "have 1000100 cells"},
		{1, 10001, 1, "f", "oblivious", "seed=1", "attack f has 10001 epsilons and sides; 10000 are the most"},
		{1, 1, 10001, "p", "oblivious", "seed=1", "attack p has 10001 epsilons and sides"},
	} {
		cfg := testplan.Config(t, testplan.Repository(t), fmt.Sprintf(text, listed(c.models, "m#: {path: m.onnx}"),
			listed(c.epsilons, "#/99999"), listed(c.sides, "#"), listed(c.models, "m#"), c.attacks, c.mode), nil,
			c.sets)
		p, err := plan.New(cfg)
		if c.wrong != "" {
			must.Refuse(t, err, c.wrong)
			continue
		}
		// 2 models: clean and, for 2 seeds, 2 epsilons and 2 sides of 2 sources each.
		if must.Do(t, err); p.Cells() != 2*(1+2*(2+2)) {
			t.Errorf("%d cells", p.Cells())
		}
	}
}
