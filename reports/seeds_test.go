package reports

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/result"
)

// With several seeds every figure and table says of which its numbers are.
func TestOfWhichSeed(t *testing.T) {
	f := fixture()
	recs := records(f)
	for i := range f.Cells {
		c := &f.Cells[i]
		if c.Attack == "none" {
			continue
		}
		for k, seed := range []uint64{7, 11, 3} {
			right := max(c.Correct-3*k, 0)
			c.Seeds = append(c.Seeds, result.SeedScore{Seed: seed, Correct: right,
				Accuracy: float64(right) / float64(c.N), Seconds: c.Seconds + float64(1000*k),
				Verdicts: strings.Repeat("1", right) + strings.Repeat("0", c.N-right)})
		}
		c.Seeds[0].Seconds = c.Seconds
	}
	files := textFiles(t, f, recs)
	page := files["report.html"]
	for _, of := range []*regexp.Regexp{regexp.MustCompile(`<figcaption>([^<]*)`),
		regexp.MustCompile(`<caption>([^<]*)`),
		regexp.MustCompile(`aria-label="((?:Radar plot|Bars|Robustness curves|Accuracy in % on|Control: )[^"]*)`)} {
		found := of.FindAllStringSubmatch(page, -1)
		if len(found) < 3 {
			t.Errorf("%s: %d captions", of, len(found))
		}
		for _, m := range found {
			said := m[1]
			if slices.ContainsFunc([]string{"Data sets", "Models", "Attacks", "Controls", "Fitted", "Spread over",
				"Accuracy in %, on clean", "Accuracy in % of controlled"},
				func(s string) bool { return strings.HasPrefix(said, s) }) {
				continue // of all seeds, of none, or with a note
			}
			if !strings.Contains(said, "first seed") && !strings.Contains(said, "over 3 seeds") {
				t.Errorf("does not say of which seed: %s", said)
			}
		}
	}
	if want := "mean ± standard deviation over 3 seeds"; !slices.ContainsFunc(texts(t, files["radar-single.svg"]),
		func(x svgText) bool { return x.text == want }) {
		t.Errorf("above the bars there is no %q", want)
	}
	for file, want := range map[string]string{"radar-real.svg": "Radar plot of accuracy in %, mean over 3 seeds,",
		"radar-single.svg":   "Bars of accuracy in %, mean ± standard deviation over 3 seeds,",
		"curve-curve.svg":    "Robustness curves, accuracy in % against epsilon, of the first seed,",
		"waterfall-real.svg": "each attack component, of the first seed,",
		"control-real.svg":   "Control: CIFAR-10, adversarially trained. Norm"} {
		if !strings.Contains(files[file], want) {
			t.Errorf("%s lacks %q", file, want)
		}
	}
	facts := derive(f).Provenance()
	if !slices.Contains(facts, fact{"Seeds of the attacks", "7, 11, 3"}) {
		t.Errorf("provenance %v names not all seeds", facts)
	}
}

// A cell's time is that of all its seeds; its passes are the first one's.
func TestCostOfSeveralSeeds(t *testing.T) {
	f := seeded()
	for i := range f.Cells {
		f.Cells[i].Seconds = 2
		for k := range f.Cells[i].Seeds {
			f.Cells[i].Seeds[k].Seconds = 2 + 10*float64(k)
		}
	}
	table := derive(f).Suites[0].costTable()
	var times []string
	for _, r := range table.Rows {
		times = append(times, r[len(r)-1].Value)
	}
	if want := []string{"2", "36", "2", "36", "76"}; !slices.Equal(times, want) {
		t.Errorf("times %v, want %v", times, want)
	}
	if want := "Time over all 3 seeds; model passes (in images) and largest perturbation of the first " +
		"seed"; !strings.HasPrefix(table.Caption, want) {
		t.Errorf("caption %q", table.Caption)
	}
}

// Bars of several seeds end in the mean ± the deviation, not in the first seed's interval.
func TestWhiskers(t *testing.T) {
	s := derive(seeded()).Suites[0]
	near := func(x, y float64) bool { return x > y-1e-3 && x < y+1e-3 }
	if low, high, ok := s.whiskers(s.Cell("m", "none", s.Columns[1])); !ok || !near(low, 0.0585) ||
		!near(high, 0.4749) { // 0.267 ± 0.208
		t.Errorf("[%v, %v], %v", low, high, ok)
	}
	if _, _, ok := s.whiskers(s.Cell("m", "none", s.Columns[0])); ok {
		t.Error("clean images, which no seed is of, have whiskers")
	}
	for i := range 3 {
		s.Cell("m", "c", s.Columns[1]).Seeds[i].Accuracy = []float64{0, 0, 1}[i]
	}
	if low, high, _ := s.whiskers(s.Cell("m", "c", s.Columns[1])); low != 0 || !near(high, 0.9107) { // 0.333 ± 0.577
		t.Errorf("[%v, %v] is not clipped", low, high)
	}
	var with, without bytes.Buffer
	for i, out := range []*bytes.Buffer{&with, &without} {
		f := seeded()
		for k := range f.Cells {
			if i == 1 {
				f.Cells[k].CI95 = [2]float64{0.7, 0.8}
			}
		}
		out.WriteString(svg(fullAccuracies(derive(f).Suites[0]), light))
	}
	if with.String() != without.String() {
		t.Error("the first seed's interval is drawn")
	}
	one := seeded()
	for i := range one.Cells {
		one.Cells[i].Seeds = nil
	}
	if s := derive(one).Suites[0]; true {
		if low, high, ok := s.whiskers(s.Cell("m", "c", s.Columns[1])); !ok || low != 0.1 || high != 0.9 {
			t.Errorf("one seed: [%v, %v], %v", low, high, ok)
		}
	}
}
