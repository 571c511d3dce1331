package reports

import (
	"fmt"
	"slices"
	"strings"

	"selfheal/reports/table"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// How much the summary says at most: a CI job's page is read at a glance, and has room for 1 MiB.
const (
	summaryRows     = 20
	summaryWarnings = 8
	summaryList     = 300 // letters of a list of names
	summaryName     = 80  // letters of a table's cell
)

// renderSummary writes what was tested in GitHub's Markdown for the page of a CI job, in less than 60 lines.
func renderSummary(v page) string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "## %s\n\n%s. The whole report: [report.html](report.html).\n\n", mdEscaper.Replace(v.Title()),
		mdEscaper.Replace(strings.TrimSuffix(v.Headline(), ".")))
	for _, f := range v.Tested() {
		fmt.Fprintf(&sb, "- %s: %s\n", mdEscaper.Replace(f.Term), mdEscaper.Replace(words.Clip(f.Text, summaryList)))
	}
	t, more := brief(v.HeadlineTable()), ""
	if n := len(t.Rows); n > summaryRows {
		which := "the first of each suite"
		if k := view.CountOf(v.Suites, func(s table.Suite) bool { return len(s.Rows()) > 0 }); k > summaryRows {
			which = fmt.Sprintf("the first of each of the first %d of %d suites", summaryRows, k)
		}
		t.Rows = sample(v, t.Rows)
		more = fmt.Sprintf("\nThese are %d of %d lines, %s; report.html has all of them.\n", len(t.Rows), n, which)
	}
	markdownForm.table(&sb, t)
	sb.WriteString(more)
	markdownForm.table(&sb, v.WarningTable(summaryWarnings, summaryName))
	if command := words.Clip(v.Command(), 20*summaryList); command != "" {
		fence := "```"
		for strings.Contains(command, fence) {
			fence += "`"
		}
		fmt.Fprintf(&sb, "\nTo repeat it:\n\n%s\n%s\n%s\n", fence, command, fence)
	}
	return sb.String()
}

// sample takes the headline table's first rows of each suite, as many of every suite as there is room for, but one.
func sample(v page, rows [][]table.Box) [][]table.Box {
	first := func(each int) (out [][]table.Box) {
		from := 0
		for _, s := range v.Suites {
			n := len(s.Rows())
			out = append(out, rows[from:from+min(n, each)]...)
			from += n
		}
		return out
	}
	out := first(1)
	for each := 2; len(first(each)) <= summaryRows; each++ {
		out = first(each)
	}
	return out[:min(len(out), summaryRows)]
}

// brief leaves a table the marks of footnotes that stand below it, and cuts long names.
func brief(t table.Table) table.Table {
	for _, r := range t.Rows {
		for _, b := range r {
			for i := range b.Spans {
				if b.Spans[i].Text = words.Clip(b.Spans[i].Text, summaryName); b.Spans[i].Mark != view.LoopMark {
					b.Spans[i].Mark = ""
				}
			}
		}
	}
	t.Notes = slices.DeleteFunc(t.Notes, func(n table.Footnote) bool { return n.Mark != view.LoopMark })
	return t
}
