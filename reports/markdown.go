package reports

import (
	"fmt"
	"io"
	"strings"
)

func renderMarkdown(w io.Writer, v *view) error {
	var sb strings.Builder
	sb.WriteString("# " + mdEscape(v.Title()) + "\n")
	if v.Quoted {
		sb.WriteString("\n" + mdEscape(v.Headline()) + "\n")
	}
	if t := v.KnowledgeTable(); len(t.Rows) > 0 {
		sb.WriteString("\n## What the attacker knows\n")
		mdTable(&sb, t)
	}
	for _, s := range v.Suites {
		fmt.Fprintf(&sb, "\n## %s\n\nDataset: %s\n", mdEscape(s.Heading()), mdEscape(s.Facts()))
		if said := s.Knows(); said != "" {
			fmt.Fprintf(&sb, "\nAttacker: %s. %s\n", mdEscape(s.Attacker().Name), mdEscape(said))
		}
		if n := s.Missing(); n > 0 {
			fmt.Fprintf(&sb, "\nPartial: %d cells are not measured yet (%s).\n", n, dash)
		}
		mdTable(&sb, s.AccuracyTable())
		mdTable(&sb, s.ComparisonTable())
		mdTable(&sb, s.spreadTable())
		mdTable(&sb, s.distanceTable())
		mdTable(&sb, s.waterfallTable())
		s.studyMarkdown(&sb)
	}
	_, err := io.WriteString(w, sb.String())
	return err
}

func mdTable(sb *strings.Builder, t table) {
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
			sb.WriteString("| " + b.written(mdSpan) + " ")
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

func mdSpan(s span) string {
	out := mdEscape(s.Text)
	if s.Bold {
		out = "**" + out + "**"
	}
	if s.Mark != "" {
		out += "<sup>" + s.Mark + "</sup>"
	}
	return out
}

// mdEscaper writes what Markdown, GitHub's tables and its mathematics read as
// markup. Bars, backslashes and dollars become entities: inside a table their
// backslash escapes are not dependable.
var mdEscaper = strings.NewReplacer(
	`\`, "&#92;", "|", "&#124;", "$", "&#36;", "&", "&amp;", "<", "&lt;", ">", "&gt;",
	"`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "~", `\~`)

func mdEscape(s string) string { return mdEscaper.Replace(s) }
