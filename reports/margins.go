package reports

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"selfheal/harness/result"
)

// margins collects what the records say of one cell, a value an image where there is one.
type margins struct {
	margin  []float64 // z_y − max other logit
	clean   []float64 // the same on the clean image
	norm    []float64 // of the perturbations that there are
	first   []float64 // iteration of the first success, where there was one
	queries []float64 // forward passes until then
	// reach is the smallest norm known to break each image that was right to begin
	// with, +Inf where it stands; images broken without a known distance are left out.
	reach []float64
	wrong int  // images that were wrong to begin with
	found bool // some image's distance is known
	// classes counts the images of each class, and those that were right.
	classes map[int]tally
}

// addMargins sorts the records into the suites' cells; records of unknown cells are left out.
func (v *view) addMargins(records iter.Seq[result.Record]) {
	if records == nil {
		return
	}
	byName := map[string]*suite{}
	for _, s := range v.Suites {
		byName[s.Name], s.margins = s, map[cellKey]*margins{}
	}
	for r := range records {
		s := byName[r.Suite]
		key := cellKey{r.Model, r.Defense, r.Attack, orMinusOne(r.Epsilon)}
		if s != nil && r.Radius != nil {
			s.addRadius(r)
		}
		if s == nil || s.cells[key] == nil {
			continue
		}
		if s.margins[key] == nil {
			s.margins[key] = &margins{classes: map[int]tally{}}
		}
		s.margins[key].add(r)
	}
}

func (m *margins) add(r result.Record) {
	m.classes[r.Label] = m.classes[r.Label].with(r.Verdict)
	if margin := float64(r.Margin); !math.IsNaN(margin) {
		m.margin = append(m.margin, margin)
	}
	if r.CleanMargin != nil {
		m.clean = append(m.clean, *r.CleanMargin)
	}
	if r.Norm > 0 {
		m.norm = append(m.norm, r.Norm)
	}
	if r.FirstSuccess != nil {
		m.first = append(m.first, float64(*r.FirstSuccess))
	}
	if r.Queries != nil {
		m.queries = append(m.queries, float64(*r.Queries))
	}
	switch {
	case r.Verdict == 1:
		m.reach = append(m.reach, math.Inf(1))
	case r.FirstSuccess == nil: // nothing had to break it
		m.wrong++
	case r.Distance != nil:
		// What broke it may be nearer than the distance: another component's point.
		m.reach, m.found = append(m.reach, min(*r.Distance, cmp.Or(r.Norm, *r.Distance))), true
	}
}

// marginTable gives the spread of the images' margins in each cell that has records.
func (s suiteTables) marginTable() table {
	what := "Margins: the right class's logit minus the highest other one, on each cell's images" + s.ofFirstSeed()
	head := []string{"10 % below", "Median", "90 % below", "Median on clean images", "Perturbed images",
		"Median perturbation", "Median iteration of first success", "Median forward passes to it"}
	return s.byCell(what, head, func(c *result.Cell, add func(...any)) {
		if m := s.margins[keyOf(c)]; m != nil {
			moved := dash
			if len(m.norm) > 0 && c.Norm != nil {
				moved = strength(*c.Norm, rankOf(m.norm, 0.5))
			}
			add(quantile(m.margin, 0.1), quantile(m.margin, 0.5), quantile(m.margin, 0.9), quantile(m.clean, 0.5),
				thousands(len(m.norm)), moved, quantile(m.first, 0.5), quantile(m.queries, 0.5))
		}
	})
}

// quantile writes the nearest-rank q-quantile of xs, or a dash when there are none.
func quantile(xs []float64, q float64) string {
	if len(xs) == 0 {
		return dash
	}
	return threeDigits(rankOf(xs, q))
}

// rankOf is the nearest-rank q-quantile of xs, which has at least one value.
func rankOf(xs []float64, q float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	return xs[int(q*float64(len(xs)-1)+0.5)]
}
