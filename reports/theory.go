package reports

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"selfheal/control/theory"
)

// theorySchema names the version of theory.json's layout.
const theorySchema = "selfheal.theory/1"

// Theory is what the theory experiments leave to be read: a table of checks, figures, and the
// numbers themselves.
type Theory struct {
	*theory.Result
	version string // of the program
	Figures []plotFigure
}

// NewTheory arranges the experiments' numbers for reading. version is the program's.
func NewTheory(version string, r *theory.Result) *Theory {
	return &Theory{r, version, theoryFigures(r)}
}

// WriteTheory writes into dir, which is made when it does not exist: theory.html (one file, figures
// inside, nothing fetched), theory.md, theory.json and for each figure theory-SLUG.png and
// .svg. Nothing is written before everything is rendered, and each file appears whole or not at all.
func WriteTheory(dir string, t *Theory) error {
	if t == nil {
		return errors.New("reports: no theory to report")
	}
	files := []file{{"theory.json", t.json}, {"theory.md", t.markdown}, {"theory.html", t.html}}
	for _, f := range t.Figures {
		files = append(files, f.Sheet(f.Title).files("theory-"+f.Slug)...)
	}
	return writeFiles(dir, files)
}

func (t *Theory) json(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(struct {
		Schema string `json:"schema"`
		*theory.Result
	}{theorySchema, t.Result})
}

// Verdict says how many checks passed.
func (t *Theory) Verdict() string {
	failed := 0
	for _, c := range t.Checks {
		if !c.Pass {
			failed++
		}
	}
	if failed == 0 {
		return fmt.Sprintf("all %s pass", plural(len(t.Checks), "check"))
	}
	return fmt.Sprintf("%d of %s fail", failed, plural(len(t.Checks), "check"))
}

// Facts says what was run.
func (t *Theory) Facts() string {
	out := fmt.Sprintf("selfheal %s · seed %d", t.version, t.Seed)
	if t.Quick {
		out += " · quick"
	}
	return out
}

// sixDigits writes x with six significant digits: checks compare closer than tables do.
func sixDigits(x float64) string {
	s := fmt.Sprintf("%.6g", x)
	return strings.ReplaceAll(s, "-", "−")
}

// Tables are the checks, a table an experiment.
func (t *Theory) Tables() (out []table) {
	for _, name := range distinct(t.Checks, func(c theory.Check) string { return c.Part }) {
		part := table{Lead: 1, Caption: heading(name),
			Head: []string{"Check", claimHead, "Measured", "Expected", "Tolerance", outcomeHead}}
		for _, c := range t.Checks {
			if c.Part != name {
				continue
			}
			tolerance, outcome := dash, text("pass")
			if c.Tolerance != 0 {
				tolerance = sixDigits(c.Tolerance)
			}
			if c.Factor != 0 {
				tolerance = c.Looseness()
			}
			if !c.Pass {
				outcome.Spans[0] = span{Text: "FAIL", Bold: true}
			}
			expected := c.Relation + nbsp + sixDigits(c.Expected)
			part.add(clean(c.Name), clean(c.Claim), sixDigits(c.Measured), expected, tolerance, outcome)
		}
		out = append(out, part)
	}
	return out
}

const claimHead, outcomeHead = "Claim", "Outcome"

// heading writes an experiment's name as a heading.
func heading(s string) string {
	s = clean(s)
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func (t *Theory) markdown(w io.Writer) error {
	var sb strings.Builder
	fmt.Fprintf(&sb, "# The theory, checked\n\n%s; %s\n", mdEscape(heading(t.Verdict())), mdEscape(t.Facts()))
	for _, part := range t.Tables() {
		mdTable(&sb, part)
	}
	for _, f := range t.Figures {
		fmt.Fprintf(&sb, "\n![%s](theory-%s.svg)\n\n%s\n", mdEscape(f.Title), f.Slug, mdEscape(f.Caption))
	}
	_, err := io.WriteString(w, sb.String())
	return err
}

func (t *Theory) html(w io.Writer) error { return writePage(w, "theory.html.tmpl", t) }
