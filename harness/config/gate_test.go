package config

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"selfheal/harness/cell"
	"selfheal/internal/must"
)

const gated = small + "gate: {max_drop: 1/100, alpha: 0.01, min: {aa-linf: 0.3, \"net/*/none\": 0.9}, fail_on: " +
	"[near-chance, zero-gradient], new_model: true, accept: [attacks.pgd.parameters]}\n"

func TestGate(t *testing.T) {
	if g := mustParse(t, small).Gate; g != nil {
		t.Errorf("a config without gate has %+v", g)
	}
	want := &Gate{MaxDrop: 0.01, Alpha: 0.01, Min: map[string]float64{"aa-linf": 0.3, "net/*/none": 0.9},
		FailOn: []string{"near-chance", "zero-gradient"}, NewModel: true, Accept: []string{"attacks.pgd.parameters"}}
	if g := mustParse(t, gated).Gate; !reflect.DeepEqual(g, want) {
		t.Errorf("%+v, want %+v", g, want)
	}
	g := mustParse(t, small, "gate.max_drop=0.05", "gate.min.aa-linf@2/255=0.5").Gate
	if g == nil || g.MaxDrop != 0.05 || g.Alpha != 0.05 || !reflect.DeepEqual(g.Min,
		map[string]float64{"aa-linf@2/255": 0.5}) {
		t.Errorf("by --set: %+v", g)
	}
}

// A file with rules in JSON must not bring in what a config refuses.
func TestGateCheck(t *testing.T) {
	for _, c := range []struct {
		change func(*Gate)
		want   string
	}{
		{func(g *Gate) {}, ""},
		{func(g *Gate) { g.Min, g.FailOn = nil, nil }, ""},
		{func(g *Gate) { g.MaxDrop = math.NaN() }, "NaN"},
		{func(g *Gate) { g.Alpha = 0.5 }, "alpha must be"},
		{func(g *Gate) { g.Alpha = 0.001 }, ""},
		{func(g *Gate) { g.Alpha = 1e-17 }, `alpha must be a number from 0.001 up and below 0.5, not "1e-17"`},
		{func(g *Gate) { g.Min["a//b"] = 1 }, `"a//b" does not name cells`},
		{func(g *Gate) { g.Min["a"] = 1.01 }, "min.a must be a number from 0 to 1"},
		{func(g *Gate) { g.FailOn = []string{"quick", "quick"} }, `"quick" is listed twice`},
		{func(g *Gate) { g.FailOn = []string{"slow"} }, `not the text "slow"`},
	} {
		g := DefaultGate()
		c.change(&g)
		err := g.Set()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
		if err == nil && (g.Min == nil || g.FailOn == nil) {
			t.Error("an absent list stays absent")
		}
	}
}

func TestCellPattern(t *testing.T) {
	const small, large = 2.0 / 255, 8.0 / 255
	for _, c := range []struct {
		pattern, suite, model, defense, attack string
		epsilon                                cell.Epsilon
		want                                   bool
	}{
		{"aa", "s", "m", "none", "aa", small, true}, {"aa", "s", "m", "msa", "aa", large, true},
		{"aa", "s", "m", "none", "ab", small, false},
		{"none", "s", "m", "msa", "none", 0, true}, {"*", "s", "m", "msa", "none", 0, true},
		{"msa/aa", "s", "m", "msa", "aa", small, true}, {"msa/aa", "s", "m", "none", "aa", small, false},
		{"*/aa", "s", "m", "none", "aa", small, true},
		{"m/none/*", "s", "m", "none", "aa", small, true}, {"m/none/*", "s", "n", "none", "aa", small, false},
		{"s/*/*/aa", "s", "n", "msa", "aa", small, true}, {"s/*/*/aa", "t", "n", "msa", "aa", small, false},
		{"aa@2/255", "s", "m", "none", "aa", small, true}, {"aa@2/255", "s", "m", "none", "aa", large, false},
		{"aa@2/255", "s", "m", "none", "aa", 0, false},
		{"s/m/none/aa@0.0314", "s", "m", "none", "aa", large, true},
		{"*@0.0314", "s", "m", "none", "aa", large, true}, {"*@0.0314", "s", "m", "none", "none", 0, false},
		{"pgd@10", "s", "m", "none", "pgd@10", small, true}, {"pgd@x", "s", "m", "none", "pgd@x", small, true},
		{"c", "s", "m", "none", "c:fog:3", 0, true}, {"c:fog", "s", "m", "none", "c:fog:3", 0, true},
		{"m/none/c:fog:3", "s", "m", "none", "c:fog:3", 0, true}, {"c:fo", "s", "m", "none", "c:fog:3", 0, false},
		{"c:snow", "s", "m", "none", "c:fog:3", 0, false}, {"d", "s", "m", "none", "c:fog:3", 0, false},
		{"heal:oblivious/pgd", "s", "m", "heal", "pgd", small, true},
		{"heal:whitebox-through/pgd", "s", "m", "heal", "pgd", small, false},
		{"*:oblivious/*", "s", "m", "heal", "pgd", small, true},
		{"*:transfer/*", "s", "m", "heal", "pgd", small, false},
		{"pgd@10@8/255", "s", "m", "none", "pgd@10", large, true},
	} {
		p := must.Get(ParseCellPattern(c.pattern))(t)
		if got := p.Matches(cell.ID{Suite: c.suite, Row: cell.Row{Model: c.model, Defense: c.defense},
			Mode: "oblivious", Column: cell.Column{Attack: c.attack, Epsilon: c.epsilon}}); got != c.want {
			t.Errorf("%s and %s/%s/%s/%s: %v", c.pattern, c.suite, c.model, c.defense, c.attack, got)
		}
	}
	for _, wrong := range []string{"", "/", "a/", "a b", "**", "@8/255"} {
		if p, err := ParseCellPattern(wrong); err == nil {
			t.Errorf("%q is taken as %+v", wrong, p)
		}
	}
}
