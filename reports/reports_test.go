package reports

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/atomicfile"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/reports/view"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// dataURI matches the pictures in the page: the goldens of figures hold their texts.
var dataURI = regexp.MustCompile(`(?s)<svg class="fig".*?</svg>`)

// arranged arranges a file with its records for the formats.
func arranged(f *result.File, recs []result.Record) page {
	v := view.Of(f)
	v.AddMargins(slices.Values(recs))
	return newPage(v, nil)
}

// textFiles renders a report without its PNG files, which take ten times as long.
func textFiles(t *testing.T, v page) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, file := range v.files() {
		if !strings.HasSuffix(file.name, ".png") {
			var sb strings.Builder
			must.Do(t, file.render(&sb))
			files[file.name] = sb.String()
		}
	}
	return files
}

// written returns a file as a format writes it.
func written(t *testing.T, how func(w io.Writer, v page) error, v page) string {
	t.Helper()
	var sb strings.Builder
	must.Do(t, how(&sb, v))
	return sb.String()
}

// folder returns the files in a folder, except the list of them.
func folder(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	files := map[string]string{}
	for _, e := range entries {
		if e.Name() == atomicfile.ListFile {
			continue
		}
		b := must.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t)
		files[e.Name()] = string(b)
	}
	return files
}

// wholeReport writes the fixture's report with these records and returns its files.
func wholeReport(t *testing.T, recs []result.Record) map[string]string {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, Write(outputs(dir), fixture(), slices.Values(recs), nil))
	return folder(t, dir)
}

var (
	renderOnce sync.Once
	rendered   map[string]string
)

// report returns the files of the fixture with its records, rendered once for all tests.
func report(t *testing.T) map[string]string {
	t.Helper()
	renderOnce.Do(func() { rendered = wholeReport(t, records(fixture())) })
	return rendered
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

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return "line " + g[i] + "\nwant " + w[i]
		}
	}
	return "the end"
}

// figureTexts returns the descriptions and texts of all figures in some files.
func figureTexts(t *testing.T, files map[string]string) string {
	var sb strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".svg") {
			_, title, _ := strings.Cut(files[name], "<title>")
			title, _, _ = strings.Cut(title, "</title>")
			fmt.Fprintf(&sb, "%s: %s\n", name, title)
			for _, x := range texts(t, files[name]) {
				fmt.Fprintf(&sb, "  %s\n", x.text)
			}
		}
	}
	return sb.String()
}

// sectionOf returns the part of a page from one section up to another.
func sectionOf(t *testing.T, page, from, to string) string {
	t.Helper()
	i, k := strings.Index(page, `<section id="`+from), strings.Index(page, `<section id="`+to)
	if i < 0 || k < i {
		t.Fatalf("the page has sections at %d and %d", i, k)
	}
	return page[i:k]
}

// Golden files hold the reports of small and odd runs: whole files, parts of the page, and the texts of figures.
func TestGolden(t *testing.T) {
	t.Parallel()
	of := func(f *result.File) page { return arranged(f, nil) }
	certified, radii := certifiedFile(true)
	alone, _ := certifiedFile(false)
	study := textFiles(t, of(studyFixture()))
	whole := arranged(fixture(), records(fixture()))
	for _, c := range []struct {
		dir, names string
		files      map[string]string
	}{
		{"", "report.html summary.md tables.csv tables.md tables.tex tables.txt figures.txt", textFiles(t, whole)},
		{"published", "report.html tables.csv tables.md tables.tex", textFiles(t, newPage(view.Paper(), nil))},
		{"compared", "tables.csv tables.md tables.tex suite.html", textFiles(t, of(compareFixture()))},
		{"study", "tables.md section.html summary.md", study},
		{"corrupted", "tables.csv tables.md suite.html figures.txt", textFiles(t, of(corruptedFile()))},
		{"certified", "tables.csv tables.md figures.txt", textFiles(t, arranged(certified, slices.Collect(radii)))},
		{"certified-alone", "tables.md", textFiles(t, of(alone))},
		{"bounded", "tables.md summary.md figures.txt", textFiles(t, of(boundedFile()))},
		{"bracket", "tables.csv tables.md figures.txt", textFiles(t, arranged(bracketFile()))},
		{"transfer", "tables.csv tables.md figures.txt", textFiles(t, of(transferFile()))},
		{"seeded", "tables.csv tables.md tables.tex suite.html figures.txt", textFiles(t, of(seeded()))},
	} {
		for _, name := range strings.Fields(c.names) {
			got := c.files[name]
			switch name {
			case "suite.html":
				got = sectionOf(t, c.files["report.html"], "suite-", "reading")
			case "section.html":
				got = sectionOf(t, c.files["report.html"], "solver-", "fits")
			case "figures.txt":
				if files := maps.Clone(c.files); c.dir == "" {
					files["solver-real.svg"] = study["solver-real.svg"]
					got = figureTexts(t, files)
				} else {
					got = figureTexts(t, files)
				}
			}
			golden(t, filepath.Join(c.dir, name), got)
		}
	}
}

