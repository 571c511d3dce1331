package reports

import (
	"strings"

	"selfheal/internal/terminal"
	"selfheal/reports/table"
	"selfheal/reports/words"
)

// plainForm is for a terminal.
var plainForm = form{words.Clean, func(level int, s string) string {
	return s + "\n" + strings.Repeat([]string{"=", "-", "~"}[level-1], len([]rune(s)))
}, plainTable}

// plainTable aligns a table. What a page has in bold stands between asterisks, the marks of footnotes in brackets.
func plainTable(sb *strings.Builder, t table.Table) {
	if len(t.Rows) == 0 {
		return
	}
	rows := [][]string{t.Head}
	for _, r := range t.Rows {
		var row []string
		for _, b := range r {
			row = append(row, b.Written(plainSpan))
		}
		rows = append(rows, row)
	}
	lines := terminal.Columns(rows, t.Words)
	sb.WriteString("\n" + t.Caption + "\n\n" + strings.Join(lines, "\n") + "\n")
	for i, n := range t.Notes {
		if i == 0 {
			sb.WriteString("\n")
		}
		if n.Mark != "" {
			n.Mark = "[" + n.Mark + "] "
		}
		sb.WriteString(n.Mark + n.Text + "\n")
	}
}

func plainSpan(s table.Span) string {
	out := s.Text
	if s.Bold {
		out = "*" + out + "*"
	}
	if s.Mark != "" {
		out += "[" + s.Mark + "]"
	}
	return out
}
