package reports

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"

	"selfheal/harness/result"
)

// csvColumns are the columns of tables.csv, a line a cell, numbers in full.
var csvColumns = []struct {
	name  string
	value func(c *result.Cell) string
}{
	{"suite", func(c *result.Cell) string { return c.Suite }},
	{"dataset", func(c *result.Cell) string { return c.Dataset }},
	{"model", func(c *result.Cell) string { return c.Model }},
	{"defense", func(c *result.Cell) string { return c.Defense }},
	{"mode", func(c *result.Cell) string { return c.Mode }},
	{"attack", func(c *result.Cell) string { return c.Attack }},
	{"norm", func(c *result.Cell) string {
		if c.Norm == nil {
			return ""
		}
		return *c.Norm
	}},
	{"epsilon", func(c *result.Cell) string {
		if c.Epsilon == nil {
			return ""
		}
		return full(*c.Epsilon)
	}},
	{"n", func(c *result.Cell) string { return strconv.Itoa(c.N) }},
	{"correct", func(c *result.Cell) string { return strconv.Itoa(c.Correct) }},
	{"accuracy", func(c *result.Cell) string { return full(c.Accuracy) }},
	{"ci_low", func(c *result.Cell) string { return full(c.CI95[0]) }},
	{"ci_high", func(c *result.Cell) string { return full(c.CI95[1]) }},
	{"max_norm", func(c *result.Cell) string { return full(c.MaxNorm) }},
	{"seconds", func(c *result.Cell) string { return full(c.Seconds) }},
	{"forward", func(c *result.Cell) string { f, _ := passes(c); return strconv.FormatInt(f, 10) }},
	{"backward", func(c *result.Cell) string { _, b := passes(c); return strconv.FormatInt(b, 10) }},
	{"recipe", func(c *result.Cell) string { return c.Recipe }},
	{"verdict_only", func(c *result.Cell) string { return strconv.FormatBool(c.VerdictOnly) }},
	{"warnings", func(c *result.Cell) string { // ids, each once
		var ids []string
		for _, w := range c.Warnings {
			if !slices.Contains(ids, w.ID) {
				ids = append(ids, w.ID)
			}
		}
		return strings.Join(ids, " ")
	}},
}

func full(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func renderCSV(w io.Writer, v *view, _ *suite) error {
	out := csv.NewWriter(w)
	var line []string
	for _, c := range csvColumns {
		line = append(line, c.name)
	}
	out.Write(line)
	for _, s := range v.Suites {
		s.each(func(cell *result.Cell, _ column) {
			line = line[:0]
			for _, c := range csvColumns {
				line = append(line, clean(c.value(cell)))
			}
			out.Write(line)
		})
	}
	out.Flush()
	return out.Error()
}