// Records in another order give the same files. One PNG file of each figure is made again, with
// SELFHEAL_TEST_LARGE all.
func TestSameInputSameBytes(t *testing.T) {
	t.Parallel()
	first, recs := report(t), records(fixture())
	slices.Reverse(recs)
	again, kinds := arranged(fixture(), recs).files(), map[string]bool{}
	if len(first) != len(again) || len(first) <= len(formats) {
		t.Errorf("%d files and %d", len(first), len(again))
	}
	for _, file := range again {
		if strings.ContainsAny(file.name, "/\\ ") {
			t.Errorf("file name %q", file.name)
		}
		if kind, _, _ := strings.Cut(file.name, "-"); strings.HasSuffix(file.name, ".png") {
			if kinds[kind] && !testinput.Large() {
				continue
			}
			kinds[kind] = true
		}
		var sb strings.Builder
		if must.Do(t, file.render(&sb)); first[file.name] != sb.String() {
			t.Errorf("%s differs between two runs", file.name)
		}
	}
}

func TestLittleToShow(t *testing.T) {
	t.Parallel()
	if err := Write(outputs(t.TempDir()), nil, nil, nil); err == nil {
		t.Error("no error without a result")
	}
	for _, f := range []*result.File{
		{},
		{Suites: []result.Suite{{Name: "planned", Models: []string{"m"}, Controls: []string{"c"},
			Attacks: []string{"a", "b", "c"}}}},
		{Cells: []result.Cell{{ID: cell.Of("s", "m", "none", "none", 0), N: 3, Correct: 2, Accuracy: 2. / 3}}},
		{Suites: []result.Suite{{Name: "a/b"}, {Name: "a b"}, {Name: "A-B"}, {Name: ""}}},
	} {
		dir := t.TempDir()
		if err := Write(outputs(dir), f, nil, nil); err != nil {
			t.Error(err)
		}
		figures, _ := filepath.Glob(filepath.Join(dir, "radar-*.png"))
		drawn := slices.DeleteFunc(view.Of(f).Suites, func(s *view.Suite) bool { return s.Models == nil })
		if len(figures) != len(drawn) {
			t.Errorf("%d figures for %d suites with models", len(figures), len(drawn))
		}
	}
}

func TestWriteError(t *testing.T) {
	t.Parallel()
	blocked := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(blocked, "tables.csv"), 0o777))
	must.Refuse(t, Write(outputs(blocked), &result.File{}, nil, nil), "tables.csv")
}

// The paper's numbers are a report like a run's, with a radar plot of a network of each data set.
func TestPublishedPaper(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, WritePublished(outputs(dir)))
	files := folder(t, dir)
	for _, network := range []string{"RN-18", "WRN-76-10", "EfficientNet-b0"} {
		if files["radar-"+network+".png"] == "" || files["radar-"+network+".svg"] == "" {
			t.Errorf("no radar of %s", network)
		}
	}
	if numbers := strings.Count(files["tables.csv"], "\n") - 1; numbers != 250 {
		t.Errorf("%d numbers", numbers)
	}
	for _, none := range []string{"NaN", "all attacks together", "beside what was run"} {
		if strings.Contains(files["tables.md"], none) {
			t.Errorf("published tables say %q", none)
		}
	}
}

// The committed runs of the paper's tables stand beside its pairs, those of another network only where nothing else was
// run, and those of another attacker not at all.
func TestPublishedBesideRuns(t *testing.T) {
	t.Parallel()
	var runs []*result.File
	for _, of := range []string{"rn-18/standard", "rn-18/robust", "rn-18/denoised-100", "rn-18/denoised",
		"rn-18/white-box", "tiny-imagenet/table4"} {
		file, err := result.Read(filepath.Join("../docs/paper", of, "results.json"))
		must.Do(t, err)
		runs = append(runs, file)
	}
	count := func() (own, other int) {
		for _, s := range view.Paper(runs...).Suites {
			for _, p := range s.Repeated {
				switch {
				case p.Ours[1] == nil:
				case p.Other == "":
					own++
				default:
					other++
				}
			}
		}
		return own, other
	}
	if own, other := count(); own != 27 || other != 0 {
		t.Errorf("%d pairs on the paper's architectures and %d on others", own, other)
	}
	must.Have(t, markdownForm.render(newPage(view.Paper(runs...), nil)), // more images come before another version
		"PGD ℓ∞ (8/255) | 51.66 / 51.82 | 44.80 / 41.60 ", "AA ℓ∞ (8/255) | 48.72 / 48.77 | 41.10 / 36.90 ",
		"4 of 20 pairs run on the paper's architecture", "RN-50 from the blocks of an RN-34")
	robust := runs[1]
	robust.Suites[0].Models[0] = "small"
	for i := range robust.Cells {
		if robust.Cells[i].Suite == robust.Suites[0].Name {
			robust.Cells[i].Model = "small"
		}
	}
	if own, other := count(); own != 23 || other != 20 { // it stands in for each network of Table 2's second half
		t.Errorf("%d pairs on the paper's architectures and %d on others", own, other)
	}
	runs[0].Suites[0].Mode = result.WhiteboxThrough
	if own, _ := count(); own != 19 {
		t.Errorf("%d pairs, of an attacker who knew the control too", own)
	}
}

