package result

import (
	"testing"

	"selfheal/harness/cell"
	"selfheal/harness/stats"
)

// An image stands in a union if it stands in each attacked cell of its row, in any mode and at any epsilon.
func TestUnions(t *testing.T) {
	f := &File{Attacks: map[string]Attack{"a": {Kind: "pgd"}, "b": {Kind: "square"}, "c": {Kind: "corruption"},
		"p": {Kind: "bounds"}}}
	add := func(defense, attack string, epsilon cell.Epsilon, mode, verdicts string) *Cell {
		f.Cells = append(f.Cells, Cell{ID: cell.Of("s", "m", defense, attack, epsilon).In("d", mode)}.Judged(verdicts))
		return &f.Cells[len(f.Cells)-1]
	}
	add("none", "none", 0, Oblivious, "111110")
	add("none", "a", 1, Oblivious, "111010")
	add("none", "b", 1, Oblivious, "110110")
	add("none", "c:fog:3", 0, Oblivious, "000000")
	add("none", "p", 1, Oblivious, "000000")
	add("k", "a", 1, Oblivious, "111111")
	add("k", "a", 1, WhiteboxThrough, "011111")
	add("alone", "a", 1, Oblivious, "111111")
	add("lost", "a", 1, Oblivious, "111111")
	*add("lost", "b", 1, Oblivious, "1") = Cell{ID: cell.Of("s", "m", "lost", "b", 1), Error: "none"}
	all := f.Unions()
	if len(all) != 2 || all[0].Judged.Verdicts != "110010" || all[1].Judged.Verdicts != "011111" ||
		all[0].Defense != "none" || all[1].Defense != "k" || len(all[0].Attacks) != 2 || len(all[1].Attacks) != 1 ||
		all[0].Judged.CI95 != stats.Wilson(3, 6) {
		t.Errorf("%+v", all)
	}
}
