package cli

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jstemmer/go-junit-report/v2/junit"

	"selfheal/harness/cell"
	"selfheal/harness/gate"
	"selfheal/harness/result"
	"selfheal/internal/atomicfile"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// gateRun returns the results of a run with two models, without and with a control, clean and under one attack at two
// epsilons. right of n images are right in every cell, except the cells whose place is in others.
func gateRun(n, right int, others map[int]int) *result.File {
	f := &result.File{
		Schema: result.Schema, Created: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		Environment: result.Environment{Selfheal: "0.1.0"},
		Datasets:    map[string]result.Dataset{"test": {N: n, SHA256: strings.Repeat("a", 64)}},
		Models: map[string]result.Model{"plain": {SHA256: strings.Repeat("b", 64)},
			"robust": {SHA256: strings.Repeat("c", 64)}},
		Attacks: map[string]result.Attack{"aa": {Kind: "autoattack", Version: "standard",
			Recipe: "autoattack-standard/1",
			Norm:   new("linf"), Epsilons: []float64{2.0 / 255, 8.0 / 255}}},
		Controls: map[string]result.Control{"heal": {Solver: result.Parameters{"method": "greedy"},
			Layers: []result.Layer{}}},
		Suites: []result.Suite{{Name: "main", Dataset: "test", Mode: "oblivious", Models: []string{"plain", "robust"},
			Controls: []string{"heal"}, Attacks: []string{"aa"}}},
	}
	for _, model := range f.Suites[0].Models {
		for _, epsilon := range []float64{0, 2.0 / 255, 8.0 / 255} {
			for _, defense := range []string{"none", "heal"} {
				c := result.Cell{ID: cell.Of("main", model, defense, "none", 0).In("test", "oblivious"),
					Steps: []result.Step{}, Seconds: 0.25 * float64(len(f.Cells)), Warnings: []result.Warning{}}
				if epsilon > 0 {
					norm := "linf"
					c.Attack, c.Norm, c.Epsilon, c.Recipe = "aa", &norm, cell.Epsilon(epsilon), "autoattack-standard/1"
				}
				if other, ok := others[len(f.Cells)]; ok {
					judged(&c, other, n)
				} else {
					judged(&c, right, n)
				}
				f.Cells = append(f.Cells, c)
			}
		}
	}
	return f
}

// judged gives a cell its verdicts, the right ones first.
func judged(c *result.Cell, right, n int) {
	*c = c.Judged(strings.Repeat("1", right) + strings.Repeat("0", n-right))
}

// saved writes results into a folder of their own.
func saved(t *testing.T, f *result.File) (dir string) {
	t.Helper()
	dir = t.TempDir()
	must.Do(t, result.Write(filepath.Join(dir, "results.json"), f))
	return dir
}

// baselineOf writes the baseline of results into a new folder.
func baselineOf(t *testing.T, f *result.File, args ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "made", "baseline.json")
	done(t, append(append([]string{"check", "--update", "--baseline", path}, args...), saved(t, f))...)
	return path
}

const gateRules = `version: 1
datasets: {test: {format: npz, path: test.npz}}
models: {plain: {path: plain.onnx}}
suites: {main: {dataset: test, models: [plain], attacks: []}}
gate: {max_drop: 0.02, min: {heal/aa@8/255: 0.62}, fail_on: [near-chance]}
`

// junitOf reads a JUnit file, which must be one.
func junitOf(t *testing.T, path string) (all junit.Testsuites) {
	t.Helper()
	if err := xml.Unmarshal([]byte(read(t, path)), &all); err != nil || all.Tests == 0 {
		t.Errorf("%s: %v", path, err)
	}
	return all
}

