package reports

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"selfheal/harness/compare"
	"selfheal/internal/atomicfile"
	"selfheal/reports/figure"
	"selfheal/reports/table"
	"selfheal/reports/words"
)

// WriteCompare renders a comparison into a folder, as [Write] renders a report: compare.json, compare.md, compare.tex,
// compare.html (one file, figures inside, nothing fetched) and the figures as compare-FIGURE-GROUP.png, .svg and .pdf.
func WriteCompare(to atomicfile.Output, of *compare.Comparison) error {
	files := comparisonFiles(table.OfComparison(of))
	old, err := compareFiles(to.Dir)
	old = slices.DeleteFunc(old, func(name string) bool { return !to.Wrote(name) })
	if err == nil {
		err = writeFiles(to, files)
	}
	if err != nil {
		return err
	}
	for _, name := range old { // figures of an earlier comparison
		if !slices.ContainsFunc(files, func(f file) bool { return f.name == name }) {
			if err := os.Remove(filepath.Join(to.Dir, name)); err != nil {
				return fmt.Errorf("reports: %w", err)
			}
		}
	}
	return nil
}

func comparisonFiles(c table.Comparison) []file {
	files := []file{
		{"compare.json", func(w io.Writer) error { return writeJSON(w, c.Comparison) }},
		{"compare.md", func(w io.Writer) error { return markdownForm.compared(w, c, true) }},
		{"compare.tex", func(w io.Writer) error {
			_, err := io.WriteString(w, texDocument(comparedTeX(c)))
			return err
		}},
		{"compare.html", func(w io.Writer) error { return writePage(w, "compare.html.tmpl", c) }},
	}
	for _, g := range c.Groups {
		if f := figure.Scatter(g.Group, false); f.Panels != nil {
			f.Head = []string{"Clean and robust accuracy", g.Heading()}
			files = append(files, pictures("compare-scatter-"+g.Slug, f)...)
		}
		for i, f := range figure.Histories(g.Group) {
			files = append(files, pictures(fmt.Sprintf("compare-history-%s-%d", g.Slug, i+1), f)...)
		}
	}
	return files
}

// comparedTeX lists a comparison's tables for LaTeX.
func comparedTeX(c table.Comparison) (all []texTable) {
	for _, g := range c.Groups {
		add := func(label string, t table.Table) {
			all = append(all, texTable{g.Slug + "-" + label, texForm{}, t, g.Heading() + ". "})
		}
		add("rank", g.RankTable())
		for _, t := range g.StrengthTables() {
			add(t.Label, t)
		}
		for i, t := range g.PairTables() {
			add([]string{"pairs", "clean"}[i], t)
		}
		for i, t := range g.HistoryTables() {
			add(fmt.Sprint("history-", i+1), t)
		}
		add("corruptions", g.CorruptionTable())
	}
	return all
}

func compareFiles(dir string) (found []string, err error) {
	patterns := []string{"compare.json", "compare.md", "compare.tex", "compare.html"}
	for _, figure := range []string{"compare-scatter-*", "compare-history-*"} {
		patterns = append(patterns, figure+".png", figure+".svg", figure+".pdf")
	}
	for _, pattern := range patterns {
		names, err := fs.Glob(os.DirFS(dir), pattern)
		if err != nil {
			return nil, fmt.Errorf("reports: %s: %w", dir, err)
		}
		found = append(found, names...)
	}
	return found, nil
}

// WriteCompareTables writes the tables of a comparison, aligned for a terminal or as Markdown.
func WriteCompareTables(w io.Writer, of *compare.Comparison, terminal bool) error {
	f := markdownForm
	if terminal {
		f = plainForm
	}
	return f.compared(w, table.OfComparison(of), false)
}

// compared writes a comparison: all tables, or those that fit a terminal.
func (f form) compared(w io.Writer, c table.Comparison, all bool) error {
	var sb strings.Builder
	sb.WriteString(f.heading(1, f.escape(c.Title())) + "\n")
	for _, n := range c.Notes {
		sb.WriteString("\n" + f.escape(words.Clean(n)) + ".\n")
	}
	for _, g := range c.Groups {
		fmt.Fprintf(&sb, "\n%s\n\n%s\n", f.heading(2, f.escape(g.Heading())), f.escape(g.Ranking()))
		tables := slices.Concat([]table.Table{g.RankTable()}, g.StrengthTables(), []table.Table{g.MatrixTable()},
			g.HistoryTables())
		tables = append(tables, g.CorruptionTable())
		if all || len(g.Pairs) <= 10 {
			tables = append(tables, g.PairTables()...)
		}
		if all {
			tables = append(tables, g.AttackTable())
		}
		for _, t := range tables {
			f.table(&sb, t)
		}
	}
	if all {
		f.table(&sb, c.RunTable())
	}
	_, err := io.WriteString(w, sb.String())
	return err
}
