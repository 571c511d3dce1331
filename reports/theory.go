package reports

import (
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strings"

	"selfheal/internal/wholefile"
)

// Theory is what the theory experiments leave to be read: a table of checks, figures, and the
// numbers themselves.
type Theory struct {
	Version string // of the program
	Seed    uint64
	Quick   bool
	Checks  []TheoryCheck
	Figures []TheoryFigure
	Data    any // what theory.json holds
}

// TheoryCheck is a row of the table of checks: Measured stands in Relation ("≤", "≥" or "=")
// to Expected, up to the absolute Tolerance, or does not.
type TheoryCheck struct {
	Part, Name, Claim, Relation   string
	Measured, Expected, Tolerance float64
	Pass                          bool
}

// TheoryFigure is a picture of panels, with one legend.
type TheoryFigure struct {
	Slug    string // of its files, theory-SLUG.png and .svg
	Title   string
	Caption string
	Columns int // panels a row
	Panels  []TheoryPanel
}

// TheoryPanel is one chart. A Square one is a piece of the plane: its ranges are Box, equal in
// both directions, and it has no axes.
type TheoryPanel struct {
	Title      string
	X, Y       string // what the axes show
	LogX, LogY bool
	XTicks     []string // what stands at 0, 1, 2, …; nil for numbers
	Square     bool
	Box        [4]float64 // least x, least y, largest x, largest y; all 0: as the data have it
	Field      *TheoryField
	Series     []TheorySeries
	Texts      []TheoryText
}

// TheoryField colours a panel: Values on an N×N grid over the Box, rows from below. With Classes,
// a value is an index into it, and Classes holds colours of the series; without, small values
// are shaded.
type TheoryField struct {
	N       int
	Values  []float64
	Classes []int
}

// TheorySeries is one line or set of points. Series of one label share an entry of
// the legend; one without a label has none.
type TheorySeries struct {
	Label     string
	X, Y      []float64
	Low, High []float64 // ends of error bars, if not nil
	Colour    int       // of the figure's colours; −1: ink
	Line      bool
	Dash      int
	Marks     bool
	Marker    int
}

// TheoryText is written at a place of a panel.
type TheoryText struct {
	X, Y float64
	Text string
}

// WriteTheory writes into dir, which is made when it does not exist: theory.html (one file, figures
// inside, nothing fetched), theory.md, theory.json and for each figure theory-SLUG.png and
// .svg. Nothing is written before everything is rendered, and each file appears whole or not at all.
func WriteTheory(dir string, t *Theory) error {
	if t == nil {
		return errors.New("reports: no theory to report")
	}
	type file struct{ name, content string }
	var files []file
	add := func(name, content string, err error) error {
		files = append(files, file{name, content})
		if err != nil {
			return fmt.Errorf("reports: rendering %s: %w", name, err)
		}
		return nil
	}
	for _, f := range t.Figures {
		p := theoryPicture{f, light, true}
		var png strings.Builder
		err := writePNG(&png, p)
		if err := add("theory-"+f.Slug+".png", png.String(), err); err != nil {
			return err
		}
		if err := add("theory-"+f.Slug+".svg", svg(p), nil); err != nil {
			return err
		}
	}
	data, err := json.MarshalIndent(t.Data, "", " ")
	if err := add("theory.json", string(data)+"\n", err); err != nil {
		return err
	}
	if err := add("theory.md", t.markdown(), nil); err != nil {
		return err
	}
	page, err := t.html()
	if err := add("theory.html", page, err); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("reports: making the output directory: %w", err)
	}
	for _, f := range files {
		if err := wholefile.Write(filepath.Join(dir, f.name), []byte(f.content)); err != nil {
			return fmt.Errorf("reports: writing %s: %w", filepath.Join(dir, f.name), err)
		}
	}
	return nil
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

// facts says what was run.
func (t *Theory) facts() string {
	out := fmt.Sprintf("selfheal %s · seed %d", t.Version, t.Seed)
	if t.Quick {
		out += " · quick"
	}
	return out
}

