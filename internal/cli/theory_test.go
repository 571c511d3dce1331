package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/control/theory"
)

// The theory command prints a table of checks that all pass, and leaves a page, the
// numbers and the figures.
func TestTheory(t *testing.T) {
	out := filepath.Join(t.TempDir(), "theory")
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), repository, []string{"theory", "--quick", "--seed", "3", "--out", out}, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	for _, want := range []string{"theorem 1\n", "orthogonal layers", "± 1e-09 ", "checks pass\n", "report: " + filepath.Join(out, "theory.html") + "\n"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("printed no %q:\n%s", want, stdout.String())
		}
	}
	if strings.Contains(stdout.String(), "FAIL") || strings.Count(stdout.String(), "pass\n") < 30 {
		t.Errorf("printed\n%s", stdout.String())
	}
	if got := strings.Count(stderr.String(), "\n"); got != 6 {
		t.Errorf("%d lines of progress: %s", got, stderr.String())
	}
	data, err := os.ReadFile(filepath.Join(out, "theory.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Schema string
		Seed   uint64
		Quick  bool
		Checks []struct{ Pass bool }
		First  struct{ Points []any } `json:"theorem_1"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if file.Schema != "selfheal.theory/1" || file.Seed != 3 || !file.Quick || len(file.Checks) < 30 || len(file.First.Points) == 0 {
		t.Errorf("theory.json: %+v", file)
	}
	for _, name := range []string{"linear-defence", "margins", "proposition-1", "theorem-1", "theorem-2", "curvature"} {
		for _, kind := range []string{".png", ".svg"} {
			if info, err := os.Stat(filepath.Join(out, "theory-"+name+kind)); err != nil || info.Size() < 5000 {
				t.Errorf("%s%s: %v", name, kind, err)
			}
		}
	}

	stdout.Reset()
	stderr.Reset()
	if code := run(context.Background(), repository, []string{"theory", "--quick", "--quiet", "--out", filepath.Join(out, "again")}, &stdout, &stderr); code != exitOK || stderr.Len() > 0 {
		t.Errorf("quiet: exit %d, %q", code, stderr.String())
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if code := run(ctx, repository, []string{"theory", "--quick", "--quiet", "--out", filepath.Join(out, "stopped")}, &stdout, &stderr); code != exitFailed {
		t.Errorf("stopped: exit %d", code)
	}
	for _, wrong := range [][]string{{"theory", "more"}, {"theory", "--seed", "x"}} {
		stderr.Reset()
		if code := run(context.Background(), repository, wrong, &stdout, &stderr); code != exitUsage || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%v: exit %d, %q", wrong, code, stderr.String())
		}
	}
}

// A check that fails is an error, and the table and the page still say which.
func TestTheoryFails(t *testing.T) {
	r, err := theory.Run(context.Background(), theory.Options{Quick: true})
	if err != nil {
		t.Fatal(err)
	}
	r.Checks[4].Pass = false
	out := t.TempDir()
	var stdout bytes.Buffer
	if err := concludeTheory(&stdout, r, out); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("1 of %d checks fail; see ", len(r.Checks))) {
		t.Errorf("%v", err)
	}
	page, err := os.ReadFile(filepath.Join(out, "theory.html"))
	if err != nil || strings.Count(string(page), ">FAIL<") != 1 || strings.Count(stdout.String(), "FAIL\n") != 1 {
		t.Errorf("%v; printed\n%s", err, stdout.String())
	}
}
