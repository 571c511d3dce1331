package reports

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/reports/figure"
	"selfheal/reports/figure/chart"
	"selfheal/reports/table"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

//go:embed assets/*.tmpl
var templates embed.FS

//go:embed assets/style.css
var styleSheet string

//go:embed assets/report.js
var script string

// pages holds the templates of the HTML pages: of a report, which reads a view, and of the theory.
var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"words":    strings.Fields,
	"marks":    func(s string) []string { return strings.Split(s, ",") },
	"anchor":   table.MarkAnchor,
	"share":    func(x float64) string { return fmt.Sprintf("%.4g", min(max(x, 0), 1)) },
	"list":     func(of ...any) []any { return of },
	"clean":    words.Clean,
	"heading":  words.Heading,
	"style":    func() template.CSS { return template.CSS(styleSheet) },
	"series":   chart.SeriesStyle,
	"script":   func() template.JS { return template.JS(script) },
	"policy":   policy,
	"overview": func(v page) []chart.Sheet { return figure.Overview(v.Report.Report) },
	"figures": func(s table.Suite, drawn, accuracies bool) [][]chart.Sheet {
		if !drawn {
			return nil
		}
		return figure.Page(s.Suite, accuracies)
	},
	"paperFigures": func(v page) []chart.Sheet { return figure.Paper(v.Report.Report) },
	"gallery":      gallery,
	"traces":       func(s table.Suite) chart.Figure { return figure.Traces(s.Suite) },
	"mostTraced":   func() int { return view.MostTraced },
	"studyFigure":  figure.Study,
	"checks":       table.Checks,
	"studyTables":  table.Study,
	"scatter":      func(g table.Group) chart.Sheet { return figure.Scatter(g.Group, true) },
	"histories":    func(g table.Group) []chart.Sheet { return figure.Histories(g.Group) },
}).ParseFS(templates, "assets/*.tmpl"))

// writePage fills the page's template called name with what it shows.
func writePage(w io.Writer, name string, of any) error {
	var sb strings.Builder
	if err := pages.ExecuteTemplate(&sb, name, of); err != nil {
		return err
	}
	_, err := io.WriteString(w, chart.WithInks(sb.String()))
	return err
}

func renderHTML(w io.Writer, v page) error { return writePage(w, "report.html.tmpl", v) }

