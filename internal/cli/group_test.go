package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
)

// A group of suites is run under its name, a study of solvers and the theory's checks
// with it; both are in the report, and in the one that is rendered again.
func TestGroupRun(t *testing.T) {
	t.Parallel()
	testinput.Runtime(t)
	dir := t.TempDir()
	file := written(t, dir, useConfig+`  studied:
    {dataset: test, models: [robust], controls: [unrolled], attacks: [], solver: {images: 2, momentum: [0, 0.5]}}
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
	for _, s := range []string{`<section id="theory">`, "all 35 checks pass", "proposition 1",
		"solver: robust · unrolled"} {
		if !strings.Contains(page, s) {
			t.Errorf("the report lacks %q", s)
		}
	}
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
