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
		if said := s.Attacker(); said != "" {
			fmt.Fprintf(&sb, "\nAttacker: %s. %s\n", mdEscape(s.Mode), mdEscape(said))
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
	for _, h := range t.Head {
		fmt.Fprintf(sb, "| %s ", mdEscape(h))
	}
	sb.WriteString("|\n")
	for i := range t.Head {
		if t.Words(i) {
			sb.WriteString("|:---")
		} else {
			sb.WriteString("|---:")
		}
	}
	sb.WriteString("|\n")
	for _, r := range t.Rows {
		for _, b := range r {
			sb.WriteString("| ")
			if !b.Repeat {
				for _, sp := range b.Spans {
					sb.WriteString(mdSpan(sp))
				}
			}
			sb.WriteString(" ")
		}
		sb.WriteString("|\n")
	}
	for i, n := range t.Notes {
		if i == 0 {
			sb.WriteString("\n")
		}
		end := "  \n"
		if i == len(t.Notes)-1 {
			end = "\n"
		}
		if n.Mark != "" {
			fmt.Fprintf(sb, "<sup>%s</sup> ", n.Mark)
		}
		sb.WriteString(mdEscape(n.Text) + end)
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
