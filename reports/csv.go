package reports

import (
	"encoding/csv"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"selfheal/harness/result"
)

// csvColumns are the columns of tables.csv, a line a cell, numbers in full. The first
// ones, which names marks, say which cell it is; the others are empty in the line of a
// published number that was not run.
var csvColumns = []struct {
	name  string
	names bool
	value func(c *result.Cell) string
}{
	{"suite", true, func(c *result.Cell) string { return c.Suite }},
	{"dataset", true, func(c *result.Cell) string { return c.Dataset }},
	{"model", true, func(c *result.Cell) string { return c.Model }},
	{"defense", true, func(c *result.Cell) string { return c.Defense }},
	{"mode", true, func(c *result.Cell) string { return c.Mode }},
	{"attack", true, func(c *result.Cell) string { return c.Attack }},
	{"norm", true, func(c *result.Cell) string {
		if c.Norm == nil {
			return ""
		}
		return *c.Norm
	}},
	{"epsilon", true, func(c *result.Cell) string {
		if c.Epsilon == nil {
			return ""
		}
		return full(*c.Epsilon)
	}},
	{"n", false, func(c *result.Cell) string { return strconv.Itoa(c.N) }},
	{"correct", false, func(c *result.Cell) string { return strconv.Itoa(c.Correct) }},
	{"accuracy", false, func(c *result.Cell) string { return full(c.Accuracy) }},
	{"ci_low", false, func(c *result.Cell) string { return full(c.CI95[0]) }},
	{"ci_high", false, func(c *result.Cell) string { return full(c.CI95[1]) }},
	{"max_norm", false, func(c *result.Cell) string { return full(c.MaxNorm) }},
	{"seconds", false, func(c *result.Cell) string { return full(c.Seconds) }},
	{"forward", false, func(c *result.Cell) string { f, _ := passes(c); return strconv.FormatInt(f, 10) }},
	{"backward", false, func(c *result.Cell) string { _, b := passes(c); return strconv.FormatInt(b, 10) }},
	{"recipe", false, func(c *result.Cell) string { return c.Recipe }},
	{"verdict_only", false, func(c *result.Cell) string { return strconv.FormatBool(c.VerdictOnly) }},
	{"warnings", false, func(c *result.Cell) string { // ids, each once
		var ids []string
		for _, w := range c.Warnings {
			if !slices.Contains(ids, w.ID) {
				ids = append(ids, w.ID)
			}
		}
		return strings.Join(ids, " ")
	}},
}

// csvPublished are the columns behind them, of suites with published numbers: a share
// like accuracy, ours minus it, and whether it lies in our 95 % interval.
var csvPublished = []struct {
	name  string
	value func(c compared) string
}{
	{"published", func(c compared) string {
		if c.published == nil {
			return ""
		}
		return full(*c.published)
	}},
	{"difference", func(c compared) string {
		if c.cell == nil || c.published == nil {
			return ""
		}
		return full(math.Round(c.difference()*1e9) / 1e9) // without the last bits of a subtraction
	}},
	{"published_in_ci", func(c compared) string {
		if !c.judged() {
			return ""
		}
		return strconv.FormatBool(c.side() == 0)
	}},
}

// inert is a field that no spreadsheet takes for a formula: a name that begins as one does has
// an apostrophe before it, as spreadsheets mark text, and one that begins with that a second
// one. Numbers are as they are; the columns that this is for have none below zero.
func inert(field string) string {
	if field != "" && strings.ContainsRune("=+-@'", rune(field[0])) {
		return "'" + field
	}
	return field
}

func full(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func renderCSV(w io.Writer, v *view) error {
	out := csv.NewWriter(w)
	var line []string
	for _, c := range csvColumns {
		line = append(line, c.name)
	}
	for _, c := range csvPublished {
		line = append(line, c.name)
	}
	for _, c := range csvSeeds {
		line = append(line, c.name)
	}
	out.Write(line)
	for _, s := range v.Suites {
		for _, one := range s.compared() {
			line = line[:0]
			cell := one.cell
			if cell == nil { // published, and not run
				cell = &result.Cell{Suite: s.Name, Dataset: s.Dataset, Model: one.model, Defense: one.defense,
					Mode:   s.Mode,
					Attack: one.col.Attack, Epsilon: one.col.Epsilon}
				if one.col.norm != "" {
					cell.Norm = &one.col.norm
				}
			}
			for _, c := range csvColumns {
				field := ""
				if c.names || one.cell != nil {
					field = inert(clean(c.value(cell)))
				}
				line = append(line, field)
			}
			for _, c := range csvPublished {
				line = append(line, c.value(one))
			}
			spread, several := cell.Spread()
			for _, c := range csvSeeds {
				field := ""
				if several {
					field = c.value(spread)
				}
				line = append(line, field)
			}
			out.Write(line)
		}
	}
	out.Flush()
	return out.Error()
}
