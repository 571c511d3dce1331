package reports

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"selfheal/harness/cell"
	"selfheal/internal/lists"
	"selfheal/reports/table"
	"selfheal/reports/words"
)

// texHead lets tables.tex be compiled by itself and also be read with \input by a document: \@nodocument is \relax only
// after \begin{document}.
const texHead = `% \input this file in a document, or compile it by itself. It needs no package; with a LaTeX older
% than 2018, letters beyond ASCII in names need \usepackage[utf8]{inputenc}.
\expandafter\ifx\csname @nodocument\endcsname\relax
  \let\selfhealend\relax
\else
  \documentclass{article}
  \oddsidemargin=-10mm \textwidth=180mm \topmargin=-20mm \textheight=250mm
  \begin{document}
  \def\selfhealend{\end{document}}
\fi
`

// texPages cuts a table into parts that fit a page. The last part has the footnotes.
func texPages(t table.Table) (out []table.Table) {
	const rows, columns = 40, 6
	for first := t.Lead; first < len(t.Head); first += columns {
		last := min(first+columns, len(t.Head))
		for chunk := range slices.Chunk(t.Rows, rows) {
			part := t
			part.Notes = nil
			part.Head = slices.Concat(t.Head[:t.Lead], t.Head[first:last])
			shown := func(r []table.Box) []table.Box { return slices.Concat(r[:t.Lead], r[first:last]) }
			part.Rows = lists.Map(chunk, shown)
			for i := range t.Lead { // a page repeats its headings in full
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

func renderLaTeX(v page) string {
	var sb strings.Builder
	sb.WriteString(texHead)
	add := func(label string, form texForm, t table.Table, before, after string) {
		for i, part := range texPages(t) {
			form.table(&sb, part, before+part.Caption+after, fmt.Sprintf("%s-%d", label, i+1))
		}
	}
	add("knowledge", texForm{}, v.KnowledgeTable(), "", "")
	for _, s := range v.Suites { // a table on a page of its own names its suite, and says what its attacker knows
		before, after := fmt.Sprintf("%s (%s). ", s.Heading(), s.Sample()), ""
		if made := s.Made(); made != "" {
			after = " (" + made + ")"
		}
		accuracies, form := paperForm(s, s.AccuracyTable())
		add(s.Slug+"-accuracy", form, accuracies, before, after)
		plain := func(label string, t table.Table) { add(s.Slug+"-"+label, texForm{}, t, before, after) }
		plain("evidence", s.EvidenceTable())
		plain("pairs", s.PairTable())
		plain("published", s.ComparisonTable())
		for _, t := range s.CellTables(table.LaTeX) {
			plain(t.Label, t)
		}
		for late, label := range []string{"certified", "corruptions"} {
			for i, t := range s.SetTables(late == 1) {
				plain(fmt.Sprint(label, i+1), t)
			}
		}
	}
	if len(v.Suites) == 0 {
		sb.WriteString("No results.\n")
	}
	return sb.String() + "\\selfhealend\n"
}

// texForm says how to set a table: the zero value is for the reports' own tables.
type texForm struct {
	strengths string // a line above the heads with every attack's strength; "" for none
	ruled     bool   // a line below every row, and entries that begin below their heads
}

// paperForm sets a table of accuracies like the paper's: the attacks' strengths stand once above short heads. If a norm
// has several strengths, or two attacks would have the same head, each head gives its own strength instead.
func paperForm(s table.Suite, t table.Table) (table.Table, texForm) {
	form := texForm{ruled: true}
	strength := map[string]string{}
	var said, short []string
	for _, c := range s.Columns {
		head := c.Short()
		if c.Attack != cell.None {
			if c.Norm == "" || c.Epsilon == 0 {
				return t, form
			}
			norm, e := words.NormName(c.Norm), c.Epsilon.String()
			head += " (" + norm + ")"
			if strength[norm] == "" {
				said = append(said, norm+": ε = "+e)
				strength[norm] = e
			}
			if strength[norm] != e {
				return t, form
			}
		}
		if slices.Contains(short, head) {
			return t, form
		}
		short = append(short, head)
	}
	if len(said) == 0 || len(short) != len(t.Head)-t.Lead {
		return t, form
	}
	t.Head = slices.Concat(t.Head[:t.Lead], short)
	form.strengths = strings.Join(said, ", ")
	return t, form
}

// longName is the largest number of letters in a name or a heading that is not broken.
const longName = 26

// texSize returns the type size for a table with so many columns, and the length of the longest name that is not
// broken.
func texSize(columns int) (size string, name int) {
	switch {
	case columns > 8:
		return "scriptsize\n\\tabcolsep=2pt", 16
	case columns > 6:
		return "scriptsize\n\\tabcolsep=3pt", 19
	}
	return "small", longName
}

func (f texForm) table(sb *strings.Builder, t table.Table, caption, label string) {
	spec, long := "", make([]bool, len(t.Head))
	size, most := texSize(len(t.Head))
	for i := range t.Head {
		long[i] = i < t.Lead && slices.ContainsFunc(t.Rows,
			func(r []table.Box) bool { return utf8.RuneCountInString(r[i].Plain()) > most })
		switch {
		case long[i]:
			spec += fmt.Sprintf("p{%dmm}", most*4/3)
		case f.ruled || t.Words(i):
			spec += "l"
		default:
			spec += "r"
		}
		if i == t.Lead-1 {
			spec += "|"
		}
	}
	fmt.Fprintf(sb,
		"\n\\begin{table}[htbp]\n\\centering\n\\belowcaptionskip=6pt\n\\def\\arraystretch{1.15}\n\\%s\n"+
			"\\caption{%s}\n\\label{tab:%s}\n\\begin{tabular}{%s}\n\\hline\n",
		size, texEscape(caption), label, spec)
	if f.strengths != "" {
		fmt.Fprintf(sb, "\\multicolumn{%d}{c}{%s} \\\\\n\\hline\n", len(t.Head), texEscape(f.strengths))
	}
	line := make([]string, len(t.Head))
	for i, h := range t.Head {
		line[i] = texHeading(h, f.strengths != "" || t.Words(i))
	}
	sb.WriteString(strings.Join(line, " & ") + " \\\\\n\\hline\n")
	for i, r := range t.Rows {
		for j, b := range r {
			line[j] = b.Written(func(s table.Span) string { return texSpan(s, long[j]) })
			if long[j] && !b.Repeat { // never the last column, whose \\\\ this would change
				line[j] = "\\raggedright " + line[j]
			}
		}
		sb.WriteString(strings.Join(line, " & ") + " \\\\\n")
		if f.ruled && i < len(t.Rows)-1 {
			sb.WriteString("\\hline\n")
		}
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

// texHeading breaks the heading of a column of numbers at its last space, and a long one wherever a name may be broken.
func texHeading(h string, words bool) string {
	if utf8.RuneCountInString(h) > longName {
		return `\parbox[b]{24mm}{\raggedright\strut ` + texBreaks.Replace(texEscape(h)) + `\strut}`
	}
	cut := strings.LastIndex(h, " ")
	if words || cut < 0 {
		return texEscape(h)
	}
	return `\shortstack[r]{\strut ` + texEscape(h[:cut]) + `\\` + texEscape(h[cut+1:]) + "}"
}

// texBreaks allows a line break after the characters that join the parts of a name.
var texBreaks = strings.NewReplacer("--", "--", "-", `-\allowbreak `, `\_`, `\_\allowbreak `, "/", `/\allowbreak `, ".",
	`.\allowbreak `, `\textgreater{}`, `\textgreater{}\allowbreak `)

func texSpan(s table.Span, breaks bool) string {
	out := texEscape(s.Text)
	if breaks {
		out = texBreaks.Replace(out)
	}
	if s.Bold {
		out = `\textbf{` + out + "}"
	}
	if s.Mark != "" {
		out += `\textsuperscript{` + texEscape(s.Mark) + "}"
	}
	return out
}

// texEscaper escapes TeX's special characters and the signs in our own texts. An empty group keeps a name's dashes,
// quotes and angles from joining into ligatures.
var texEscaper = strings.NewReplacer(
	`\`, `\textbackslash{}`, "{", `\{`, "}", `\}`, "_", `\_`, "%", `\%`, "&", `\&`, "#", `\#`, "$", `\$`,
	"~", `\textasciitilde{}`, "^", `\textasciicircum{}`, "<", `\textless{}`, ">", `\textgreater{}`,
	"|", `\textbar{}`, `"`, `"{}`, "`", "{}`{}", "'", "'{}", "--", "-{}-{}",
	"[", "{[}", "]", "{]}", // after \\, a bracket would be its argument
	"ℓ∞", `$\ell_\infty$`, "ℓ1", `$\ell_1$`, "ℓ2", `$\ell_2$`, "ℓ", `$\ell$`, "∞", `$\infty$`,
	"ε", `$\epsilon$`, "†", `$\dagger$`, "−", "$-$", "±", `$\pm$`, "≤", `$\le$`, "≥", `$\ge$`,
	"‖", `$\|$`, "…", `\ldots{}`,
	"→", `$\to$`, "·", `$\cdot$`, "×", `$\times$`, "–", "--", words.Thin, `\,`, words.Nbsp, "~")

// texEscape writes s for LaTeX. Letters that its default fonts lack are written as code points, so that the file
// compiles.
func texEscape(s string) string {
	var sb strings.Builder
	for _, r := range texEscaper.Replace(s) {
		odd := !unicode.IsLetter(r) || strings.ContainsRune("ªµºÐÞðþ", r)
		if r > unicode.MaxLatin1 || r > unicode.MaxASCII && odd {
			fmt.Fprintf(&sb, "[U+%04X]", r)
			continue
		}
		sb.WriteRune(r)
	}
	return sb.String()
}
