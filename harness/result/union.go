package result

import (
	"bytes"
	"slices"

	"selfheal/harness/cell"
	"selfheal/internal/lists"
)

// Union is the worst case over the attacks of a suite on a row: an image stands if it stands under each of them.
type Union struct {
	Suite string
	cell.Row
	Attacks []string // their names, each once, in the order of the cells
	// Judged has n, correct, accuracy, ci95 and verdicts, and nothing else.
	Judged Cell
}

// Unions returns the worst cases of the suites' rows, in the order of their cells. All modes, sources and epsilons of a
// row count; corruptions and certificates do not. A row has none if it was attacked in one way alone, or if a cell of
// it has no verdicts.
func (f *File) Unions() (all []Union) {
	type place struct {
		suite string
		cell.Row
	}
	cells, order := map[place][]Cell{}, []place(nil)
	for _, c := range f.Cells {
		if !f.Made(c.Attack).Crafted() || c.Attack == cell.None {
			continue
		}
		at := place{c.Suite, c.Row}
		if cells[at] == nil {
			order = append(order, at)
		}
		cells[at] = append(cells[at], c)
	}
	for _, at := range order {
		of := cells[at]
		u := Union{Suite: at.suite, Row: at.Row}
		verdicts := bytes.Repeat([]byte{'1'}, len(of[0].Verdicts))
		for _, c := range of {
			u.Attacks = lists.Once(u.Attacks, c.Attack)
			for i := range verdicts {
				if c.Error == "" && c.Verdicts[i] == '0' {
					verdicts[i] = '0'
				}
			}
		}
		if len(of) > 1 && !slices.ContainsFunc(of, func(c Cell) bool { return c.Error != "" }) {
			u.Judged = (Cell{}).Judged(string(verdicts))
			all = append(all, u)
		}
	}
	return all
}
