package reports

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/must"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// dataURI matches the pictures in the page: their bytes are compared by structure, elsewhere.
var dataURI = regexp.MustCompile(`(?s)<svg class="fig".*?</svg>`)

// textFiles renders a report, but for its PNG files, which take ten times as long.
func textFiles(t *testing.T, f *result.File, recs []result.Record) map[string]string {
	t.Helper()
	v, files := derive(f), map[string]string{}
	v.addMargins(slices.Values(recs))
	for _, file := range v.files() {
		if !strings.HasSuffix(file.name, ".png") {
			var sb strings.Builder
			must.Do(t, file.render(&sb))
			files[file.name] = sb.String()
		}
	}
	return files
}

// wholeReport writes the fixture's report with these records and returns its files.
func wholeReport(t *testing.T, recs []result.Record) map[string]string {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, Write(dir, fixture(), slices.Values(recs), nil))
	return folder(t, dir)
}

// written is a view as a format writes it.
func written(t *testing.T, how func(w io.Writer, v *view) error, v *view) string {
	t.Helper()
	var sb strings.Builder
	must.Do(t, how(&sb, v))
	return sb.String()
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

func TestGolden(t *testing.T) {
	files := report(t)
	for _, ft := range formats {
		golden(t, ft.File, files[ft.File])
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

func TestSameInputSameBytes(t *testing.T) {
	first, recs := report(t), records(fixture())
	slices.Reverse(recs) // the records' order does not matter
	second := wholeReport(t, recs)
	// All suites have a radar and a waterfall, two curves, two control traces.
	if len(first) != len(formats)+2*6+2*6+2*2+2*2 {
		t.Errorf("%d files", len(first))
	}
	for name, content := range first {
		if second[name] != content {
			t.Errorf("%s differs between two runs", name)
		}
	}
}

func TestNamesAreText(t *testing.T) {
	files := report(t)
	for name, content := range files {
		if slices.Contains([]string{".csv", ".png", ".txt"}, filepath.Ext(name)) {
			continue
		}
		if name == "report.html" { // one script, its own
			content = strings.Replace(content, "<script>"+script+"</script>", "", 1)
		}
		if name != "tables.tex" && strings.Contains(content, "<script") {
			t.Errorf("%s holds a script element", name)
		}
		if strings.Contains(content, "<b>results") && name != "tables.tex" {
			t.Errorf("%s takes a warning's text for markup", name)
		}
		if strings.ContainsAny(name, "/\\ ") {
			t.Errorf("file name %q", name)
		}
	}
}

// fetchesNothing looks for anything in a page that a browser would fetch.
func fetchesNothing(t *testing.T, page string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?:src|srcset|href|action)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(m[1], "data:image/") && !strings.HasPrefix(m[1], "#") {
			t.Errorf("refers to %q", m[1])
		}
	}
	for _, s := range []string{"@import", "url(", "http:", "https:", "<link", "ZgotmplZ"} {
		if strings.Contains(page, s) {
			t.Errorf("holds %s", s)
		}
	}
}

func TestSelfContained(t *testing.T) {
	fetchesNothing(t, report(t)["report.html"])
}

func TestLittleToShow(t *testing.T) {
	if err := Write(t.TempDir(), nil, nil, nil); err == nil {
		t.Error("no error without a result")
	}
	for _, f := range []*result.File{
		{},
		{Suites: []result.Suite{{Name: "planned", Models: []string{"m"}, Controls: []string{"c"},
			Attacks: []string{"a", "b", "c"}}}},
		{Cells: []result.Cell{{Suite: "s", Model: "m", Defense: "none", Attack: "none", N: 3, Correct: 2,
			Accuracy: 2. / 3}}},
		{Suites: []result.Suite{{Name: "a/b"}, {Name: "a b"}, {Name: "A-B"}, {Name: ""}}},
	} {
		dir := t.TempDir()
		if err := Write(dir, f, nil, nil); err != nil {
			t.Error(err)
		}
		figures, _ := filepath.Glob(filepath.Join(dir, "radar-*.png"))
		drawn := slices.DeleteFunc(derive(f).Suites, func(s *suite) bool { return s.Models == nil })
		if len(figures) != len(drawn) {
			t.Errorf("%d figures for %d suites with models", len(figures), len(drawn))
		}
	}
}

func TestWriteError(t *testing.T) {
	blocked := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(blocked, "tables.csv"), 0o777))
	must.Refuse(t, Write(blocked, &result.File{}, nil, nil), "tables.csv")
}
