package reports

import (
	"strings"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/must"
)

func summaryOf(t *testing.T, f *result.File) string {
	t.Helper()
	return renderSummary(arranged(f, nil))
}

// However large a run is and whatever its names are, the summary is short.
func TestSummaryIsShort(t *testing.T) {
	big := &result.File{Schema: result.Schema, Datasets: map[string]result.Dataset{}, Models: map[string]result.Model{}}
	for range 30 {
		one := hostileFile()
		one.Suites[0].Name += strings.Repeat("x", len(big.Suites))
		for i := range one.Cells {
			one.Cells[i].Suite = one.Suites[0].Name
			one.Cells[i].Warnings = append(one.Cells[i].Warnings, result.Warning{ID: strings.Repeat("w", i+1)})
		}
		big.Suites, big.Cells = append(big.Suites, one.Suites...), append(big.Cells, one.Cells...)
	}
	big.Command = append([]string{"selfheal", "run", "`````", "$(x)"},
		strings.Fields(strings.Repeat("--suite a ", 500))...)
	doc := summaryOf(t, big)
	if n := strings.Count(doc, "\n"); n >= 60 {
		t.Errorf("%d lines", n)
	}
	if len(doc) > 64<<10 {
		t.Errorf("%d bytes", len(doc))
	}
	tables := gfmTables(t, doc)
	if len(tables) != 2 || len(tables[0].rows) != summaryRows || len(tables[1].rows) != summaryWarnings {
		t.Fatalf("%d tables", len(tables))
	}
	must.Have(t, doc, "These are 20 of 600 lines, the first of each of the first 20 of 30 suites; report.html",
		"warnings of other kinds", "\n``````\nselfheal run '`````' '$(x)' --suite a")
	few := crowded(1) // ten lines
	for i := range 5 {
		one := compareFixture() // two lines
		one.Suites[0].Name = strings.Repeat("more", i+1)
		for i := range one.Cells {
			one.Cells[i].Suite = one.Suites[0].Name
		}
		few.Suites, few.Cells = append(few.Suites, one.Suites...), append(few.Cells, one.Cells...)
	}
	for i := range 2 {
		few.Suites = append(few.Suites, result.Suite{Name: strings.Repeat("z", i+1), Models: []string{"x", "y", "z"},
			Controls: []string{"c"}})
	}
	if want := "These are 20 of 26 lines, the first of each suite; report.html"; !strings.Contains(summaryOf(t, few),
		want) {
		t.Errorf("the summary of %d suites lacks %q", len(few.Suites), want)
	}
	suites := map[string]int{}
	for _, row := range gfmTables(t, summaryOf(t, few))[0].rows {
		suites[row[0]]++
	}
	if suites["crowded"] != 1 || suites["more"] != 1 || suites["zz"] != 1 ||
		suites[""] != 4+5*2+2*3-8 { // four of the first suite, the others whole
		t.Errorf("of 26 lines: %v", suites)
	}
	for _, f := range []*result.File{{},
		{Suites: []result.Suite{{Name: "planned", Models: []string{"m"}, Attacks: []string{"a"}}}}} {
		if doc := summaryOf(t, f); !strings.HasPrefix(doc, "## Robustness report\n") || strings.Count(doc, "\n") > 20 ||
			strings.Contains(doc, "repeat it") {
			t.Errorf("of next to nothing:\n%s", doc)
		}
	}
}