// The exit codes through the real files, with what is printed and written.
func TestCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "gate.yaml")
	put(t, config, []byte(gateRules))
	same := gateRun(600, 480, nil)
	baseline := baselineOf(t, same)
	regression := gateRun(600, 480, map[int]int{3: 440, 5: 350, 8: 471, 10: 520})
	regression.Seed = 1
	regression.Cells[6].Warnings = []result.Warning{{ID: "near-chance", Message: "…"}}
	other, few := gateRun(600, 480, nil), gateRun(20, 16, nil)
	other.Models["robust"] = result.Model{SHA256: strings.Repeat("d", 64)}
	for _, c := range []struct {
		name string
		args []string
		now  *result.File
		want int
	}{
		{"check-pass", []string{"--baseline", baseline}, same, exitOK},
		{"check-fail", []string{"--baseline", baseline, "--config", config}, regression, exitGateFailed},
		{"check-inconclusive", []string{"--baseline", baselineOf(t, few)}, gateRun(20, 15, nil), exitInconclusive},
		{"check-new-model", []string{"--baseline", baseline, "--new-model"}, other, exitOK},
	} {
		results, page := saved(t, c.now), filepath.Join(t.TempDir(), "page.md")
		put(t, page, []byte("# Earlier\n"))
		args := append(append([]string{"check"}, c.args...), "--markdown", page, results)
		code, stdout, stderr := call(args...)
		if code != c.want || stderr != "" {
			t.Errorf("%s: exit %d, want %d; %q", c.name, code, c.want, stderr)
		}
		text := fmt.Sprintf("$ selfheal %s\nexit %d\n%s", strings.Join(args, " "), code, stdout)
		if code == exitGateFailed {
			text += "junit.xml:\n" + read(t, filepath.Join(results, "junit.xml")) + "page.md:\n" + read(t, page)
		}
		text = strings.ReplaceAll(text, results+"\n", "DIR\n")
		golden(t, c.name, strings.NewReplacer(page, "page.md", args[2], "TMP/baseline.json", dir, "TMP").Replace(text))
		if tests := junitOf(t, filepath.Join(results, "junit.xml")).Tests; tests < 12 {
			t.Errorf("%s: junit.xml has %d test cases", c.name, tests)
		}
	}
	better := saved(t, gateRun(600, 480, map[int]int{1: 550}))
	r := fromJSON[gate.Report](t, done(t, "check", "--baseline", baseline, "--json", better))
	if r.Schema != gate.ReportSchema || r.Outcome != gate.Pass || len(r.Cells) != 12 || !r.Cells[1].Change.Better ||
		r.Cells[1].Change.Won != 70 {
		t.Errorf("%+v", r)
	}
}

// --update leaves a baseline that says the same as it is, byte for byte, keeps its rules,
// and takes those of --config.
func TestCheckUpdate(t *testing.T) {
	t.Parallel()
	const n = 300
	config := filepath.Join(t.TempDir(), "gate.yaml")
	put(t, config, []byte(gateRules))
	f := gateRun(n, 200, nil)
	baseline := baselineOf(t, f, "--config", config, "--set", "gate.max_drop=0.03")
	first := read(t, baseline)
	must.Have(t, first, `"max_drop": 0.03`, `"heal/aa@8/255": 0.62`) // the config's rules
	again := func() string { return done(t, "check", "--update", "--baseline", baseline, saved(t, f)) }
	f.Created, f.Environment.Selfheal, f.Environment.Workers = f.Created.AddDate(0, 0, 1), "0.1.1", 16
	for i := range f.Cells {
		f.Cells[i].Seconds *= 2
	}
	if out := again(); !strings.Contains(out, "unchanged") || read(t, baseline) != first {
		t.Errorf("another day changes the baseline: %s", out)
	}
	judged(&f.Cells[2], 199, n)
	out, before := again(), read(t, baseline)
	if !strings.Contains(out, "cells new 0, gone 0, changed 1\nimages: at least 300 a cell; ") || before == first ||
		!strings.Contains(before, `"max_drop": 0.03`) {
		t.Errorf("another verdict: %s", out)
	}
	const rules = "rules: max_drop 3 points, alpha 0.05, 1 min, fail_on near-chance" // they hold without --config
	must.Have(t, done(t, "check", "--baseline", baseline, "--set", "gate.alpha=0.1", saved(t, f)),
		"rules: max_drop 3 points, alpha 0.1, 1 min")
	must.Have(t, done(t, "check", "--baseline", baseline, saved(t, f)), rules)
	// An error leaves the baseline as it was.
	partial := gateRun(n, 200, nil)
	partial.Cells = partial.Cells[:7]
	for _, args := range [][]string{
		{saved(t, partial)}, {"--config", "absent.yaml", saved(t, f)}, {"--markdown", "x", saved(t, f)}, {t.TempDir()},
	} {
		if refused(t, exitRefused, "",
			append([]string{"check", "--update", "--baseline", baseline}, args...)...); read(t, baseline) != before {
			t.Errorf("%v: the baseline changed", args)
		}
	}
	put(t, baseline, []byte("{"))
	refused(t, exitRefused, "remove the file", "check", "--update", "--baseline", baseline, saved(t, f))
}

