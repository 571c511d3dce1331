package repository

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"selfheal/internal/must"
)

// Actions of others are pinned by commit: a tag can be moved.
func TestActionsArePinned(t *testing.T) {
	pinned, found := regexp.MustCompile(`^[a-z-]+/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`), 0
	for _, path := range []string{"action.yml", "docs/ci/github-workflow.yml", "docs/ci.md"} {
		for line := range strings.Lines(read(t, path)) {
			_, used, ok := strings.Cut(strings.TrimSpace(line), "uses: ")
			if !ok || strings.HasPrefix(used, "OWNER/selfheal@") {
				continue
			}
			if found++; !pinned.MatchString(used) {
				t.Errorf("%s: %s is not pinned by commit", path, used)
			}
		}
	}
	if found < 6 {
		t.Errorf("%d actions are used", found)
	}
}

// job is a folder that stands for a CI job's machine, with a selfheal that records its arguments.
type job struct{ dir string }

// Tests with a job are not parallel: a process started by another test while the program is written keeps it open, and
// then it can't be run.
func newJob(t *testing.T, selfheal string) job {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash")
	}
	j := job{t.TempDir()}
	for _, d := range []string{"bin", "out"} {
		must.Do(t, os.Mkdir(filepath.Join(j.dir, d), 0o755))
	}
	program := filepath.Join(j.dir, "bin", "selfheal")
	put(t, program, "#!/bin/bash\nfor a in \"$@\"; do printf '%s\\n' \"$a\" >> called; done\n"+selfheal)
	must.Do(t, os.Chmod(program, 0o755))
	return j
}

