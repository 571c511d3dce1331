// Package reports turns a result file into things to read: Markdown, LaTeX and CSV tables, figures and one
// self-contained HTML page. Call [Write] for a run, [WriteCompare] for a comparison and [WriteTheory] for the theory
// experiments. Package view arranges the cells once, table makes rows from them, figure draws pictures, and words
// writes numbers and attacks; the formats are here. The same input gives the same bytes, and nothing is written unless
// everything can be. A new format is a render function and a row of formats.
package reports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"

	"selfheal/harness/result"
	"selfheal/internal/atomicfile"
	"selfheal/internal/lists"
	"selfheal/reports/figure"
	"selfheal/reports/figure/chart"
	"selfheal/reports/table"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// WritePublished renders the paper's own tables, as [Write] renders a run's, with three radar plots, and beside them
// the runs whose suites have these published numbers. Nothing is run; tables.csv has the numbers in its column
// published.
func WritePublished(to atomicfile.Output, runs ...*result.File) error {
	return writeFiles(to, newPage(view.Paper(runs...), nil).files())
}

type format struct {
	File   string
	Render func(w io.Writer, v page) error
}

// formats lists the files that Write makes in addition to the suites' figures.
var formats = []format{
	{"tables.md", textOf(markdownForm.render)},
	{"tables.txt", textOf(plainForm.render)},
	{"tables.tex", textOf(renderLaTeX)},
	{"tables.csv", renderCSV},
	{"summary.md", textOf(renderSummary)},
	{"report.html", renderHTML},
}

// Write renders f into a folder, which is made if it does not exist: the files of the table of formats and, for each
// suite, those of the table of figures as NAME-SUITE.png, .svg and .pdf. f may be partial: missing cells are a dash.
// records are the lines of records.jsonl in any order; with nil the report leaves out margins and everything that needs
// distances. A theory that is not nil has a section of the page and files of its own (see [WriteTheory]).
//
// The same input gives the same bytes. Nothing is written before everything is rendered and may be written, each file
// appears whole or not at all, and an error names its file.
func Write(to atomicfile.Output, f *result.File, records iter.Seq[result.Record], theory *Theory) error {
	if f == nil {
		return errors.New("reports: no result to report")
	}
	v := view.Of(f)
	v.AddMargins(records)
	return writeFiles(to, newPage(v, theory).files())
}

func (v page) files() (files []file) {
	for _, s := range v.Drawn() {
		for name, drawing := range figure.Files(s) {
			files = append(files, pictures(name, drawing)...)
		}
	}
	for _, ft := range formats {
		files = append(files, file{ft.File, func(w io.Writer) error { return ft.Render(w, v) }})
	}
	if v.Theory != nil {
		files = append(files, v.Theory.files()...)
	}
	return files
}

// writeJSON writes indented JSON, for people too.
func writeJSON(w io.Writer, of any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(of)
}

func textOf(render func(v page) string) func(w io.Writer, v page) error {
	return func(w io.Writer, v page) error {
		_, err := io.WriteString(w, render(v))
		return err
	}
}

// page holds what the formats lay out: a report, its tables and the theory.
type page struct {
	table.Report
	Theory *Theory // nil if the run has none
}

func newPage(v *view.Report, theory *Theory) page { return page{table.Of(v), theory} }

type file struct {
	name   string
	render func(w io.Writer) error
}

func pictures(name string, s chart.Sheet) []file {
	return []file{{name + ".png", s.WritePNG}, {name + ".svg", s.WriteSVG}, {name + ".pdf", s.WritePDF}}
}

// writeFiles renders all files. It writes them only if all are rendered and may all be written.
func writeFiles(to atomicfile.Output, files []file) error {
	names := lists.Map(files, func(f file) string { return f.name })
	if err := to.May(names...); err != nil { // before drawing, which takes seconds
		return err
	}
	contents := make([]bytes.Buffer, len(files))
	for i, f := range files {
		if err := f.render(&contents[i]); err != nil {
			return fmt.Errorf("reports: rendering %s: %w", f.name, err)
		}
		if ext := filepath.Ext(f.name); ext != ".png" && ext != ".pdf" { // a file of results may contain any text
			text := words.Printable(contents[i].String())
			contents[i].Reset()
			contents[i].WriteString(text)
		}
	}
	if err := to.Claim(names...); err != nil {
		return err
	}
	if err := atomicfile.In(to.Dir).Make("."); err != nil {
		return fmt.Errorf("%s: %w", to.Dir, err)
	}
	for i, f := range files {
		if err := to.Write(f.name, contents[i].Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// Answers returns the lines that a run ends with, for the first model of each suite alone and under each control.
func Answers(f *result.File) []string { return view.Of(f).Answers() }

// Metrics returns a line for each model and control about the probabilities of its answers, from its records.
func Metrics(f *result.File, records iter.Seq[result.Record]) []string {
	v := view.Of(f)
	v.AddMargins(records)
	return v.Metrics()
}

// Unions returns a line for the worst case over the attacks of each row; see [result.File.Unions].
func Unions(f *result.File) []string { return view.Unions(f) }
