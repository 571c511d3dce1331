package gate

import (
	"testing"

	"selfheal/harness/config"
	"selfheal/harness/result"
	"selfheal/internal/must"
)

// corrupted returns a file whose PGD cells belong to a corruption at two severities.
func corrupted(ones int) *result.File {
	f := file(100, same(ones, 100)...)
	f.Attacks["c"] = result.Attack{Kind: "corruption", Recipe: "corruption/1", Epsilons: []float64{},
		Parameters: result.Parameters{"names": []string{"fog"}, "severities": []int{1, 3}}}
	f.Suites[0].Attacks = []string{"c"}
	for i := range f.Cells {
		if c := &f.Cells[i]; c.Attack != "none" {
			c.Attack = map[string]string{"aa": "c:fog:1", "pgd": "c:fog:3"}[c.Attack]
			c.Norm, c.Epsilon, c.Recipe = nil, 0, "corruption/1"
		}
	}
	return f
}

// Cells of corruptions, without norm and epsilon, are compared like others, and a baseline keeps their settings.
func TestCorruptions(t *testing.T) {
	base := must.Get(NewBaseline(corrupted(80), config.DefaultGate()))(t)
	r := must.Get(Compare(t.Context(), base, corrupted(80), config.DefaultGate()))(t)
	if len(r.Cells) != 6 {
		t.Errorf("%d cells", len(r.Cells))
	}
	for want, change := range map[string]func(f *result.File){
		"attacks.c.parameters.severities": func(f *result.File) {
			f.Attacks["c"].Parameters["severities"] = []int{1, 4}
		},
		"c:fog:3":                 func(f *result.File) { f.Cells = f.Cells[:len(f.Cells)-1] },
		"a corruption its recipe": func(f *result.File) { f.Cells[5].Attack = "pgd" }, // pgd has a norm
	} {
		f := corrupted(80)
		change(f)
		_, err := Compare(t.Context(), base, f, config.DefaultGate())
		must.Refuse(t, err, want)
	}
}
