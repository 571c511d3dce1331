package gate

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"

	"selfheal/internal/lists"
	"selfheal/internal/number"
	"selfheal/internal/terminal"
)

// columns returns the table's columns. The first and the last are text, the others numbers.
func (r *Report) columns() []string {
	return []string{"cell", "n", "baseline", "now", fmt.Sprintf("change (%s %% interval)", points(1-2*r.Gate.Alpha)),
		"lost/won", "p fail", "p pass", "detects", "outcome"}
}

// row returns a cell's row. Accuracies are in per cent, all other numbers in points.
func (c Compared) row() []string {
	row := []string{c.name(), fmt.Sprint(c.N), "-", percent(c.Accuracy), "-", "-", "-", "-", "-", string(c.Outcome)}
	if x := c.Change; x != nil {
		row[2] = percent(x.Before)
		row[4] = fmt.Sprintf("%s (%s to %s)", signed(-x.Drop), signed(-x.Interval[1]), signed(-x.Interval[0]))
		row[5] = fmt.Sprintf("%d/%d", x.Lost, x.Won)
		row[6], row[7], row[8] = number.Probability(x.AboveHolm), "–", "–"
		if !x.Unchanged {
			row[7] = number.Probability(x.Below)
		}
		if x.Detectable != nil {
			row[8] = percent(*x.Detectable)
		}
	}
	return row
}

// legend explains the columns, in lines.
var legend = []string{
	"baseline and now: accuracy in %; change: in points; lost/won: images that were right and are wrong, " +
		"and the other way round;",
	"p fail: of a drop beyond max_drop, adjusted for the number of cells (Holm); at alpha or less the cell fails;",
	"p pass: of a drop less than max_drop; else at alpha or less the cell passes, and where network and verdicts are " +
		"the baseline's (–);",
	"detects: the true drop, in points, that would fail with probability 0.8 (–: none would)",
}

// suites groups the cells by suite, in the order of their first cells.
func (r *Report) suites() (groups [][]Compared) {
	for _, c := range r.Cells {
		i := slices.IndexFunc(groups, func(g []Compared) bool { return g[0].Suite == c.Suite && g[0].Mode == c.Mode })
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], c)
	}
	return groups
}

func (r *Report) rules() string {
	g := r.Gate
	s := fmt.Sprintf("rules: max_drop %s points, alpha %v", points(g.MaxDrop), g.Alpha)
	if len(g.Min) > 0 {
		s += ", " + count(len(g.Min), "min")
	}
	if len(g.FailOn) > 0 {
		s += ", fail_on " + strings.Join(g.FailOn, " ")
	}
	if g.NewModel {
		s += ", new_model"
	}
	return s
}

// reasons lists why cells do not pass: failing ones first, then inconclusive ones that lost accuracy or are below a
// min.
func (r *Report) reasons() []string {
	var lines []string
	for _, o := range []Outcome{Fail, Inconclusive} {
		for _, c := range r.Cells {
			if c.Outcome == o && (o == Fail || c.Change != nil && c.Change.Drop > 0 || c.below()) {
				lines = append(lines, fmt.Sprintf("%s: %s: %s", o, c, strings.Join(c.Reasons, "; ")))
			}
		}
	}
	return lines
}

// WriteText writes the table for a terminal. The summary is its last line; answers come before it.
func (r *Report) WriteText(w io.Writer, answers ...string) error {
	var b strings.Builder
	rows := [][]string{r.columns()}
	for _, group := range r.suites() {
		rows = append(rows, lists.Map(group, Compared.row)...)
	}
	lines := terminal.Columns(rows, func(i int) bool { return i == 0 || i == len(rows[0])-1 })
	head, lines := lines[0], lines[1:]
	for _, group := range r.suites() {
		c := group[0]
		fmt.Fprintf(&b, "suite %s, dataset %s, %s\n%s\n%s\n", plain(c.Suite), plain(c.Dataset), group[0].Mode, head,
			strings.Join(lines[:len(group)], "\n"))
		lines = lines[len(group):]
	}
	fmt.Fprintf(&b, "\n%s\n%s\n", strings.Join(legend, "\n"), r.rules())
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	for _, line := range append(append(r.reasons(), answers...), r.Summary) {
		fmt.Fprintln(&b, line)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// marks precede the outcomes on a CI page.
var marks = map[Outcome]string{Fail: "❌ ", Inconclusive: "⚠️ ", Pass: "✅ ", New: "🆕 "}

// WriteMarkdown writes the report for a CI job's page on GitHub, with an empty line at either end.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n### Robustness gate\n\n%s**%s**\n", marks[r.Outcome], markdown(r.Summary))
	for _, group := range r.suites() {
		c := group[0]
		fmt.Fprintf(&b, "\nSuite %s, dataset %s, %s\n\n", markdown(plain(c.Suite)), markdown(plain(c.Dataset)),
			group[0].Mode)
		row := func(cells []string, mark string) {
			for i, s := range cells {
				if cells[i] = markdown(s); i == len(cells)-1 {
					cells[i] = mark + cells[i]
				}
			}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		}
		row(r.columns(), "")
		b.WriteString("|:---|" + strings.Repeat("---:|", len(r.columns())-2) + ":---|\n")
		for _, c := range group {
			row(c.row(), marks[c.Outcome])
		}
	}
	b.WriteString("\n")
	for _, line := range append(append([]string{r.rules()}, r.Notes...), r.reasons()...) {
		fmt.Fprintf(&b, "- %s\n", markdown(line))
	}
	fmt.Fprintf(&b, "\n%s\n\n", markdown(strings.Join(legend, " ")))
	_, err := io.WriteString(w, b.String())
	return err
}

// plain makes a name from a file safe for a terminal or XML: invisible characters become U+FFFD.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsGraphic(r) || unicode.IsSpace(r) && r != ' ' {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// markdown escapes text for a cell of a Markdown table.
var markdown = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "|", `\|`, `\`, `\\`, "`", "\\`", "*", `\*`,
	"_", `\_`, "[", `\[`, "]", `\]`, "~", `\~`, "@", "&#64;", "#", "&#35;").Replace

// points returns a fraction in percentage points, with as many digits as it needs, at most two.
func points(share float64) string {
	s := fmt.Sprintf("%.2f", 100*share)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// signed returns a change in points, to a tenth, with its sign. No change has none.
func signed(share float64) string {
	if math.Abs(share) < 0.0005 {
		return "0.0"
	}
	return fmt.Sprintf("%+.1f", 100*share)
}

func percent(share float64) string { return fmt.Sprintf("%.1f", 100*share) }

// andMore lists the first of some names, and how many more there are.
func andMore(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return thousands(n/1000) + fmt.Sprintf(",%03d", n%1000)
}
