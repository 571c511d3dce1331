package reports

import (
	"fmt"
	"slices"
	"strings"

	"selfheal/internal/lists"
	"selfheal/internal/terminal"
	"selfheal/reports/table"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// form says how to write a text of headings, paragraphs and tables.
type form struct {
	escape  func(string) string
	heading func(level int, escaped string) string
	caption string // of a table
	bold    string // written on both sides of bold text
	mark    string // of a footnote
	breaks  string // between two footnotes
	grid    func(rows [][]string, words func(column int) bool) []string
}

var markdownForm = form{mdEscaper.Replace, func(level int, s string) string {
	return strings.Repeat("#", level) + " " + s
}, "**%s**", "**", "<sup>%s</sup>", "  \n", mdGrid}

// mdGrid writes rows as GitHub's tables, with the first as their head.
func mdGrid(rows [][]string, words func(column int) bool) (lines []string) {
	for i, row := range rows {
		if lines = append(lines, "| "+strings.Join(row, " | ")+" |"); i > 0 {
			continue
		}
		ruler := ""
		for column := range row {
			if words(column) {
				ruler += "|:---"
			} else {
				ruler += "|---:"
			}
		}
		lines = append(lines, ruler+"|")
	}
	return lines
}

// mdEscaper escapes the markup of Markdown, GitHub's tables and its mathematics. Bars, backslashes and dollars become
// entities, because a backslash does not reliably escape them in a table.
var mdEscaper = strings.NewReplacer(
	`\`, "&#92;", "|", "&#124;", "$", "&#36;", "&", "&amp;", "<", "&lt;", ">", "&gt;",
	"`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "~", `\~`)

// plainForm is for a terminal: aligned, with bold between asterisks and footnote marks in brackets.
var plainForm = form{words.Clean, func(level int, s string) string {
	return s + "\n" + strings.Repeat([]string{"=", "-", "~"}[level-1], len([]rune(s)))
}, "%s", "*", "[%s]", "\n", terminal.Columns}

func (f form) render(v page) string {
	var sb strings.Builder
	sb.WriteString(f.heading(1, f.escape(v.Title())) + "\n")
	if v.Quoted {
		sb.WriteString("\n" + f.escape(v.Headline()) + "\n")
	}
	if t := v.KnowledgeTable(); len(t.Rows) > 0 {
		sb.WriteString("\n" + f.heading(2, "What the attacker knows") + "\n")
		f.table(&sb, t)
	}
	for _, s := range v.Suites {
		fmt.Fprintf(&sb, "\n%s\n\nDataset: %s\n", f.heading(2, f.escape(s.Heading())), f.escape(s.Facts()))
		if said := s.Knows(); said != "" {
			fmt.Fprintf(&sb, "\nAttacker: %s. %s\n", f.escape(s.Attacker().Name), f.escape(said))
		}
		if n := s.Missing(); n > 0 {
			fmt.Fprintf(&sb, "\nPartial: %d cells are not measured yet (%s).\n", n, words.Dash)
		}
		tables := append([]table.Table{s.AccuracyTable()}, s.SetTables(false)...)
		tables = append(tables, s.UnionTable(), s.EvidenceTable(), s.PairTable(), s.ComparisonTable())
		for _, t := range slices.Concat(tables, s.CellTables(table.Text), s.SetTables(true)) {
			f.table(&sb, t)
		}
		for _, one := range s.Studies {
			f.study(&sb, one)
		}
	}
	return sb.String()
}

func (f form) study(sb *strings.Builder, one view.Study) {
	fmt.Fprintf(sb, "\n%s\n\n%s\n", f.heading(3, f.escape("Solver: "+one.Name())), f.escape(one.Facts()))
	if said := lists.Map(one.Sentences(), f.escape); said != nil {
		sb.WriteString("\n- " + strings.Join(said, "\n- ") + "\n")
	}
	for _, t := range table.Study(one) {
		f.table(sb, t)
	}
}

func (f form) table(sb *strings.Builder, t table.Table) {
	if len(t.Rows) == 0 {
		return
	}
	written := func(r []table.Box) []string {
		return lists.Map(r, func(b table.Box) string { return b.Written(f.span) })
	}
	rows := append([][]string{lists.Map(t.Head, f.escape)}, lists.Map(t.Rows, written)...)
	fmt.Fprintf(sb, "\n"+f.caption+"\n\n%s\n", f.escape(t.Caption), strings.Join(f.grid(rows, t.Words), "\n"))
	notes := lists.Map(t.Notes, func(n table.Footnote) string {
		if n.Mark != "" {
			n.Mark = fmt.Sprintf(f.mark, n.Mark) + " "
		}
		return n.Mark + f.escape(n.Text)
	})
	if notes != nil {
		sb.WriteString("\n" + strings.Join(notes, f.breaks) + "\n")
	}
}

func (f form) span(s table.Span) string {
	out := f.escape(s.Text)
	if s.Bold {
		out = f.bold + out + f.bold
	}
	if s.Mark != "" {
		out += fmt.Sprintf(f.mark, s.Mark)
	}
	return out
}

// Limits of the summary: a CI job's page is read quickly and has room for 1 MiB.
const (
	summaryRows     = 20
	summaryWarnings = 8
	summaryList     = 300 // letters of a list of names
	summaryName     = 80  // letters of a table's cell
)

// renderSummary writes the result in GitHub's Markdown for the page of a CI job, in less than 60 lines.
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
		if k := lists.Count(v.Suites, func(s table.Suite) bool { return len(s.Rows()) > 0 }); k > summaryRows {
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

// sample returns the headline table's first rows of each suite: as many of every suite as fit, except one.
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

// brief keeps in a table only the marks of footnotes that stand below it, and shortens long names.
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
