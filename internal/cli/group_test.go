package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/internal/testinput"
)

// A group of suites is run under its name, a study of solvers and the theory's checks
// with it; both are in the report, and in the one that is rendered again.
func TestGroupRun(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	file := written(t, dir)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	put(t, file, append(text, `  studied:
    {dataset: test, models: [robust], controls: [unrolled], attacks: [], solver: {images: 2, momentum: [0, 0.5]}}
groups:
  all: {suites: [plain, studied], theory: true}
`...))
	out, again := filepath.Join(dir, "out"), filepath.Join(dir, "again")
	done(t, "run", "--config", file, "--suite", "all", "--limit", "3", "--quiet", "--out", out)
	f, _ := results(t, out)
	if len(f.Suites) != 2 || f.Suites[0].Name != "plain" || f.Theory == nil || f.Theory.Seed != 3 || len(f.Solver) != 1 || len(f.Solver[0].Runs) != 3 {
		t.Errorf("suites %+v, theory %+v, %d studies", f.Suites, f.Theory, len(f.Solver))
	}
	page, err := os.ReadFile(filepath.Join(out, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{`<section id="theory">`, "All 35 checks pass", "Proposition 1", "Solver: robust · unrolled"} {
		if !strings.Contains(strings.ToLower(string(page)), strings.ToLower(s)) {
			t.Errorf("the report lacks %q", s)
		}
	}
	done(t, "report", out, "--out", again)
	first, second := files(t, out), files(t, again)
	for _, name := range []string{"report.html", "theory.html", "theory.json", "theory-theorem-1.png", "solver-studied.png", "solver-studied.svg", "radar-plain.svg"} {
		if first[name] == "" || first[name] != second[name] {
			t.Errorf("%s: %d bytes, rendered again %d", name, len(first[name]), len(second[name]))
		}
	}
	// Another run without them leaves none of their figures.
	done(t, "run", "--config", file, "--suite", "plain", "--limit", "3", "--quiet", "--out", out, "--force")
	for name := range files(t, out) {
		if strings.HasPrefix(name, "theory") || strings.HasPrefix(name, "solver") {
			t.Errorf("%s is left of the run before", name)
		}
	}
	// Nor any other file that a run into a new folder does not make.
	fresh := filepath.Join(dir, "fresh")
	done(t, "run", "--config", file, "--suite", "plain", "--limit", "3", "--quiet", "--out", fresh)
	made := files(t, fresh)
	for name := range files(t, out) {
		if _, ok := made[name]; !ok {
			t.Errorf("%s is left of the run before", name)
		}
	}
}

// files reads a folder's files.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]string{}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		content[e.Name()] = string(data)
	}
	return content
}
