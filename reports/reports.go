// Package reports turns a result file into things to read: Markdown, LaTeX and
// CSV tables, radar plots, robustness curves and one self-contained HTML page. Results go in,
// bytes come out; nothing here runs a model.
//
// derive.go arranges the cells once, tables.go and text.go say what each table
// holds and how a number or an attack is written, and every format only escapes
// and lays that out. Published numbers are shown beside ours, or by themselves
// (WritePublished). A new format is a file with a render function and a row in
// the table of formats.
package reports

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"selfheal/harness/result"
	"selfheal/internal/wholefile"
)

// format is one file of a report. Where File holds SUITE, there is one for
// every suite that When, if there is one, agrees to, and Render gets that suite;
// otherwise s is nil.
type format struct {
	File   string
	Render func(w io.Writer, v *view, s *suite) error
	When   func(s *suite) bool
}

// formats are the files that Write makes, in this order.
var formats = []format{
	{"tables.md", renderMarkdown, nil},
	{"tables.tex", renderLaTeX, nil},
	{"tables.csv", renderCSV, nil},
	{"summary.md", renderSummary, nil},
	{"radar-SUITE.png", renderPNG, nil},
	{"radar-SUITE.svg", renderSVG, nil},
	{"curve-SUITE.png", renderCurvePNG, hasCurves},
	{"curve-SUITE.svg", renderCurveSVG, hasCurves},
	{"solver-SUITE.png", renderStudyPNG, hasStudies},
	{"solver-SUITE.svg", renderStudySVG, hasStudies},
	{"waterfall-SUITE.png", renderWaterfallPNG, hasWaterfalls},
	{"waterfall-SUITE.svg", renderWaterfallSVG, hasWaterfalls},
	{"control-SUITE.png", renderTracePNG, hasTraceFigure},
	{"control-SUITE.svg", renderTraceSVG, hasTraceFigure},
	{"report.html", renderHTML, nil},
}

// Write renders f into dir, which is made when it does not exist: report.html,
// summary.md, tables.md, tables.tex, tables.csv and, for each suite, radar-SUITE.png and
// radar-SUITE.svg (SUITE is the suite's name with anything but ASCII letters,
// digits, dots, dashes and underscores replaced by a dash), and where there are
// robustness curves to draw curve-SUITE.png and curve-SUITE.svg, of solver studies
// solver-SUITE.png and solver-SUITE.svg, of attacks of several components
// waterfall-SUITE.png and waterfall-SUITE.svg, of control traces control-SUITE.png and
// control-SUITE.svg. f may be partial:
// cells that it lacks are shown as a dash. records are the lines of records.jsonl
// in any order; with nil the report leaves out margins and what follows from distances.
//
// With a theory that is not nil, the page has a section of it, and its own files lie
// beside (see [WriteTheory]).
//
// The same input gives the same bytes. Nothing is written before everything is
// rendered, each file appears whole or not at all, and an error names its file.
func Write(dir string, f *result.File, records iter.Seq[result.Record], theory *Theory) error {
	if f == nil {
		return errors.New("reports: no result to report")
	}
	v := derive(f)
	v.addMargins(records)
	v.theory = theory
	if err := v.write(dir); err != nil || theory == nil {
		return err
	}
	return WriteTheory(dir, theory)
}

// write renders v into dir.
func (v *view) write(dir string) error {
	type file struct{ name, content string }
	var files []file
	for _, ft := range formats {
		suites := []*suite{nil}
		if strings.Contains(ft.File, "SUITE") {
			suites = v.Suites
			if v.quoted {
				suites = v.radars
			}
		}
		for _, s := range suites {
			if ft.When != nil && !ft.When(s) {
				continue
			}
			name := ft.File
			if s != nil {
				name = strings.ReplaceAll(name, "SUITE", s.Slug)
			}
			var sb strings.Builder
			if err := ft.Render(&sb, v, s); err != nil {
				return fmt.Errorf("reports: rendering %s: %w", name, err)
			}
			files = append(files, file{name, sb.String()})
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("reports: making the output directory: %w", err)
	}
	for _, out := range files {
		if err := wholefile.Write(filepath.Join(dir, out.name), []byte(out.content)); err != nil {
			return fmt.Errorf("reports: writing %s: %w", filepath.Join(dir, out.name), err)
		}
	}
	return nil
}
