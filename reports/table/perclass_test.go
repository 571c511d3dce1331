package table

import (
	"slices"
	"strings"
	"testing"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/models/heads"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// plainly writes a table in plain text, one line per row, with bars between columns.
func plainly(t Table) []string {
	var out []string
	for _, r := range t.Rows {
		var line []string
		for _, b := range r {
			line = append(line, b.Plain())
		}
		out = append(out, strings.ReplaceAll(strings.Join(line, " | "), words.Nbsp, " "))
	}
	return out
}

func wantRows(t *testing.T, got Table, want []string) {
	t.Helper()
	if rows := plainly(got); !slices.Equal(rows, want) {
		t.Errorf("%s:\n%s\nwant\n%s", got.Caption, strings.Join(rows, "\n"), strings.Join(want, "\n"))
	}
	for _, r := range got.Rows {
		if len(r) != len(got.Head) {
			t.Errorf("%s: %d cells under %d heads", got.Caption, len(r), len(got.Head))
		}
	}
}

// classed makes the records of one suite, one row per class: right answers of 10 images on the baseline clean and
// attacked, and on the controlled network.
func classed(t *testing.T, names []string, controls []string, right [][4]int) Suite {
	t.Helper()
	f := &result.File{Datasets: map[string]result.Dataset{"d": {ClassNames: names}}}
	e := 0.5
	var recs []result.Record
	for side, defense := range append([]string{"none"}, controls...) {
		for a, attack := range []string{"none", "aa-l2"} {
			c := result.Cell{ID: cell.Of("s", "m", defense, attack, 0).In("d", "oblivious"), N: 10 * len(right)}
			if attack != "none" {
				c.Epsilon = cell.Epsilon(e)
			}
			for label, row := range right {
				for i := range 10 {
					r := result.Record{ID: cell.Of("s", "m", defense, attack, c.Epsilon), Image: i, Label: label}
					if i < row[2*side+a] {
						r.Verdict = 1
					}
					recs = append(recs, r)
				}
			}
			f.Cells = append(f.Cells, c)
		}
	}
	v := view.Of(f)
	v.AddMargins(slices.Values(recs))
	return Of(v).Suites[0]
}

func TestClasses(t *testing.T) {
	s := classed(t, []string{"cat", "dog\n"}, []string{"pca"}, [][4]int{{10, 0, 9, 7}, {8, 1, 8, 0}, {5, 5, 5, 5}})
	tables := s.ClassTables()
	if len(tables) != 1 {
		t.Fatalf("%d tables", len(tables))
	}
	wantRows(t, tables[0], []string{"cat | 10 | 100.0 / 90.0 | 0.0 / 70.0", "dog  | 10 | 80.0 / 80.0 | 10.0 / 0.0",
		"2 | 10 | 50.0 / 50.0 | 50.0 / 50.0"})
	if p := tables[0].Rows[0][3].Pair; p == nil || *p != [2]float64{0, 0.7} {
		t.Errorf("bars of %v", p)
	}
	one := classed(t, nil, nil, [][4]int{{10, 3}})
	alone := one.ClassTables()[0]
	wantRows(t, alone, []string{"0 | 10 | 100.0 | 30.0"})
	task := &result.Task{Settings: heads.Settings{Kind: heads.MultiLabel}}
	one.File.Models = map[string]result.Model{"m": {Task: task}}
	if tables := one.ClassTables(); tables != nil {
		t.Errorf("classes of a task: %v", tables)
	}
	if alone.Rows[0][3].Bar != 0.3 || alone.Rows[0][3].Pair != nil {
		t.Errorf("bars of %+v", alone.Rows[0][3])
	}
	// With 25 classes the first table has the ends, by the mean of the controlled network's two
	// accuracies, here falling with the label, some equal.
	var right [][4]int
	for i := range 25 {
		right = append(right, [4]int{i % 10, 0, max(10-max(i, 1)/3, 0), max(10-max(i, 1)/2, 0)})
	}
	many := classed(t, nil, []string{"pca"}, right).ClassTables()
	if len(many) != 2 || len(many[1].Rows) != 25 || len(many[0].Rows) != 20 {
		t.Fatalf("%d tables", len(many))
	}
	var labels []string
	for _, r := range many[0].Rows {
		labels = append(labels, r[0].Plain())
	}
	if want := strings.Fields("24 21 22 23 20 18 19 16 17 15 9 8 6 7 4 5 3 2 0 1"); !slices.Equal(labels, want) {
		t.Errorf("classes %v, want %v", labels, want)
	}
	if len(many[0].Notes) != 1 || !strings.Contains(many[0].Notes[0].Text, "Of 25 classes, the 10 with the lowest and "+
		"the 10 with the highest mean accuracy of the controlled network") {
		t.Errorf("the rule is not said: %v", many[0].Notes)
	}
}
