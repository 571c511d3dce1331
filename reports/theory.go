package reports

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"selfheal/control/theory"
	"selfheal/harness/result"
	"selfheal/internal/atomicfile"
	"selfheal/internal/lists"
	"selfheal/reports/figure"
	"selfheal/reports/figure/chart"
	"selfheal/reports/table"
	"selfheal/reports/words"
)

// Theory holds the readable results of the theory experiments: a table of checks, figures, and the numbers themselves.
type Theory struct {
	*theory.Result
	version string // the program's version
	Figures []chart.Figure
}

// NewTheory arranges the experiments' numbers for reading. version is the program's.
func NewTheory(version string, r *theory.Result) *Theory {
	return &Theory{r, version, figure.Theory(r)}
}

// WriteTheory writes into a folder, as [Write] writes a report: theory.html (one file, figures inside, nothing
// fetched), theory.md, theory.json and for each figure theory-SLUG.png, .svg and .pdf.
func WriteTheory(to atomicfile.Output, t *Theory) error {
	if t == nil {
		return errors.New("reports: no theory to report")
	}
	return writeFiles(to, t.files())
}

func (t *Theory) files() []file {
	files := []file{{"theory.json", func(w io.Writer) error {
		return writeJSON(w, struct {
			Schema string `json:"schema"`
			*theory.Result
		}{"selfheal.theory/1", t.Result})
	}}, {"theory.md", t.markdown}, {"theory.html", t.html}}
	for _, f := range t.Figures {
		files = append(files, pictures(result.TheoryFigure+"-"+f.Slug, f.Sheet(f.Title))...)
	}
	return files
}

func (t *Theory) Verdict() string {
	checks := words.Plural(len(t.Checks), "check")
	if n := lists.Count(t.Checks, func(c theory.Check) bool { return !c.Pass }); n > 0 {
		return fmt.Sprintf("%d of %s fail", n, checks)
	}
	return "all " + checks + " pass"
}

func (t *Theory) Facts() string {
	out := fmt.Sprintf("selfheal %s · seed %d", t.version, t.Seed)
	if t.Quick {
		out += " · quick"
	}
	return out
}

func (t *Theory) markdown(w io.Writer) error {
	var sb strings.Builder
	fmt.Fprintf(&sb, "# The theory, checked\n\n%s\n", mdEscaper.Replace(words.Heading(t.Verdict())+"; "+t.Facts()))
	for _, part := range table.Checks(t.Checks) {
		markdownForm.table(&sb, part)
	}
	for _, f := range t.Figures {
		title, caption := mdEscaper.Replace(f.Title), mdEscaper.Replace(f.Caption)
		fmt.Fprintf(&sb, "\n![%s](theory-%s.svg)\n\n%s\n", title, f.Slug, caption)
	}
	_, err := io.WriteString(w, sb.String())
	return err
}

func (t *Theory) html(w io.Writer) error { return writePage(w, "theory.html.tmpl", t) }
