package reports

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"selfheal/harness/result"
	"selfheal/harness/stats"
)

// csvHead are the columns of tables.csv: what says which cell it is, what was measured, the
// published number (a share like accuracy), ours minus it and whether it lies in our 95 %
// interval, the spread over several seeds, and of a control what it changes of the network's
// verdicts, with the p-value of McNemar's exact test.
var csvHead = strings.Fields(`suite dataset model defense mode attack norm epsilon
	n correct accuracy ci_low ci_high max_norm seconds forward backward recipe verdict_only warnings
	published difference published_in_ci
	seeds accuracy_mean accuracy_std accuracy_min accuracy_max accuracy_every_seed
	healed harmed p_value`)

func renderCSV(w io.Writer, v *view) error {
	out := csv.NewWriter(w)
	out.Write(csvHead)
	for _, s := range v.Suites {
		for _, one := range slices.Concat(s.compared(), s.eachCorrupted(), s.eachCertified()) {
			line := make([]string, len(csvHead))
			for i, f := range s.csvLine(one) {
				line[i] = csvField(f)
			}
			out.Write(line)
		}
	}
	out.Flush()
	return out.Error()
}

// csvLine are the fields of one cell, numbers in full; what there is nothing to say of is nil.
func (s *suite) csvLine(one compared) []any {
	c := one.cell
	if c == nil { // published, and not run
		c = &result.Cell{Suite: s.Name, Dataset: s.Dataset, Model: one.model, Defense: one.defense, Mode: s.Mode,
			Attack: one.col.Attack, Epsilon: one.col.Epsilon, Norm: &one.col.norm}
	}
	line := []any{c.Suite, c.Dataset, c.Model, c.Defense, c.Mode, c.Attack, known(c.Norm), known(c.Epsilon)}
	if one.cell == nil {
		line = append(line, make([]any, 12)...)
	} else {
		forward, backward := passes(c)
		warnings := distinct(c.Warnings, func(w result.Warning) string { return w.ID })
		correct, low, high := any(c.Correct), any(c.CI95[0]), any(c.CI95[1])
		if c.Verdicts == "" && one.col.corrupted() { // a mean
			correct, low, high = nil, nil, nil
		}
		line = append(line, c.N, correct, c.Accuracy, low, high, c.MaxNorm, c.Seconds, forward, backward,
			c.Recipe, c.VerdictOnly, strings.Join(warnings, " "))
	}
	var difference, inside any
	if one.cell != nil && one.published != nil {
		difference = math.Round(one.difference()*1e9) / 1e9 // without the last bits of a subtraction
	}
	if one.judged() {
		inside = one.side() == 0
	}
	line = append(line, known(one.published), difference, inside)
	if v, several := c.Spread(); several {
		line = append(line, v.Seeds, v.Mean, v.Deviation, v.Min, v.Max, v.Every)
	} else {
		line = append(line, make([]any, 6)...)
	}
	alone := s.Cell(one.model, "none", one.col)
	if one.alone != nil {
		alone = one.alone
	}
	if c.Defense != "none" && matched(alone, one.cell) {
		change := stats.NewPaired(alone.Verdicts, c.Verdicts)
		line = append(line, change.Won, change.Lost, change.McNemar())
	}
	return line
}

// known is what p points to, or nil.
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
		return inert(clean(v))
	}
	return fmt.Sprint(v)
}

func full(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// inert is a name that no spreadsheet takes for a formula: one that begins as a formula does has
// an apostrophe before it, as spreadsheets mark text, and one that begins with that a second one.
func inert(field string) string {
	if field != "" && strings.ContainsRune("=+-@'", rune(field[0])) {
		return "'" + field
	}
	return field
}
