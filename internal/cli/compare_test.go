package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"selfheal/harness/compare"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testbrowser"
)

// nights makes the folders of runs on several days, in one folder; the last run is not finished.
func nights(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for day, others := range []map[int]int{nil, {1: 520, 3: 300}, {3: 310, 8: 480, 11: 400}} {
		f := gateRun(600, 480, others)
		f.Created = time.Date(2026, 11, 19+day, 3, 0, 0, 0, time.UTC)
		finished := f.Created.Add(time.Hour)
		place := filepath.Join(dir, fmt.Sprint("2026-11-", 19+day))
		if day == 2 {
			place, f.Cells = filepath.Join(place, "selfheal-journal"), f.Cells[:10]
		} else {
			f.Finished = &finished
		}
		must.Do(t, os.MkdirAll(place, 0o755))
		must.Do(t, result.Write(filepath.Join(place, "results.json"), f))
	}
	return dir
}

// A folder of runs is compared on the screen and in files.
func TestCompare(t *testing.T) {
	t.Parallel()
	dir := nights(t)
	out := filepath.Join(t.TempDir(), "comparison")
	golden(t, "compare", strings.ReplaceAll(done(t, "compare", dir, "--out", out), out, "OUT"))
	for _, name := range []string{"compare.html", "compare.md", "compare.json", "compare-scatter-test.png",
		"compare-scatter-test.svg", "compare-history-test-1.svg"} {
		if read(t, filepath.Join(out, name)) == "" {
			t.Errorf("%s is empty", name)
		}
	}
	text := done(t, "compare", dir, "--json")
	schema := must.Get(jsonschema.NewCompiler().Compile(filepath.Join(root, "docs/schema/comparison.schema.json")))(t)
	must.Do(t, schema.Validate(must.Get(jsonschema.UnmarshalJSON(strings.NewReader(text)))(t)))
	of, written := fromJSON[compare.Comparison](t, text), fromJSON[compare.Comparison](t,
		read(t, filepath.Join(out, "compare.json")))
	if fmt.Sprint(of) == "" || len(of.Groups) != 1 || len(of.Groups[0].Entries) != 12 ||
		len(written.Groups[0].Pairs) != 66 {
		t.Errorf("%d groups", len(of.Groups))
	}

	// A comparison replaces an earlier one, with the figures that it no longer has, and nothing else.
	put(t, filepath.Join(out, "mine.txt"), []byte("mine"))
	stdout := done(t, "compare", "--quiet", filepath.Join(dir, "2026-11-19"), "--out", out)
	if stdout != "" {
		t.Errorf("--quiet prints %s", stdout)
	}
	if exists(filepath.Join(out, "compare-history-test-1.svg")) || !exists(filepath.Join(out, "mine.txt")) ||
		!strings.Contains(read(t, filepath.Join(out, "compare.html")), "one run") {
		t.Error("an earlier comparison is not replaced")
	}
	put(t, filepath.Join(out, "compare.json"), []byte("{}"))
	refused(t, exitUsage, "is no comparison as selfheal wrote it; choose another name or add --force", "compare", dir,
		"--out", out)
	done(t, "compare", dir, "--out", out, "--force")
}

// The page opens, and nothing on a phone is wider than its screen.
func TestComparePage(t *testing.T) {
	ctx := testbrowser.Start(t)
	out := t.TempDir()
	done(t, "compare", nights(t), "--out", out)
	p := testbrowser.Open(t, ctx, filepath.Join(out, "compare.html"))
	p.Check(1280, 390)
	if got := p.Column("#group-test table", 0); len(got) != 12 {
		t.Errorf("%d entries", len(got))
	}
	p.Quiet()
}

// One table is printed for a paper, with one's own caption and label. A name that is no table's is refused with those
// that are.
func TestLaTeX(t *testing.T) {
	t.Parallel()
	dir := nights(t)
	one := filepath.Join(dir, "2026-11-19")
	for _, c := range [][]string{{"report", one, "--latex", "accuracy"}, {"compare", dir, "--latex", "rank"}} {
		got := done(t, append(c, "--caption", `Ours \cite{x}.`, "--label", "tab:ours")...)
		must.Have(t, got, `\caption{Ours \cite{x}.}`, `\label{tab:ours}`, `\toprule`, `\bottomrule`)
		if strings.Count(got, `\begin{table}`) != 1 || strings.Contains(got, "documentclass") {
			t.Errorf("%q prints\n%s", c, got)
		}
	}
	refused(t, exitUsage, "there is no table absent; there are ", "report", one, "--latex", "absent")
	refused(t, exitUsage, "--caption goes with --latex", "compare", dir, "--caption", "Ours")
}
