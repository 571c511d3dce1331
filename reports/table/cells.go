package table

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"selfheal/harness/result"
	"selfheal/harness/stats"
	"selfheal/internal/lists"
	"selfheal/internal/number"
	"selfheal/reports/words"
)

// byCell is a table with a row for each cell that one of its columns applies to.
type byCell struct {
	name    string // of [result.Columns]
	caption string
	seeds   string // caption if the numbers are of several seeds; "": they are the first seed's
	formats Format
	note    string
}

// Format says which reports have a table. Each format has the tables of the formats after it.
type Format int

// The formats.
const (
	Page Format = iota
	Text
	LaTeX
)

// components is a table with a row for each component of a cell's attack.
const components = "components"

// measures is a table with a row for each measure of a cell's task.
const measures = "measures"

// cellTables lists the tables in a page's order.
var cellTables = []byCell{
	{result.SpreadTable, "Spread over the seeds: accuracy in %", "Spread over the seeds: accuracy in %", LaTeX, ""},
	{result.VotesTable, "Networks that draw at random", "", Text, "By votes: the class that most passes answer is " +
		"the label. A single pass: the mean over all passes, with the 95 % interval that the draws leave on these " +
		"images. Undecided: other draws may turn the verdict, by the exact sign test between the two classes with " +
		"most votes, at 5 %."},
	{result.DistanceTable, "Smallest perturbation found that breaks an image that is right", "", LaTeX, ""},
	{result.PlantedTable, "Planted perturbations, in as many images as a tenth of the attack's passes allows", "",
		Text, "In these images a readout of the network's own features takes the place of its last layer, so that " +
			"one known point of the ball is misclassified. An attack that misses such points finds too little in the " +
			"network itself, too."},
	{measures, "Measures of the task, means over the images", "", Text, "An attack stops where an answer becomes " +
		"wrong, and images that stand count as clean ones: under attack a share of right answers is an upper bound, " +
		"an error a lower one. IoU: the intersection of a class's pixels in the answer and in the truth over their " +
		"union."},
	{components, "Accuracy after each attack component", "", LaTeX, ""},
	{result.SolverTable, "Solver: running loss of the control problem, mean over the images", "", Page, ""},
	{result.MarginTable, "Margins: the right class's logit minus the highest other one, on each cell's images", "",
		Page, ""},
	{result.CalibrationTable, "Calibration, risk over coverage, and the time until images break", "", Page, "The " +
		"calibration error is the mean difference between confidence and accuracy in 15 bins. The area is the mean " +
		"fraction of wrong answers if the least confident are left out. Iterations are of the images that broke."},
	{result.CostTable, "Time and model passes (in images)", "Time over all {seeds} seeds; model passes (in images) " +
		"and largest perturbation of the first seed", Page, "A cell's time is that of its attack's components and " +
		"of the judge's answers to its images."},
}

// CellTables returns the tables by cell that a format has.
func (s Suite) CellTables(of Format) []Table {
	return lists.Map(lists.Only(cellTables, func(b byCell) bool { return b.formats >= of }), s.cellTable)
}

func (s Suite) cellTable(b byCell) Table {
	caption := b.caption + s.OfFirstSeed()
	if s.Seeds > 1 && b.seeds != "" {
		caption = strings.ReplaceAll(b.seeds, "{seeds}", fmt.Sprint(s.Seeds))
	}
	t := s.table(caption, 3, "Model", defenseHead, "Attack")
	switch t.Label = b.name; b.name {
	case components:
		return s.withComponents(t)
	case measures:
		t.head(true, "Measure", "Value")
		s.Each(func(c *result.Cell, col words.Column) {
			for _, m := range c.Measures {
				t.add(c.Model, words.DefenseName(c.Defense), col.Title(), m.Name, words.ThreeDigits(m.Value))
			}
		})
		return t.marked()
	}
	columns := lists.Only(result.Columns, func(c result.Column) bool { return c.Table == b.name })
	var cells []*result.Cell
	values := make([][]any, len(columns)) // by column and cell
	s.Each(func(c *result.Cell, col words.Column) {
		line := lists.Map(columns, func(of result.Column) any { return of.Of(c, s.MarginsOf(c)) })
		if slices.ContainsFunc(line, measured) {
			t.add(c.Model, words.DefenseName(c.Defense), col.Title())
			cells = append(cells, c)
			for k, v := range line {
				values[k] = append(values[k], v)
			}
		}
	})
	sums := boxes("Sum", "", "")
	for k, of := range columns {
		if of.Rare && !slices.ContainsFunc(values[k], measured) {
			continue
		}
		t.head(true, of.Head)
		sum := 0.0
		for i, v := range values[k] {
			t.Rows[i] = append(t.Rows[i], boxes(written(cells[i], of, v))...)
			switch v := v.(type) {
			case int64:
				sum += float64(v)
			case float64:
				sum += v
			}
		}
		switch {
		case of.Unit == result.Seconds:
			sums, t.Sums = append(sums, timed(sum)), min(1, len(cells)/2)
		case of.Unit == result.Passes:
			sums = append(sums, boxes(int64(sum))...)
		default:
			sums = append(sums, text(""))
		}
	}
	if t.Sums > 0 {
		t.add(sums)
	}
	if b.note != "" && (b.name != result.CostTable || len(s.withComponents(t).Rows) > len(t.Rows)) {
		t.note("", "%s", b.note)
	}
	return t.marked()
}

func measured(v any) bool { return v != nil }

// written writes a column's value of a cell.
func written(c *result.Cell, of result.Column, v any) any {
	switch v := v.(type) {
	case nil:
		return words.Dash
	case result.Ranged:
		return words.Percent(v.Value, c.N) + " " + words.Range(words.Percent(v.CI95[0], c.N),
			words.Percent(v.CI95[1], c.N))
	case float64:
		switch of.Unit {
		case result.Fraction:
			return words.Percent(v, c.N)
		case result.Accuracy:
			return words.Accuracy(c)
		case result.Norm:
			if c.Norm == nil {
				return words.Dash
			}
			if math.IsInf(v, 1) {
				return "> " + c.Epsilon.String()
			}
			return words.Strength(*c.Norm, v)
		case result.Whole:
			return number.Format(v)
		case result.Seconds:
			return timed(v)
		}
		return words.ThreeDigits(v)
	}
	return v
}

// withComponents adds a row for each component of each cell's attack. The interval is of the fraction of the attacked
// images that the component breaks, for other images of the same kind.
func (s Suite) withComponents(t Table) Table {
	t.head(true, "Component", "Attacked", "Broken of these (%)", "Accuracy after (%)", "Forward passes",
		"Backward passes", "Time")
	s.Each(func(c *result.Cell, col words.Column) {
		names, standing := words.Components(c.Steps), 0
		for i, st := range c.Steps {
			if i == 0 {
				standing = st.Attacked
			}
			left := int(math.Round(st.Robust * float64(c.N)))
			after := text(words.Percent(st.Robust, c.N))
			after.Bar = st.Robust
			broken := ""
			if n := st.Attacked; n > 0 && st.Proven == 0 {
				broke := max(standing-left, 0)
				ends := stats.Wilson(broke, n)
				broken = words.Percent(float64(broke)/float64(n), n) + " " +
					words.Range(words.Percent(ends[0], n), words.Percent(ends[1], n))
			}
			standing = left
			t.add(c.Model, words.DefenseName(c.Defense), col.Title(), names[i], st.Attacked, broken, after, st.Forward,
				st.Backward, timed(st.Seconds))
		}
	})
	return t.marked()
}
