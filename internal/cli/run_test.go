package cli

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/harness/plan"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// A call's inputs come into its output folder with the results, which name them, when it has a right to that folder: a
// call that is refused changes nothing.
func TestKeptInputs(t *testing.T) {
	t.Parallel()
	testinput.Runtime(t)
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	inputs := func(name, seed string) (config string) {
		text := strings.Replace(useConfig, "seed: 3", "seed: "+seed, 1)
		put(t, filepath.Join(dir, name, ".lock"), nil)
		put(t, filepath.Join(dir, name, "data.npz"), []byte(seed))
		return written(t, filepath.Join(dir, name), text)
	}
	one, other := inputs("one", "3"), inputs("other", "4")
	args := func(config string) []string {
		return []string{"run", "--config", config, "--keep-inputs", "--limit", "3", "--suite", "healed", "--quiet",
			"--out", out}
	}
	kept := filepath.Join(out, "selfheal-input")
	put(t, filepath.Join(kept, "data.npz"), []byte("mine"))
	refused(t, exitUsage, "selfheal-input/data.npz is there, and is no file as selfheal wrote it", args(one)...)
	must.Do(t, os.RemoveAll(kept))
	done(t, args(one)...)
	for name, want := range map[string]string{"config.yaml": read(t, one), "data.npz": "3"} {
		if got := read(t, filepath.Join(kept, name)); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if n := len(must.Get(os.ReadDir(kept))(t)); n != 2 {
		t.Errorf("%d files are kept, want 2", n)
	}
	before := read(t, filepath.Join(kept, "config.yaml"))
	refused(t, exitUsage, "seed: there 3, here 4", args(other)...)
	if read(t, filepath.Join(kept, "config.yaml")) != before {
		t.Error("a call that was refused has replaced the inputs")
	}
	must.Do(t, os.RemoveAll(filepath.Dir(one)))
	file, _ := results(t, out)
	done(t, file.Command[1:]...)
	must.Have(t, done(t, "verify", out), "healed")
	done(t, append(file.Command[1:], "--force")...) // it reads what it would have to remove
	if got := read(t, filepath.Join(kept, "config.yaml")); got != before {
		t.Errorf("the config is %q", got)
	}
	done(t, append(args(other), "--force")...)
	if got := read(t, filepath.Join(kept, "data.npz")); got != "4" {
		t.Errorf("--force has kept the inputs %q", got)
	}
}

// A data set must have the images that its config says.
func TestPinnedImages(t *testing.T) {
	t.Parallel()
	testinput.Runtime(t)
	dir := t.TempDir()
	file := written(t, dir, useConfig)
	args := []string{"run", "--config", file, "--suite", "plain", "--limit", "3", "--quiet", "--out",
		filepath.Join(dir, "out"), "--set"}
	refused(t, exitUsage, "shapes10/test.bin have SHA-256 ", append(args,
		"datasets.test.sha256="+strings.Repeat("0", 64))...)
	done(t, append(args, "seed=3")...)
	was, _ := results(t, filepath.Join(dir, "out"))
	done(t, append(args, "datasets.test.sha256="+strings.ToUpper(was.Datasets["test"].SHA256))...) // it is the same run
}

// A group of suites is run under its name, a study of solvers and the theory's checks
// with it; both are in the report, and in the one that is rendered again.
func TestGroupRun(t *testing.T) {
	t.Parallel()
	testinput.Runtime(t)
	dir := t.TempDir()
	file := written(t, dir, useConfig+`  studied:
    {dataset: test, models: [robust], controls: [unrolled], attacks: [], mode: oblivious,
     solver: {images: 2, momentum: [0, 0.5]}}
groups:
  all: {suites: [plain, studied], theory: true}
`)
	out, again := filepath.Join(dir, "out"), filepath.Join(dir, "again")
	done(t, "run", "--config", file, "--suite", "all", "--limit", "3", "--quiet", "--out", out)
	f, _ := results(t, out)
	if len(f.Suites) != 2 || f.Suites[0].Name != "plain" || f.Theory == nil || f.Theory.Seed != 3 ||
		len(f.Solver) != 1 || len(f.Solver[0].Runs) != 3 {
		t.Errorf("suites %+v, theory %+v, %d studies", f.Suites, f.Theory, len(f.Solver))
	}
	page := strings.ToLower(read(t, filepath.Join(out, "report.html")))
	must.Have(t, page, `<section id="theory">`, "all 42 checks pass", "proposition 1", "solver: robust · unrolled")
	done(t, "report", out, "--out", again)
	for _, name := range []string{
		"report.html", "theory.html", "theory.json", "theory-theorem-1.png", "solver-studied.png", "solver-studied.svg",
		"radar-plain.svg",
	} {
		if read(t, filepath.Join(out, name)) != read(t, filepath.Join(again, name)) {
			t.Errorf("%s differs when rendered again", name)
		}
	}
	// Another run leaves no file of this one that a run into a new folder does not make.
	fresh := filepath.Join(dir, "fresh")
	for _, folder := range []string{out, fresh} {
		done(t, "run", "--config", file, "--suite", "plain", "--limit", "3", "--quiet", "--out", folder, "--force")
	}
	left := must.Get(os.ReadDir(out))(t)
	for _, e := range left {
		if _, err := os.Stat(filepath.Join(fresh, e.Name())); err != nil {
			t.Errorf("%s is left of the run before", e.Name())
		}
	}
}

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
		f := &attackFlags{attack: attack, norm: "l2", epsilon: "0.5", save: true,
			form: outputForm{probabilities: true}, randomFlags: randomFlags{seeds: 1}}
		f.data = testImages
		plan := must.Get(f.plan(attackCommand(&globals{}), "models/zoo/preact_standard.onnx"))(t)
		if a := plan.Jobs[0].Trials[0].Setting(); a.Version != want || a.Epsilons[0] != 0.5 ||
			want == "" && a.Kind != attack {
			t.Errorf("--attack %s is %+v", attack, a)
		}
		if c := plan.Config; !c.Suites[0].SaveAdversarial || c.Models[0].Output != "probabilities" {
			t.Errorf("--save-adversarial and --probabilities are lost: %+v", c)
		}
	}
}

// An attack that looks for the smallest perturbation needs no epsilon: it takes the largest distance of two images. A
// list that has no default must be given.
func TestAttackWithoutEpsilon(t *testing.T) {
	t.Parallel()
	plan := func(attack, norm string, params ...string) (*plan.Plan, error) {
		f := &attackFlags{attack: attack, norm: norm, params: params, randomFlags: randomFlags{seeds: 1}}
		f.data = testImages
		return f.plan(attackCommand(&globals{}), "models/zoo/preact_standard.onnx")
	}
	for norm, want := range map[string]float64{"": 1, "linf": 1, "l2": math.Sqrt(3072), "l1": 3072, "l0": 3072} {
		p := must.Get(plan("fmn", norm))(t)
		if got := p.Jobs[0].Trials[0].Epsilon(); math.Abs(float64(got)-want) > 1e-12*want {
			t.Errorf("%s: epsilon %v, want %v", norm, got, want)
		}
	}
	must.Refuse(t, must.Err(plan("pgd", "l2")), "attack needs --epsilon")
	must.Refuse(t, must.Err(plan("patch", "")), "--attack patch needs --param sides=5")
	must.Get(plan("patch", "", "sides=3"))(t)
}
