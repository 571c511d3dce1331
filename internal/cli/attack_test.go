package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// An attack without a config has the verdicts, margins and norms of the config that says the
// same, and leaves the same files.
func TestAttackEqualsItsConfig(t *testing.T) {
	t.Parallel()
	testinput.Runtime(t)
	dir := t.TempDir()
	byConfig, byFlags := filepath.Join(dir, "config"), filepath.Join(dir, "flags")
	done(t, "run", "--config", written(t, dir, useConfig), "--suite", "plain", "--out", byConfig, "--quiet")
	done(t, append(strings.Fields("attack "+robustModel+" --data "+testImages+" --limit 12 --norm linf"+
		" --epsilon 2/255,6/255 --attack pgd --param steps=5 --param restarts=2"+
		" --seed 3 --seeds 2 --mean 0.02,0.01,0.03 --std 0.95 --quiet"),
		"--out", byFlags)...)
	want, wantRecords := results(t, byConfig)
	got, gotRecords := results(t, byFlags)
	if len(got.Cells) != 3 || len(want.Cells) != 3 || len(gotRecords) != len(wantRecords) {
		t.Fatalf("%d and %d cells, %d and %d records", len(got.Cells), len(want.Cells), len(gotRecords),
			len(wantRecords))
	}
	for i, c := range got.Cells {
		if w := want.Cells[i]; c.Verdicts != w.Verdicts || c.MaxNorm != w.MaxNorm || c.Recipe != w.Recipe {
			t.Errorf("cell %d: %s %s, the config's is %s %s", i, c.Recipe, c.Verdicts, w.Recipe, w.Verdicts)
		}
	}
	if s := got.Cells[2].Seeds; len(s) != 2 || s[0].Seed != 3 || s[1].Seed != 4 ||
		s[0].Verdicts != got.Cells[2].Verdicts {
		t.Errorf("seeds %+v", s)
	}
	if got.Cells[0].Verdicts == got.Cells[2].Verdicts {
		t.Error("the attack broke nothing: this test shows nothing")
	}
	for i, r := range gotRecords {
		if w := wantRecords[i]; r.Margin != w.Margin || r.Norm != w.Norm || r.Image != w.Image {
			t.Errorf("record %d: %+v, the config's is %+v", i, r, w)
		}
	}
	for _, name := range []string{"report.html", "tables.md", "radar-attack.svg"} {
		read(t, filepath.Join(byFlags, name))
	}
}

// --attack aa is AutoAttack's standard version, and the versions and images it names.
func TestAttackVersions(t *testing.T) {
	t.Parallel()
	for attack, want := range map[string]string{
		"aa": "standard", "autoattack": "standard", "aa-plus": "plus", "aa-rand": "rand", "aa-quick": "quick",
		"square": "",
	} {
		f := &attackFlags{attack: attack, norm: "l2", epsilon: "0.5", save: true, probabilities: true, seeds: 1}
		f.data = testImages
		plan := must.Get(f.plan(attackCommand(&globals{}), "models/zoo/preact_standard.onnx"))(t)
		if a := plan.Jobs[0].Attacks[0]; a.Version != want || a.Epsilon != 0.5 || want == "" && a.Kind != attack {
			t.Errorf("--attack %s is %+v", attack, a.Attack)
		}
		if c := plan.Config; !c.Suites[0].SaveAdversarial || c.Models[0].Output != "probabilities" {
			t.Errorf("--save-adversarial and --probabilities are lost: %+v", c)
		}
	}
}
