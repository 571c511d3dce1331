package reports

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/cell"
	"selfheal/harness/compare"
	"selfheal/harness/result"
	"selfheal/harness/stats"
	"selfheal/internal/must"
	"selfheal/internal/terminal"
	"selfheal/reports/figure"
	"selfheal/reports/table"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// comparedFixture compares the fixture, whose names are awkward, with a later run that has other verdicts.
func comparedFixture(t *testing.T) table.Comparison {
	t.Helper()
	first, second := fixture(), fixture()
	second.Created = first.Created.AddDate(0, 0, 1)
	second.ConfigSHA256 = "other"
	for i := range second.Cells {
		c := &second.Cells[i]
		*c = c.Judged(verdicts(c.N, c.Correct/2, 0))
	}
	return table.OfComparison(must.Get(compare.Of([]compare.Run{
		{Folder: "one", Path: "/one", File: first},
		{Folder: texName, Path: "/" + texName, File: second}}))(t))
}

// Names are plain text in the page and in Markdown, and break no table.
func TestComparedNames(t *testing.T) {
	t.Parallel()
	c := comparedFixture(t)
	var page, doc, plain strings.Builder
	must.Do(t, writePage(&page, "compare.html.tmpl", c))
	must.Do(t, markdownForm.compared(&doc, c, true))
	must.Do(t, plainForm.compared(&plain, c, false))
	if strings.Contains(page.String(), scriptName) || !strings.Contains(page.String(), "&lt;script&gt;alert(1)") {
		t.Error("a name is markup in the page")
	}
	must.Have(t, page.String(), "AA ℓ∞ (8/255)", `id="group-tiny---small"`)
	must.Have(t, plain.String(), scriptName, "AA ℓ∞ (8/255)")
	tables := gfmTables(t, doc.String())
	for _, one := range tables {
		for _, row := range one.rows {
			if len(row) != len(one.head) {
				t.Errorf("%d cells under %d heads: %q", len(row), len(one.head), row)
			}
		}
	}
	if len(tables) < 6 {
		t.Errorf("%d tables", len(tables))
	}
}

// A model that halves its right answers has fallen significantly: the tables, the figure and its text say by how much.
func TestComparedHistory(t *testing.T) {
	t.Parallel()
	for _, g := range comparedFixture(t).Groups {
		if g.Name != "cifar10-test" {
			continue
		}
		i := slices.IndexFunc(g.History, func(s compare.Series) bool {
			return s.Model == "resnet-2b" && s.Defense == "none"
		})
		said, drawing := g.HistoryTables()[i], figure.Histories(g.Group)[i]
		if row := said.Rows[1][3]; !row.Spans[0].Bold || row.Plain() != "41.0 (−41.0)" {
			t.Errorf("the table says %+v", row)
		}
		must.Have(t, string(drawing.Drawing()), "−41.0", "2025-03-14")
		must.Have(t, drawing.Alt, "41.0 (−41.0)")
		return
	}
	t.Fatal("there is no cifar10-test")
}

// With more than a thousand pairs a table shows only neighbours, and with more than 24 entries there is no matrix.
func TestComparedMany(t *testing.T) {
	t.Parallel()
	var runs []compare.Run
	for i := range 50 {
		f := &result.File{Datasets: map[string]result.Dataset{"d": {N: 8, SHA256: "same"}}}
		f.Cells = []result.Cell{
			{ID: cell.Of("", "m", "none", "none", 0).In("d", ""), N: 8, Verdicts: verdicts(8, i%8, i)},
		}
		runs = append(runs, compare.Run{Folder: view.EntryKey(i), Path: "/" + view.EntryKey(i), File: f})
	}
	c := table.OfComparison(must.Get(compare.Of(runs))(t))
	g := c.Groups[0]
	if n := len(g.PairTables()[0].Rows); n != 49 || len(g.Pairs) != 1225 {
		t.Errorf("%d rows of %d pairs", n, len(g.Pairs))
	}
	if len(g.MatrixTable().Rows) > 0 || figure.Scatter(g.Group, true).Panels != nil {
		t.Error("there is a matrix of 50, or a figure without an attack")
	}
	must.Have(t, g.Ranking(), "no attack was run")
	for i, want := range map[int]string{25: "Z", 26: "AA", 701: "ZZ", 702: "AAA"} {
		if got := view.EntryKey(i); got != want {
			t.Errorf("key %d is %s, want %s", i, got, want)
		}
	}
}

