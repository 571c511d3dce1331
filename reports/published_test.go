package reports

import (
	"encoding/csv"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/harness/result"
	"selfheal/harness/result/published"
	"selfheal/internal/must"
)

// folder returns the files of a folder.
func folder(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	files := map[string]string{}
	for _, e := range entries {
		b := must.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t)
		files[e.Name()] = string(b)
	}
	return files
}

// golden compares a rendered file with one of testdata, pictures aside.
func golden(t *testing.T, path, got string) {
	t.Helper()
	got = dataURI.ReplaceAllString(got, "data:picture")
	path = filepath.Join("testdata", path)
	if *update {
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test ./reports -update writes it)", err)
	}
	if got != string(want) {
		t.Errorf("%s differs at %s", path, firstDifference(got, string(want)))
	}
}

// lines reads a CSV file as a map from column to field, a line each.
func lines(t *testing.T, text string) []map[string]string {
	t.Helper()
	rows := must.Get(csv.NewReader(strings.NewReader(text)).ReadAll())(t)
	var out []map[string]string
	for _, r := range rows[1:] {
		line := map[string]string{}
		for i, name := range rows[0] {
			line[name] = r[i]
		}
		out = append(out, line)
	}
	return out
}

func TestPublishedPaper(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, WritePublished(dir))
	files := folder(t, dir)
	for _, name := range []string{"tables.md", "tables.tex", "tables.csv", "report.html"} {
		golden(t, filepath.Join("published", name), files[name])
	}
	for _, network := range []string{"RN-18", "WRN-76-10", "EfficientNet-b0"} {
		for _, kind := range []string{"png", "svg"} {
			if files["radar-"+network+"."+kind] == "" {
				t.Errorf("no radar-%s.%s", network, kind)
			}
		}
	}
	if len(files) != len(formats)+6 {
		t.Errorf("%d files", len(files))
	}

	// Every number stands in tables.csv at its place, and nothing else does.
	at := map[string]string{}
	for _, l := range lines(t, files["tables.csv"]) {
		key := strings.Join([]string{l["suite"], l["dataset"], l["model"], l["defense"], l["attack"], l["norm"],
			l["epsilon"]}, " ")
		if at[key] != "" {
			t.Errorf("%s twice", key)
		}
		at[key] = l["published"]
		for _, ours := range []string{"n", "correct", "accuracy", "ci_low", "ci_high", "recipe", "difference",
			"published_in_ci"} {
			if l[ours] != "" {
				t.Errorf("%s has %s %s, which was never measured", key, ours, l[ours])
			}
		}
	}
	numbers := 0
	for _, table := range published.Tables() {
		for _, c := range table.Cells {
			epsilon := ""
			if c.Attack.Epsilon > 0 {
				epsilon = full(c.Attack.Epsilon)
			}
			for side, defense := range table.Sides {
				key := strings.Join([]string{table.Name, table.Dataset, c.Model, defense, c.Attack.Name, c.Attack.Norm,
					epsilon}, " ")
				if want := full(c.Accuracy[side]); at[key] != want {
					t.Errorf("%s is %q, want %s", key, at[key], want)
				}
				// And in the table, as `left / right`.
				if pair := fmt.Sprintf("%.2f", 100*c.Accuracy[side]); !strings.Contains(files["report.html"], pair) {
					t.Errorf("the page lacks %s", pair)
				}
				numbers++
			}
		}
	}
	if numbers != 250 || len(at) != 250 {
		t.Errorf("%d numbers, %d lines", numbers, len(at))
	}
	for _, name := range []string{"tables.md", "report.html"} {
		if strings.Contains(files[name], "n = 0") || strings.Contains(files[name], "Partial") ||
			strings.Contains(files[name], "| –") {
			t.Errorf("%s takes published numbers for measured ones", name)
		}
	}
}

