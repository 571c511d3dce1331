package reports

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"

	"selfheal/harness/compare"
	"selfheal/harness/result"
	"selfheal/internal/must"
)

// comparedFixture compares the fixture, whose names are awkward, with a later run of other verdicts.
func comparedFixture(t *testing.T) *comparison {
	t.Helper()
	first, second := fixture(), fixture()
	second.Created = first.Created.AddDate(0, 0, 1)
	second.ConfigSHA256 = "other"
	for i := range second.Cells {
		c := &second.Cells[i]
		c.Correct /= 2
		c.Accuracy = float64(c.Correct) / float64(c.N)
		c.Verdicts = verdicts(c.N, c.Correct, 0)
	}
	return newComparison(must.Get(compare.Of([]compare.Run{{Folder: "one", Path: "/one", File: first},
		{Folder: texName, Path: "/" + texName, File: second}}))(t))
}

// Names are text in the page and in Markdown, whose tables are whole.
func TestComparedNames(t *testing.T) {
	c := comparedFixture(t)
	var page, doc, plain strings.Builder
	must.Do(t, c.html(&page))
	must.Do(t, c.markdown(&doc))
	must.Do(t, WriteCompareTables(&plain, c.Comparison, true))
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

// What halves its right answers has fallen significantly: the tables, the figure and its text say by how much.
func TestComparedHistory(t *testing.T) {
	for _, g := range comparedFixture(t).Groups {
		if g.Name != "cifar10-test" {
			continue
		}
		i := slices.IndexFunc(g.History, func(s compare.Series) bool {
			return s.Model == "resnet-2b" && s.Defense == "none"
		})
		table, figure := g.HistoryTables()[i], g.Histories()[i]
		if row := table.Rows[1][3]; !row.Spans[0].Bold || row.plain() != "41.0 (−41.0)" {
			t.Errorf("the table says %+v", row)
		}
		drawn := svg(figure, light)
		must.Have(t, drawn, "−41.0", "2025-03-14")
		must.Have(t, figure.Alt, "41.0 (−41.0)")
		return
	}
	t.Fatal("there is no cifar10-test")
}

// Beyond a thousand pairs a table has those that are next to each other, and beyond 24 lines there is no matrix.
func TestComparedMany(t *testing.T) {
	var runs []compare.Run
	for i := range 50 {
		f := &result.File{Datasets: map[string]result.Dataset{"d": {N: 8, SHA256: "same"}}}
		f.Cells = []result.Cell{
			{Model: "m", Dataset: "d", Defense: "none", Attack: "none", N: 8, Verdicts: verdicts(8, i%8, i)},
		}
		runs = append(runs, compare.Run{Folder: key(i), Path: "/" + key(i), File: f})
	}
	c := newComparison(must.Get(compare.Of(runs))(t))
	g := c.Groups[0]
	if n := len(g.PairTable().Rows); n != 49 || len(g.Pairs) != 1225 {
		t.Errorf("%d rows of %d pairs", n, len(g.Pairs))
	}
	if len(g.MatrixTable().Rows) > 0 || g.Scatter() != nil {
		t.Error("there is a matrix of 50, or a figure without an attack")
	}
	must.Have(t, g.RankedBy(), "no attack was run")
	if key(25) != "Z" || key(26) != "AA" || key(701) != "ZZ" || key(702) != "AAA" {
		t.Errorf("keys %s %s %s %s", key(25), key(26), key(701), key(702))
	}
}

// Labels of a dozen points, wherever these are, stand apart from each other and inside; hardly one of 600 touches a
// marker.
func TestLabelsStandApart(t *testing.T) {
	hidden := 0
	within := vg.Rectangle{Max: vg.Point{X: 300, Y: 220}}
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var points, sizes []vg.Point
		var drawn []vg.Rectangle
		for range 12 {
			p := vg.Point{X: vg.Length(20 + 260*rng.Float64()), Y: vg.Length(20 + 180*rng.Float64())}
			points, sizes = append(points, p), append(sizes, vg.Point{X: 7, Y: 7.5})
			drawn = append(drawn, centred(p, 6, 6))
		}
		points[11], drawn[11] = points[10], drawn[10] // a run and its copy
		var boxes []vg.Rectangle
		for i, at := range beside(points, sizes, drawn, within) {
			mine := centred(at, sizes[i].X, sizes[i].Y)
			for k, r := range boxes {
				if overlap(mine, r) > 0 {
					t.Errorf("seed %d: labels %d and %d overlap", seed, i, k)
				}
			}
			if slices.ContainsFunc(drawn, func(r vg.Rectangle) bool { return overlap(mine, r) > 0 }) {
				hidden++
			}
			if mine.Min.X < 0 || mine.Min.Y < 0 || mine.Max.X > within.Max.X || mine.Max.Y > within.Max.Y {
				t.Errorf("seed %d: label %d is outside", seed, i)
			}
			boxes = append(boxes, mine)
		}
	}
	if hidden > 2 {
		t.Errorf("%d labels hide markers", hidden)
	}
}
