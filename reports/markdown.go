package reports

import (
	"fmt"
	"strings"

	"selfheal/reports/table"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// form is how a text of headings, paragraphs and tables is written.
type form struct {
	escape  func(string) string
	heading func(level int, escaped string) string
	table   func(sb *strings.Builder, t table.Table)
}

var markdownForm = form{mdEscape, func(level int, s string) string { return strings.Repeat("#", level) + " " + s },
	mdTable}

// render writes what the tables of all suites say.
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
		tables = append(tables, s.EvidenceTable(), s.ComparisonTable(), s.SpreadTable(), s.DistanceTable(),
			s.WaterfallTable())
		for _, t := range append(tables, s.CorruptionTables()...) {
			f.table(&sb, t)
		}
		for _, one := range s.Studies {
			f.study(&sb, one)
		}
	}
	return sb.String()
}

// study writes a solver study.
func (f form) study(sb *strings.Builder, one view.Study) {
	fmt.Fprintf(sb, "\n%s\n\n%s\n", f.heading(3, f.escape("Solver: "+one.Name())), f.escape(one.Facts()))
	for i, said := range one.Sentences() {
		if i == 0 {
			sb.WriteString("\n")
		}
		fmt.Fprintf(sb, "- %s\n", f.escape(said))
	}
	for _, t := range table.Study(one) {
		f.table(sb, t)
	}
}

func mdTable(sb *strings.Builder, t table.Table) {
	if len(t.Rows) == 0 {
		return
	}
	fmt.Fprintf(sb, "\n**%s**\n\n", mdEscape(t.Caption))
	ruler := ""
	for i, h := range t.Head {
		fmt.Fprintf(sb, "| %s ", mdEscape(h))
		if t.Words(i) {
			ruler += "|:---"
		} else {
			ruler += "|---:"
		}
	}
	sb.WriteString("|\n" + ruler + "|\n")
	for _, r := range t.Rows {
		for _, b := range r {
			sb.WriteString("| " + b.Written(mdSpan) + " ")
		}
		sb.WriteString("|\n")
	}
	var notes []string
	for _, n := range t.Notes {
		if n.Mark != "" {
			n.Mark = "<sup>" + n.Mark + "</sup> "
		}
		notes = append(notes, n.Mark+mdEscape(n.Text))
	}
	if notes != nil {
		sb.WriteString("\n" + strings.Join(notes, "  \n") + "\n")
	}
}

func mdSpan(s table.Span) string {
	out := mdEscape(s.Text)
	if s.Bold {
		out = "**" + out + "**"
	}
	if s.Mark != "" {
		out += "<sup>" + s.Mark + "</sup>"
	}
	return out
}

// mdEscaper writes what Markdown, GitHub's tables and its mathematics read as markup. Bars, backslashes and dollars
// become entities: inside a table their backslash escapes are not dependable.
var mdEscaper = strings.NewReplacer(
	`\`, "&#92;", "|", "&#124;", "$", "&#36;", "&", "&amp;", "<", "&lt;", ">", "&gt;",
	"`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "~", `\~`)

func mdEscape(s string) string { return mdEscaper.Replace(s) }
