package harness

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"testing"

	"selfheal/harness/config"
	"selfheal/internal/testinput"
)

// On a real network and real images AutoAttack's standard version gives what the
// reference implementation gives, in all three norms: the accuracy after every
// component within 1.5 points, and at least 98 % of the images' verdicts.
func TestAutoAttackAgreesWithTheReference(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute of attacks")
	}
	path := testinput.Real(t, "config.yaml")
	data, err := os.ReadFile(testinput.Real(t, "reference.json"))
	if err != nil {
		t.Fatal(err)
	}
	var reference map[string]json.RawMessage
	if err := json.Unmarshal(data, &reference); err != nil {
		t.Fatal(err)
	}
	var byNorm map[string]struct {
		N     int
		Flags string
		Steps []struct {
			Attack string
			Robust float64
		}
	}
	if err := json.Unmarshal(reference["resnet_2b"], &byNorm); err != nil {
		t.Fatal(err)
	}
	testinput.Runtime(t)
	cfg, err := config.Load(path, "suites.real.controls=[]")
	if err != nil {
		t.Fatal(err)
	}
	if cfg, err = cfg.Selected([]string{"real"}); err != nil {
		t.Fatal(err)
	}
	p, err := NewPlan(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f, _, err := Run(context.Background(), p, Options{Out: t.TempDir(), Progress: NewProgress(nil, true)})
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, c := range f.Cells {
		if c.Norm == nil {
			continue
		}
		want := byNorm[*c.Norm]
		if len(c.Verdicts) != want.N || len(c.Steps) != len(want.Steps) {
			t.Fatalf("%s: %d images and %d steps, the reference has %d and %d", c.Attack, len(c.Verdicts), len(c.Steps), want.N, len(want.Steps))
		}
		for i, s := range c.Steps {
			if s.Attack != want.Steps[i].Attack || math.Abs(s.Robust-want.Steps[i].Robust) > 0.015 {
				t.Errorf("%s after %s: %.3f, the reference has %.3f after %s", c.Attack, s.Attack, s.Robust, want.Steps[i].Robust, want.Steps[i].Attack)
			}
		}
		same := 0
		for i := range c.Verdicts {
			if c.Verdicts[i] == want.Flags[i] {
				same++
			}
		}
		if float64(same) < 0.98*float64(want.N) {
			t.Errorf("%s: %d of %d verdicts agree with the reference", c.Attack, same, want.N)
		}
		compared++
	}
	if compared != 3 {
		t.Errorf("%d norms compared", compared)
	}
}
