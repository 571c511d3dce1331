package published

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"selfheal/internal/must"
)

// Every number is in its place: the rows equal the paper's own tables.
func TestNumbers(t *testing.T) {
	data := must.Get(os.ReadFile("testdata/rows.txt"))(t)
	numbers, rest := 0, map[string][]Cell{}
	for _, table := range Tables() {
		rest[table.Name] = table.Cells
	}
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		name := f[0]
		if f[1] != "-" {
			name += "-" + f[1]
		}
		attacks := []string{"none", "aa-linf", "aa-l2", "aa-l1"}
		if name == "table7" {
			attacks = []string{"none", "pgd-linf", "aa-linf"}
		}
		if len(f) != 3+2*len(attacks) {
			t.Fatalf("%q has %d words", line, len(f))
		}
		for i, attack := range attacks {
			var c Cell
			if cells := rest[name]; len(cells) > 0 {
				c, rest[name] = cells[0], cells[1:]
			}
			if c.Model != f[2] || c.Attack.Name != attack {
				t.Errorf("%s has %s under %s where the paper has %s under %s",
					name, c.Model, c.Attack.Name, f[2], attack)
			}
			for side := range 2 {
				want := must.Get(strconv.ParseFloat(f[3+2*i+side], 64))(t)
				if got := fmt.Sprintf("%.2f", 100*c.Accuracy[side]); got != fmt.Sprintf("%.2f", want) {
					t.Errorf("%s, %s, %s, side %d: %s, want %.2f", name, f[2], attack, side, got, want)
				}
				numbers++
			}
		}
	}
	if numbers != 250 {
		t.Errorf("%d numbers, the paper has 250", numbers)
	}
	for name, left := range rest {
		if len(left) > 0 {
			t.Errorf("%s has %d cells that the paper lacks", name, len(left))
		}
	}
}

func TestTables(t *testing.T) {
	for _, table := range Tables() {
		if table.Dataset == "" || table.Caption == "" || table.Mode == "" || table.Sides[0] == table.Sides[1] {
			t.Errorf("%s is not described in full: %+v", table.Name, table)
		}
		for _, c := range table.Cells {
			if clean := c.Attack.Name == "none"; clean != (c.Attack.Epsilon == 0) || clean != (c.Attack.Norm == "") ||
				clean != (c.Attack.Kind == "") {
				t.Errorf("%s: attack %+v", table.Name, c.Attack)
			}
			if c.Training != "standard" && c.Training != "robust" {
				t.Errorf("%s: training %q", table.Name, c.Training)
			}
		}
	}
	if table, _ := Lookup("table4"); table.Cells[1].Attack != (Attack{"aa-linf", "autoattack", "linf", 4. / 255}) {
		t.Errorf("table4's first attack: %+v", table.Cells[1].Attack)
	}
	if table, _ := Lookup("table2-standard"); table.Cells[0].Accuracy != [2]float64{0.9471, 0.9281} {
		t.Errorf("table2's first cell: %v", table.Cells[0].Accuracy)
	}
}

func TestLookup(t *testing.T) {
	want := []string{"table2", "table2-standard", "table2-robust", "table3", "table4", "table5", "table6",
		"table6-standard", "table6-robust", "table7"}
	if got := Names(); !slices.Equal(got, want) {
		t.Errorf("names %v", got)
	}
	for name, cells := range map[string]int{"table2": 40, "table2-robust": 20, "table3": 12, "table4": 12,
		"table5": 12, "table6": 40, "table6-standard": 20, "table7": 9} {
		if table, ok := Lookup(name); !ok || len(table.Cells) != cells || table.Name != name {
			t.Errorf("%s: %v, %d cells, want %d", name, ok, len(table.Cells), cells)
		}
	}
	if _, ok := Lookup("table1"); ok {
		t.Error("there is a table1")
	}
	if whole, _ := Lookup("table2"); whole.Cells[0].Training != "standard" || whole.Cells[20].Training != "robust" {
		t.Error("table2 does not hold its halves in order")
	}
	if first := Tables()[0]; len(first.Cells) != 20 { // joining must not have written into it
		t.Errorf("table2-standard has %d cells", len(first.Cells))
	}
}
