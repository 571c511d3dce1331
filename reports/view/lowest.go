package view

import (
	"slices"

	"selfheal/harness/result"
	"selfheal/reports/words"
)

// Kind is what is done to the images of a column.
func (s *Suite) Kind(col words.Column) string {
	switch {
	case col.Attack == "none":
		return "clean"
	case slices.ContainsFunc(s.Corrupted, func(by *Corruptions) bool { return by.Attack == col.Attack }):
		return "corrupted"
	}
	return "attacked"
}

// standing is a side of a row at its worst: the lowest accuracy under the suite's
// attacks. Cell is nil while none is measured.
type standing struct {
	Cell   *result.Cell
	Column words.Column
}

// Lowest finds a side's lowest accuracy under attack, or under corruption where the suite has no attacks; of equal
// ones, the first column's.
func (s *Suite) Lowest(r Row, side func(Entry) *result.Cell) standing {
	var low standing
	hardest := "corrupted"
	if slices.ContainsFunc(s.Columns, func(col words.Column) bool { return s.Kind(col) == "attacked" }) {
		hardest = "attacked"
	}
	for i, e := range r.Entries {
		c := side(e)
		if c != nil && s.Kind(s.Columns[i]) == hardest && (low.Cell == nil || Score(c) < Score(low.Cell)) {
			low = standing{c, s.Columns[i]}
		}
	}
	return low
}

func BaselineOf(e Entry) *result.Cell { return e.Baseline }

func ControlledOf(e Entry) *result.Cell { return e.Controlled }

func (low standing) Attack() string {
	if low.Cell == nil {
		return words.Dash
	}
	return low.Column.Title()
}
