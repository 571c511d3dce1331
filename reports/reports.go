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
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"selfheal/harness/result"
	"selfheal/internal/atomicfile"
)

// format is one file of a report.
type format struct {
	File   string
	Render func(w io.Writer, v page) error
}

// formats are the files that Write makes beside the suites' figures.
var formats = []format{
	{"tables.md", markdownForm.render},
	{"tables.txt", plainForm.render},
	{"tables.tex", renderLaTeX},
	{"tables.csv", renderCSV},
	{"summary.md", renderSummary},
	{"report.html", renderHTML},
}

// Write renders f into dir, which is made when it does not exist: the files of the table of
// formats and, for each suite, those of the table of figures as NAME-SUITE.png and
// NAME-SUITE.svg. SUITE is the suite's name with anything but ASCII letters, digits, dots,
// dashes and underscores replaced by a dash. f may be partial: cells that it lacks are shown
// as a dash. records are the lines of records.jsonl in any order; with nil the report leaves
// out margins and what follows from distances.
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
	if err := writeFiles(dir, newPage(v, theory).files()); err != nil || theory == nil {
		return err
	}
	return WriteTheory(dir, theory)
}

// files are what v is rendered as.
func (v page) files() (files []file) {
	suites := v.view.Suites
	if v.Quoted {
		suites = v.radars
	}
	for _, s := range suites {
		for name, drawing := range suiteFigures(s) {
			files = append(files, drawing.files(name)...)
		}
	}
	for _, ft := range formats {
		files = append(files, file{ft.File, func(w io.Writer) error { return ft.Render(w, v) }})
	}
	return files
}

// page is what the formats lay out: a report, its tables and the theory.
type page struct {
	reportTables
	Theory *Theory // nil: the run has none
}

func newPage(v *view, theory *Theory) page { return page{ofView(v), theory} }

// file is one to be written.
type file struct {
	name   string
	render func(w io.Writer) error
}

// files are the sheet as a PNG and an SVG file.
func (s sheet) files(name string) []file {
	return []file{{name + ".png", s.writePNG}, {name + ".svg", s.writeSVG}}
}

// writeFiles renders all files, and only then writes them into dir.
func writeFiles(dir string, files []file) error {
	contents := make([]bytes.Buffer, len(files))
	for i, f := range files {
		if err := f.render(&contents[i]); err != nil {
			return fmt.Errorf("reports: rendering %s: %w", f.name, err)
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("reports: making the output directory: %w", err)
	}
	for i, f := range files {
		if err := atomicfile.In(dir).Write(f.name, contents[i].Bytes()); err != nil {
			return fmt.Errorf("reports: writing %s: %w", filepath.Join(dir, f.name), err)
		}
	}
	return nil
}