// Wrong usage, invalid files, folders without results, other images or models: exit 3, one line, and no JUnit file of
// an earlier comparison.
func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	dir, good := t.TempDir(), saved(t, gateRun(40, 30, nil))
	baseline := baselineOf(t, gateRun(40, 30, nil))
	in := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{
		"broken.json": "{\n\"schema\": ", "bad.yaml": gateRules + "gates: {}\n",
		"rule.yaml": strings.Replace(gateRules, "heal/aa@8/255", "hael/aa", 1), "run/results.json": "{",
	} {
		put(t, in(name), []byte(text))
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"check takes the folder of one run", nil},
		{"check needs --baseline", []string{good}},
		{"got 2 arguments", []string{"--baseline", baseline, good, good}},
		{"unknown flag: --bsaeline", []string{"--bsaeline", baseline, good}},
		{"flag needs an argument", []string{"--baseline"}},
		{"invalid argument", []string{"--update=perhaps", "--baseline", baseline, good}},
		{"--set seed=1: check reads the gate alone", []string{"--baseline", baseline, "--set", "seed=1",
			good}},
		{"there is no baseline", []string{"--baseline", in("absent.json"), good}},
		{"is a directory", []string{"--baseline", dir, good}},
		{"broken.json: line 2: unexpected end of JSON input", []string{"--baseline", in("broken.json"), good}},
		{`unknown key "gates" in the config; did you mean "gate"?`,
			[]string{"--baseline", baseline, "--config", in("bad.yaml"), good}},
		{"gate.min: hael/aa names no cell", []string{"--baseline", baseline, "--config", in("rule.yaml"), good}},
		{"--set gate.max_drop=2: gate.max_drop must be",
			[]string{"--baseline", baseline, "--config", in("rule.yaml"), "--set", "gate.max_drop=2", good}},
		{"holds no results.json", []string{"--baseline", baseline, dir}},
		{"unexpected end of JSON input", []string{"--baseline", baseline, in("run")}},
		{"--junit: ", []string{"--baseline", baseline, "--junit", in("broken.json/junit.xml"), good}},
		{"--markdown: ", []string{"--baseline", baseline, "--markdown", dir, good}},
		{"the baseline has 40 images of dataset test, the results 20",
			[]string{"--baseline", baseline, saved(t, gateRun(20, 16, nil))}},
	} {
		refused(t, exitRefused, c.want, append([]string{"check"}, c.args...)...)
	}
	// A refusal is written beside results or in place of an earlier comparison's file, not into
	// a folder that is no run's; --junit is always obeyed.
	refuses := func(args ...string) {
		t.Helper()
		refused(t, exitRefused, "", append([]string{"check", "--baseline", baseline}, args...)...)
	}
	empty, asked := t.TempDir(), in("asked.xml")
	file := filepath.Join(empty, "junit.xml")
	if refuses(empty); exists(file) {
		t.Error("junit.xml is written into any folder")
	}
	refuses("--junit", asked, empty)
	put(t, file, []byte("<mine/>"))
	refuses(empty)
	if read(t, file) != "<mine/>" {
		t.Error("somebody's junit.xml is replaced")
	}
	must.Do(t, atomicfile.Rule{Force: true}.In(empty, "JUnit file").Write(junitFile, []byte("<earlier/>")))
	refuses(empty)
	for _, path := range []string{asked, file, filepath.Join(dir, "run", "junit.xml")} {
		if all := junitOf(t, path); all.Errors != 1 || all.Tests != 1 {
			t.Errorf("after a refusal %s is %+v", path, all)
		}
	}
	// Ctrl-C ends a comparison.
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if code := whole(ctx, repository, []string{"check", "--baseline", baseline, good}, io.Discard,
		io.Discard); code != 130 {
		t.Errorf("stopped: exit %d", code)
	}
}

