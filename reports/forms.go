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

// form is how a text of headings, paragraphs and tables is written.
type form struct {
	escape  func(string) string
	heading func(level int, escaped string) string
	caption string // of a table
	bold    string // on both sides of what a page has in bold
	mark    string // of a footnote
	breaks  string // between two footnotes
	grid    func(rows [][]string, words func(column int) bool) []string
}

var markdownForm = form{mdEscaper.Replace, func(level int, s string) string {
	return strings.Repeat("#", level) + " " + s
}, "**%s**", "**", "<sup>%s</sup>", "  \n", mdGrid}

// mdGrid writes rows as GitHub's tables, the first as their head.
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

// mdEscaper writes what Markdown, GitHub's tables and its mathematics read as markup. Bars, backslashes and dollars
// become entities: inside a table their backslash escapes are not dependable.
var mdEscaper = strings.NewReplacer(
	`\`, "&#92;", "|", "&#124;", "$", "&#36;", "&", "&amp;", "<", "&lt;", ">", "&gt;",
	"`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "~", `\~`)

// plainForm is for a terminal: aligned, with bold between asterisks and the marks of footnotes in brackets.
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
		tables := append([]table.Table{s.AccuracyTable()}, s.CertifiedTables()...)
		tables = append(tables, s.EvidenceTable(), s.PairTable(), s.ComparisonTable(), s.SpreadTable(), s.VotesTable(),
			s.DistanceTable(), s.WaterfallTable())
		for _, t := range append(tables, s.CorruptionTables()...) {
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

// The summary says so much at most: a CI job's page is read quickly, and has room for 1 MiB.
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
