package reports

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"

	"selfheal/harness/result"
)

// drawn are all figures of a file as SVG, by their files' names.
func drawn(t *testing.T, f *result.File, recs []result.Record) map[string]string {
	t.Helper()
	v := derive(f)
	v.addMargins(slices.Values(recs))
	out := map[string]string{}
	for _, ft := range formats {
		for _, s := range v.Suites {
			if !strings.HasSuffix(ft.File, "SUITE.svg") || ft.When != nil && !ft.When(s) {
				continue
			}
			var sb strings.Builder
			if err := ft.Render(&sb, v, s); err != nil {
				t.Fatal(err)
			}
			out[strings.ReplaceAll(ft.File, "SUITE", s.Slug)] = sb.String()
		}
	}
	return out
}

// Names of any length are shortened in a time that does not grow with their square: that this
// ends is what it tests.
func TestEndlessNames(t *testing.T) {
	f := fixture()
	f.Solver = studyFixture().Solver
	recs := records(f)
	endless := map[string]string{}
	long := func(s *string) {
		if endless[*s] == "" {
			endless[*s] = *s + strings.Repeat("endless-", 12500) + *s
		}
		*s = endless[*s]
	}
	for i := range f.Suites {
		s := &f.Suites[i]
		s.Title = s.Name
		long(&s.Title)
		for _, names := range [][]string{s.Models, s.Controls, s.Attacks} {
			for k := range names {
				long(&names[k])
			}
		}
	}
	for i := range f.Cells {
		c := &f.Cells[i]
		c.Recipe = "" // the attack's name is its title
		long(&c.Model)
		if c.Defense != "none" {
			long(&c.Defense)
		}
		if c.Attack != "none" {
			long(&c.Attack)
		}
		for k := range c.Steps {
			long(&c.Steps[k].Attack)
		}
		if c.Solver != nil {
			for k := range c.Solver.Layers {
				long(&c.Solver.Layers[k].At)
			}
		}
	}
	for i := range recs {
		r := &recs[i]
		long(&r.Model)
		if r.Defense != "none" {
			long(&r.Defense)
		}
		if r.Attack != "none" {
			long(&r.Attack)
		}
	}
	all := drawn(t, f, recs)
	if len(all) < 20 {
		t.Errorf("%d figures", len(all))
	}
	for name, doc := range all {
		_, picture, _ := strings.Cut(doc, "</title>") // which says names in full
		if picture == "" || strings.Contains(picture, strings.Repeat("endless-", 100)) {
			t.Errorf("%s has a name in full, or nothing", name)
		}
	}
}

func TestFit(t *testing.T) {
	st := style(normal, false)
	for _, s := range []string{strings.Repeat("i", 250), strings.Repeat("i", 400), strings.Repeat("i", 401), strings.Repeat("il ", 1000), strings.Repeat("W", 100000)} {
		for _, w := range []vg.Length{3, 20, 60, 200, twoColumns} {
			got := fit(s, st, w)
			if st.Width(got) > w || got == "" && st.Width("W…") <= w {
				t.Errorf("%d letters in %v: %q", len(s), w, got)
			}
			if one := len([]rune(got)); got != s && w > 200 && st.Width(strings.Repeat(s[:1], one)+"…") < 0.9*w && one < fitEnd*5/3 {
				t.Errorf("%d letters in %v: only %d of them", len(s), w, one)
			}
		}
	}
}

