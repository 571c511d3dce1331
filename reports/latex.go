package reports

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
)

// texHead lets tables.tex be compiled by itself and also be read with \input
// by a document: \@nodocument is \relax only after \begin{document}.
const texHead = `% \input this file in a document, or compile it by itself.
\expandafter\ifx\csname @nodocument\endcsname\relax
  \let\selfhealend\relax
\else
  \documentclass{article}
  \oddsidemargin=-10mm \textwidth=180mm \topmargin=-20mm \textheight=250mm
  \begin{document}
  \def\selfhealend{\end{document}}
\fi
`

// pages cuts a table into parts that fit a page: at most 40 rows and, besides
// the headings, 6 columns. The footnotes go with the last one.
func (t table) pages() []table {
	const rows, columns = 40, 6
	var out []table
	for first := t.Lead; first < len(t.Head); first += columns {
		last := min(first+columns, len(t.Head))
		for chunk := range slices.Chunk(t.Rows, rows) {
			part := t
			part.Notes, part.Rows = nil, nil
			part.Head = slices.Concat(t.Head[:t.Lead], t.Head[first:last])
			for _, r := range chunk {
				part.Rows = append(part.Rows, slices.Concat(r[:t.Lead], r[first:last]))
			}
			for i := range t.Lead { // a page starts with its headings in full
				part.Rows[0][i].Repeat = false
			}
			if len(out) > 0 {
				part.Caption += " (continued)"
			}
			out = append(out, part)
		}
	}
	if len(out) > 0 {
		out[len(out)-1].Notes = t.Notes
	}
	return out
}

func renderLaTeX(w io.Writer, v *view, _ *suite) error {
	var sb strings.Builder
	sb.WriteString(texHead)
	for i, t := range v.knowledgeTable().pages() {
		texTable(&sb, t, t.Caption, fmt.Sprintf("knowledge-%d", i+1))
	}
	for _, s := range v.Suites {
		for _, kind := range []struct {
			label string
			table table
		}{{"accuracy", s.accuracyTable()}, {"published", s.comparisonTable()}, {"distance", s.distanceTable()}, {"components", s.waterfallTable()}} {
			for i, t := range kind.table.pages() {
				texTable(&sb, t, s.texCaption(t), fmt.Sprintf("%s-%s-%d", s.Slug, kind.label, i+1))
			}
		}
	}
	if len(v.Suites) == 0 {
		sb.WriteString("No results.\n")
	}
	sb.WriteString("\\selfhealend\n")
	_, err := io.WriteString(w, sb.String())
	return err
}

// texCaption says all that a table on a page by itself needs: the suite, and in words
// what its attacker knows.
func (s *suite) texCaption(t table) string {
	out := fmt.Sprintf("%s (%s). %s", s.Heading(), s.Sample(), t.Caption)
	if m := modeOf(s.Mode); m.Short != "" {
		out += " (adversarial images " + m.Short + ")"
	}
	return out
}

func texTable(sb *strings.Builder, t table, caption, label string) {
	if len(t.Rows) == 0 {
		return
	}
	var spec strings.Builder
	for i := range t.Head {
		if t.Words(i) {
			spec.WriteByte('l')
		} else {
			spec.WriteByte('r')
		}
		if i == t.Lead-1 {
			spec.WriteByte('|')
		}
	}
	size := "small"
	if len(t.Head) > 6 {
		size = "scriptsize\n\\tabcolsep=3pt"
	}
	fmt.Fprintf(sb, "\n\\begin{table}[htbp]\n\\centering\n\\%s\n\\caption{%s}\n\\label{tab:%s}\n\\begin{tabular}{%s}\n\\hline\n",
		size, texEscape(caption), label, spec.String())
	for i, h := range t.Head {
		sb.WriteString(texSep(i) + texHeading(h, t.Words(i)))
	}
	sb.WriteString(" \\\\\n\\hline\n")
	for _, r := range t.Rows {
		for i, b := range r {
			sb.WriteString(texSep(i))
			if b.Repeat {
				continue
			}
			for _, sp := range b.Spans {
				sb.WriteString(texSpan(sp))
			}
		}
		sb.WriteString(" \\\\\n")
	}
	sb.WriteString("\\hline\n\\end{tabular}\n")
	for _, n := range t.Notes {
		sb.WriteString("\n\\par\\raggedright\\footnotesize")
		if n.Mark != "" {
			fmt.Fprintf(sb, "\\textsuperscript{%s}", texEscape(n.Mark))
		}
		sb.WriteString(" " + texEscape(n.Text) + "\n")
	}
	sb.WriteString("\\end{table}\n")
}

// texHeading breaks the heading of a column of numbers at its last space.
func texHeading(h string, words bool) string {
	cut := strings.LastIndex(h, " ")
	if words || cut < 0 {
		return texEscape(h)
	}
	return `\shortstack[r]{\strut ` + texEscape(h[:cut]) + `\\` + texEscape(h[cut+1:]) + "}"
}

func texSep(i int) string {
	if i == 0 {
		return ""
	}
	return " & "
}

func texSpan(s span) string {
	out := texEscape(s.Text)
	if s.Bold {
		out = `\textbf{` + out + "}"
	}
	if s.Mark != "" {
		out += `\textsuperscript{` + texEscape(s.Mark) + "}"
	}
	return out
}

// texEscaper writes TeX's special characters and the signs our own texts use.
// An empty group keeps a name's dashes, quotes and angles from joining into ligatures.
var texEscaper = strings.NewReplacer(
	`\`, `\textbackslash{}`, "{", `\{`, "}", `\}`, "_", `\_`, "%", `\%`, "&", `\&`, "#", `\#`, "$", `\$`,
	"~", `\textasciitilde{}`, "^", `\textasciicircum{}`, "<", `\textless{}`, ">", `\textgreater{}`,
	"|", `\textbar{}`, `"`, `"{}`, "`", "`{}", "'", "'{}", "--", "-{}-{}",
	"[", "{[}", "]", "{]}", // after \\, a bracket would be its argument
	"ℓ∞", `$\ell_\infty$`, "ℓ1", `$\ell_1$`, "ℓ2", `$\ell_2$`, "ℓ", `$\ell$`, "∞", `$\infty$`,
	"ε", `$\epsilon$`, "†", `$\dagger$`, "−", "$-$", "→", `$\to$`, "·", `$\cdot$`, "×", `$\times$`, "–", "--", thin, `\,`, nbsp, "~")

// texEscape writes s for LaTeX with its default fonts. Letters that these lack
// are named by their code point, so that the file always compiles.
func texEscape(s string) string {
	var sb strings.Builder
	for _, r := range texEscaper.Replace(s) {
		if r > unicode.MaxLatin1 || (r > unicode.MaxASCII && !unicode.IsLetter(r)) {
			fmt.Fprintf(&sb, "[U+%04X]", r)
			continue
		}
		sb.WriteRune(r)
	}
	return sb.String()
}
