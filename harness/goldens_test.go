package harness_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/harness/config"
	"selfheal/harness/plan"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// golden is what another library makes of an attack: scripts/goldens_attacks.py writes it.
type golden struct {
	kind       string // of attack
	Model      string
	N          int
	Library    string
	Norm       attacks.Norm
	Epsilon    float64
	Parameters map[string]any
	Flags      string     // a character an image: '1' where no iterate is misclassified
	Norms      []*float64 // of the perturbations; null where there is none
}

// TestAttacksAgreeWithOtherLibraries runs the attacks that have a golden on real networks and the
// first 50 images, with SELFHEAL_TEST_LARGE on all 100: at least 98 % of the verdicts are equal, and
// 95 % of the norms to 1 %.
func TestAttacksAgreeWithOtherLibraries(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute of attacks")
	}
	path := testinput.Real(t, "config.yaml")
	testinput.Runtime(t)
	var cases []golden
	for _, s := range attacks.Specs {
		data, err := os.ReadFile(filepath.Join("..", "attacks", "testdata", s.Kind+".json"))
		if os.IsNotExist(err) {
			continue
		}
		var file struct{ Cases []golden }
		if err := json.Unmarshal(data, &file); err != nil || len(file.Cases) == 0 {
			t.Fatalf("%s: %d cases, %v", s.Kind, len(file.Cases), err)
		}
		for _, c := range file.Cases {
			if c.kind = s.Kind; !testinput.Large() {
				c.N = 50
				c.Flags, c.Norms = c.Flags[:min(c.N, len(c.Flags))], c.Norms[:min(c.N, len(c.Norms))]
			}
			cases = append(cases, c)
		}
	}
	for attack, records := range attacked(t, path, cases) {
		cases[attack].compare(t, records)
	}
}

// attacked makes each case's attack on its network, in one run that opens each network once.
func attacked(t *testing.T, path string, cases []golden) [][]result.Record {
	t.Helper()
	cfg := must.Get(config.Load(path))(t)
	cfg.Limit, cfg.Suites, cfg.DefaultSuites = cases[0].N, nil, nil
	for i, c := range cases {
		setup := attacks.Setup{Kind: c.kind, Norm: c.Norm, Parameters: c.Parameters}
		name := fmt.Sprint(i)
		cfg.Attacks = append(cfg.Attacks, config.Attack{Name: name, Setup: setup, Epsilons: []float64{c.Epsilon}})
		if !slices.Contains(cfg.DefaultSuites, c.Model) {
			cfg.Suites = append(cfg.Suites, config.Suite{Name: c.Model, Dataset: "cifar10-test",
				Models: []string{c.Model}, Mode: result.Oblivious})
			cfg.DefaultSuites = append(cfg.DefaultSuites, c.Model)
		}
		suite := &cfg.Suites[slices.Index(cfg.DefaultSuites, c.Model)]
		suite.Attacks = append(suite.Attacks, name)
	}
	_, records, _ := runFor(t, must.Get(plan.New(must.Get(cfg.Selected(nil))(t)))(t))
	made := make([][]result.Record, len(cases))
	for _, r := range records {
		for i := range cases {
			if r.Attack == fmt.Sprint(i) {
				made[i] = append(made[i], r)
			}
		}
	}
	return made
}

func (g golden) compare(t *testing.T, records []result.Record) {
	t.Helper()
	what := fmt.Sprintf("%s, %s, %v %.4g", g.kind, g.Model, g.Norm, g.Epsilon)
	if len(records) != g.N || max(len(g.Flags), len(g.Norms)) != g.N {
		t.Fatalf("%s: %d images, %s has %d", what, len(records), g.Library, max(len(g.Flags), len(g.Norms)))
	}
	equal, needed := 0, 98
	var differ []string
	for i, r := range records {
		ours, theirs := fmt.Sprint(r.Verdict), ""
		same := false
		if g.Flags != "" {
			theirs = g.Flags[i : i+1]
			same = ours == theirs
		} else {
			needed = 95
			mine, other := norm(r), math.Inf(1)
			if g.Norms[i] != nil {
				other = *g.Norms[i]
			}
			ours, theirs = fmt.Sprintf("%.6g", mine), fmt.Sprintf("%.6g", other)
			same = mine == other || math.Abs(mine-other) <= 0.01*other
		}
		if same {
			equal++
		} else {
			differ = append(differ, fmt.Sprintf("image %d: %s, not %s", r.Image, ours, theirs))
		}
	}
	t.Logf("%s: %d of %d images as in %s", what, equal, g.N, g.Library)
	if 100*equal < needed*g.N {
		t.Errorf("%s: %d of %d images as in %s, want %d %%\n%s", what, equal, g.N, g.Library, needed,
			strings.Join(differ, "\n"))
	}
}

// norm is that of the smallest perturbation found; 0 where none was needed, +Inf if there is none.
func norm(r result.Record) float64 {
	switch {
	case r.Distance != nil:
		return *r.Distance
	case r.Verdict == 0 && r.FirstSuccess == nil:
		return 0
	}
	return math.Inf(1)
}
