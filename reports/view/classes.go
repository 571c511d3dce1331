package view

import (
	"maps"
	"slices"
	"strconv"

	"selfheal/harness/result"
	"selfheal/reports/words"
)

// tally counts right answers.
type tally struct{ right, n int }

func (t tally) with(verdict int) tally { return tally{t.right + verdict, t.n + 1} }

// Share is the accuracy; −1 where there is no image.
func (t tally) Share() float64 {
	if t.n == 0 {
		return -1
	}
	return float64(t.right) / float64(t.n)
}

func (t tally) String() string {
	if t.n == 0 {
		return words.Dash
	}
	return words.Percent(t.Share(), t.n)
}

// Class is a class of one row of the accuracy table: its images, and its accuracy under
// each column on both sides.
type Class struct {
	Label, Images int
	Sides         [][2]tally
}

// Weight is what classes are put in order by: the mean accuracy over the columns on a side.
func (c Class) Weight(side int) float64 {
	var sum, n float64
	for _, t := range c.Sides {
		if t[side].n > 0 {
			sum, n = sum+t[side].Share(), n+1
		}
	}
	return sum / max(n, 1)
}

// Classes sorts the records of a row's cells by class, in the order of the labels; nil
// where there are none.
func (s *Suite) Classes(r Row) (out []Class) {
	found := map[int]Class{}
	for i, e := range r.Entries {
		for side, c := range []*result.Cell{e.Baseline, e.Controlled} {
			if c == nil || s.MarginsOf(c) == nil {
				continue
			}
			for label, t := range s.MarginsOf(c).classes {
				b, known := found[label]
				if !known {
					b = Class{Label: label, Sides: make([][2]tally, len(r.Entries))}
				}
				b.Sides[i][side], b.Images = t, max(b.Images, t.n)
				found[label] = b
			}
		}
	}
	for _, label := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[label])
	}
	return out
}

// ClassName is a class by its name where the data set has names, else by its number.
func (s *Suite) ClassName(label int) string {
	if names := s.File.Datasets[s.Dataset].ClassNames; label >= 0 && label < len(names) {
		return words.Clean(names[label])
	}
	return strconv.Itoa(label)
}