// Differences on clean images have an interval and p like those under attack, on the terminal too. A alone is right on
// 8 of 20 clean images, so p is 2·2⁻⁸; the interval is Tango's.
func TestComparedClean(t *testing.T) {
	t.Parallel()
	eight, norm := 8./255, "linf"
	run := func(folder, clean string) compare.Run {
		f := &result.File{Datasets: map[string]result.Dataset{"d": {N: 20, SHA256: "same"}},
			Attacks: map[string]result.Attack{"pgd": {Kind: "pgd", Norm: &norm, Epsilons: []float64{eight}}},
			Cells: []result.Cell{{ID: cell.Of("", "m", "none", "none", 0).In("d", ""), N: 20, Verdicts: clean},
				{ID: cell.Of("", "m", "none", "pgd", cell.Epsilon(eight)).In("d", ""), Norm: &norm, N: 20,
					Verdicts: verdicts(20, 4, 0)}}}
		return compare.Run{Folder: folder, Path: "/" + folder, File: f}
	}
	c := must.Get(compare.Of([]compare.Run{run("a", verdicts(20, 20, 0)),
		run("b", verdicts(20, 12, 0))}))(t)
	interval := stats.Paired{N: 20, Lost: 8}.Interval(0.95)
	var terminal strings.Builder
	must.Do(t, WriteCompareTables(&terminal, c, true))
	text := strings.ReplaceAll(terminal.String(), words.Nbsp, " ")
	_, after, found := strings.Cut(text, "Every pair, on clean images")
	if !found {
		t.Fatal(text)
	}
	between := words.Range(words.Points(interval[0], 1), words.Points(interval[1], 1))
	must.Have(t, strings.Join(strings.Fields(after), " "), "corrected for 1 pair (Holm)",
		"20 8 0 *+40.0* "+strings.ReplaceAll(between, words.Nbsp, " ")+" 0.00781 0.00781")
}

// No word of a file of results brings a control character into a document, nor breaks a drawing.
func TestComparedControlCharacters(t *testing.T) {
	t.Parallel()
	evil := "through\x1b[31m\x00\u202e"
	first, second := fixture(), fixture()
	second.Created, second.ConfigSHA256 = first.Created.AddDate(0, 0, 1), "other"
	for _, f := range []*result.File{first, second} {
		for i := range f.Suites {
			f.Suites[i].Mode = evil
		}
		for i := range f.Cells {
			f.Cells[i].Mode = evil
		}
	}
	of := must.Get(compare.Of([]compare.Run{{Folder: "one", Path: "/one", File: first},
		{Folder: "two", Path: "/two", File: second}}))(t)
	dir := t.TempDir()
	must.Do(t, WriteCompare(outputs(dir), of))
	var said strings.Builder
	must.Do(t, WriteCompareTables(terminal.Escape(&said), of, true))
	documents := map[string]string{"tables": said.String()}
	for _, e := range must.Get(os.ReadDir(dir))(t) {
		if ext := filepath.Ext(e.Name()); ext != ".png" && ext != ".pdf" {
			documents[e.Name()] = string(must.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t))
		}
	}
	drawings := 0
	for name, text := range documents {
		if text != words.Printable(text) {
			t.Errorf("%s holds control characters", name)
		}
		if filepath.Ext(name) == ".svg" {
			drawings++
			for d := xml.NewDecoder(strings.NewReader(text)); ; {
				if _, err := d.Token(); err == io.EOF {
					break
				} else if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
	}
	if drawings < 3 || !strings.Contains(documents["compare.html"], "through�[31m") {
		t.Errorf("%d drawings; the mode is not there", drawings)
	}
}
