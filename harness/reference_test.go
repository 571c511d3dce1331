package harness_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"selfheal/harness/config"
	"selfheal/harness/plan"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// reference is what the reference AutoAttack, version standard, gives on a model in a norm.
type reference struct {
	Model, Norm string
	N           int
	Flags       string // a character an image: 1 is right and never broken
	Steps       []struct {
		Attack string
		Robust float64
	}
}

// On the bundled networks, in three norms, AutoAttack's verdicts are the reference's: all of 114 but one, with
// SELFHEAL_TEST_LARGE 99.5 % of 1,200, and then the accuracy after every component. The 19 images are the robust
// network's that APGD-CE does not break and AutoAttack does, in some norm, and two that it is wrong on.
func TestAutoAttackAgreesOnBundledNetworks(t *testing.T) {
	var file struct{ Cases []reference }
	read(t, "../models/zoo/reference.json", &file)
	agrees(t, "../config.yaml", []string{"bundled"}, "shapes10",
		[]int{0, 3, 5, 6, 8, 43, 57, 58, 90, 98, 115, 120, 138, 148, 153, 155, 156, 171, 184}, file.Cases)
}

// And so they are on two real networks and real images, of which two stand against APGD-CE alone: of 34 in ℓ∞, or
// of 1,200 in three norms.
func TestAutoAttackAgreesOnRealNetworks(t *testing.T) {
	path := testinput.Real(t, "config.yaml")
	var raw map[string]json.RawMessage
	read(t, testinput.Real(t, "reference.json"), &raw)
	var all []reference
	for model, key := range map[string]string{"resnet-2b": "resnet_2b", "rn18w16-standard": "rn18w16_standard"} {
		var norms map[string]reference
		must.Do(t, json.Unmarshal(raw[key], &norms))
		for norm, r := range norms {
			if r.Model, r.Norm = model, norm; norm == "linf" || testinput.Large() {
				all = append(all, r)
			}
		}
	}
	agrees(t, path, []string{"real", "standard"}, "cifar10-test",
		[]int{0, 1, 2, 3, 6, 7, 8, 14, 20, 23, 32, 33, 37, 38, 42, 43, 48}, all)
}

func read(t *testing.T, path string, to any) {
	t.Helper()
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(path))(t), to))
}

// agrees runs the suites' attacks on some images, in order, with SELFHEAL_TEST_LARGE on all, and
// compares each image's verdict: one in a hundred of a cell's, and 0.5 % of all, may differ, or
// a single one. Where all images are attacked it compares the accuracy after every component
// too, to 1 point.
func agrees(t *testing.T, path string, suites []string, dataset string, some []int, all []reference) {
	t.Helper()
	if testing.Short() {
		t.Skip("half a minute of attacks")
	}
	var sets []string
	for _, s := range suites {
		sets = append(sets, "suites."+s+".controls=[]")
	}
	if !testinput.Large() {
		indices := must.Get(json.Marshal(some))(t)
		sets = append(sets, fmt.Sprintf("datasets.%s.indices=%s", dataset, indices))
	}
	cfg := must.Get(config.Load(path, sets...))(t)
	cfg = must.Get(cfg.Selected(suites))(t)
	for i := range cfg.Suites {
		s := &cfg.Suites[i]
		s.Attacks = slices.DeleteFunc(s.Attacks, func(name string) bool {
			norm := cfg.Attack(name).Norm.String()
			return !slices.ContainsFunc(all, func(r reference) bool { return r.Norm == norm })
		})
	}
	p := must.Get(plan.New(cfg))(t)
	f, _, _ := runFor(t, p)
	compared, verdicts, agreed := 0, 0, 0
	for _, want := range all {
		for _, c := range f.Cells {
			if c.Model != want.Model || c.Norm == nil || *c.Norm != want.Norm {
				continue
			}
			compared++
			n, flags := want.N, []byte(want.Flags)
			if !testinput.Large() {
				n, flags, want.Steps, c.Steps = len(some), nil, nil, nil
				for _, i := range some {
					flags = append(flags, want.Flags[i])
				}
			}
			if len(c.Verdicts) != n || len(c.Steps) != len(want.Steps) {
				t.Fatalf("%s, %s: %d images and %d steps, the reference has %d and %d", c.Model, c.Attack,
					len(c.Verdicts), len(c.Steps), n, len(want.Steps))
			}
			for i, s := range c.Steps {
				if s.Attack != want.Steps[i].Attack || math.Abs(s.Robust-want.Steps[i].Robust) > 0.01+1e-9 {
					t.Errorf("%s, %s after %s: %.3f, the reference has %.3f after %s", c.Model, c.Attack, s.Attack,
						s.Robust, want.Steps[i].Robust, want.Steps[i].Attack)
				}
			}
			same := 0
			for i := range c.Verdicts {
				if c.Verdicts[i] == flags[i] {
					same++
				}
			}
			if n-same > max(1, n/100) {
				t.Errorf("%s, %s: %d of %d verdicts agree with the reference", c.Model, c.Attack, same, n)
			}
			verdicts, agreed = verdicts+n, agreed+same
		}
	}
	t.Logf("%d of %d verdicts agree with the reference", agreed, verdicts)
	if compared != len(all) || compared < 2 || verdicts-agreed > max(1, verdicts/200) {
		t.Errorf("%d cells compared, the reference has %d; %d of %d verdicts agree",
			compared, len(all), agreed, verdicts)
	}
}
