package reports

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"selfheal/harness/result"
	"selfheal/harness/stats"
	"selfheal/reports/table"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// csvHead are the columns of tables.csv. Published numbers are shares like accuracy; healed, harmed and p_value say
// what a control changes of the network's verdicts, by McNemar's exact test.
var csvHead = strings.Fields(`suite dataset model defense mode attack norm epsilon
	n correct accuracy ci_low ci_high max_norm seconds forward backward recipe verdict_only warnings
	published difference published_in_ci
	seeds accuracy_mean accuracy_std accuracy_min accuracy_max accuracy_every_seed
	healed harmed p_value`)

func renderCSV(w io.Writer, v page) error {
	out := csv.NewWriter(w)
	out.Write(csvHead)
	for _, s := range v.Suites {
		for _, one := range append(s.Compared(), s.Apart()...) {
			line := make([]string, len(csvHead))
			for i, f := range csvLine(s, one) {
				line[i] = csvField(f)
			}
			out.Write(line)
		}
	}
	out.Flush()
	return out.Error()
}

// csvLine are the fields of one cell, numbers in full; what there is nothing to say of is nil.
func csvLine(s table.Suite, one view.Compared) []any {
	c := one.Cell
	if c == nil { // published, and not run
		c = &result.Cell{Suite: s.Name, Dataset: s.Dataset, Model: one.Model, Defense: one.Defense, Mode: s.Mode,
			Attack: one.Column.Attack, Epsilon: one.Column.Epsilon, Norm: &one.Column.Norm}
	}
	line := []any{c.Suite, c.Dataset, c.Model, c.Defense, c.Mode, c.Attack, known(c.Norm), known(c.Epsilon)}
	if one.Cell == nil {
		line = append(line, make([]any, 12)...)
	} else {
		forward, backward := table.Passes(c)
		warnings := view.Distinct(c.Warnings, func(w result.Warning) string { return w.ID })
		correct, low, high := any(c.Correct), any(c.CI95[0]), any(c.CI95[1])
		if c.Verdicts == "" && one.Column.Corrupted() { // a mean
			correct, low, high = nil, nil, nil
		}
		line = append(line, c.N, correct, c.Accuracy, low, high, c.MaxNorm, c.Seconds, forward, backward,
			c.Recipe, c.VerdictOnly, strings.Join(warnings, " "))
	}
	var difference, inside any
	if one.Cell != nil && one.Published != nil {
		difference = math.Round(one.Difference()*1e9) / 1e9 // without the last bits of a subtraction
	}
	if one.Judged() {
		inside = one.Side() == 0
	}
	line = append(line, known(one.Published), difference, inside)
	if v, several := c.Spread(); several {
		line = append(line, v.Seeds, v.Mean, v.Deviation, v.Min, v.Max, v.Every)
	} else {
		line = append(line, make([]any, 6)...)
	}
	alone := s.Cell(one.Model, "none", one.Column)
	if one.Alone != nil {
		alone = one.Alone
	}
	if c.Defense != "none" && table.Matched(alone, one.Cell) {
		change := stats.NewPaired(alone.Verdicts, c.Verdicts)
		line = append(line, change.Won, change.Lost, change.McNemar())
	}
	return line
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
	case float64:
		return full(v)
	case string:
		return inert(words.Clean(v))
	}
	return fmt.Sprint(v)
}

func full(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// inert is a name that no spreadsheet takes for a formula: spreadsheets mark text with an apostrophe.
func inert(field string) string {
	if field != "" && strings.ContainsRune("=+-@'", rune(field[0])) {
		return "'" + field
	}
	return field
}
