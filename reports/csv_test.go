package reports

import (
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/reports/words"
)

// uninert takes back what inert adds.
func uninert(field string) string {
	if len(field) > 1 && field[0] == '\'' && strings.ContainsRune("=+-@'", rune(field[1])) {
		return field[1:]
	}
	return field
}

// Read back, tables.csv holds the cells: names up to control characters, numbers to the last bit.
func TestCSVReadBack(t *testing.T) {
	hostile := hostileFile()
	for i := range hostile.Cells { // names that a spreadsheet would compute, or a quote ends
		c := &hostile.Cells[i]
		c.Dataset = []string{`=HYPERLINK("http://example.org")`, "+1", "-1", "@SUM(A1)", "'text", `a "quoted", name`,
			"two\nlines\tand\ra tab", "=", "'"}[i%9]
		c.Accuracy, c.Seconds = 1./3, 1e-9
	}
	for name, f := range map[string]*result.File{"fixture": fixture(), "hostile": hostile} {
		rows := must.Get(csv.NewReader(strings.NewReader(written(t, renderCSV, arranged(f, nil)))).ReadAll())(t)
		if len(rows) != 1+len(f.Cells) {
			t.Errorf("%s: %d lines for %d cells", name, len(rows), len(f.Cells))
		}
		at := map[string]int{}
		for i, column := range rows[0] {
			at[column] = i
		}
		key := func(c *result.Cell) string {
			names := []string{c.Suite, c.Dataset, c.Model, c.Defense, c.Mode, c.Attack}
			return words.Clean(fmt.Sprintf("%s", names)) + fmt.Sprint(words.OrMinusOne(c.Epsilon))
		}
		cells := map[string]*result.Cell{}
		for i := range f.Cells {
			cells[key(&f.Cells[i])] = &f.Cells[i]
		}
		if len(cells) != len(f.Cells) {
			t.Fatalf("%s: %d names of %d cells", name, len(cells), len(f.Cells))
		}
		for _, row := range rows[1:] {
			number := func(column string) float64 {
				x, err := strconv.ParseFloat(row[at[column]], 64)
				if err != nil {
					t.Fatalf("%s: %s is %q", name, column, row[at[column]])
				}
				return x
			}
			read := &result.Cell{Suite: uninert(row[at["suite"]]), Dataset: uninert(row[at["dataset"]]),
				Model:   uninert(row[at["model"]]),
				Defense: uninert(row[at["defense"]]), Mode: uninert(row[at["mode"]]),
				Attack: uninert(row[at["attack"]])}
			if row[at["epsilon"]] != "" {
				e := number("epsilon")
				read.Epsilon = &e
			}
			c := cells[key(read)]
			if c == nil {
				t.Errorf("%s: no cell is %s", name, key(read))
				continue
			}
			if int(number("n")) != c.N || int(number("correct")) != c.Correct || number("accuracy") != c.Accuracy ||
				number("ci_low") != c.CI95[0] ||
				number("ci_high") != c.CI95[1] || number("max_norm") != c.MaxNorm || number("seconds") != c.Seconds {
				t.Errorf("%s: %s has other numbers: %q", name, key(read), row)
			}
			for column, field := range row {
				if field != "" && strings.ContainsRune("=+-@\t\r", rune(field[0])) {
					t.Errorf("%s: %s is a formula: %q", name, rows[0][column], field)
				}
			}
			delete(cells, key(read))
		}
		for k := range cells {
			t.Errorf("%s: no line of %s", name, k)
		}
	}
}
