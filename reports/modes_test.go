package reports

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/must"
)

// No table and no figure comes without the attacker that its numbers are of.
func TestAttackerIsSaid(t *testing.T) {
	v := derive(fixture())
	v.addMargins(slices.Values(records(fixture())))
	for _, s := range v.Suites {
		want := "; attacker: " + s.Mode
		for _, table := range []table{s.AccuracyTable(), s.IntervalTable(), s.distanceTable(), s.waterfallTable(),
			s.solverTable(), s.marginTable(), s.costTable()} {
			must.Have(t, table.Caption, want)
		}
	}
	files := report(t)
	for name, content := range files {
		if !strings.HasSuffix(name, ".svg") {
			continue
		}
		said := slices.ContainsFunc(texts(t, content),
			func(x svgText) bool { return strings.HasPrefix(x.text, "adversarial images made ") })
		if !said {
			t.Errorf("%s does not say what the attacker knows", name)
		}
	}
	figures := regexp.MustCompile(`(?s)<figure>.*?</figure>`).FindAllString(files["report.html"], -1)
	if len(figures) < len(v.Suites) {
		t.Errorf("%d figures for %d suites", len(figures), len(v.Suites))
	}
	named := regexp.MustCompile(`<figcaption>[^<]*; attacker: ((oblivious|whitebox-[a-z]+)(, )?)+</figcaption>`)
	for _, f := range figures {
		if !named.MatchString(f) {
			t.Errorf("figure without attacker: %.100s", dataURI.ReplaceAllString(f, ""))
		}
	}
	for _, m := range result.Modes {
		must.Have(t, files["report.html"], "Attacker: "+m.Name+".</b> ")
		must.Have(t, files["tables.md"], "Attacker: "+m.Name+". "+m.Knows[:20])
		must.Have(t, files["tables.tex"], "attacker: "+m.Name+" (adversarial images "+m.Made+")")
	}
}

// A suite without controls is an attack on the network itself, whatever its mode: nothing there is oblivious.
func TestNoControl(t *testing.T) {
	for _, mode := range result.ModeNames() {
		f := fixture()
		f.Suites = f.Suites[:1]
		f.Suites[0].Controls, f.Suites[0].Mode, f.Gallery = nil, mode, nil
		f.Cells = slices.DeleteFunc(f.Cells, func(c result.Cell) bool {
			return c.Suite != "real" || c.Defense != "none"
		})
		for i := range f.Cells {
			f.Cells[i].Mode = mode
		}
		files := textFiles(t, f, nil)
		for _, name := range []string{"report.html", "tables.md", "tables.tex", "summary.md", "radar-real.svg"} {
			for _, no := range append(result.ModeNames(), "obliviously", "no bound") {
				if strings.Contains(files[name], no) {
					t.Errorf("%s, %s: it says %s", mode, name, no)
				}
			}
		}
		for _, name := range []string{"report.html", "tables.md"} {
			must.Have(t, files[name], "ttacker: white-box")
		}
	}
}

func TestWhatTheAttackerKnows(t *testing.T) {
	table := derive(fixture()).KnowledgeTable()
	if got := strings.Join(table.Head, " | "); got != "Data set | Model | Control | Attack | Images | No control | "+
		"Oblivious | Detached | Through" {
		t.Errorf("head %s", got)
	}
	var got []string
	for _, r := range table.Rows {
		var line []string
		for _, b := range r[3:] {
			said := ""
			for _, s := range b.Spans {
				if s.Bold {
					said += "*"
				}
				said += s.Text
			}
			line = append(line, said)
		}
		got = append(got, strings.Join(line, " | "))
		if r[2].Spans[0].Mark != loopMark {
			t.Errorf("%v is not marked as an optimisation loop", r[2])
		}
	}
	want := []string{
		"AA ℓ∞ (8/255) | 200 | 25.5 | 46.0 | *35.0 | –",
		"strongest ℓ∞ (8/255) | 200 | – | 46.0 (AA) | 35.0 (AA) | *24.5 (PGD)",
		"AA ℓ2 (0.5) | 200 | 29.5 | 52.0 | 44.0 | *30.5",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(table.Notes) != 2 || !strings.Contains(table.Notes[0].Text, "; Through, made through the defended "+
		"network") || table.Notes[1].Mark != loopMark {
		t.Errorf("notes %v", table.Notes)
	}
	f := fixture()
	f.Suites, f.Cells = f.Suites[:3], slices.DeleteFunc(f.Cells,
		func(c result.Cell) bool { return strings.HasPrefix(c.Mode, "whitebox") })
	if rows := derive(f).KnowledgeTable().Rows; rows != nil {
		t.Errorf("one mode alone is compared: %v", rows)
	}
}