// bash runs a script as GitHub's runner does.
func (j job) bash(script string, env ...string) (stdout string, code int) {
	c := exec.Command("bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script)
	c.Dir = j.dir
	in := func(name string) string { return filepath.Join(j.dir, name) }
	c.Env = append([]string{"PATH=" + in("bin") + ":" + os.Getenv("PATH"), "HOME=" + j.dir, "RUNNER_TEMP=" + j.dir,
		"OUT=out",
		"GITHUB_OUTPUT=" + in("outputs"), "GITHUB_STEP_SUMMARY=" + in("summary"), "GITHUB_PATH=" + in("path")}, env...)
	out, _ := c.Output()
	return string(out), c.ProcessState.ExitCode()
}

func (j job) file(name string) string {
	data, _ := os.ReadFile(filepath.Join(j.dir, name))
	return string(data)
}

// The action's gate turns each exit code of check into the job's result.
func TestActionGate(t *testing.T) {
	gate := script(t, "Compare with the baseline")
	const table = "suite quick\n  a table\n\nSAID: 50% of it\n"
	for _, c := range []struct {
		code                          int
		inconclusive                  string
		exit                          int
		annotation, outcome, complain string
	}{
		{0, "warn", 0, "::notice title=selfheal check, pass::SAID: 50%25 of it", "pass", ""},
		{1, "warn", 1, "::error title=selfheal check, fail::SAID: 50%25 of it", "fail", ""},
		{2, "warn", 0, "::warning title=selfheal check, inconclusive::INCONCLUSIVE: 50%25 of it", "inconclusive", ""},
		{2, "fail", 2, "::error title=selfheal check, inconclusive::INCONCLUSIVE: 50%25 of it", "inconclusive", ""},
		{2, "warn", 3, "::error title=selfheal check, refused::goroutine 1", "refused", "goroutine 1"}, // a breakdown
		{3, "warn", 3, "::error title=selfheal check, refused::selfheal: other images", "refused",
			"selfheal: other images"},
		{137, "warn", 137, "::error title=selfheal check, refused::SAID: 50%25 of it", "refused", ""},
	} {
		says := fmt.Sprintf("printf '%%s' \"$TABLE\"; echo '| table |' > out/gate.md; exit %d", c.code)
		table := table
		switch {
		case c.complain != "":
			says = fmt.Sprintf("echo '%s' >&2; exit %d", c.complain, c.code)
		case c.code == 2:
			table = strings.Replace(table, "SAID", "INCONCLUSIVE", 1)
		}
		j := newJob(t, says)
		put(t, filepath.Join(j.dir, "out", "gate.md"), "an earlier job's\n")
		out, exit := j.bash(gate, "TABLE="+table, "CONFIG=my config.yaml",
			"SETS=gate.alpha=0.1\n\ngate.max_drop=0.03\n",
			"BASELINE=base.json", "INCONCLUSIVE="+c.inconclusive, "NEW_MODEL=true")
		name := fmt.Sprintf("check ends with %d, inconclusive: %s", c.code, c.inconclusive)
		if exit != c.exit {
			t.Errorf("%s: the step ends with %d, want %d\n%s", name, exit, c.exit, out)
		}
		last := out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:]
		if strings.TrimSpace(last) != c.annotation ||
			len(regexp.MustCompile("::(notice|error|warning)").FindAllString(out, -1)) != 1 {
			t.Errorf("%s: it says\n%swant %s", name, out, c.annotation)
		}
		said := c.code
		if c.complain != "" {
			said = 3
		}
		if want := fmt.Sprintf("outcome=%s\nexit-code=%d\n", c.outcome, said); j.file("outputs") != want {
			t.Errorf("%s: outputs %q, want %q", name, j.file("outputs"), want)
		}
		if want := map[bool]string{true: "", false: "| table |\n"}[c.complain != ""]; j.file("summary") != want {
			t.Errorf("%s: summary %q, want %q", name, j.file("summary"), want)
		}
		want := "check\n--baseline\nbase.json\n--junit\nout/junit.xml\n--markdown\nout/gate.md\n" +
			"--config\nmy config.yaml\n--set\ngate.alpha=0.1\n--set\ngate.max_drop=0.03\n--new-model\nout\n"
		if j.file("called") != want {
			t.Errorf("%s: called with %q", name, j.file("called"))
		}
	}
	// Without a config the gate uses ./config.yaml, as run does.
	for _, here := range []bool{true, false} {
		j, want := newJob(t, "exit 0"), "check\n--baseline\nb\n--junit\nout/junit.xml\n--markdown\nout/gate.md\n"
		set := "--set\ngate.alpha=0.1\n"
		if here {
			want, set = want+"--config\nconfig.yaml\n", "--set\nseed=1\n"+set
			put(t, filepath.Join(j.dir, "config.yaml"), "")
		}
		out, exit := j.bash(gate, "INCONCLUSIVE=warn", "CONFIG=", "SETS=seed=1\ngate.alpha=0.1", "BASELINE=b",
			"NEW_MODEL=false")
		if exit != 0 || j.file("called") != want+set+"out\n" {
			t.Errorf("no config given, config.yaml is there %v: exit %d, called with %q\n%s", here, exit,
				j.file("called"), out)
		}
	}
	out, exit := newJob(t, "exit 0").bash(gate, "INCONCLUSIVE=maybe", "CONFIG=", "SETS=", "BASELINE=b",
		"NEW_MODEL=false")
	if exit != 3 || !strings.Contains(out, "::error") {
		t.Errorf("inconclusive: maybe ends with %d\n%s", exit, out)
	}
}

