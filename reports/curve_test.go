package reports

import (
	"math"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/result"
)

// curveSuite is the fixture's suite of curves, with its records as change leaves them.
func curveSuite(t *testing.T, change func(f *result.File, recs []result.Record) []result.Record) *suite {
	t.Helper()
	f := fixture()
	recs := change(f, records(f))
	v := derive(f)
	v.addMargins(slices.Values(recs))
	i := slices.IndexFunc(v.Suites, func(s *suite) bool { return s.Name == "curve" })
	return v.Suites[i]
}

func TestCurvesFromDistances(t *testing.T) {
	s := curveSuite(t, func(_ *result.File, recs []result.Record) []result.Record { return recs })
	panels := s.Curves()
	if len(panels) != 2 || panels[0].Attack.Title() != "FAB-T ℓ∞" || panels[1].Attack.Title() != "Bisection ℓ2" {
		t.Fatalf("panels %+v", panels)
	}
	fab, bisection := panels[0].Lines, panels[1].Lines
	if len(fab) != 2 || fab[0].Defense != "none" || fab[1].Defense != "pca" || fab[1].Index != 1 {
		t.Fatalf("lines %+v", fab)
	}
	// 164 of 200 are right; one breaks at every 164th of 12/255, 109 of them up to 8/255.
	if n := len(fab[0].Steps); n != 1+109+1 || fab[0].end() != 8./255 {
		t.Errorf("%d steps up to %v", n, fab[0].end())
	}
	for e, right := range map[float64]int{0: 164, 0.99 / 164 * 12 / 255: 164, 1.01 / 164 * 12 / 255: 163, 2. / 255: 137,
		4. / 255: 110, 8. / 255: 55} {
		if got := fab[0].at(e); math.Abs(got-float64(right)/200) > 1e-12 {
			t.Errorf("at %v the curve has %v, %d of 200 stand", e, got, right)
		}
	}
	for _, p := range fab[0].Points { // the curve meets every cell
		if fab[0].at(p.Epsilon) != p.Accuracy {
			t.Errorf("at %v the curve has %v, the cell %v", p.Epsilon, fab[0].at(p.Epsilon), p.Accuracy)
		}
	}
	// The control was given images made on another network: its cells alone are known.
	if want := []point{{0, 0.805}, {2. / 255, 0.75}, {4. / 255, 0.67}, {8. / 255, 0.505}}; !slices.Equal(fab[1].Steps,
		want) {
		t.Errorf("control: %v, want %v", fab[1].Steps, want)
	}
	if len(bisection[0].Steps) != 1+100 || bisection[0].at(0.5) != float64(164-50)/200 {
		t.Errorf("bisection: %d steps, %v at 0.5", len(bisection[0].Steps), bisection[0].at(0.5))
	}
	if bisection[1].Steps != nil || len(bisection[1].Points) != 2 {
		t.Errorf("a single epsilon without distances makes steps: %+v", bisection[1])
	}
}

// Every curve has its Wilson band, and cells without a curve have whiskers of that length.
func TestCurveBands(t *testing.T) {
	s := curveSuite(t, func(_ *result.File, recs []result.Record) []result.Record { return recs })
	var ends, whiskers int
	for _, p := range s.curveSheet(inPage(), s.Curves()).Panels {
		for _, one := range p.(plotPanel).Series {
			for i := range one.Low {
				want := wilson(int(math.Round(200*one.Y[i])), 200)
				if math.Abs(one.Low[i]-want[0]) > 1e-9 || math.Abs(one.High[i]-want[1]) > 1e-9 {
					t.Fatalf("at %v the band is [%v, %v], want %v", one.Y[i], one.Low[i], one.High[i], want)
				}
			}
			switch {
			case one.Line && (!one.Band || len(one.Low) != len(one.Y)):
				t.Errorf("a curve of %d points has a band of %d", len(one.Y), len(one.Low))
			case one.Line:
				ends += len(one.Low)
			default:
				whiskers += len(one.Low)
			}
		}
	}
	if ends < 300 || whiskers != 2 {
		t.Errorf("bands of %d points and %d whiskers: this test shows little", ends, whiskers)
	}
	study := derive(studyFixture()).Suites[0].studies[0]
	banded := 0
	for _, p := range study.Figure().Panels {
		for _, one := range p.Series {
			if one.Band != (one.Line && strings.HasPrefix(p.Y, "accuracy")) {
				t.Errorf("%s: a line with a band: %v", p.Title, one.Band)
			}
			banded += len(one.Low)
		}
	}
	if banded == 0 {
		t.Error("no band over passes")
	}
}

// Distances that do not tell everything make no curve.
func TestCurvesNeedEveryDistance(t *testing.T) {
	type recs = []result.Record
	each := func(f *result.File, change func(c *result.Cell)) {
		for i := range f.Cells {
			change(&f.Cells[i])
		}
	}
	for name, change := range map[string]func(*result.File, recs) recs{
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
			return slices.DeleteFunc(r, func(r result.Record) bool { return r.Image == 7 })
		},
		"broken by another attack": func(_ *result.File, r recs) recs {
			return without(r, func(r result.Record) bool { return r.Image == 163 })
		},
		"no attack minimised norms": func(_ *result.File, r recs) recs {
			return without(r, func(result.Record) bool { return true })
		},
	} {
		s := curveSuite(t, change)
		panels := s.Curves()
		if len(panels) != 1 || panels[0].Attack.Title() != "FAB-T ℓ∞" ||
			!slices.Equal(panels[0].Lines[0].Steps, panels[0].Lines[0].Points) {
			t.Errorf("%s: panels %+v", name, panels)
		}
		if rows := s.distanceTable().Rows; rows != nil {
			t.Errorf("%s: %v", name, rows)
		}
	}
}

// without takes the distances from the records that of picks.
func without(recs []result.Record, of func(result.Record) bool) []result.Record {
	for i := range recs {
		if of(recs[i]) {
			recs[i].Distance = nil
		}
	}
	return recs
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		end  float64
		most int
		want string
	}{
		{8. / 255, 4, "0 2/255 4/255 6/255 8/255"}, {8. / 255, 3, "0 4/255 8/255"}, {1. / 255, 5, "0 1/255"},
		{8. / 255, 0, "0 8/255"}, {0.3, 6, ""},
	} {
		panel := curves{Lines: []curve{{Points: []point{{0, 1}, {c.end, 0.5}}}}}
		var got []string
		for _, tick := range panel.ticks(c.most) {
			got = append(got, tick.Label)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("up to %v in %d steps: %v, want %s", c.end, c.most, got, c.want)
		}
	}
}