// Outcome is the check's verdict in a word.
func (c TheoryCheck) Outcome() string {
	if c.Pass {
		return "pass"
	}
	return "FAIL"
}

// Numbers are what was measured, its relation to what is expected, and the tolerance.
func (c TheoryCheck) Numbers() (measured, expected, tolerance string) {
	tolerance = dash
	if c.Tolerance != 0 {
		tolerance = figures(c.Tolerance)
	}
	return figures(c.Measured), c.Relation + nbsp + figures(c.Expected), tolerance
}

// figures writes x with six significant digits: checks compare closer than tables do.
func figures(x float64) string {
	s := fmt.Sprintf("%.6g", x)
	return strings.ReplaceAll(s, "-", "−")
}

// parts are the checks by experiment, in order.
func (t *Theory) parts() (names []string, checks map[string][]TheoryCheck) {
	checks = map[string][]TheoryCheck{}
	for _, c := range t.Checks {
		if checks[c.Part] == nil {
			names = append(names, c.Part)
		}
		checks[c.Part] = append(checks[c.Part], c)
	}
	return names, checks
}

// heading writes an experiment's name as a heading.
func heading(s string) string {
	s = clean(s)
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func (t *Theory) markdown() string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "# The theory, checked\n\n%s; %s\n", mdEscape(heading(t.Verdict())), mdEscape(t.facts()))
	names, checks := t.parts()
	for _, name := range names {
		fmt.Fprintf(&sb, "\n## %s\n\n| Check | Claim | Measured | Expected | Tolerance | |\n|:---|:---|---:|---:|---:|:---|\n", mdEscape(heading(name)))
		for _, c := range checks[name] {
			measured, expected, tolerance := c.Numbers()
			for _, s := range []string{c.Name, c.Claim, measured, expected, tolerance, c.Outcome()} {
				fmt.Fprintf(&sb, "| %s ", mdEscape(clean(s)))
			}
			sb.WriteString("|\n")
		}
	}
	for _, f := range t.Figures {
		fmt.Fprintf(&sb, "\n![%s](theory-%s.svg)\n\n%s\n", mdEscape(f.Title), f.Slug, mdEscape(f.Caption))
	}
	return sb.String()
}

// theoryPage is the HTML page's template.
var theoryPage = template.Must(template.New("theory.html.tmpl").Funcs(pageFuncs).ParseFS(assets, "assets/theory.html.tmpl", "assets/table.html.tmpl", "assets/theorybody.html.tmpl"))

// theoryRow is a check as the page's table has it.
type theoryRow struct {
	TheoryCheck
	Measured, Expected, Tolerance string
}

// theoryPart is a table of checks.
type theoryPart struct {
	Heading string
	Rows    []theoryRow
}

// theoryBody is what a page has of the theory, by itself or in a run's report.
type theoryBody struct {
	Verdict, Facts string
	Parts          []theoryPart
	Figures        []pageFigure
	Titles         []string // of the figures
}

func (t *Theory) body() *theoryBody {
	if t == nil {
		return nil
	}
	d := &theoryBody{Verdict: heading(t.Verdict()), Facts: t.facts()}
	names, checks := t.parts()
	for _, name := range names {
		p := theoryPart{Heading: heading(name)}
		for _, c := range checks[name] {
			r := theoryRow{TheoryCheck: c}
			r.Measured, r.Expected, r.Tolerance = c.Numbers()
			p.Rows = append(p.Rows, r)
		}
		d.Parts = append(d.Parts, p)
	}
	for _, f := range t.Figures {
		d.Figures = append(d.Figures, pictures(f.Caption, theoryPicture{f, light, false}, theoryPicture{f, dark, false}))
		d.Titles = append(d.Titles, f.Title)
	}
	return d
}

func (t *Theory) html() (string, error) {
	css, err := assets.ReadFile("assets/style.css")
	if err != nil {
		return "", err
	}
	var sb strings.Builder
	err = theoryPage.Execute(&sb, struct {
		Style template.CSS
		*theoryBody
	}{template.CSS(css), t.body()})
	return withInks(sb.String()), err
}
