package view

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"

	"selfheal/harness/result"
	"selfheal/reports/words"
)

// margins collects what the records say of one cell, a value an image where there is one.
type margins struct {
	Margin  []float64 // z_y − max other logit
	Clean   []float64 // the same on the clean image
	Norm    []float64 // of the perturbations that there are
	First   []float64 // iteration of the first success, where there was one
	Queries []float64 // forward passes until then
	// reach is the smallest norm known to break each image that was right to begin
	// with, +Inf where it stands; images broken without a known distance are left out.
	Reach []float64
	wrong int  // images that were wrong to begin with
	found bool // some image's distance is known
	// classes counts the images of each class, and those that were right.
	classes map[int]tally
}

// AddMargins sorts the records into the suites' cells; records of unknown cells are left out.
func (v *Report) AddMargins(records iter.Seq[result.Record]) {
	if records == nil {
		return
	}
	byName := map[string]*Suite{}
	for _, s := range v.Suites {
		byName[s.Name], s.margins = s, map[cellKey]*margins{}
	}
	for r := range records {
		s := byName[r.Suite]
		if s == nil {
			continue
		}
		if r.Radius != nil {
			s.addRadius(r)
		}
		key := cellKey{r.Model, r.Defense, r.Attack, words.OrMinusOne(r.Epsilon)}
		if s.cells[key] == nil {
			continue
		}
		if s.margins[key] == nil {
			s.margins[key] = &margins{classes: map[int]tally{}}
		}
		s.margins[key].add(r)
	}
}

// MarginsOf is what the records say of a cell; nil for nothing.
func (s *Suite) MarginsOf(c *result.Cell) *margins { return s.margins[keyOf(c)] }

func (m *margins) add(r result.Record) {
	m.classes[r.Label] = m.classes[r.Label].with(r.Verdict)
	if margin := float64(r.Margin); !math.IsNaN(margin) {
		m.Margin = append(m.Margin, margin)
	}
	if r.Norm > 0 {
		m.Norm = append(m.Norm, r.Norm)
	}
	m.Clean, m.First = known(m.Clean, r.CleanMargin), known(m.First, r.FirstSuccess)
	m.Queries = known(m.Queries, r.Queries)
	switch {
	case r.Verdict == 1:
		m.Reach = append(m.Reach, math.Inf(1))
	case r.FirstSuccess == nil: // nothing had to break it
		m.wrong++
	case r.Distance != nil:
		// Another component may have broken it at a nearer point.
		m.Reach, m.found = append(m.Reach, min(*r.Distance, cmp.Or(r.Norm, *r.Distance))), true
	}
}

func known[N int | float64](list []float64, v *N) []float64 {
	if v == nil {
		return list
	}
	return append(list, float64(*v))
}

// RankOf is the nearest-rank q-quantile of xs, which has at least one value.
func RankOf(xs []float64, q float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	return xs[int(q*float64(len(xs)-1)+0.5)]
}

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

// Class is a class of one row of the accuracy table: its images, and its accuracy under each column on both sides.
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

// Classes sorts the records of a row's cells by class, in the order of the labels; nil where there are none.
func (s *Suite) Classes(r Row) (out []Class) {
	found := map[int]Class{}
	for side, line := range r.Sides {
		for i, c := range line {
			if c == nil || s.MarginsOf(c) == nil {
				continue
			}
			for label, t := range s.MarginsOf(c).classes {
				b, known := found[label]
				if !known {
					b = Class{Label: label, Sides: make([][2]tally, len(line))}
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
