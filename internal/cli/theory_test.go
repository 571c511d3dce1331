package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"selfheal/control/theory"
	"selfheal/internal/atomicfile"
	"selfheal/internal/lists"
	"selfheal/internal/must"
)

var theories struct {
	sync.Mutex
	of map[uint64]*theory.Result // by seed
}

// sharedTheory is [theory.Run], which computes once for all tests, and only as much as --quick does.
func sharedTheory(ctx context.Context, o theory.Options) (*theory.Result, error) {
	theories.Lock()
	defer theories.Unlock()
	r := theories.of[o.Seed]
	if r == nil {
		o.Quick = true
		r, err := theory.Run(ctx, o)
		if err == nil {
			theories.of[o.Seed] = r
		}
		return r, err
	}
	for _, part := range lists.Distinct(r.Checks, func(c theory.Check) string { return c.Part }) {
		if o.Progress != nil {
			o.Progress(part)
		}
	}
	return r, nil
}

// The theory command prints a table of checks that all pass, and leaves a page, the numbers and the figures.
func TestTheory(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "theory")
	code, stdout, stderr := call("theory", "--quick", "--seed", "3", "--out", out, "--log-format", "json")
	if code != exitOK || strings.Count(stderr, "\n") != 8 {
		t.Fatalf("exit %d, progress:\n%s", code, stderr)
	}
	for _, r := range decoded(t, stderr) {
		if r["msg"] != "experiment started" || r["experiment"] == "" {
			t.Errorf("%v", r)
		}
	}
	must.Have(t, stdout, "theorem 1\n", "orthogonal layers", "± 1e-09 ", "checks pass\n",
		"report: "+filepath.Join(out, "theory.html")+"\n")
	if strings.Contains(stdout, "FAIL") || strings.Count(stdout, "pass\n") < 30 {
		t.Errorf("printed\n%s", stdout)
	}
	file := fromJSON[struct {
		Schema string
		Seed   uint64
		Quick  bool
		Checks []struct{ Pass bool }
		First  struct{ Points []any } `json:"theorem_1"`
	}](t, read(t, filepath.Join(out, "theory.json")))
	if file.Schema != "selfheal.theory/1" || file.Seed != 3 || !file.Quick || len(file.Checks) < 30 ||
		len(file.First.Points) == 0 {
		t.Errorf("theory.json: %+v", file)
	}
	for _, name := range []string{"linear-defence", "margins", "proposition-1", "theorem-1", "theorem-2", "curvature"} {
		for kind, least := range map[string]int64{".png": 500, ".svg": 5000} {
			if info, err := os.Stat(filepath.Join(out, "theory-"+name+kind)); err != nil || info.Size() < least {
				t.Errorf("%s%s: %v", name, kind, err)
			}
		}
	}
	again := filepath.Join(out, "again")
	if code, _, stderr := call("theory", "--quick", "--quiet", "--out", again); code != exitOK || stderr != "" {
		t.Errorf("quiet: exit %d, %q", code, stderr)
	}
}

// A check that fails is an error, and the table and the page still say which.
func TestTheoryFails(t *testing.T) {
	t.Parallel()
	r := *must.Get(sharedTheory(t.Context(), theory.Options{}))(t)
	r.Checks = slices.Clone(r.Checks)
	r.Checks[4].Pass = false
	out := t.TempDir()
	var stdout bytes.Buffer
	err := concludeTheory(&stdout, &r, atomicfile.Rule{}.In(out, "theory"))
	must.Refuse(t, err, fmt.Sprintf("1 of %d checks fail; see ", len(r.Checks)))
	page := read(t, filepath.Join(out, "theory.html"))
	if strings.Count(page, ">FAIL<") != 1 || strings.Count(stdout.String(), "FAIL\n") != 1 {
		t.Errorf("printed\n%s", stdout.String())
	}
}