// compareFixture is a suite beside the paper's Table 7: a network that was run under one
// attack with a control, one that the paper lacks, and one of the paper that was not run.
func compareFixture() *result.File {
	f := &result.File{Schema: result.Schema, Datasets: map[string]result.Dataset{}, Models: map[string]result.Model{}}
	s := result.Suite{Name: "table7", Title: "Table 7", Dataset: "cifar10-test", Mode: "whitebox-through",
		Models: []string{"rn-18-robust", "own"}, Controls: []string{"denoising"}, Attacks: []string{"pgd-20",
			"aa-linf"}}
	addCells(f, s, 1000, []attacked{{"pgd-20", "linf", "pgd/1", 8. / 255}, {"aa-linf", "linf", "autoattack-standard/1",
		8. / 255}},
		[][][]int{{{824, 480, 487}, {820, 560, -1}}, {{900, 0, 0}, {-1, -1, -1}}})
	norm, epsilon := "linf", 8./255
	p := &result.Published{Source: "table7", Mode: "whitebox"}
	for _, c := range []struct {
		model, defense, attack string
		accuracy               float64
	}{
		{"rn-18-robust", "none", "none", .8239}, {"rn-18-robust", "denoising", "none", .8234},
		{"rn-18-robust", "none", "pgd-20", .5166}, {"rn-18-robust", "denoising", "pgd-20", .5182},
		{"rn-18-robust", "denoising", "aa-linf", .4877},
		{"RN-34", "none", "none", .8445}, {"RN-34", "denoising", "none", .8412}, {"RN-34", "none", "pgd-linf", .5135},
	} {
		one := result.PublishedCell{Model: c.model, Defense: c.defense, Attack: c.attack, Accuracy: c.accuracy}
		if c.attack != "none" {
			one.Norm, one.Epsilon = &norm, &epsilon
		}
		p.Cells = append(p.Cells, one)
	}
	f.Suites[0].Published = p
	return f
}

func TestComparison(t *testing.T) {
	files := textFiles(t, compareFixture(), nil)
	for _, name := range []string{"tables.md", "tables.tex", "tables.csv"} {
		golden(t, filepath.Join("compared", name), files[name])
	}
	page := spaced(files["report.html"])
	must.Have(t, page, "Published in our interval", "no, above", "no, below", "−3.66", "+4.18", "extra", "not run",
		"2 of 4 published numbers within our 95 % intervals", "4 cells", "4 numbers",
		"3 published numbers not in this table, of networks that the suite lacks: RN-34")
}

// spaced is a page without its tags and entities.
func spaced(page string) string {
	var out strings.Builder
	for _, part := range strings.Split(page, "<") {
		_, text, _ := strings.Cut(part, ">")
		out.WriteString(text)
	}
	return html.UnescapeString(out.String())
}

// A published attacker who knows something else is no measure, and the table says so.
func TestComparisonAttacker(t *testing.T) {
	f := compareFixture()
	if s := textFiles(t, f, nil)["tables.md"]; strings.Contains(s, "Not the same attacker") {
		t.Error("whitebox and whitebox-through are told apart")
	}
	f.Suites[0].Published.Mode = "oblivious"
	f.Suites[0].Published.Source = "config"
	must.Have(t, textFiles(t, f, nil)["tables.md"], "ours beside the numbers that the config gives",
		"Not the same attacker: the published one is oblivious, ours whitebox-through")
	f.Suites[0].Published = nil
	files := textFiles(t, f, nil)
	if strings.Contains(files["tables.md"], inIntervalHead) ||
		strings.Contains(files["report.html"], "others measured") {
		t.Error("a suite without published numbers has a table of them")
	}
}

// A number printed to a hundredth of a point is in the interval when it may be.
func TestIntervalOfRounded(t *testing.T) {
	cell := &result.Cell{N: 100, Accuracy: 0.5, CI95: [2]float64{0.40384, 0.59616}}
	for number, want := range map[float64]int{0.4037: -1, 0.4038: 0, 0.5: 0, 0.5962: 0, 0.5963: 1} {
		if got := (compared{cell: cell, published: &number}).side(); got != want {
			t.Errorf("%v: %d, want %d", number, got, want)
		}
	}
	none := &result.Cell{N: 3, CI95: [2]float64{1e-18, 0.6}}
	if zero := 0.0; (compared{cell: none, published: &zero}).side() != 0 {
		t.Error("0 is not in an interval from 0")
	}
	if unknown := (compared{cell: &result.Cell{N: 3}, published: new(float64)}); unknown.judged() ||
		unknown.verdict() != dash {
		t.Error("a cell without an interval is judged")
	}
	for difference, want := range map[float64]string{0: "0.00", -0.00001: "0.00", 0.0366: "+3.66", -0.1: "−10.00"} {
		if got := points(difference); got != want {
			t.Errorf("%v: %s, want %s", difference, got, want)
		}
	}
}

// Those that leave no table for the radars have a name in the figure's legend.
func TestPaperRadars(t *testing.T) {
	var names [][]string
	for _, s := range paperRadars() {
		names = append(names, s.Models)
		for _, m := range s.Models {
			for _, one := range s.Series(m) {
				if slices.Contains(one.Cells, nil) || len(one.Cells) != 4 {
					t.Errorf("%s, %s: not whole", m, one.Defense)
				}
			}
		}
	}
	if got := fmt.Sprint(names); got != "[[RN-18, standard RN-18, robust] [WRN-76-10, robust] [EfficientNet-b0, "+
		"standard]]" {
		t.Errorf("networks %s", got)
	}
}
