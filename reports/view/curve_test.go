package view

import (
	"math"
	"slices"
	"testing"

	"selfheal/harness/cell"
	"selfheal/harness/result"
)

// curved makes a suite with one attack at 2/255 and 4/255; change may change its records. Alone, one of four images is
// wrong and the others break at 1, 3 and 5/255; the control was given the same images.
func curved(change func(f *result.File, recs []result.Record) []result.Record) *Suite {
	var cells []result.Cell
	for _, defense := range []string{"none", "c"} {
		for i, right := range []int{3, 2, 1} {
			c := under(defense, []string{"none", "fab", "fab"}[i], float64(2*i), right)
			if c.Recipe = "fab-t/1"; defense == "none" && i > 0 {
				c.Steps = []result.Step{{Attack: "fab-t"}}
			}
			cells = append(cells, c)
		}
	}
	f := of(cells...)
	var recs []result.Record
	for _, c := range f.Cells {
		for i, d := range []float64{1, 3, 5, 0} {
			r := result.Record{ID: cell.Of("s", "m", c.Defense, c.Attack, c.Epsilon), Image: i}
			switch {
			case c.Steps == nil || d == 0:
			case d/255 > float64(c.Epsilon):
				r.Verdict = 1
			default:
				r.Norm, r.FirstSuccess, r.Distance = d/255, new(i), new(result.Distance(d/255))
			}
			recs = append(recs, r)
		}
	}
	recs = change(f, recs)
	v := Of(f)
	v.AddMargins(slices.Values(recs))
	return v.Suites[0]
}

// The steps of a curve are the images' distances if all are known, otherwise the cells.
func TestCurves(t *testing.T) {
	type recs = []result.Record
	each := func(f *result.File, change func(c *result.Cell)) {
		for i := range f.Cells {
			change(&f.Cells[i])
		}
	}
	without := func(of int) func(*result.File, recs) recs {
		return func(_ *result.File, r recs) recs {
			for i := range r {
				if of < 0 || r[i].Image == of {
					r[i].Distance = nil
				}
			}
			return r
		}
	}
	for name, change := range map[string]func(*result.File, recs) recs{
		"whole":      func(_ *result.File, r recs) recs { return r },
		"no records": func(*result.File, recs) recs { return nil },
		"ended at first success": func(f *result.File, r recs) recs {
			each(f, func(c *result.Cell) { c.VerdictOnly = true })
			return r
		},
		"made on another network": func(f *result.File, r recs) recs {
			each(f, func(c *result.Cell) { c.Steps = nil })
			return r
		},
		"an image is missing": func(_ *result.File, r recs) recs {
			return slices.DeleteFunc(r, func(r result.Record) bool { return r.Image == 1 })
		},
		"broken by another attack":  without(0),
		"no attack minimised norms": without(-1),
	} {
		s := curved(change)
		panels := s.Curves()
		if len(panels) != 1 || panels[0].Attack.Title() != "FAB-T ℓ∞" || len(panels[0].Lines) != 2 ||
			panels[0].Lines[1].Index != 1 {
			t.Fatalf("%s: panels %+v", name, panels)
		}
		cells := []Point{{0, 0.75}, {2. / 255, 0.5}, {4. / 255, 0.25}}
		want := cells
		if name == "whole" {
			want = []Point{{0, 0.75}, {1. / 255, 0.5}, {3. / 255, 0.25}, {4. / 255, 0.25}}
		}
		for i, line := range panels[0].Lines {
			if i == 1 { // made on another network
				want = cells
			}
			if !slices.Equal(line.Steps, want) || !slices.Equal(line.Points, cells) {
				t.Errorf("%s: line %d has steps %v and cells %v", name, i, line.Steps, line.Points)
			}
			for _, p := range cells {
				if At(line.Steps, p.Epsilon) != p.Accuracy {
					t.Errorf("%s: the curve does not meet the cell at %v", name, p.Epsilon)
				}
			}
		}
	}
	alone := curved(func(f *result.File, _ recs) recs {
		f.Cells = slices.DeleteFunc(f.Cells, func(c result.Cell) bool { return c.Epsilon > 3./255 })
		return nil
	})
	if got := alone.Curves(); got != nil {
		t.Errorf("a single strength without distances is a curve: %+v", got)
	}
}

// A certificate's curve holds a value up to a radius: a cell counts all images that reach its own.
func TestCertifiedCurve(t *testing.T) {
	s := Of(of(under("none", "smooth", 2, 1))).Suites[0]
	by := Apart{Attack: "smooth", Columns: s.Columns[1:],
		cells: cells{key("m", "none", s.Columns[1].Column): {Accuracy: 0.5}},
		radii: map[cell.Row][]float64{{Model: "m", Defense: "none"}: {0, 0.3, 2. / 255, 0.3}}}
	c := by.Curves(s, "m").Lines[0]
	if want := []Point{{0, 0.75}, {2. / 255, 0.5}, {0.3, 0}}; !slices.Equal(c.Steps, want) || c.End() != 0.3 {
		t.Errorf("steps %v up to %v, want %v", c.Steps, c.End(), want)
	}
	if at := At(c.Steps, math.Nextafter(2./255, 0)); at != 0.75 {
		t.Errorf("just below a radius the curve is %v", at)
	}
}
