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

//go:embed assets
var assets embed.FS

// pageFuncs are what the templates call.
var pageFuncs = template.FuncMap{
	"words":  strings.Fields,
	"marks":  func(s string) []string { return strings.Split(s, ",") },
	"anchor": markAnchor,
	"share":  func(x float64) string { return fmt.Sprintf("%.4g", min(max(x, 0), 1)) },
}

// page is the HTML page's template; its tables are those of tables.go.
var page = template.Must(template.New("report.html.tmpl").Funcs(pageFuncs).ParseFS(assets, "assets/report.html.tmpl",
	"assets/table.html.tmpl", "assets/study.html.tmpl", "assets/theorybody.html.tmpl", "assets/gallery.html.tmpl"))

// pageData is what the template sees.
type pageData struct {
	Style    template.CSS
	Script   template.JS
	Policy   string // what the page may load and run
	Title    string
	Quoted   bool // numbers of a paper: nothing was run
	Radars   []pageFigure
	Compared bool // with published numbers
	Headline string
	Tested   []fact
	Standing table       // the report in a line a suite, model and control
	Showcase *pageFigure // beside it
	// Sentences say the report in words, where they are few.
	Sentences []string
	Knows     table // what the attacker knows, where there are several
	Suites    []pageSuite
	Studies   []studyPage
	Theory    *theoryBody // nil: the run has none
	Modes     []fact      // the attackers of this file
	Fits      table
	Records   bool
	Curves    bool
	Gallery   bool
	First     bool // some attacks ended at an image's first success
	Run       []fact
	Command   string  // to repeat the run, as one types it; "" where that is not known
	Made      []table // what the numbers depend on
}

// mostSentences is how many lines of a report are also said in words: more are easier read
// in the table.
const mostSentences = 2

// fact is a term and what it says.
type fact struct{ Term, Text string }

// pageSuite is one section of the page.
type pageSuite struct {
	Slug, Heading, Mode, Facts string
	Attacker                   string // what it knows, in words
	Missing                    int
	Accuracy                   table
	Compared                   table
	Figures, Curves            []pageFigure
	Components                 []pageFigure // accuracy after each component of an attack
	Intervals                  table
	Classes                    []table
	Details                    []table
	Gallery                    *galleryView
	Traces                     *traceView
}

// pageFigure is one picture: an svg element that follows the page's colour scheme.
type pageFigure struct {
	Caption string
	Drawing template.HTML
}

func inlined(caption string, s sheet) pageFigure { return pageFigure{caption, inline(s)} }

func renderHTML(w io.Writer, v *view) error {
	script, err := assets.ReadFile("assets/report.js")
	if err != nil {
		return err
	}
	d := v.page()
	return writePage(w, page, seriesStyle(), func(style template.CSS) any {
		d.Style, d.Script, d.Policy = style, template.JS(script), policy(script)
		return d
	})
}

// writePage fills a page's template with what data makes of the style.
func writePage(w io.Writer, t *template.Template, more string, data func(style template.CSS) any) error {
	css, err := assets.ReadFile("assets/style.css")
	if err != nil {
		return err
	}
	var sb strings.Builder
	if err := t.Execute(&sb, data(template.CSS(string(css)+more))); err != nil {
		return err
	}
	_, err = io.WriteString(w, withInks(sb.String()))
	return err
}

// page is all that the page says.
func (v *view) page() pageData {
	d := pageData{Title: v.Title(), Quoted: v.quoted, Headline: v.headline(), Tested: v.tested(),
		Standing: v.headlineTable(), Knows: v.knowledgeTable(),
		Studies: v.studyPages(), Theory: v.theory.body(), Modes: v.attackers(), Fits: v.fitTable(),
		Run: v.provenance(), Command: shellCommand(v.File.Command), Made: v.made()}
	if len(d.Standing.Rows) <= mostSentences && !v.quoted {
		for _, s := range v.Suites {
			for _, r := range s.Rows() {
				if said := s.summary(r); said != "" {
					d.Sentences = append(d.Sentences, said)
				}
			}
		}
	}
	if s, m := v.showcase(); s != nil {
		f := inlined(s.Heading()+": "+s.caption("accuracy in %"+comma(s.drawn())), s.pageAccuracies(m))
		d.Showcase = &f
	}
	for _, s := range v.Suites {
		ps := pageSuite{Slug: s.Slug, Heading: s.Heading(), Mode: clean(s.Mode), Facts: s.Facts(),
			Attacker: s.Attacker(), Missing: s.Missing(),
			Accuracy: s.accuracyTable(), Compared: s.comparisonTable()}
		d.Compared = d.Compared || len(ps.Compared.Rows) > 0
		if !v.quoted { // else nothing was run that there is more to say of, and the figures stand by themselves
			alone := len(v.Suites) == 1 && len(s.Models) == 1 // then the first screen has its figure
			s.fill(&ps, !alone)
			ps.Gallery, ps.Traces = s.Gallery(v.File.Gallery), s.Traces()
			d.Gallery = d.Gallery || ps.Gallery != nil
			d.Records = d.Records || s.margins != nil
			d.Curves = d.Curves || ps.Curves != nil
			s.each(func(c *result.Cell, _ column) { d.First = d.First || c.VerdictOnly })
		}
		d.Suites = append(d.Suites, ps)
	}
	for _, s := range v.radars {
		for _, m := range s.Models {
			d.Radars = append(d.Radars, inlined(s.Heading(), s.pageAccuracies(m)))
		}
	}
	return d
}

