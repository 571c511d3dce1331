package reports

import (
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
	for _, fig := range figures {
		for _, s := range v.Suites {
			if f := fig.Draw(s); f.Panels != nil {
				out[fig.Name+"-"+s.Slug] = svg(f, light)
			}
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
	if len(all) < 15 {
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
	for _, s := range []string{strings.Repeat("i", 250), strings.Repeat("i", 400), strings.Repeat("i", 401),
		strings.Repeat("il ", 1000), strings.Repeat("W", 100000)} {
		for _, w := range []vg.Length{3, 20, 60, 200, twoColumns} {
			got := fit(s, st, w)
			if st.Width(got) > w || got == "" && st.Width("W…") <= w {
				t.Errorf("%d letters in %v: %q", len(s), w, got)
			}
			if one := len([]rune(got)); got != s && w > 200 && st.Width(strings.Repeat(s[:1], one)+"…") < 0.9*w &&
				one < fitEnd*5/3 {
				t.Errorf("%d letters in %v: only %d of them", len(s), w, one)
			}
		}
	}
}

// Axes have a few labels whatever results may hold: up to 1e100, equal values, none.
func TestAxes(t *testing.T) {
	t.Parallel()
	for _, of := range [][2]float64{{1e-100, 1e100}, {1e-30, 1e30}, {1e-3, 1e3}, {0.2, 0.3}, {5, 5}, {0, 1e100}, {0, 0},
		{3, -3}} {
		for _, log := range []bool{false, true} {
			if log && of[0] == 0 {
				continue
			}
			least, most := padded(of, log)
			ticks := linearTicks{}.Ticks(least, most)
			if log {
				ticks = decades{}.Ticks(least, most)
			}
			labels := 0
			for _, tick := range ticks {
				if tick.Label != "" {
					labels++
				}
			}
			if !(least < most) || labels < 2 || labels > 12 || len(ticks) > 100 {
				t.Errorf("%v: from %v to %v, %d ticks with %d labels", of, least, most, len(ticks), labels)
			}
		}
	}
}

// Whatever suites are called, no two elements of a page have one id, and links lead somewhere.
func TestIDsAreUnique(t *testing.T) {
	f := fixture()
	names := []string{"rule", "headline", "knowledge", "provenance", "reading", "theory", "fits", "radars", "results",
		"gallery", "headline-loop", "suite", ".headline", "reading-gallery"}
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
	v.Theory = theoryFixture()
	page := written(t, renderHTML, v)
	ids := map[string]int{}
	for _, m := range regexp.MustCompile(`<[a-z0-9]+ [^<>]*?\bid="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if ids[m[1]]++; ids[m[1]] == 2 {
			t.Errorf("two elements have the id %s", m[1])
		}
	}
	for _, want := range []string{"reading-gallery", "gallery-rule", "headline", "theory", "note-.headline-loop",
		"note-.knowledge-loop", "note-headline-loop", "note-knowledge-loop"} {
		if ids[want] == 0 {
			t.Errorf("nothing has the id %s", want)
		}
	}
	for _, m := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if ids[m[1]] == 0 {
			t.Errorf("a link leads to %s, which is nowhere", m[1])
			ids[m[1]] = -1
		}
	}
}
