package reports

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"

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

// pages are the templates of the HTML pages: of a report, which sees a view, and of the theory.
var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"words":        strings.Fields,
	"marks":        func(s string) []string { return strings.Split(s, ",") },
	"anchor":       table.MarkAnchor,
	"share":        func(x float64) string { return fmt.Sprintf("%.4g", min(max(x, 0), 1)) },
	"list":         func(of ...any) []any { return of },
	"clean":        words.Clean,
	"heading":      words.Heading,
	"style":        func() template.CSS { return template.CSS(styleSheet) },
	"series":       chart.SeriesStyle,
	"script":       func() template.JS { return template.JS(script) },
	"policy":       policy,
	"overview":     func(v page) []chart.Sheet { return figure.Overview(v.Report.Report) },
	"figures":      func(s table.Suite, accuracies bool) [][]chart.Sheet { return figure.Page(s.Suite, accuracies) },
	"paperFigures": func(v page) []chart.Sheet { return figure.Paper(v.Report.Report) },
	"gallery":      gallery,
	"traces":       func(s table.Suite) chart.Figure { return figure.Traces(s.Suite) },
	"mostTraced":   func() int { return view.MostTraced },
	"studyFigure":  figure.Study,
	"checks":       table.Checks,
	"studyTables":  table.Study,
	"scatter":      func(g table.Group) *chart.Sheet { return figure.PageScatter(g.Group) },
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

// policy allows a page its own style, its own pictures and this one script, and no request.
func policy() string {
	sum := sha256.Sum256([]byte(script))
	return "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
