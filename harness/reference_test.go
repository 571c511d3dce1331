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

// On two real networks and real images AutoAttack's standard version gives what
// the reference implementation gives, in all three norms: the accuracy after every
// component within 1 point, and at least 99 % of the images' verdicts.
func TestAutoAttackAgreesWithTheReference(t *testing.T) {
	if testing.Short() {
		t.Skip("minutes of attacks")
	}
	path := testinput.Real(t, "config.yaml")
	data, err := os.ReadFile(testinput.Real(t, "reference.json"))
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		N     int
		Flags string
		Steps []struct {
			Attack string
			Robust float64
		}
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		t.Fatal(err)
	}
	reference := map[string]map[string]result{}
	for model, key := range map[string]string{"resnet-2b": "resnet_2b", "rn18w16-standard": "rn18w16_standard"} {
		byNorm := map[string]result{}
		if err := json.Unmarshal(raw[key], &byNorm); err != nil {
			t.Fatal(err)
		}
		reference[model] = byNorm
	}
	testinput.Runtime(t)
	cfg, err := config.Load(path, "suites.real.controls=[]", "suites.standard.controls=[]")
	if err != nil {
		t.Fatal(err)
	}
	if cfg, err = cfg.Selected([]string{"real", "standard"}); err != nil {
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
		want := reference[c.Model][*c.Norm]
		if len(c.Verdicts) != want.N || len(c.Steps) != len(want.Steps) {
			t.Fatalf("%s, %s: %d images and %d steps, the reference has %d and %d", c.Model, c.Attack, len(c.Verdicts),
				len(c.Steps), want.N, len(want.Steps))
		}
		for i, s := range c.Steps {
			if s.Attack != want.Steps[i].Attack || math.Abs(s.Robust-want.Steps[i].Robust) > 0.01+1e-9 {
				t.Errorf("%s, %s after %s: %.3f, the reference has %.3f after %s", c.Model, c.Attack, s.Attack,
					s.Robust, want.Steps[i].Robust, want.Steps[i].Attack)
			}
		}
		same := 0
		for i := range c.Verdicts {
			if c.Verdicts[i] == want.Flags[i] {
				same++
			}
		}
		if float64(same) < 0.99*float64(want.N) {
			t.Errorf("%s, %s: %d of %d verdicts agree with the reference", c.Model, c.Attack, same, want.N)
		}
		compared++
	}
	if compared != 6 {
		t.Errorf("%d cells compared, want two networks in three norms", compared)
	}
}