// policy returns a content security policy that allows the page its own style, pictures and this one script, and no
// request.
func policy() string {
	sum := sha256.Sum256([]byte(script))
	return "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

type galleryView struct {
	Slug       string // of the suite
	Healed     bool   // some images were selected by the control's effect
	Seeds      bool   // the suite has several
	Controlled bool
	Notes      []string
	Cases      []galleryCard
}

// galleryCard shows one image: how it was attacked and controlled, and the answers.
type galleryCard struct {
	Heading, Facts string
	Trace          string // the control's course; "" without one
	Width, Height  int
	Small          bool // at most 64 pixels a side; every pixel should be visible
	Pictures       []galleryPicture
}

// galleryPicture is one of a card's pictures; if there is none to show, Source is empty and Note says why.
type galleryPicture struct {
	Name, Alt, Note string
	Source          template.URL
	Answers         []galleryAnswer
}

// galleryAnswer is one network's answer on the picture above it.
type galleryAnswer struct {
	Who, Class, Margin string
	Right              bool
}

var kindNames = map[string]string{result.Healed: "Healed", result.NotHealed: "Not healed", result.Broken: "Broken"}

// gallery returns the suite's gallery, nil if there are no cases and nothing to say about that.
func gallery(s table.Suite, g *result.Gallery) *galleryView {
	if g == nil {
		return nil
	}
	v := &galleryView{Slug: s.Slug, Seeds: s.Seeds > 1, Controlled: len(s.Controls) > 0}
	for _, c := range g.Cases {
		of := words.Column{Column: c.Column}
		if s.Mode == result.Transfer { // each network's own images are in the gallery
			of.Source = c.Model
		}
		names := s.Named(c.ID)
		if c.Suite != s.Name || len(names) == 0 {
			continue
		}
		c.Defense = names[0]
		i := slices.IndexFunc(s.Columns, of.Same)
		if i < 0 || s.Cell(c.Model, c.Defense, s.Columns[i]) == nil {
			continue
		}
		v.Healed = v.Healed || c.Kind != result.Broken
		v.Cases = append(v.Cases, galleryCase(s, c, s.Columns[i]))
	}
	notes := lists.Only(g.Notes, func(n result.GalleryNote) bool { return n.Suite == s.Name })
	v.Notes = lists.Map(notes, func(n result.GalleryNote) string { return words.Clean(n.Message) })
	if v.Cases == nil && v.Notes == nil {
		return nil
	}
	return v
}

func galleryCase(s table.Suite, c result.GalleryCase, col words.Column) galleryCard {
	p, name := c.Pictures, classOf(c.Label, c.LabelName)
	course, layers := courseOf(c.Trace)
	who := words.Clean(c.Model)
	if c.Defense != cell.None {
		who += " · " + words.DefenseName(s.Side(c.Defense).Control)
	}
	source := func(data []byte) template.URL {
		if data == nil {
			return ""
		}
		return template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(data))
	}
	answer := func(who string, a result.GalleryAnswer) galleryAnswer {
		who = words.If(len(s.Controls) > 0, who) // the only one there is needs no name
		return galleryAnswer{who, classOf(a.Class, a.Name), words.Signed(a.Margin), a.Class == c.Label}
	}
	size := words.NormName(c.Norm) + " norm " + words.Strength(c.Norm, c.Perturbation)
	if c.VerdictOnly {
		size += ", at the attack's first success"
	}
	times, image := words.ThreeDigits(p.Magnification), fmt.Sprintf("image %d", c.Image)
	first := words.Heading(image) // of a sentence
	if c.File != "" {
		image = words.Clean(c.File)
		first = image
	}
	before, after := []galleryAnswer{answer("undefended", c.Undefended.Clean)}, first+" after the attack"
	if c.Controlled != nil {
		before = append(before, answer("controlled", c.Controlled.Clean))
	}
	out := galleryCard{Heading: kindNames[c.Kind] + ": " + image + ", " + name,
		Facts: who + " · " + col.Title() + words.If(!s.Plain(), " · "+s.AttackerOf(c.Defense).Name), Trace: course,
		Width: p.Width, Height: p.Height, Small: max(p.Width, p.Height) <= 64,
		Pictures: []galleryPicture{
			{"Clean", first + " as it is, labelled " + name, "", source(p.Clean), before},
			{"Perturbation ×" + times, "What the attack added to " + image + ", " + times +
				" times as strong, around mid-grey", size, source(p.Perturbation), nil},
			{"Adversarial", after, "", source(p.Adversarial),
				[]galleryAnswer{answer("undefended", c.Undefended.Adversarial)}},
		}}
	for i, mask := range p.Masks {
		what := []string{"Truth", "Answer, clean", "Answer, attacked", "Answer, controlled"}[i]
		out.Pictures = append(out.Pictures, galleryPicture{what, "Classes of the pixels of " + image + ": " +
			strings.ToLower(what), "", source(mask), nil})
	}
	if c.Controlled == nil {
		return out
	}
	healed := galleryPicture{"Healed", after + " and the control of the input", "", source(p.Healed),
		[]galleryAnswer{answer("controlled", c.Controlled.Adversarial)}}
	if c.Kind != result.Healed {
		healed.Name = "Controlled" // the control did not heal it
	}
	if p.Healed == nil {
		healed.Note = "acts on hidden states" + layers + ": no picture"
	}
	out.Pictures = append(out.Pictures, healed)
	return out
}

func classOf(class int, name string) string {
	return words.Clean(cmp.Or(name, fmt.Sprint("class ", class)))
}

// courseOf describes a trace in words, and names its layers.
func courseOf(t []result.GallerySweep) (course, layers string) {
	if len(t) == 0 {
		return "", ""
	}
	var norms, names []string
	objectives := lists.Map(t, func(s result.GallerySweep) string { return words.FourDigits(s.Objective) })
	for _, l := range t[len(t)-1].Layers {
		names = append(names, words.LayerName(l.At))
		norms = append(norms, words.ThreeDigits(l.ControlNorm)+" at "+words.LayerName(l.At))
	}
	course = "Objective " + strings.Join(objectives, " → ")
	if len(t) > 1 {
		course += fmt.Sprintf(" (greedy start, %s)", words.Plural(len(t)-1, "sweep"))
	}
	return course + "; ‖u_t‖ " + strings.Join(norms, ", ") + ".", " (" + strings.Join(names, ", ") + ")"
}
