package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jstemmer/go-junit-report/v2/junit"

	"selfheal/harness/config"
	"selfheal/harness/gate"
	"selfheal/harness/result"
)

// gateRun is the results of a run with two models, without and with a control, clean and
// under one attack at two epsilons; verdicts gives those of a cell by its place.
func gateRun(n int, verdicts func(cell int) string) *result.File {
	f := &result.File{Schema: result.Schema, Created: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), Environment: result.Environment{Selfheal: "0.1.0"},
		Datasets: map[string]result.Dataset{"test": {N: n, SHA256: strings.Repeat("a", 64)}},
		Models:   map[string]result.Model{"plain": {SHA256: strings.Repeat("b", 64)}, "robust": {SHA256: strings.Repeat("c", 64)}},
		Suites:   []result.Suite{{Name: "main", Dataset: "test", Mode: "oblivious", Models: []string{"plain", "robust"}, Controls: []string{"heal"}, Attacks: []string{"aa"}}}}
	for _, model := range f.Suites[0].Models {
		for _, epsilon := range []float64{0, 2.0 / 255, 8.0 / 255} {
			for _, defense := range []string{"none", "heal"} {
				v := verdicts(len(f.Cells))
				c := result.Cell{Suite: "main", Dataset: "test", Model: model, Defense: defense, Mode: "oblivious", Attack: "none", N: n, Correct: strings.Count(v, "1"),
					Verdicts: v, Steps: []result.Step{}, Seconds: 0.25 * float64(len(f.Cells)), Warnings: []result.Warning{}}
				if c.Accuracy = float64(c.Correct) / float64(n); epsilon > 0 {
					norm := "linf"
					c.Attack, c.Norm, c.Epsilon, c.Recipe = "aa", &norm, &epsilon, "autoattack-standard/1"
				}
				f.Cells = append(f.Cells, c)
			}
		}
	}
	return f
}

// saved writes results into a folder of their own.
func saved(t *testing.T, f *result.File) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := result.Write(filepath.Join(dir, "results.json"), f); err != nil {
		t.Fatal(err)
	}
	return dir
}

// ones are so many right verdicts, then wrong ones.
func ones(right, n int) string { return strings.Repeat("1", right) + strings.Repeat("0", n-right) }

// of all cells alike but those given otherwise.
func but(n, right int, others map[int]int) func(int) string {
	return func(cell int) string {
		if other, ok := others[cell]; ok {
			return ones(other, n)
		}
		return ones(right, n)
	}
}

const gateRules = `version: 1
datasets: {test: {format: npz, path: test.npz}}
models: {plain: {path: plain.onnx}}
suites: {main: {dataset: test, models: [plain], attacks: []}}
gate: {max_drop: 0.02, min: {heal/aa@8/255: 0.62}, fail_on: [near-chance]}
`

// The four exit codes through the real files, with what is printed and written.
func TestCheck(t *testing.T) {
	const n = 600
	dir := t.TempDir()
	baseline, config := filepath.Join(dir, "baseline.json"), filepath.Join(dir, "gate.yaml")
	if err := os.WriteFile(config, []byte(gateRules), 0o644); err != nil {
		t.Fatal(err)
	}
	before := saved(t, gateRun(n, but(n, 480, nil)))
	if code, stdout, stderr := call("check", "--update", "--baseline", baseline, before); code != exitOK || !strings.HasSuffix(stdout, "baseline.json: cells 12, models 2\n") {
		t.Fatalf("exit %d, %s%s", code, stdout, stderr)
	}
	regression := gateRun(n, but(n, 480, map[int]int{3: 440, 5: 350, 8: 471, 10: 520}))
	regression.Seed = 1
	regression.Cells[6].Warnings = []result.Warning{{ID: "near-chance", Message: "…"}}
	other := gateRun(n, but(n, 480, nil))
	other.Models["robust"] = result.Model{SHA256: strings.Repeat("d", 64)}
	few := saved(t, gateRun(20, but(20, 16, nil)))
	fewBaseline := filepath.Join(dir, "few.json")
	done(t, "check", "--update", "--baseline", fewBaseline, few)

	for _, c := range []struct {
		name string
		args []string
		dir  string
		want int
	}{
		{"check-pass", []string{"--baseline", baseline}, before, exitOK},
		{"check-fail", []string{"--baseline", baseline, "--config", config}, saved(t, regression), exitGateFailed},
		{"check-inconclusive", []string{"--baseline", fewBaseline}, few, exitInconclusive},
		{"check-other-images", []string{"--baseline", baseline}, few, exitRefused},
		{"check-other-model", []string{"--baseline", baseline}, saved(t, other), exitRefused},
		{"check-new-model", []string{"--baseline", baseline, "--new-model"}, saved(t, other), exitOK},
		{"help-check", []string{"--help"}, "", exitOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			md := filepath.Join(t.TempDir(), "page.md")
			args := append([]string{"check"}, c.args...)
			if c.dir != "" {
				args = append(args, "--markdown", md, c.dir)
			}
			code, stdout, stderr := call(args...)
			if code != c.want || (code == exitRefused) != (stderr != "") || strings.Count(stderr, "\n") > 1 {
				t.Errorf("exit %d, want %d; %q", code, c.want, stderr)
			}
			text := fmt.Sprintf("$ selfheal %s\nexit %d\n%s%s", strings.Join(args, " "), code, stdout, prefixed("stderr: ", stderr))
			if c.dir != "" {
				wellFormed(t, filepath.Join(c.dir, "junit.xml"))
				text = strings.ReplaceAll(text, c.dir+"\n", "DIR\n")
			}
			if code == exitGateFailed {
				text += "junit.xml:\n" + mustRead(t, filepath.Join(c.dir, "junit.xml")) + "page.md:\n" + mustRead(t, md)
			}
			golden(t, filepath.Join("cli", c.name+".txt"), strings.NewReplacer(md, "page.md", dir, "TMP").Replace(text))
		})
	}
}

