package reports

import (
	"bytes"
	"encoding/csv"
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
	table := s.accuracyTable()
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
	var tex bytes.Buffer
	if err := renderLaTeX(&tex, v); err != nil || !strings.Contains(tex.String(), `26.7~$\pm$~20.8`) {
		t.Errorf("%v in\n%s", err, tex.String())
	}
	spread := s.spreadTable()
	var lines []string
	for _, r := range spread.Rows {
		var line []string
		for _, b := range r {
			line = append(line, b.plain())
		}
		lines = append(lines, strings.Join(line, "|"))
	}
	want := []string{"m|baseline|Square ℓ∞ (8/255)|3|26.7|20.8|10.0|50.0|10.0",
		"m|c|Square ℓ∞ (8/255)|3|43.3|5.8|40.0|50.0|30.0"}
	if !slices.Equal(lines, want) {
		t.Errorf("spread\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	var b bytes.Buffer
	must.Do(t, renderCSV(&b, v))
	rows := must.Get(csv.NewReader(&b).ReadAll())(t)
	column := func(name string) int { return slices.Index(rows[0], name) }
	if last := rows[len(rows)-1]; last[column("seeds")] != "3" || !strings.HasPrefix(last[column("accuracy_mean")],
		"0.4333") || last[column("accuracy_every_seed")] != "0.3" || rows[1][column("seeds")] != "" {
		t.Errorf("csv %q", rows)
	}
	one := seeded() // with one seed nothing of it is said
	for i := range one.Cells {
		one.Cells[i].Seeds = nil
	}
	s = derive(one).Suites[0]
	if len(s.spreadTable().Rows) > 0 || strings.Contains(s.accuracyTable().Caption, "±") || s.ofFirstSeed() != "" {
		t.Error("one seed has a spread")
	}
}
