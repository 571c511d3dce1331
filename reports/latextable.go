package reports

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"selfheal/harness/cell"
	"selfheal/internal/lists"
	"selfheal/reports/table"
	"selfheal/reports/words"
)

// texPages cuts a table into parts that fit a page. The last part has the footnotes.
func texPages(t table.Table) (out []table.Table) {
	for first, last := t.Lead, 0; first < len(t.Head); first = last {
		last = texSizes[1].fit(t, first)
		for _, chunk := range texChunks(t) {
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

// texSize is a type size, and how wide tables come out in it, in points.
type texSize struct {
	name           string
	letter, column float64 // a letter, and the space beside a column
	most           int     // letters of the longest name that is not broken
}

// texSizes are the sizes of tables, and texWidth is how wide these may be: six inches.
var texSizes = [2]texSize{{"small", 4.7, 12, longName}, {"scriptsize\n\\tabcolsep=3pt", 3.9, 6, 19}}

const texWidth = 433.0

// width estimates the width of a column.
func (z texSize) width(t table.Table, i int) float64 {
	sides := 1
	cut := max(strings.LastIndex(t.Head[i], " "), 0)
	n := min(max(utf8.RuneCountInString(t.Head[i][:cut]), utf8.RuneCountInString(t.Head[i][cut:])), longName*2/3)
	for _, r := range t.Rows {
		one := utf8.RuneCountInString(r[i].Plain())
		if i < t.Lead {
			one = min(one, z.most)
		}
		if len(sidesOf(r[i])) > 1 {
			one, sides = max(one, len("undefended"+"controlled")-1), 2
		}
		n = max(n, one)
	}
	return float64(n)*z.letter + float64(sides)*z.column
}

// fit returns the end of the columns from first on that fit beside the row headings; they are at least one.
func (z texSize) fit(t table.Table, first int) int {
	sum := 0.0
	for i := range t.Lead {
		sum += z.width(t, i)
	}
	for i := first; i < len(t.Head); i++ {
		if sum += z.width(t, i); sum > texWidth && i > first {
			return i
		}
	}
	return len(t.Head)
}

// texChunks divides a table's rows into those of a page each, where a long name takes several lines.
func texChunks(t table.Table) (chunks [][][]table.Box) {
	const most = 40
	lines := most
	for _, r := range t.Rows {
		one := 1
		for _, b := range r[:t.Lead] {
			one = max(one, 1+utf8.RuneCountInString(b.Plain())/longName*2)
		}
		if lines += one; lines > most {
			chunks, lines = append(chunks, nil), one
		}
		chunks[len(chunks)-1] = append(chunks[len(chunks)-1], r)
	}
	return chunks
}

// texForm says how to set a table: the zero value is for the reports' own tables.
type texForm struct {
	strengths string // a line above the heads with every attack's strength; "" for none
}

// paperForm sets a table of accuracies like the paper's: the attacks' strengths stand once above short heads. If a norm
// has several strengths, or two attacks would have the same head, each head gives its own strength instead.
func paperForm(s table.Suite, t table.Table) (table.Table, texForm) {
	var form texForm
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

// texColumn is a column of a table as LaTeX has it: words, or numbers of one side or two.
type texColumn struct {
	words, long bool
	sides       []texSide
}

// texSide holds the longest parts before and from the points of a side's numbers, which all others are set as wide as,
// so that the points stand below each other; nil if no number has a point.
type texSide struct{ whole, rest []table.Span }

func (c texColumn) spec(name int) string {
	switch {
	case c.long:
		return fmt.Sprintf("p{%dmm}", name*4/3)
	case c.words:
		return "l"
	}
	return strings.Join(lists.Map(c.sides, func(s texSide) string {
		return words.If(s.rest != nil, "c") + words.If(s.rest == nil, "r")
	}), "")
}

// span returns the number of columns of the tabular that the column takes.
func (c texColumn) span() int { return max(1, len(c.sides)) }

// sidesOf divides a box at the slash between undefended and controlled.
func sidesOf(b table.Box) [][]table.Span {
	if i := slices.IndexFunc(b.Spans, func(s table.Span) bool { return s.Text == " / " }); i >= 0 {
		return [][]table.Span{b.Spans[:i], b.Spans[i+1:]}
	}
	return [][]table.Span{b.Spans}
}

// atPoint divides a number before its point, which a digit stands before and after; the second part may be empty.
func atPoint(spans []table.Span) (whole, rest []table.Span) {
	digit := func(s string, i int) bool { return i >= 0 && i < len(s) && s[i] >= '0' && s[i] <= '9' }
	for k, s := range spans {
		for i := range s.Text {
			if s.Text[i] == '.' && digit(s.Text, i-1) && digit(s.Text, i+1) {
				before, after := s, s
				before.Text, before.Mark, after.Text = s.Text[:i], "", s.Text[i:]
				return append(slices.Clone(spans[:k]), before), append([]table.Span{after}, spans[k+1:]...)
			}
		}
	}
	return spans, nil
}

// texColumns says how to set the columns, where a longer name than most letters is broken.
func texColumns(t table.Table, most int) []texColumn {
	letters := func(of []table.Span) (n int) { // bold ones are a little wider
		for _, s := range of {
			n += 10 * utf8.RuneCountInString(s.Text+s.Mark)
			if s.Bold {
				n += utf8.RuneCountInString(s.Text)
			}
		}
		return n
	}
	longer := func(a, b []table.Span) []table.Span {
		if letters(b) > letters(a) {
			return b
		}
		return a
	}
	all := make([]texColumn, len(t.Head))
	for i := range all {
		c := &all[i]
		c.words = t.Words(i)
		c.long = i < t.Lead && slices.ContainsFunc(t.Rows, func(r []table.Box) bool {
			return utf8.RuneCountInString(r[i].Plain()) > most
		})
		for _, r := range t.Rows {
			for k, side := range sidesOf(r[i]) {
				if c.words {
					break
				}
				if len(c.sides) <= k {
					c.sides = append(c.sides, texSide{})
				}
				if whole, rest := atPoint(side); rest != nil {
					c.sides[k] = texSide{longer(c.sides[k].whole, whole), longer(c.sides[k].rest, rest)}
				}
			}
		}
	}
	return all
}

// table writes a table; caption and label are LaTeX.
func (f texForm) table(sb *strings.Builder, t table.Table, caption, label string) {
	size := texSizes[0]
	if size.fit(t, t.Lead) < len(t.Head) {
		size = texSizes[1]
	}
	columns := texColumns(t, size.most)
	paired := slices.ContainsFunc(columns, func(c texColumn) bool { return c.span() > 1 })
	var spec, rules string
	heads, sides, at := make([]string, len(t.Head)), make([]string, len(t.Head)), 1
	for i, h := range t.Head {
		c := columns[i]
		spec += c.spec(size.most)
		heads[i] = texHeading(h, c, f.strengths != "")
		if c.span() > 1 {
			heads[i] = fmt.Sprintf("\\multicolumn{%d}{c}{%s}", c.span(), heads[i])
			rules += fmt.Sprintf("\\cmidrule(lr){%d-%d}", at, at+c.span()-1)
			both := t.Sides()
			sides[i] = `\scriptsize ` + texEscape(both[0]) + ` & \scriptsize ` + texEscape(both[1])
		}
		at += c.span()
	}
	fmt.Fprintf(sb,
		"\n\\begin{table}[htbp]\n\\centering\n\\belowcaptionskip=6pt\n\\%s\n\\caption{%s}\n\\label{%s}\n"+
			"\\begin{tabular}{%s}\n\\toprule\n", size.name, caption, label, spec)
	if f.strengths != "" {
		fmt.Fprintf(sb, "\\multicolumn{%d}{c}{%s} \\\\\n\\midrule\n", at-1, texEscape(f.strengths))
	}
	sb.WriteString(strings.Join(heads, " & ") + " \\\\\n")
	if paired {
		sb.WriteString(rules + "\n" + strings.Join(sides, " & ") + " \\\\\n")
	}
	sb.WriteString("\\midrule\n")
	grouped := slices.ContainsFunc(t.Rows, func(r []table.Box) bool { return r[0].Repeat })
	for i, r := range t.Rows {
		if grouped && i > 0 && !r[0].Repeat {
			sb.WriteString("\\addlinespace\n")
		}
		line := make([]string, len(r))
		for j, b := range r {
			line[j] = columns[j].written(b)
		}
		sb.WriteString(strings.Join(line, " & ") + " \\\\\n")
	}
	sb.WriteString("\\bottomrule\n\\end{tabular}\n")
	for i, n := range t.Notes {
		sb.WriteString("\n\\par" + words.If(i == 0, "\\smallskip") + "\\raggedright\\footnotesize")
		if n.Mark != "" {
			fmt.Fprintf(sb, "\\textsuperscript{%s}", texEscape(n.Mark))
		}
		sb.WriteString(" " + texEscape(n.Text) + "\n")
	}
	sb.WriteString("\\end{table}\n")
}

// written writes a box: its words, or each side's number.
func (c texColumn) written(b table.Box) string {
	if c.words {
		out := b.Written(func(s table.Span) string { return texSpan(s, c.long) })
		if c.long && !b.Repeat { // never the last column, whose \\ this would change
			out = "\\raggedright " + out
		}
		return out
	}
	out, sides := make([]string, len(c.sides)), sidesOf(b)
	for k, s := range c.sides {
		if k < len(sides) {
			out[k] = s.written(sides[k])
		}
	}
	return strings.Join(out, " & ")
}

// written writes a number with its parts as wide as the column's longest ones. Others, such as a dash, are centred.
func (s texSide) written(number []table.Span) string {
	whole, rest := atPoint(number)
	if rest == nil {
		return texSpans(number, false)
	}
	before, after := texSpans(whole, false), texSpans(rest, false)
	if most := texSpans(s.whole, false); before != most {
		before = `\phantom{` + most + `}\llap{` + before + `}`
	}
	if most := texSpans(s.rest, false); after != most {
		after = `\rlap{` + after + `}\phantom{` + most + `}`
	}
	return before + after
}

func texSpans(of []table.Span, breaks bool) (out string) {
	for _, s := range of {
		out += texSpan(s, breaks)
	}
	return out
}

// texHeading breaks the heading of a column of numbers at its last space, unless short says that it is short, and a
// long one wherever a name may be broken.
func texHeading(h string, c texColumn, short bool) string {
	if utf8.RuneCountInString(h) > longName {
		return `\parbox[b]{24mm}{\raggedright\strut ` + texBreaks.Replace(texEscape(h)) + `\strut}`
	}
	cut := strings.LastIndex(h, " ")
	if c.words || short || cut < 0 || c.span() > 1 {
		return texEscape(h)
	}
	align := words.If(c.sides[0].rest != nil, "c") + words.If(c.sides[0].rest == nil, "r")
	return `\shortstack[` + align + `]{\strut ` + texEscape(h[:cut]) + `\\` + texEscape(h[cut+1:]) + "}"
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
