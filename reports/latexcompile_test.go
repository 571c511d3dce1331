package reports

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/reports/words"
)

// overfull matches how far, in points, a line or box sticks out, in TeX's log.
var overfull = regexp.MustCompile(`Overfull \\hbox \(([0-9.]+)pt too wide\)`)

// compile typesets a document and returns TeX's log and the widest box that sticks out.
func compile(t *testing.T, pdflatex string, files map[string]string) (log string, widest float64) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, pdflatex, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape",
		"main.tex")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	raw, _ := os.ReadFile(filepath.Join(dir, "main.log"))
	log = string(raw)
	if err != nil {
		t.Fatalf("%v\n%s", err, tail(string(out)))
	}
	if _, err := os.Stat(filepath.Join(dir, "main.pdf")); err != nil {
		t.Fatalf("no page: %v\n%s", err, tail(log))
	}
	if strings.Contains(log, "\n! ") || strings.Contains(log, "Missing character") ||
		strings.Contains(log, "multiply defined") {
		t.Errorf("TeX complains:\n%s", tail(log))
	}
	for _, m := range overfull.FindAllStringSubmatch(log, -1) {
		by := must.Get(strconv.ParseFloat(m[1], 64))(t)
		widest = max(widest, by)
	}
	return log, widest
}

func tail(s string) string { return s[max(0, len(s)-3000):] }

// The tables compile by themselves and inside a paper: the fixture's, those with hostile names and the paper's own. No
// box of the latter sticks out of a text 6 inches wide, as in JMLR.
func TestLaTeXCompiles(t *testing.T) {
	t.Parallel()
	pdflatex, err := exec.LookPath("pdflatex")
	if err == nil {
		err = exec.Command("kpsewhich", "booktabs.sty").Run()
	}
	if err != nil {
		t.Skip("pdflatex or booktabs is not there (Debian: texlive-latex-recommended); LaTeX tables stay uncompiled")
	}
	published := t.TempDir()
	must.Do(t, WritePublished(outputs(published)))
	const paper = "\\documentclass[11pt]{article}\n\\usepackage{booktabs}\n" +
		"\\maxdeadcycles=1000 \\extrafloats{500}\n\\oddsidemargin=0pt " +
		"\\textwidth=6in\n\\begin{document}\nBefore.\n\\input{tables.tex}\nAfter, see " +
		"Table~\\ref{tab:%s}.\n\\end{document}\n"
	for _, c := range []struct {
		name, tex, label string
		most             float64 // points beyond the text's width, in the file by itself and in a paper
		inPaper          float64
	}{
		{"published", folder(t, published)["tables.tex"], "table2-standard-accuracy-1", 0, 0},
		{"fixture", report(t)["tables.tex"], "real-accuracy-1", 0, 30},
		{"compared", textFiles(t, arranged(compareFixture(), nil))["tables.tex"], "table7-published-1", 0, 9},
		{"hostile", textFiles(t, arranged(hostileFile(), nil))["tables.tex"],
			words.UniqueSlug(hostile[0], map[string]bool{}) + "-accuracy-1", 400, 500}, // 90 letters unbroken
		{"comparison", texDocument(comparedTeX(comparedFixture(t))), "tiny---small-rank-1", 60, 120},
		{"chosen", texHead + must.Get(LaTeX(fixture(), nil, TeXChoice{"real-accuracy", `Ours, \emph{as run}.`,
			"tab:ours"}))(t) + "\\selfhealend\n", "ours", 0, 20},
		{"empty", textFiles(t, arranged(&result.File{}, nil))["tables.tex"], "none", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, out := compile(t, pdflatex, map[string]string{"main.tex": c.tex}); out > c.most {
				t.Errorf("by itself, a box is %.1f pt too wide", out)
			}
			log, out := compile(t, pdflatex, map[string]string{"main.tex": strings.Replace(paper, "%s", c.label, 1),
				"tables.tex": c.tex})
			if out > c.inPaper {
				t.Errorf("in a paper, a box is %.1f pt too wide", out)
			}
			// The first run knows no labels, but names them.
			if c.name != "empty" && !strings.Contains(log, "Reference `tab:"+c.label) {
				t.Errorf("the log does not speak of label %s", c.label)
			}
		})
	}
}

// If a norm has two strengths, each head says its own; for the usual form see the golden paper.
func TestPaperForm(t *testing.T) {
	t.Parallel()
	s := arranged(fixture(), nil).Suites[1] // one norm in two strengths
	head := s.AccuracyTable().Head
	if table, form := paperForm(s, s.AccuracyTable()); form.strengths != "" || table.Head[3] != head[3] {
		t.Errorf("two strengths of a norm are said as %q over %q", form.strengths, table.Head)
	}
}