// Another file of a network is attacked as the run's own was, on the run's images, and compared with it; the same file
// gives the same verdicts. Nothing is attacked where images are others, or the file is none.
func TestCheckModel(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	t.Chdir(dir)
	for to, from := range map[string]string{"net.onnx": "preact_standard.onnx", "new.onnx": "preact_robust.onnx",
		"data.bin": "shapes10/test.bin"} {
		put(t, to, []byte(read(t, filepath.Join(root, "models", "zoo", from))))
	}
	const text = `version: 1
datasets: {test: {format: cifar10-bin, path: data.bin, limit: 40}}
models: {mine: {path: net.onnx}, other: {path: new.onnx}}
controls: {same: {solver: {method: greedy}, layers: [{at: input, embedding: {kind: identity}}]}}
attacks: {fast: {kind: fgsm, norm: linf, epsilon: 8/255}}
suites:
  one: {dataset: test, models: [mine, other], controls: [same], attacks: [fast]}
  two: {dataset: test, models: [other], attacks: [fast]}
  gift: {dataset: test, models: [mine, other], attacks: [fast], mode: transfer}
gate: {min: {other/none/none: 0.5}}
`
	put(t, "c.yaml", []byte(text))
	done(t, "run", "--config", "c.yaml", "--out", "out", "--quiet")
	done(t, "check", "--update", "--baseline", "b.json", "--config", "c.yaml", "out")
	check := func(args ...string) (code int, stdout, stderr string) {
		return call(append([]string{"check", "--baseline", "b.json"}, args...)...)
	}

	code, stdout, stderr := check("--model", "mine=net.onnx", "--quiet", "out")
	if code != exitOK || !strings.HasSuffix(stdout, "cells\n") || strings.Contains(stdout, "one/other") ||
		strings.Contains(stdout, "suite two") || !strings.Contains(stdout, "0.0 points [") {
		t.Errorf("the same file: exit %d\n%s%s", code, stdout, stderr)
	}
	before, _ := results(t, "out")
	again, _ := results(t, "out-mine")
	for _, c := range again.Cells {
		i := slices.IndexFunc(before.Cells, func(b result.Cell) bool { return b.Key() == c.Key() })
		if i < 0 || before.Cells[i].Verdicts != c.Verdicts {
			t.Errorf("%+v: other verdicts than the run's", c.ID)
		}
	}

	code, stdout, _ = check("--model", "mine=new.onnx", "--out", "new", "--quiet", "out")
	now, _ := results(t, "new")
	accuracy := func(f *result.File) float64 {
		i := slices.IndexFunc(f.Cells, func(c result.Cell) bool {
			return c.Attack == "fast" && c.Suite == "one" && c.Model == "mine" && c.Defense == "same"
		})
		return 100 * f.Cells[i].Accuracy
	}
	want := fmt.Sprintf("mine/same:whitebox-through/fast@8/255: robust accuracy %.1f → %.1f %%, change ",
		accuracy(before), accuracy(now))
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if code != exitGateFailed || !strings.HasPrefix(lines[len(lines)-2], want) {
		t.Errorf("another file: exit %d, no %s in\n%s", code, want, stdout)
	}
	if code, _, stderr = check("--model", "mine=new.onnx", "--out", "new", "out"); code == exitRefused ||
		!strings.Contains(stderr, "it is left as it is") {
		t.Errorf("once more: exit %d, %s", code, stderr)
	}

	refuses := func(want string, args ...string) {
		t.Helper()
		refused(t, exitRefused, want, append([]string{"check", "--baseline", "b.json"}, args...)...)
	}
	refuses("it must be NAME=FILE", "--model", "mine", "out")
	refuses("given twice", "--model", "mine=net.onnx", "--model", "mine=new.onnx", "out")
	refuses("has no model min", "--model", "min=net.onnx", "out")
	refuses("absent.onnx: no such file", "--model", "mine=absent.onnx", "--out", "x", "out")
	refuses("--out goes with --model", "--out", "x", "out")
	refuses("holds another run", "--model", "mine=new.onnx", "out")
	put(t, "c.yaml", []byte(strings.Replace(text, "limit: 40", "limit: 41", 1)))
	refuses("dataset test: its images in data.bin have SHA-256", "--model", "mine=new.onnx", "--out", "x", "out")
	must.Do(t, os.Remove("c.yaml"))
	refuses("its command can't be read again", "--model", "mine=new.onnx", "--out", "x", "out")
	if exists("x") {
		t.Error("a refusal leaves a folder")
	}
}
