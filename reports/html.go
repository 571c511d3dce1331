package reports

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"image/color"
	"io"
	"slices"
	"strings"

	"selfheal/harness/result"
)

//go:embed assets/*.tmpl
var templates embed.FS

//go:embed assets/style.css
var styleSheet string

//go:embed assets/report.js
var script string

// pages are the templates of the HTML pages: of a report, which sees a view, and of the theory.
var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"words":        strings.Fields,
	"marks":        func(s string) []string { return strings.Split(s, ",") },
	"anchor":       markAnchor,
	"share":        func(x float64) string { return fmt.Sprintf("%.4g", min(max(x, 0), 1)) },
	"list":         func(of ...any) []any { return of },
	"clean":        clean,
	"heading":      heading,
	"style":        func() template.CSS { return template.CSS(styleSheet) },
	"series":       seriesStyle,
	"script":       func() template.JS { return template.JS(script) },
	"policy":       policy,
	"overview":     func(v page) []sheet { return overview(v.view) },
	"figures":      func(s suiteTables, accuracies bool) [][]sheet { return pageFigures(s.suite, accuracies) },
	"paperFigures": paperFigures,
	"gallery":      gallery,
	"traces":       traces,
	"studyFigure":  studyFigure,
	"studyTables":  studyTables,
	"scatter":      func(g groupTables) *sheet { return pageScatter(g.group) },
	"histories":    func(g groupTables) []sheet { return histories(g.group) },
}).ParseFS(templates, "assets/*.tmpl"))

// writePage fills the page's template called name with what it shows.
func writePage(w io.Writer, name string, of any) error {
	var sb strings.Builder
	if err := pages.ExecuteTemplate(&sb, name, of); err != nil {
		return err
	}
	_, err := io.WriteString(w, withInks(sb.String()))
	return err
}

func renderHTML(w io.Writer, v page) error { return writePage(w, "report.html.tmpl", v) }

// mostSentences is how many lines of a report are also said in words: more are easier read
// in the table.
const mostSentences = 2

// fact is a term and what it says.
type fact struct{ Term, Text string }

// Sentences say the report in words, where they are few.
func (v *view) Sentences() (out []string) {
	lines := 0
	for _, s := range v.Suites {
		for _, r := range s.Rows() {
			lines++
			if said := s.summary(r); said != "" {
				out = append(out, said)
			}
		}
	}
	if v.Quoted || lines > mostSentences {
		return nil
	}
	return out
}

// paperFigures are the figures of a paper's networks.
func paperFigures(v page) (out []sheet) {
	for _, s := range v.radars {
		for _, m := range s.Models {
			f := pageAccuracies(s, m)
			f.Caption = s.Heading()
			out = append(out, f)
		}
	}
	return out
}

// Curved reports whether there are robustness curves.
func (s *suite) Curved() bool { return len(s.Curves()) > 0 }

// Details are the suite's tables that a page folds away where they are long.
func (s suiteTables) Details() []table {
	return filled(append(s.corruptionTables(), s.spreadTable(), s.distanceTable(), s.waterfallTable(),
		s.solverTable(), s.marginTable(), s.costTable())...)
}

// filled are those of some tables that have rows.
func filled(all ...table) []table {
	return slices.DeleteFunc(all, func(t table) bool { return len(t.Rows) == 0 })
}

// Recorded reports whether there are records of the suite.
func (s *suite) Recorded() bool { return len(s.margins) > 0 }

// EndsEarly reports whether some attacks ended at an image's first success.
func (s *suite) EndsEarly() bool {
	for _, c := range s.cells {
		if c.VerdictOnly {
			return true
		}
	}
	return false
}

// seriesStyle defines the colours of baseline and controlled bars: those of the figures.
func seriesStyle() template.CSS {
	define := func(t theme) string {
		return fmt.Sprintf(":root { --baseline: %s; --controlled: %s; }", cssColour(t.lines[0]), cssColour(t.lines[1]))
	}
	return template.CSS(define(light) + "\n@media screen and (prefers-color-scheme: dark) { " + define(dark) + " }\n")
}

func cssColour(c color.Color) string {
	k := color.NRGBAModel.Convert(c).(color.NRGBA)
	return fmt.Sprintf("#%02x%02x%02x", k.R, k.G, k.B)
}

// policy allows a page its own style, its own pictures and this one script, and no request.
func policy() string {
	sum := sha256.Sum256([]byte(script))
	return "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Attackers explains the modes of the file's suites.
func (v *view) Attackers() []fact {
	var out []fact
	for _, m := range append([]result.Mode{result.Whitebox}, result.Modes...) {
		if slices.ContainsFunc(v.Suites, func(s *suite) bool { return s.Attacker().Name == m.Name }) {
			out = append(out, fact{m.Name, m.Knows})
		}
	}
	return out
}

// Headline counts what was tested.
func (v *view) Headline() string {
	if v.Quoted {
		return v.quotedHeadline()
	}
	models, cells, missing := []string(nil), 0, 0
	for _, s := range v.Suites {
		for _, m := range s.Models {
			models = once(models, m)
		}
		cells += len(s.cells)
		missing += s.Missing()
	}
	out := fmt.Sprintf("%s, %s, %s", plural(len(v.Suites), "suite"), plural(len(models), "model"),
		plural(cells, "accuracy", "accuracies"))
	if missing > 0 {
		out += fmt.Sprintf("; partial, %d still to measure", missing)
	}
	return out
}

func plural(n int, one string, many ...string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, append(many, one+"s")[0])
}

// plainPasses is a number of plain passes as a text.
func plainPasses(n float64) string {
	if said := threeDigits(n); said != "1" {
		return said + " plain passes"
	}
	return "1 plain pass"
}

// Tested says what was tested, over all suites.
func (v *view) Tested() (out []fact) {
	said := map[string][]string{}
	add := func(term, name string) {
		if name != "" {
			said[term] = once(said[term], name)
		}
	}
	for _, s := range v.Suites {
		for _, m := range s.Models {
			add("Models", clean(m))
		}
		for _, c := range s.Controls {
			add("Controllers", clean(c))
		}
		for _, c := range s.Columns {
			if c.Attack != "none" {
				add("Attacks", c.Title())
			}
		}
		for _, by := range s.certified {
			add("Certificates", clean(by.of.Title))
		}
		sample := clean(s.Dataset)
		if s.N > 0 {
			sample += fmt.Sprintf(" (n = %d)", s.N)
		}
		add("Data", sample)
		add("Attacker", s.Attacker().Name)
	}
	for _, term := range []string{"Models", "Controllers", "Data", "Attacks", "Certificates", "Attacker"} {
		if said[term] != nil {
			out = append(out, fact{term, some(said[term])})
		}
	}
	return out
}

// some joins names, the first dozen where there are many more.
func some(names []string) string {
	const most = 12
	if len(names) <= most+2 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
