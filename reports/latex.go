package reports

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"

	"selfheal/harness/compare"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/reports/table"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// texHead lets a file of tables be compiled by itself and also be read with \input by a document: \@nodocument is
// \relax only after \begin{document}.
const texHead = `% \input this file in a document that has \usepackage{booktabs}, or compile it by itself. More than 50
% tables in a row need \extrafloats{500} and \maxdeadcycles=1000 too, as below. With a LaTeX older than 2018,
% letters beyond ASCII in names need \usepackage[utf8]{inputenc}.
\expandafter\ifx\csname @nodocument\endcsname\relax
  \let\selfhealend\relax
\else
  \documentclass{article}
  \usepackage{booktabs}
  \maxdeadcycles=1000 \extrafloats{500}
  \oddsidemargin=-10mm \textwidth=180mm \topmargin=-20mm \textheight=250mm
  \begin{document}
  \def\selfhealend{\end{document}}
\fi
`

// texTable is a table of a LaTeX file. Its label is tab:NAME-1, and so on if it is longer than a page.
type texTable struct {
	name   string
	form   texForm
	of     table.Table
	before string // of the caption
}

// write writes the table, with the caption and the label if they are not empty.
func (t texTable) write(sb *strings.Builder, caption, label string) {
	for i, part := range texPages(t.of) {
		said, name := texEscape(t.before+part.Caption), fmt.Sprintf("tab:%s-%d", t.name, i+1)
		if caption != "" {
			said = caption
		}
		if label != "" {
			name = label + words.If(i > 0, fmt.Sprintf("-%d", i+1))
		}
		t.form.table(sb, part, said, name)
	}
}

// texDocument writes tables as a document.
func texDocument(all []texTable) string {
	var sb strings.Builder
	sb.WriteString(texHead)
	for _, t := range all {
		t.write(&sb, "", "")
	}
	if len(all) == 0 {
		sb.WriteString("No results.\n")
	}
	return sb.String() + "\\selfhealend\n"
}

// TeXChoice names a table by the end of its label, such as accuracy or SUITE-evidence, and gives it another caption and
// label, in LaTeX; "" keeps them.
type TeXChoice struct{ Table, Caption, Label string }

// from returns the table that it names.
func (c TeXChoice) from(all []texTable) (string, error) {
	all = slices.DeleteFunc(slices.Clone(all), func(t texTable) bool { return len(t.of.Rows) == 0 })
	found := lists.Only(all, func(t texTable) bool { return t.name == c.Table })
	if len(found) == 0 {
		found = lists.Only(all, func(t texTable) bool { return strings.HasSuffix(t.name, "-"+c.Table) })
	}
	names := func(of []texTable) string {
		return words.Some(lists.Map(of, func(t texTable) string { return t.name }))
	}
	switch {
	case len(all) == 0:
		return "", fmt.Errorf("there is no table yet")
	case len(found) == 0:
		return "", fmt.Errorf("there is no table %s; there are %s", words.Clean(c.Table), names(all))
	case len(found) > 1:
		return "", fmt.Errorf("several tables are called %s: choose one of %s", words.Clean(c.Table), names(found))
	}
	var sb strings.Builder
	found[0].write(&sb, c.Caption, c.Label)
	return strings.TrimPrefix(words.Printable(sb.String()), "\n"), nil
}

// LaTeX returns one table of a report as [Write] writes it to tables.tex.
func LaTeX(f *result.File, records iter.Seq[result.Record], c TeXChoice) (string, error) {
	v := view.Of(f)
	v.AddMargins(records)
	return c.from(newPage(v, nil).texTables())
}

// CompareLaTeX returns one table of a comparison as [WriteCompare] writes it to compare.tex.
func CompareLaTeX(of *compare.Comparison, c TeXChoice) (string, error) {
	return c.from(comparedTeX(table.OfComparison(of)))
}

func (v page) texTables() (all []texTable) {
	all = append(all, texTable{name: "knowledge", of: v.KnowledgeTable()})
	for _, s := range v.Suites { // a table on a page of its own names its suite, and says what its attacker knows
		before := fmt.Sprintf("%s (%s). ", s.Heading(), s.Sample())
		add := func(label string, t table.Table) {
			all = append(all, texTable{s.Slug + "-" + label, texForm{}, t, before})
		}
		add("accuracy", s.AccuracyTable())
		last := &all[len(all)-1]
		last.of, last.form = paperForm(s, last.of)
		if made := s.Made(); made != "" {
			last.of.Notes = append([]table.Footnote{{Text: words.Heading(made) + "."}}, last.of.Notes...)
		}
		add("union", s.UnionTable())
		add("intervals", s.IntervalTable())
		add("evidence", s.EvidenceTable())
		add("pairs", s.PairTable())
		add("published", s.ComparisonTable())
		for _, t := range s.CellTables(table.LaTeX) {
			add(t.Label, t)
		}
		for late, label := range []string{"certified", "corruptions"} {
			for i, t := range s.SetTables(late == 1) {
				add(fmt.Sprint(label, i+1), t)
			}
		}
	}
	return all
}

func renderLaTeX(v page) string {
	if len(v.Suites) == 0 {
		return texDocument(nil)
	}
	return texDocument(v.texTables())
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