// fill adds the figures and the details of a suite that was run.
func (s *suite) fill(ps *pageSuite, panels bool) {
	for _, m := range s.Models {
		if panels {
			ps.Figures = append(ps.Figures, inlined(s.caption("Accuracy in %"+comma(s.drawn())), s.pageAccuracies(m)))
		}
		if f := s.waterfallsOf(m); f.Panels != nil {
			ps.Components = append(ps.Components,
				inlined(s.caption("Accuracy in % after each component"+s.ofFirstSeed()), f))
		}
	}
	for _, c := range s.Curves() {
		ps.Curves = append(ps.Curves, inlined(s.caption("Accuracy in % against ε"+s.ofFirstSeed()),
			s.curveSheet(inPage(), []curves{c})))
	}
	ps.Intervals, ps.Classes = s.intervalTable(), s.classTables()
	for _, t := range []table{s.spreadTable(), s.distanceTable(), s.waterfallTable(), s.solverTable(), s.marginTable(),
		s.costTable()} {
		if len(t.Rows) > 0 {
			ps.Details = append(ps.Details, t)
		}
	}
}

// seriesStyle defines the colours of baseline and controlled bars: those of the figures.
func seriesStyle() string {
	define := func(t theme) string {
		return fmt.Sprintf(":root { --baseline: %s; --controlled: %s; }", cssColour(t.lines[0]), cssColour(t.lines[1]))
	}
	return define(light) + "\n@media screen and (prefers-color-scheme: dark) { " + define(dark) + " }\n"
}

func cssColour(c color.Color) string {
	k := color.NRGBAModel.Convert(c).(color.NRGBA)
	return fmt.Sprintf("#%02x%02x%02x", k.R, k.G, k.B)
}

// policy allows a page its own style, its own pictures and this one script, and no request.
func policy(script []byte) string {
	sum := sha256.Sum256(script)
	return "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// attackers explains the modes of the file's suites.
func (v *view) attackers() []fact {
	var out []fact
	for _, m := range result.Modes {
		if slices.ContainsFunc(v.Suites, func(s *suite) bool { return s.Mode == m.Name }) {
			out = append(out, fact{m.Name, m.Knows})
		}
	}
	return out
}

// headline counts what was tested.
func (v *view) headline() string {
	if v.quoted {
		return v.quotedHeadline()
	}
	models, cells, missing := map[string]bool{}, 0, 0
	for _, s := range v.Suites {
		for _, m := range s.Models {
			models[m] = true
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

// tested says what was tested, over all suites.
func (v *view) tested() []fact {
	var models, controls, data, attacks, attackers []string
	add := func(to *[]string, s string) {
		if s != "" && !slices.Contains(*to, s) {
			*to = append(*to, s)
		}
	}
	for _, s := range v.Suites {
		for _, m := range s.Models {
			add(&models, clean(m))
		}
		for _, c := range s.Controls {
			add(&controls, clean(c))
		}
		for _, c := range s.Columns {
			if c.Attack != "none" {
				add(&attacks, c.Title())
			}
		}
		sample := clean(s.Dataset)
		if s.N > 0 {
			sample += fmt.Sprintf(" (n = %d)", s.N)
		}
		add(&data, sample)
		add(&attackers, clean(s.Mode))
	}
	var out []fact
	for _, f := range []struct {
		term string
		all  []string
	}{{"Models", models}, {"Controllers", controls}, {"Data", data}, {"Attacks", attacks}, {"Attacker", attackers}} {
		if len(f.all) > 0 {
			out = append(out, fact{f.term, some(f.all)})
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
