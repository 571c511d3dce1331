package reports

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/harness/stats"
	"selfheal/internal/lists"
	"selfheal/reports/table"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// csvHead lists the columns of tables.csv. Published numbers are fractions like accuracy; healed, harmed and p_value
// compare the network's verdicts with and without a control, by McNemar's exact test.
var csvHead = strings.Fields(`suite dataset model defense mode source attack norm epsilon
	n correct accuracy ci_low ci_high max_norm seconds forward backward recipe verdict_only warnings
	published difference published_in_ci
	area rounding_regained rounding_lost single_pass undecided
	seeds accuracy_mean accuracy_std accuracy_min accuracy_max accuracy_every_seed
	healed harmed p_value`)

func renderCSV(w io.Writer, v page) error {
	out := csv.NewWriter(w)
	out.Write(csvHead)
	for _, s := range v.Suites {
		for _, one := range append(s.Compared(), s.Apart()...) {
			line, fields := make([]string, len(csvHead)), csvFields(s, one)
			for i, column := range csvHead {
				line[i] = csvField(fields[column])
			}
			out.Write(line)
		}
	}
	out.Flush()
	return out.Error()
}

// csvFields returns a cell's values by column, numbers in full; columns without a value are left out.
func csvFields(s table.Suite, one view.Compared) map[string]any {
	fields := map[string]any{}
	set := func(columns string, values ...any) {
		for i, column := range strings.Fields(columns) {
			fields[column] = values[i]
		}
	}
	c := one.Cell
	if c == nil { // published, but not run
		row := cell.Row{Dataset: s.Dataset, Model: one.Model, Defense: one.Defense}
		c = &result.Cell{ID: cell.ID{Suite: s.Name, Row: row, Mode: s.Mode, Column: one.Column.Column},
			Norm: &one.Column.Norm}
	}
	set("suite dataset model defense mode source attack norm epsilon published", c.Suite, c.Dataset, c.Model, c.Defense,
		c.Mode, c.Source, c.Attack, known(c.Norm), c.Epsilon, known(one.Published))
	if one.Cell != nil {
		forward, backward := table.Passes(c)
		warnings := lists.Distinct(c.Warnings, func(w result.Warning) string { return w.ID })
		set("n accuracy max_norm seconds forward backward recipe verdict_only warnings", c.N, c.Accuracy, c.MaxNorm,
			c.Seconds, forward, backward, c.Recipe, c.VerdictOnly, strings.Join(warnings, " "))
		set("area", known(c.Area))
		if c.Stored != nil {
			set("rounding_regained rounding_lost", c.Stored.Regained, c.Stored.Lost)
		}
		if c.Votes != nil {
			set("single_pass undecided", c.Votes.Expected, c.Votes.Undecided)
		}
		if c.Verdicts != "" || !one.Column.Corrupted() { // a mean has no verdicts
			set("correct ci_low ci_high", c.Correct, c.CI95[0], c.CI95[1])
		}
		if one.Published != nil {
			set("difference", math.Round(one.Difference()*1e9)/1e9) // without the last bits of a subtraction
		}
	}
	if one.Judged() {
		set("published_in_ci", one.Side() == 0)
	}
	if v, several := c.Spread(); several {
		set("seeds accuracy_mean accuracy_std accuracy_min accuracy_max accuracy_every_seed", v.Seeds, v.Mean,
			v.Deviation, v.Min, v.Max, v.Every)
	}
	alone := cmp.Or(one.Alone, s.Cell(one.Model, cell.None, one.Column))
	if c.Defense != cell.None && table.Matched(alone, one.Cell) {
		change := stats.NewPaired(alone.Verdicts, c.Verdicts)
		set("healed harmed p_value", change.Won, change.Lost, change.McNemar())
	}
	return fields
}

func known[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

func csvField(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case cell.Epsilon:
		if v == 0 {
			return ""
		}
		return csvField(float64(v))
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case string:
		return inert(words.Clean(v))
	}
	return fmt.Sprint(v)
}

// inert returns a name that no spreadsheet reads as a formula: an apostrophe marks it as text.
func inert(field string) string {
	if strings.IndexAny(strings.TrimLeftFunc(field, unicode.IsSpace), "=+-@＝＋－＠'") == 0 {
		return "'" + field
	}
	return field
}