// Numbers that no run writes are drawn at the edges, in bounded time.
func TestAbsurdNumbers(t *testing.T) {
	f := fixture()
	absurd := []float64{1e6, 1e300, -1e300, 1.7e308, -1.7e308, 1e-320}
	norms := []float64{1e-320, 1e300, 1.7e308, math.MaxFloat64, 5e-324}
	for i := range f.Cells {
		c := &f.Cells[i]
		c.Accuracy, c.CI95 = absurd[i%len(absurd)], [2]float64{-1e300, 1e6}
		for k := range c.Steps {
			c.Steps[k].Robust = absurd[(i+k)%len(absurd)]
		}
		if v := c.Solver; v != nil {
			for k := range v.Layers {
				v.Layers[k].ControlNorm = norms[(i+k)%len(norms)]
			}
			for k := range v.Sweeps {
				v.Sweeps[k] = absurd[(i+k)%len(absurd)]
			}
		}
	}
	objectives := []float64{5e-324, 1.7e308, 1e300, -1.7e308, 2}
	studied := func(from int) []result.SolverStudy { // of the first only positive ones, on a logarithmic axis
		all := studyFixture().Solver
		for i := range all {
			for j, c := range all[i].Curves {
				for k := range c.Points {
					o := objectives[(j+k)%(3+from)]
					p := &c.Points[k]
					p.Objective, p.StandardError, p.Accuracy = &o, 1.7e308, absurd[k%len(absurd)]
					p.Passes = []float64{2.5, 1e300, -3, 0, 1e-320}[k%5]
				}
			}
		}
		return all
	}
	number := regexp.MustCompile(`[-+]?[0-9]+`)
	all := map[string]string{}
	for from := range 3 {
		f.Solver = studied(from)
		maps.Insert(all, maps.All(drawn(t, f, records(fixture()))))
		all[fmt.Sprint("study ", from)] = all["solver-real.svg"]
	}
	for name, doc := range all {
		_, picture, _ := strings.Cut(doc, "</title>")
		picture = regexp.MustCompile(`(?s)<text.*?</text>`).ReplaceAllString(picture, "")
		if strings.Contains(picture, "NaN") || strings.Contains(picture, "Inf") {
			t.Errorf("%s has places that are no numbers", name)
		}
		if len(doc) > 1<<20 {
			t.Errorf("%s has %d bytes", name, len(doc))
		}
		for _, n := range number.FindAllString(picture, -1) {
			if len(n) > 9 {
				t.Errorf("%s: %s", name, n)
				break
			}
		}
	}
	for _, of := range [][2]float64{{1e-320, 1e300}, {5e-324, math.MaxFloat64}, {1e-30, 1e30}, {1, math.Inf(1)}, {0, 1}, {math.NaN(), 1}} {
		if ticks := (decades{}).Ticks(of[0], of[1]); len(ticks) != 2 || ticks[0].Label == "" || ticks[1].Label == "" {
			t.Errorf("%v: ticks %v", of, ticks)
		}
	}
	if ticks := (decades{}).Ticks(1e-3, 1e3); len(ticks) < 7 {
		t.Errorf("of six decades %v", ticks)
	}
	for _, of := range [][2]float64{{0, 1.7e308}, {-1.7e308, 1.7e308}, {1e300, 1e300}, {1e20, 1e20}, {-math.MaxFloat64, 0}, {0, 1e-320}} {
		least, most := padded(of, false)
		ticks := linearTicks{}.Ticks(least, most)
		if !(least < most) || len(ticks) == 0 || len(ticks) > 100 {
			t.Errorf("%v: from %v to %v, %d ticks", of, least, most, len(ticks))
		}
	}
}

// Whatever suites are called, no two elements of a page have one id, and links lead somewhere.
func TestIDsAreUnique(t *testing.T) {
	f := fixture()
	names := []string{"rule", "headline", "knowledge", "provenance", "reading", "theory", "fits", "radars", "results", "gallery", "headline-loop", "suite", ".headline", "reading-gallery"}
	cells, cases := slices.Clone(f.Cells), slices.Clone(f.Gallery.Cases)
	for _, name := range names {
		for _, of := range []string{"real", "../white box"} {
			s := f.Suites[slices.IndexFunc(f.Suites, func(s result.Suite) bool { return s.Name == of })]
			s.Name = name + s.Name[len(s.Name)-4:]
			if of == "real" {
				s.Name = name
			}
			f.Suites = append(f.Suites, s)
			for _, c := range cells {
				if c.Suite == of {
					c.Suite = s.Name
					f.Cells = append(f.Cells, c)
				}
			}
			for _, c := range cases {
				if c.Suite == of {
					c.Suite = s.Name
					f.Gallery.Cases = append(f.Gallery.Cases, c)
				}
			}
		}
	}
	f.Solver = studyFixture().Solver
	for i := range f.Solver {
		f.Solver[i].Suite = names[i%len(names)]
	}
	v := derive(f)
	v.theory = theoryFixture()
	var page strings.Builder
	if err := renderHTML(&page, v, nil); err != nil {
		t.Fatal(err)
	}
	ids := map[string]int{}
	for _, m := range regexp.MustCompile(`<[a-z0-9]+ [^<>]*?\bid="([^"]*)"`).FindAllStringSubmatch(page.String(), -1) {
		if ids[m[1]]++; ids[m[1]] == 2 {
			t.Errorf("two elements have the id %s", m[1])
		}
	}
	for _, want := range []string{"reading-gallery", "gallery-rule", "headline", "theory", "note-.headline-loop", "note-.knowledge-loop", "note-headline-loop", "note-knowledge-loop"} {
		if ids[want] == 0 {
			t.Errorf("nothing has the id %s", want)
		}
	}
	for _, m := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(page.String(), -1) {
		if ids[m[1]] == 0 {
			t.Errorf("a link leads to %s, which is nowhere", m[1])
			ids[m[1]] = -1
		}
	}
}
