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

// renderCSV writes the columns of [result.Columns] that have a name in the file. Published numbers are fractions like
// accuracy; healed, harmed and p_value compare the network's verdicts with and without a control, by McNemar's exact
// test.
func renderCSV(w io.Writer, v page) error {
	columns := lists.Only(result.Columns, func(c result.Column) bool { return c.CSV != "" })
	out := csv.NewWriter(w)
	out.Write(lists.Map(columns, func(c result.Column) string { return c.CSV }))
	for _, s := range v.Suites {
		for _, one := range append(s.Compared(), s.Apart()...) {
			side := s.Side(one.Defense)
			if one.Cell != nil && side.Control != one.Defense && side.Mode != one.Cell.Mode {
				continue // it stands under its own mode
			}
			said := compared(s, one)
			out.Write(lists.Map(columns, func(c result.Column) string {
				switch value := said[c.CSV]; {
				case c.Of == nil:
					return csvField(value)
				case one.Cell == nil: // published, but not run
					return ""
				}
				return csvField(c.Of(one.Cell, s.MarginsOf(one.Cell)))
			}))
		}
	}
	out.Flush()
	return out.Error()
}

// compared returns the columns that name a cell and compare it, by their names; those without a value are left out.
func compared(s table.Suite, one view.Compared) map[string]any {
	side := s.Side(one.Defense)
	row, norm := cell.Row{Dataset: s.Dataset, Model: one.Model, Defense: side.Control}, &one.Column.Norm
	id := cell.ID{Suite: s.Name, Row: row, Mode: side.Mode, Column: one.Column.Column}
	if one.Cell != nil {
		id, norm = one.Cell.ID, one.Cell.Norm
		id.Defense = side.Control
	}
	fields := map[string]any{"suite": id.Suite, "dataset": id.Dataset, "model": id.Model, "defense": id.Defense,
		"mode": id.Mode, "source": id.Source, "attack": id.Attack, "norm": result.Known(norm), "epsilon": id.Epsilon,
		"published": result.Known(one.Published)}
	if one.Cell != nil && one.Published != nil {
		fields["difference"] = math.Round(one.Difference()*1e9) / 1e9 // without the last bits of a subtraction
	}
	if one.Judged() {
		fields["published_in_ci"] = one.Side() == 0
	}
	alone := cmp.Or(one.Alone, s.Cell(one.Model, cell.None, one.Column))
	if id.Defense != cell.None && table.Matched(alone, one.Cell) {
		change := stats.NewPaired(alone.Verdicts, one.Cell.Verdicts)
		fields["healed"], fields["harmed"], fields["p_value"] = change.Won, change.Lost, change.McNemar()
	}
	return fields
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
	case result.Ranged:
		return csvField(v.Value)
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
