package reports

import (
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"selfheal/harness/result"
)

//go:embed assets
var assets embed.FS

// page is the HTML page's template; its tables are those of tables.go.
var page = template.Must(template.New("report.html.tmpl").Funcs(template.FuncMap{
	"words":  strings.Fields,
	"marks":  func(s string) []string { return strings.Split(s, ",") },
	"anchor": markAnchor,
	"share":  func(x float64) string { return fmt.Sprintf("%.1f", 100*min(max(x, 0), 1)) },
}).ParseFS(assets, "assets/report.html.tmpl", "assets/study.html.tmpl", "assets/theorybody.html.tmpl"))

// pageData is what the template sees.
type pageData struct {
	Style    template.CSS
	Title    string
	Quoted   bool // numbers of a paper: nothing was run
	Radars   []pageFigure
	Compared bool // with published numbers
	Headline string
	Tested   []fact
	Knows    table // what the attacker knows, where there are several
	Suites   []pageSuite
	Studies  []studyPage
	Theory   *theoryBody // nil: the run has none
	Modes    []fact      // the attackers of this file
	Fits     table
	Records  bool
	Curves   bool
	First    bool // some attacks ended at an image's first success
	Run      []fact
	Datasets table
	Models   table
}

// mostSentences is how many rows of a suite are also said in words: more are easier read in the table.
const mostSentences = 4

// fact is a term and what it says.
type fact struct{ Term, Text string }

// pageSuite is one section of the page.
type pageSuite struct {
	Slug, Heading, Mode, Facts string
	Attacker                   string // what it knows, in words
	Sentences                  []string
	Missing                    int
	Stack                      bool // table over figures instead of beside them
	Accuracy                   table
	Compared                   table
	Figures, Curves            []pageFigure
	Details                    []table
}

// pageFigure is one picture for light and dark pages, as data URIs.
type pageFigure struct {
	Caption, Alt  string
	Light         template.URL
	Dark          template.Srcset
	Width, Height int // CSS pixels
}

func renderHTML(w io.Writer, v *view, _ *suite) error {
	css, err := assets.ReadFile("assets/style.css")
	if err != nil {
		return err
	}
	d := pageData{Style: template.CSS(css), Title: v.Title(), Quoted: v.quoted, Headline: v.headline(), Tested: v.tested(), Knows: v.knowledgeTable(), Modes: v.attackers(), Fits: v.fitTable(),
		Studies: v.studyPages(), Theory: v.theory.body(), Run: v.provenance(), Datasets: v.datasetTable(), Models: v.modelTable()}
	for _, s := range v.Suites {
		ps := pageSuite{Slug: s.Slug, Heading: s.Heading(), Mode: clean(s.Mode), Facts: s.Facts(), Attacker: s.Attacker(), Missing: s.Missing(),
			Stack: len(s.Models) > 1 || len(s.Columns) > 5, Accuracy: s.accuracyTable(), Compared: s.comparisonTable()}
		d.Compared = d.Compared || len(ps.Compared.Rows) > 0
		if v.quoted { // nothing was run that there is more to say of, and the figures stand by themselves
			d.Suites = append(d.Suites, ps)
			continue
		}
		for _, r := range s.Rows() {
			if said := s.summary(r); said != "" && len(s.Models)*len(s.Controls) <= mostSentences {
				ps.Sentences = append(ps.Sentences, said)
			}
		}
		for _, m := range s.Models {
			ps.Figures = append(ps.Figures, pictures(s.caption("Accuracy in %"), panelFigure(s, m, light), panelFigure(s, m, dark)))
		}
		for _, c := range s.Curves() {
			ps.Curves = append(ps.Curves, pictures(s.caption("Accuracy in % against ε"), panelCurves(s, c, light), panelCurves(s, c, dark)))
		}
		for _, t := range []table{s.intervalTable(), s.distanceTable(), s.waterfallTable(), s.solverTable(), s.marginTable(), s.costTable()} {
			if len(t.Rows) > 0 {
				ps.Details = append(ps.Details, t)
			}
		}
		d.Records = d.Records || s.margins != nil
		d.Curves = d.Curves || ps.Curves != nil
		s.each(func(c *result.Cell, _ column) { d.First = d.First || c.VerdictOnly })
		d.Suites = append(d.Suites, ps)
	}
	for _, s := range v.radars {
		for _, m := range s.Models {
			d.Radars = append(d.Radars, pictures(s.Heading(), panelFigure(s, m, light), panelFigure(s, m, dark)))
		}
	}
	return page.Execute(w, d)
}

// pictures draws a panel for light and for dark pages.
func pictures(caption string, day, night picture) pageFigure {
	uri := func(p picture) string {
		return "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(svg(p)))
	}
	width, height := day.size()
	return pageFigure{Caption: caption, Alt: day.describe(), Light: template.URL(uri(day)), Dark: template.Srcset(uri(night)),
		Width: int(width.Points() * 96 / 72), Height: int(height.Points() * 96 / 72)}
}

// attackers explains the modes of the file's suites.
func (v *view) attackers() []fact {
	var out []fact
	for _, m := range modes {
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
	out := fmt.Sprintf("%s, %s, %s", plural(len(v.Suites), "suite"), plural(len(models), "model"), plural(cells, "accuracy", "accuracies"))
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
			out = append(out, fact{f.term, strings.Join(f.all, ", ")})
		}
	}
	return out
}

// provenance says with what the numbers were made.
func (v *view) provenance() []fact {
	if v.quoted {
		return v.source()
	}
	f, e := v.File, v.File.Environment
	created := ""
	if !f.Created.IsZero() {
		created = f.Created.UTC().Format(time.RFC3339)
	}
	var out []fact
	for _, x := range []fact{
		{"Created", created}, {"Plan (SHA-256)", f.ConfigSHA256}, {"Seed", fmt.Sprint(f.Seed)}, {"Schema", f.Schema},
		{"selfheal", e.Selfheal}, {"Go", e.Go}, {"ONNX Runtime", e.ONNXRuntime}, {"Provider", e.Provider}, {"CPU", e.CPU},
		{"Workers, batch", fmt.Sprintf("%d, %d", e.Workers, e.Batch)},
	} {
		if x.Text != "" {
			out = append(out, fact{x.Term, clean(x.Text)})
		}
	}
	return out
}

func (v *view) datasetTable() table {
	t := table{Lead: 1, Caption: "Data sets", Head: []string{"Data set", "Images", "SHA-256 of pixels and labels"}}
	for _, name := range slices.Sorted(maps.Keys(v.File.Datasets)) {
		d := v.File.Datasets[name]
		t.Rows = append(t.Rows, []box{text(clean(name)), text(thousands(int64(d.N))), text(clean(d.SHA256))})
	}
	return t
}

func (v *view) modelTable() table {
	t := table{Lead: 1, Caption: "Models", Head: []string{"Model", "Parameters", "Segments", "FLOPs per image", "SHA-256 of the file"}}
	for _, name := range slices.Sorted(maps.Keys(v.File.Models)) {
		m := v.File.Models[name]
		flops := dash
		if m.FLOPs > 0 {
			flops = thousands(m.FLOPs)
		}
		t.Rows = append(t.Rows, []box{text(clean(name)), text(thousands(m.Parameters)), text(thousands(int64(m.Segments))), text(flops), text(clean(m.SHA256))})
	}
	return t
}