// The action's other scripts: names of inputs stay one argument each, a run that fails
// fails the job, and its summary is shown.
func TestActionRun(t *testing.T) {
	j := newJob(t, "exit ${CODE:-0}")
	run := script(t, "Run")
	if out, exit := j.bash(run, "CONFIG=my config.yaml", "SUITES=one\n$(touch broken)\n", "LIMIT=5",
		"SETS=seed=1"); exit != 0 {
		t.Errorf("exit %d\n%s", exit, out)
	}
	if want := "run\n--out\nout\n--quiet\n--config\nmy config.yaml\n--limit\n5\n--suite\none\n" +
		"--suite\n$(touch broken)\n--set\nseed=1\n"; j.file("called") != want {
		t.Errorf("called with %q", j.file("called"))
	}
	if _, err := os.Stat(filepath.Join(j.dir, "broken")); err == nil {
		t.Error("a suite's name was run as a command")
	}
	if _, exit := j.bash(run, "CONFIG=", "SUITES=", "LIMIT=", "SETS=", "CODE=1"); exit != 1 {
		t.Errorf("a run that fails ends the step with %d", exit)
	}
	summary := script(t, "Summary")
	if _, exit := j.bash(summary); exit != 0 || j.file("summary") != "" {
		t.Errorf("without a summary: exit %d, %q", exit, j.file("summary"))
	}
	put(t, filepath.Join(j.dir, "out", "summary.md"), "# Robustness\n")
	if _, exit := j.bash(summary); exit != 0 || j.file("summary") != "# Robustness\n" {
		t.Errorf("exit %d, %q", exit, j.file("summary"))
	}
	here := must.Get(os.Getwd())(t)
	out, exit := j.bash(script(t, "Find the caches"), "SOURCE="+here, "GOCACHE=/build", "GOMODCACHE=/mod",
		"XDG_CACHE_HOME=/caches")
	want := regexp.MustCompile(`^sum=[0-9a-f]{40,}\npaths<<END_OF_PATHS\n` +
		`/caches/selfheal\n/build\n/mod\nEND_OF_PATHS\n$`)
	if exit != 0 || !want.MatchString(j.file("outputs")) {
		t.Errorf("caches: exit %d, %q\n%s", exit, j.file("outputs"), out)
	}
	if _, exit := j.bash(script(t, "Find the caches"), "SOURCE="+t.TempDir()); exit == 0 {
		t.Error("a key of files that are not there is made")
	}
	for binary, want := range map[string]int{
		"selfheal": 0, "./bin/selfheal": 0, "bin/selfheal": 0, filepath.Join(j.dir, "bin", "selfheal"): 0,
		"./absent": 1,
	} {
		for _, made := range []string{"selfheal-bin", "path", "called"} {
			must.Do(t, os.RemoveAll(filepath.Join(j.dir, made)))
		}
		out, exit := j.bash(script(t, "Build selfheal"), "SOURCE="+here, "BINARY="+binary)
		path, called := j.file("path"), j.file("called")
		if exit != want || want == 0 && (path != filepath.Join(j.dir, "selfheal-bin")+"\n" || called != "version\n") {
			t.Errorf("a binary of one's own, %s: exit %d, path %q, called with %q\n%s", binary, exit, path, called, out)
		}
	}
}

// GitLab's job: 2 comes from an inconclusive comparison alone, which is the code that it lets pass.
func TestGitlabScript(t *testing.T) {
	robustness := gitlabJobs(t)[".robustness"]
	if fmt.Sprint(robustness.Passes) != "map[exit_codes:[2]]" {
		t.Errorf("the job passes with %v", robustness.Passes)
	}
	for _, c := range []struct {
		run, check int
		says       string
		want       int
	}{
		{0, 0, "PASS: …", 0}, {0, 1, "FAIL: …", 1}, {0, 2, "INCONCLUSIVE: …", 2},
		{0, 3, "", 3}, {0, 2, "", 3}, {0, 2, "goroutine 1", 3},
		{2, 0, "PASS: …", 1}, {1, 0, "PASS: …", 1}, {2, 2, "INCONCLUSIVE: …", 1},
	} {
		j := newJob(t, fmt.Sprintf("if [ $1 = run ]; then mkdir results; echo '# Robustness' > results/summary.md; "+
			"exit %d; fi\n"+
			"echo table; echo '%s'; exit %d", c.run, c.says, c.check))
		out, code := j.bash(strings.Join(robustness.Script, "\n"), "TIER=quick")
		if code != c.want {
			t.Errorf("%+v: the job ends with %d\n%s", c, code, out)
		}
		if said := strings.HasPrefix(out, "# Robustness\ntable\n"+c.says); said != (c.run == 0) {
			t.Errorf("%+v: it says\n%s", c, out)
		}
	}
}