func mustRead(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func wellFormed(t *testing.T, path string) (all junit.Testsuites) {
	t.Helper()
	if err := xml.Unmarshal([]byte(mustRead(t, path)), &all); err != nil || all.Tests == 0 {
		t.Errorf("%s: %v", path, err)
	}
	return all
}

// --update leaves a baseline that says the same as it is, byte for byte, keeps its rules,
// and takes those of --config.
func TestCheckUpdate(t *testing.T) {
	const n = 300
	dir := t.TempDir()
	baseline, config := filepath.Join(dir, "baseline.json"), filepath.Join(dir, "gate.yaml")
	if err := os.WriteFile(config, []byte(gateRules), 0o644); err != nil {
		t.Fatal(err)
	}
	f := gateRun(n, but(n, 200, nil))
	done(t, "check", "--update", "--baseline", baseline, "--config", config, "--set", "gate.max_drop=0.03", saved(t, f))
	first := mustRead(t, baseline)
	if !strings.Contains(first, `"max_drop": 0.03`) || !strings.Contains(first, `"heal/aa@8/255": 0.62`) {
		t.Errorf("the config's rules are not in\n%s", first[:400])
	}
	f.Created, f.Environment.Selfheal, f.Environment.Workers = f.Created.AddDate(0, 0, 1), "0.1.1", 16
	for i := range f.Cells {
		f.Cells[i].Seconds *= 2
	}
	if out := done(t, "check", "--update", "--baseline", baseline, saved(t, f)); !strings.Contains(out, "unchanged") || mustRead(t, baseline) != first {
		t.Errorf("another day changes the baseline: %s", out)
	}
	f.Cells[2].Verdicts, f.Cells[2].Correct, f.Cells[2].Accuracy = ones(199, n), 199, 199.0/n
	if out := done(t, "check", "--update", "--baseline", baseline, saved(t, f)); !strings.Contains(out, "cells new 0, gone 0, changed 1") || mustRead(t, baseline) == first || !strings.Contains(mustRead(t, baseline), `"max_drop": 0.03`) {
		t.Errorf("another verdict: %s", out)
	}
	// The rules of a baseline hold without --config.
	if code, stdout, _ := call("check", "--baseline", baseline, saved(t, f)); code != exitOK || !strings.Contains(stdout, "rules: max_drop 3 points, alpha 0.05, 1 min, fail_on near-chance") {
		t.Errorf("exit %d\n%s", code, stdout)
	}
	// What goes wrong leaves the baseline as it was.
	before := mustRead(t, baseline)
	partial := gateRun(n, but(n, 200, nil))
	partial.Cells = partial.Cells[:7]
	for _, args := range [][]string{{saved(t, partial)}, {"--config", "absent.yaml", saved(t, f)}, {"--markdown", "x", saved(t, f)}, {t.TempDir()}} {
		code, _, stderr := call(append([]string{"check", "--update", "--baseline", baseline}, args...)...)
		if code != exitRefused || strings.Count(stderr, "\n") != 1 || mustRead(t, baseline) != before {
			t.Errorf("%v: exit %d, %q", args, code, stderr)
		}
	}
	if err := os.WriteFile(baseline, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := call("check", "--update", "--baseline", baseline, saved(t, f)); code != exitRefused || !strings.Contains(stderr, "remove the file") || mustRead(t, baseline) != "{" {
		t.Errorf("a file that is none: exit %d, %q", code, stderr)
	}
}

// Wrong usage, files that are none and folders without results: exit 3, one line, and no
// JUnit file of an earlier comparison.
func TestCheckRefuses(t *testing.T) {
	dir := t.TempDir()
	good := saved(t, gateRun(40, but(40, 30, nil)))
	baseline := filepath.Join(dir, "baseline.json")
	done(t, "check", "--update", "--baseline", baseline, good)
	call("check", "--baseline", baseline, good)
	if wellFormed(t, filepath.Join(good, "junit.xml")).Tests != 12 {
		t.Error("junit.xml has not a testcase a cell")
	}
	files := map[string]string{"broken.json": "{\n\"schema\": ", "other.json": `{"schema": "selfheal.results/1"}`, "bad.yaml": gateRules + "gates: {}\n", "rule.yaml": strings.Replace(gateRules, "heal/aa@8/255", "hael/aa", 1)}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	brokenResults := t.TempDir()
	if err := os.WriteFile(filepath.Join(brokenResults, "results.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "check takes the folder of one run"},
		{[]string{good}, "check needs --baseline"},
		{[]string{"--baseline", baseline, good, good}, "got 2 arguments"},
		{[]string{"--bsaeline", baseline, good}, "unknown flag: --bsaeline"},
		{[]string{"--baseline"}, "flag needs an argument"},
		{[]string{"--update=perhaps", "--baseline", baseline, good}, "invalid argument"},
		{[]string{"--baseline", baseline, "--set", "gate.alpha=0.1", good}, "--set goes with --config"},
		{[]string{"--baseline", in("absent.json"), good}, "there is no baseline"},
		{[]string{"--baseline", dir, good}, "is a directory"},
		{[]string{"--baseline", in("broken.json"), good}, "broken.json: line 2: unexpected end of JSON input"},
		{[]string{"--baseline", in("other.json"), good}, `has schema "selfheal.results/1"`},
		{[]string{"--baseline", baseline, "--config", in("bad.yaml"), good}, `unknown key "gates" in the config; did you mean "gate"?`},
		{[]string{"--baseline", baseline, "--config", in("rule.yaml"), good}, "gate.min: hael/aa names no cell"},
		{[]string{"--baseline", baseline, "--config", in("rule.yaml"), "--set", "gate.max_drop=2", good}, "--set gate.max_drop=2: gate.max_drop must be"},
		{[]string{"--baseline", baseline, dir}, "holds no results.json"},
		{[]string{"--baseline", baseline, brokenResults}, "unexpected end of JSON input"},
		{[]string{"--baseline", baseline, "--junit", in("no/such/junit.xml"), good}, "--junit: "},
		{[]string{"--baseline", baseline, "--markdown", dir, good}, "--markdown: "},
	} {
		code, _, stderr := call(append([]string{"check"}, c.args...)...)
		if code != exitRefused || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit %d, %q, want %q", c.args, code, stderr, c.want)
		}
	}
	if code, _, _ := call("check", "--baseline", in("absent.json"), good); code != exitRefused {
		t.Errorf("exit %d", code)
	}
	if all := wellFormed(t, filepath.Join(good, "junit.xml")); all.Errors != 1 || all.Tests != 1 {
		t.Errorf("after a refusal junit.xml is %+v", all)
	}
}

// A defect is a refusal, not Go's exit code 2; Ctrl-C ends a comparison that lasts.
func TestCheckEnds(t *testing.T) {
	dir, baseline := saved(t, gateRun(40, but(40, 30, nil))), filepath.Join(t.TempDir(), "b.json")
	done(t, "check", "--update", "--baseline", baseline, dir)
	t.Cleanup(func() { compareResults = gate.Compare })
	compareResults = func(*gate.Baseline, *result.File, config.Gate) (*gate.Report, error) { panic("a level of 1") }
	code, stdout, stderr := call("check", "--baseline", baseline, dir)
	if code != exitRefused || stdout != "" || stderr != "selfheal: check has a defect, nothing was decided: a level of 1\n" {
		t.Errorf("a panic: exit %d, %q, %q", code, stdout, stderr)
	}
	if all := wellFormed(t, filepath.Join(dir, "junit.xml")); all.Errors != 1 {
		t.Errorf("after a panic junit.xml is %+v", all)
	}
	ctx, stop := context.WithCancel(context.Background())
	forever := make(chan bool)
	t.Cleanup(func() { close(forever) })
	compareResults = func(*gate.Baseline, *result.File, config.Gate) (*gate.Report, error) {
		stop()
		<-forever
		return nil, nil
	}
	var out, complaint bytes.Buffer
	if code := run(ctx, repository, []string{"check", "--baseline", baseline, dir}, &out, &complaint); code != exitFailed || !strings.Contains(complaint.String(), "stopped") {
		t.Errorf("stopped: exit %d, %q", code, complaint.String())
	}
}

// A refusal is written beside results or in place of an earlier comparison's file, not into
// a folder that is no run's; --junit is always obeyed.
func TestCheckWrongFolder(t *testing.T) {
	baseline, other := filepath.Join(t.TempDir(), "made", "b.json"), t.TempDir()
	done(t, "check", "--update", "--baseline", baseline, saved(t, gateRun(40, but(40, 30, nil))))
	in := filepath.Join(other, "junit.xml")
	if code, _, _ := call("check", "--baseline", baseline, other); code != exitRefused || exists(in) {
		t.Errorf("exit %d; junit.xml is written into any folder: %v", code, exists(in))
	}
	asked := filepath.Join(t.TempDir(), "asked.xml")
	if code, _, _ := call("check", "--baseline", baseline, "--junit", asked, other); code != exitRefused || wellFormed(t, asked).Errors != 1 {
		t.Errorf("exit %d without the file that was asked for", code)
	}
	if err := os.WriteFile(in, []byte("<earlier/>"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, _ := call("check", "--baseline", baseline, other); code != exitRefused || wellFormed(t, in).Errors != 1 {
		t.Errorf("exit %d; an earlier comparison's file stays", code)
	}
}

// --json is the report, for programs; --markdown goes behind what the file holds.
func TestCheckForms(t *testing.T) {
	dir := saved(t, gateRun(200, but(200, 150, map[int]int{1: 190})))
	baseline, page := filepath.Join(t.TempDir(), "b.json"), filepath.Join(t.TempDir(), "page.md")
	done(t, "check", "--update", "--baseline", baseline, saved(t, gateRun(200, but(200, 150, nil))))
	if err := os.WriteFile(page, []byte("# Earlier\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var r gate.Report
	if err := json.Unmarshal([]byte(done(t, "check", "--baseline", baseline, "--json", "--markdown", page, dir)), &r); err != nil {
		t.Fatal(err)
	}
	if r.Schema != gate.ReportSchema || r.Outcome != gate.Pass || len(r.Cells) != 12 || !r.Cells[1].Change.Better || r.Cells[1].Change.Won != 40 {
		t.Errorf("%+v", r)
	}
	if text := mustRead(t, page); !strings.HasPrefix(text, "# Earlier\n\n### Robustness gate\n\n✅ **PASS: no drop of 2 points or more in 12 cells**\n") {
		t.Errorf("the page is\n%s", text)
	}
}

// Simulated through the real files: a planted regression of 5 points of 500 images fails
// and the noise of another seed, 0.2 % of the verdicts, passes.
func TestCheckSimulated(t *testing.T) {
	const n, repeats = 500, 5
	baseline := filepath.Join(t.TempDir(), "b.json")
	for i := range repeats {
		r := rand.New(rand.NewPCG(5, uint64(i)))
		cells := make([][]byte, 12)
		for c := range cells {
			for range n {
				cells[c] = append(cells[c], "01"[min(1, int(1.6*r.Float64()))]) // 1 for about 3 in 8
			}
		}
		noisy := func(c int) string {
			v := append([]byte{}, cells[c]...)
			if r.IntN(2) == 0 { // one verdict of 500 flips
				v[r.IntN(n)] ^= 1
			}
			return string(v)
		}
		done(t, "check", "--update", "--baseline", baseline, saved(t, gateRun(n, func(c int) string { return string(cells[c]) })))
		if code, stdout, stderr := call("check", "--baseline", baseline, saved(t, gateRun(n, noisy))); code != exitOK {
			t.Errorf("noise: exit %d\n%s%s", code, stdout, stderr)
		}
		worse := cells[r.IntN(12)]
		for lost := 0; lost < n/20; {
			if k := r.IntN(n); worse[k] == '1' {
				worse[k] = '0'
				lost++
			}
		}
		if code, stdout, stderr := call("check", "--baseline", baseline, saved(t, gateRun(n, noisy))); code != exitGateFailed {
			t.Errorf("a regression of 5 points: exit %d\n%s%s", code, stdout, stderr)
		}
	}
}