// A run ends with the numbers that most people want, in words.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const unbounded = ", which bounds no attacker who knows the control"
	one := fixture()
	one.Suites = one.Suites[:1]
	one.Cells = slices.DeleteFunc(one.Cells, func(c result.Cell) bool { return c.Suite != "real" })
	one.Attacks = map[string]result.Attack{"aa-l1": {Title: "AutoAttack (standard)", Version: "standard"}}
	two := fixture()
	kept := []string{"real", "through"}
	two.Suites = slices.DeleteFunc(two.Suites, func(s result.Suite) bool { return !slices.Contains(kept, s.Name) })
	two.Cells = slices.DeleteFunc(two.Cells, func(c result.Cell) bool { return !slices.Contains(kept, c.Suite) })
	two.Suites[0].Models = append(two.Suites[0].Models, "other")
	certified, _ := certifiedFile(false)
	clean := seeded()
	clean.Cells = slices.DeleteFunc(clean.Cells, func(c result.Cell) bool { return c.Attack != "none" })
	for name, test := range map[string]struct {
		of   *result.File
		want []string
	}{
		"attacked": {one, []string{
			"robust accuracy 4.0 % [2.0, 7.7] under AutoAttack standard, ℓ1 12, 200 images",
			"robust accuracy 33.0 % [26.9, 39.8] with pca under AutoAttack standard, ℓ1 12, 200 images, " +
				"oblivious" + unbounded}},
		"several suites and models": {two, []string{
			"real: robust accuracy 4.0 % [2.0, 7.7] of resnet-2b under aa-l1, ℓ1 12, 200 images",
			"real: robust accuracy 33.0 % [26.9, 39.8] of resnet-2b with pca under aa-l1, ℓ1 12, 200 images, " +
				"oblivious" + unbounded,
			"through: robust accuracy 29.5 % [23.6, 36.2] of resnet-2b under aa-l2, ℓ2 0.5, 200 images",
			"through: robust accuracy 24.5 % [19.1, 30.9] of resnet-2b with pca under PGD-40, 2 restarts, ℓ∞ 8/255, " +
				"200 images, whitebox-through"}},
		"corrupted": {corruptedFile(), []string{"mean accuracy 55.0 % under 2 of 15 corruptions, 4 images",
			"mean accuracy 80.0 % with heal under 2 of 15 corruptions, 4 images"}},
		"certified": {certified, []string{
			"certified accuracy 25.0 % [4.6, 69.9] by Smoothing, σ = 0.25, ℓ2 0.5, 4 images",
			"certified accuracy 75.0 % [30.1, 95.4] with heal by Smoothing, σ = 0.25, ℓ2 0.5, 4 images"}},
		"bounded": {boundedFile(), []string{"robust accuracy 25.0 % [4.6, 69.9] under pgd, ℓ∞ 0.25, 4 images"}},
		"transfer": {transferFile(), []string{
			"robust accuracy 0.0 % [0.0, 49.0] of mine under PGD-20 made on mine, ℓ∞ 4/255, 4 images",
			"robust accuracy 25.0 % [4.6, 69.9] of mine with heal under PGD-20 made on mine, ℓ∞ 4/255, 4 images, " +
				"transfer"}},
		"seeded": {seeded(), []string{"robust accuracy 26.7 ± 20.8 % under square, ℓ∞ 8/255, 10 images",
			"robust accuracy 43.3 ± 5.8 % with c under square, ℓ∞ 8/255, 10 images, " +
				"oblivious" + unbounded}},
		"clean": {clean, []string{"clean accuracy 100.0 % [72.2, 100.0], 10 images",
			"clean accuracy 90.0 % [59.6, 98.2] with c, 10 images"}},
		"nothing": {&result.File{}, nil},
	} {
		if got := Answers(test.of); !slices.Equal(got, test.want) {
			t.Errorf("%s: %s\nwant %s", name, strings.Join(got, "\n"), strings.Join(test.want, "\n"))
		}
	}
}
