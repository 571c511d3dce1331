package reports

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/must"
)

// seeded is a suite whose attacked cells have three seeds. By its first one the baseline
// is ahead, over all of them the control.
func seeded() *result.File {
	linf, eps := "linf", 8.0/255
	cell := func(defense, attack string, verdicts ...string) result.Cell {
		c := result.Cell{Suite: "s", Dataset: "d", Model: "m", Defense: defense, Mode: "oblivious", Attack: attack,
			N: 10, Verdicts: verdicts[0]}
		c.Correct = strings.Count(verdicts[0], "1")
		c.Accuracy = float64(c.Correct) / 10
		c.CI95 = [2]float64{0.1, 0.9}
		if attack != "none" {
			c.Norm, c.Epsilon, c.Recipe = &linf, &eps, "square/1"
			for i, v := range verdicts {
				n := strings.Count(v, "1")
				c.Seeds = append(c.Seeds, result.SeedScore{Seed: uint64(i), Correct: n, Accuracy: float64(n) / 10,
					Verdicts: v})
			}
		}
		return c
	}
	return &result.File{Schema: result.Schema, Datasets: map[string]result.Dataset{"d": {N: 10}},
		Models: map[string]result.Model{"m": {}},
		Suites: []result.Suite{{Name: "s", Dataset: "d", Mode: "oblivious", Models: []string{"m"},
			Controls: []string{"c"}, Attacks: []string{"square"}}},
		Cells: []result.Cell{
			cell("none", "none", "1111111111"), cell("c", "none", "1111111110"),
			cell("none", "square", "1111100000", "1100000000", "1000000000"),
			cell("c", "square", "1111000000", "1111100000", "1110000001"),
		}}
}

func TestSeveralSeeds(t *testing.T) {
	v := derive(seeded())
	s := v.Suites[0]
	if got := scored(s.Cell("m", "c", s.Columns[1])); got != "43.3"+nbsp+"±"+nbsp+"5.8" {
		t.Errorf("controlled: %q", got)
	}
	table := s.AccuracyTable()
	if want := "mean ± standard deviation over 3 seeds"; !strings.Contains(table.Caption, want) {
		t.Errorf("caption %q lacks %q", table.Caption, want)
	}
	entry := table.Rows[0][2]
	if strings.ReplaceAll(entry.plain(), nbsp, " ") != "26.7 ± 20.8 / 43.3 ± 5.8" {
		t.Errorf("entry %q", entry.plain())
	}
	if bold := entry.Spans[slices.IndexFunc(entry.Spans,
		func(s span) bool { return s.Bold })]; !strings.HasPrefix(bold.Text, "43.3") {
		t.Errorf("bold is %q, the first seed's better side", bold.Text)
	}
	if clean := table.Rows[0][1]; clean.plain() != "100.0 / 90.0" {
		t.Errorf("clean images: %q", clean.plain())
	}
	if got := value(s.Cell("m", "c", s.Columns[1])); got != "43.3" {
		t.Errorf("figures say %s", got)
	}
	tex := written(t, renderLaTeX, v)
	must.Have(t, tex, `26.7~$\pm$~20.8`)
	for _, doc := range []string{tex, written(t, markdownForm.render, v)} {
		if n := strings.Count(doc, "Spread over the seeds"); n != 1 {
			t.Errorf("%d tables of the spread in\n%s", n, doc)
		}
	}
	wantRows(t, s.spreadTable(), []string{"m | baseline | Square ℓ∞ (8/255) | 3 | 26.7 | 20.8 | 10.0 | 50.0 | 10.0",
		"m | c | Square ℓ∞ (8/255) | 3 | 43.3 | 5.8 | 40.0 | 50.0 | 30.0"})
	var columns []string
	for _, l := range lines(t, written(t, renderCSV, v)) {
		columns = append(columns, fmt.Sprintf("%s %.5s %.5s %s %s %s", l["seeds"], l["accuracy_mean"],
			l["accuracy_std"], l["accuracy_min"], l["accuracy_max"], l["accuracy_every_seed"]))
	}
	want := []string{"     ", "3 0.266 0.208 0.1 0.5 0.1", "     ", "3 0.433 0.057 0.4 0.5 0.3"}
	if !slices.Equal(columns, want) {
		t.Errorf("csv %q, want %q", columns, want)
	}
	one := seeded() // with one seed nothing of it is said
	for i := range one.Cells {
		one.Cells[i].Seeds = nil
	}
	s = derive(one).Suites[0]
	if len(s.spreadTable().Rows) > 0 || strings.Contains(s.AccuracyTable().Caption, "±") || s.ofFirstSeed() != "" {
		t.Error("one seed has a spread")
	}
}
