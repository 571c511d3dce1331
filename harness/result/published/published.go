// Package published holds the tables of the paper that selfheal implements, to show beside a run's numbers. [Tables]
// and [Lookup] give them; they are built into the program and never change. README.md says what the columns of
// paper.csv mean.
package published

import (
	"cmp"
	_ "embed"
	"encoding/csv"
	"slices"
	"strconv"
	"strings"
	"sync"

	"selfheal/internal/lists"
)

// The source of the numbers.
const (
	Title   = "Self-Healing Robust Neural Networks via Closed-Loop Control"
	Authors = "Zhuotong Chen, Qianxiao Li, Zheng Zhang"
)

//go:embed paper.csv
var paper string

// Table is a table of the paper, or its half for networks trained in the standard way or adversarially.
type Table struct {
	Name    string // table2-standard, …, table7
	Caption string // in our words
	Dataset string
	Mode    string // its attacker: oblivious, or whitebox, which the paper does not describe further
	// Sides are the defenses of the two numbers of a cell, "none" for the undefended network.
	Sides [2]string
	Cells []Cell

	table, training string // in the lines of paper.csv; training is "" if the table has only one
}

// Cell is a cell of a table.
type Cell struct {
	Model    string // the paper's name: RN-18
	Training string // standard or robust
	Attack   Attack
	Accuracy [2]float64 // left and right, as fractions
}

// Attack is the attack of a column.
type Attack struct {
	Name    string  // none, aa-linf, aa-l2, aa-l1, pgd-linf
	Kind    string  // "", autoattack or pgd
	Norm    string  // "" for clean images
	Epsilon float64 // 0 for clean images
}

// The defenses of the paper's tables.
const (
	none       = "none"
	closedLoop = "closed-loop" // embeddings trained for all the table's networks
)

// layout is the paper's order, and the facts that paper.csv lacks.
var layout = []Table{
	{table: "table2", training: "standard", Sides: [2]string{none, closedLoop},
		Caption: "Table 2, first half: networks trained in the standard way"},
	{table: "table2", training: "robust", Sides: [2]string{none, closedLoop},
		Caption: "Table 2, second half: adversarially trained networks"},
	{table: "table3", Sides: [2]string{none, closedLoop}, Caption: "Table 3: adversarially trained networks"},
	{table: "table4", Sides: [2]string{none, closedLoop}, Caption: "Table 4: networks trained in the standard way"},
	{table: "table5", Sides: [2]string{"sub-optimal", "optimal"},
		Caption: "Table 5: what a poorer embedding costs, standard networks"},
	{table: "table6", training: "standard", Sides: [2]string{none, "linear"},
		Caption: "Table 6, first half: linear control of networks trained in the standard way"},
	{table: "table6", training: "robust", Sides: [2]string{none, "linear"},
		Caption: "Table 6, second half: linear control of adversarially trained networks"},
	{table: "table7", Mode: "whitebox", Sides: [2]string{none, "denoising"},
		Caption: "Table 7: an attacker who knows the control, adversarially trained networks"},
}

// strengths are the epsilons by data set and norm.
var strengths = map[string]map[string]float64{
	"CIFAR-10":      {"linf": 8. / 255, "l2": 0.5, "l1": 12},
	"CIFAR-100":     {"linf": 8. / 255, "l2": 0.5, "l1": 12},
	"Tiny-ImageNet": {"linf": 4. / 255, "l2": 0.8, "l1": 10},
}

var tables = sync.OnceValue(func() []Table {
	lines, err := csv.NewReader(strings.NewReader(paper)).ReadAll()
	if err != nil {
		panic("published: paper.csv: " + err.Error())
	}
	out := slices.Clone(layout)
	for i, t := range out {
		out[i].Name, out[i].Mode = strings.TrimSuffix(t.table+"-"+t.training, "-"), cmp.Or(t.Mode, "oblivious")
	}
	for _, l := range lines[1:] { // table, dataset, training, model, attack, left, right
		i := slices.IndexFunc(out, func(t Table) bool {
			return t.table == l[0] && (t.training == "" || t.training == l[2])
		})
		out[i].Dataset = l[1]
		out[i].Cells = append(out[i].Cells, Cell{Model: l[3], Training: l[2], Attack: attack(l[1], l[4]),
			Accuracy: [2]float64{share(l[5]), share(l[6])}})
	}
	return out
})

// share reads a number in per cent as a fraction: 94.71 becomes the float64 nearest to 0.9471.
func share(percent string) float64 {
	v, err := strconv.ParseFloat(percent+"e-2", 64)
	if err != nil {
		panic("published: paper.csv: " + err.Error())
	}
	return v
}

func attack(dataset, name string) Attack {
	if name == none {
		return Attack{Name: name}
	}
	short, norm, _ := strings.Cut(name, "-")
	kind := map[string]string{"aa": "autoattack", "pgd": "pgd"}[short]
	return Attack{name, kind, norm, strengths[dataset][norm]}
}

// Tables returns the paper's tables in its order. A table of two halves counts as two.
func Tables() []Table { return tables() }

// Lookup finds a table by its name. It also finds a whole table of two halves: table2, table6.
func Lookup(name string) (Table, bool) {
	var found Table
	for _, t := range tables() {
		switch {
		case t.Name == name:
			return t, true
		case t.table == name:
			cells := append(slices.Clip(found.Cells), t.Cells...)
			found = t
			found.Name, found.Caption, found.training, found.Cells = name, "", "", cells
		}
	}
	return found, found.Name != ""
}

// Names returns every name that [Lookup] knows, in the paper's order.
func Names() (names []string) {
	for _, t := range tables() {
		names = lists.Once(lists.Once(names, t.table), t.Name)
	}
	return names
}
