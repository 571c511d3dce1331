package reports

import (
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strings"

	"selfheal/control/theory"
	"selfheal/internal/wholefile"
)

// theorySchema names the version of theory.json's layout.
const theorySchema = "selfheal.theory/1"

// Theory is what the theory experiments leave to be read: a table of checks, figures, and the
// numbers themselves.
type Theory struct {
	*theory.Result
	version string // of the program
	figures []plotFigure
}

// NewTheory arranges the experiments' numbers for reading. version is the program's.
func NewTheory(version string, r *theory.Result) *Theory {
	return &Theory{r, version, theoryFigures(r)}
}

// plotFigure is a picture of panels, with one legend.
type plotFigure struct {
	Slug    string // of its files, theory-SLUG.png and .svg
	Title   string
	Caption string
	Columns int // panels a row
	Panels  []plotPanel
}

// plotPanel is one chart. A Square one is a piece of the plane: its ranges are Box, equal in
// both directions, and it has no axes.
type plotPanel struct {
	Title      string
	X, Y       string // what the axes show
	LogX, LogY bool
	XTicks     []string // what stands at 0, 1, 2, …; nil for numbers
	Square     bool
	Box        [4]float64 // least x, least y, largest x, largest y; all 0: as the data have it
	Field      *plotField
	Series     []plotSeries
	Texts      []plotText
}

// plotField colours a panel: Values on an N×N grid over the Box, rows from below. With Classes,
// a value is an index into it, and Classes holds colours of the series; without, small values
// are shaded.
type plotField struct {
	N       int
	Values  []float64
	Classes []int
}

// plotSeries is one line or set of points. Series of one label share an entry of
// the legend; one without a label has none.
type plotSeries struct {
	Label     string
	X, Y      []float64
	Low, High []float64 // ends of error bars, if not nil
	Colour    int       // of the figure's colours; −1: ink
	Line      bool
	Dash      int
	Marks     bool
	Marker    int
}

// plotText is written at a place of a panel.
type plotText struct {
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
	for _, f := range t.figures {
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
	data, err := json.MarshalIndent(struct {
		Schema string `json:"schema"`
		*theory.Result
	}{theorySchema, t.Result}, "", " ")
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
	out := fmt.Sprintf("selfheal %s · seed %d", t.version, t.Seed)
	if t.Quick {
		out += " · quick"
	}
	return out
}

// theoryRow is a check as a table has it.
type theoryRow struct {
	theory.Check
	Measured, Expected, Tolerance, Outcome string
}

func rowOf(c theory.Check) theoryRow {
	r := theoryRow{c, sixDigits(c.Measured), c.Relation + nbsp + sixDigits(c.Expected), dash, "FAIL"}
	if c.Tolerance != 0 {
		r.Tolerance = sixDigits(c.Tolerance)
	}
	if c.Pass {
		r.Outcome = "pass"
	}
	return r
}

// sixDigits writes x with six significant digits: checks compare closer than tables do.
func sixDigits(x float64) string {
	s := fmt.Sprintf("%.6g", x)
	return strings.ReplaceAll(s, "-", "−")
}

// theoryPart is a table of checks: those of one experiment.
type theoryPart struct {
	Heading string
	Rows    []theoryRow
}

// parts are the checks by experiment, in order.
func (t *Theory) parts() (out []theoryPart) {
	for _, name := range distinct(t.Checks, func(c theory.Check) (string, bool) { return c.Part, true }) {
		p := theoryPart{Heading: heading(name)}
		for _, c := range t.Checks {
			if c.Part == name {
				p.Rows = append(p.Rows, rowOf(c))
			}
		}
		out = append(out, p)
	}
	return out
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
	for _, part := range t.parts() {
		fmt.Fprintf(&sb, "\n## %s\n\n| Check | Claim | Measured | Expected | Tolerance | |\n|:---|:---|---:|---:|---:|:---|\n",
			mdEscape(part.Heading))
		for _, r := range part.Rows {
			for _, s := range []string{r.Name, r.Claim, r.Measured, r.Expected, r.Tolerance, r.Outcome} {
				fmt.Fprintf(&sb, "| %s ", mdEscape(clean(s)))
			}
			sb.WriteString("|\n")
		}
	}
	for _, f := range t.figures {
		fmt.Fprintf(&sb, "\n![%s](theory-%s.svg)\n\n%s\n", mdEscape(f.Title), f.Slug, mdEscape(f.Caption))
	}
	return sb.String()
}

// theoryPage is the HTML page's template.
var theoryPage = template.Must(template.New("theory.html.tmpl").Funcs(pageFuncs).ParseFS(assets, "assets/theory.html.tmpl", "assets/table.html.tmpl", "assets/theorybody.html.tmpl"))

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
	d := &theoryBody{Verdict: heading(t.Verdict()), Facts: t.facts(), Parts: t.parts()}
	for _, f := range t.figures {
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
