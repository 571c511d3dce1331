package reports

import (
	"encoding/csv"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/reports/words"
)

// gfmTable is a table as GitHub reads it (GitHub Flavored Markdown 0.29, section 4.10).
type gfmTable struct {
	head []string
	rows [][]string
}

// gfmCells splits a line at every bar that does not follow a backslash; the bars at both ends separate no cells.
func gfmCells(line string) []string {
	line = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|")
	var out []string
	cell := ""
	for i := range len(line) {
		if line[i] == '|' && (i == 0 || line[i-1] != '\\') {
			out, cell = append(out, strings.TrimSpace(cell)), ""
			continue
		}
		cell += line[i : i+1]
	}
	return append(out, strings.TrimSpace(cell))
}

var gfmDelimiter = regexp.MustCompile(`^:?-+:?$`)

// gfmTables finds the tables of a document: a line of cells and a line of delimiters, as many;
// then rows up to an empty line. Each line that looks like a part of a table must be of one.
func gfmTables(t *testing.T, doc string) []gfmTable {
	t.Helper()
	var out []gfmTable
	lines := strings.Split(doc, "\n")
	fenced := false
	for i := 0; i < len(lines); i++ {
		if strings.HasPrefix(lines[i], "```") {
			fenced = !fenced
		}
		if fenced || !strings.HasPrefix(lines[i], "|") {
			continue
		}
		one := gfmTable{head: gfmCells(lines[i])}
		if i == 0 || strings.TrimSpace(lines[i-1]) != "" {
			t.Errorf("a table runs on from the paragraph %q", lines[i-1])
		}
		noDelimiter := func(c string) bool { return !gfmDelimiter.MatchString(c) }
		if i+1 == len(lines) || len(gfmCells(lines[i+1])) != len(one.head) ||
			slices.ContainsFunc(gfmCells(lines[i+1]), noDelimiter) {
			t.Fatalf("line %d begins no table: %s", i+1, lines[i])
		}
		for i += 2; i < len(lines) && strings.TrimSpace(lines[i]) != ""; i++ {
			row := gfmCells(lines[i])
			if len(row) != len(one.head) {
				t.Errorf("line %d: %d cells below %d heads: %s", i+1, len(row), len(one.head), lines[i])
			}
			one.rows = append(one.rows, row)
		}
		out = append(out, one)
	}
	return out
}

var (
	gfmTag    = regexp.MustCompile(`</?[A-Za-z!?/][^>]*>`)
	gfmMark   = regexp.MustCompile(`<sup>([^<]*)</sup>`)
	gfmEscape = regexp.MustCompile("\\\\([!-/:-@\\[-`{-~])")
)

// gfmText returns the text of a cell that a reader sees: without emphasis and footnote marks.
func gfmText(cell string) string {
	cell = regexp.MustCompile(`<sup>[^<]*</sup>`).ReplaceAllString(cell, "")
	cell = strings.ReplaceAll(cell, "**", "")
	return html.UnescapeString(gfmEscape.ReplaceAllString(cell, "$1"))
}

// The text for terminals has every line of the Markdown, without its markup and alignment.
func TestPlainTables(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]*result.File{"fixture": fixture(), "hostile": hostileFile(),
		"compared": compareFixture(), "study": studyFixture()} {
		v := arranged(f, nil)
		words := func(text string) (lines []string) {
			for line := range strings.Lines(strings.ReplaceAll(text, "*", "")) {
				if line = strings.Join(strings.Fields(line), " "); strings.Trim(line, "-=~") != "" {
					lines = append(lines, line)
				}
			}
			return lines
		}
		var md strings.Builder
		for line := range strings.Lines(markdownForm.render(v)) {
			if strings.HasPrefix(line, "|:-") {
				continue
			}
			line = gfmMark.ReplaceAllString(strings.TrimLeft(line, "#"), "[$1]")
			md.WriteString(html.UnescapeString(gfmEscape.ReplaceAllString(strings.ReplaceAll(line, "| ", " "), "$1")))
		}
		want, got := words(strings.ReplaceAll(md.String(), " |\n", "\n")), words(plainForm.render(v))
		if len(want) < 10 || !slices.Equal(got, want) {
			t.Errorf("%s: %s", name, firstDifference(strings.Join(got, "\n"), strings.Join(want, "\n")))
		}
	}
}

// GitHub reads every table of every report as one table, no name acts as markup, and each name can be read back.
func TestMarkdownTables(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]*result.File{"fixture": fixture(), "hostile": hostileFile(),
		"compared": compareFixture(), "study": studyFixture()} {
		files := map[string]string{}
		for _, ft := range formats[:5] {
			files[ft.File] = written(t, ft.Render, arranged(f, nil))
		}
		for _, file := range []string{"tables.md", "summary.md"} {
			doc := files[file]
			found := gfmTables(t, doc)
			if len(found) == 0 {
				t.Errorf("%s of %s has no table", file, name)
			}
			before, _, _ := strings.Cut(doc, "\n```") // the command of a summary is code
			for _, tag := range gfmTag.FindAllString(before, -1) {
				if tag != "<sup>" && tag != "</sup>" {
					t.Errorf("%s of %s has the tag %s", file, name, tag)
				}
			}
			if strings.Contains(strings.ReplaceAll(doc, `\$`, ""), "$") && file == "tables.md" {
				t.Errorf("%s of %s has a dollar, which begins mathematics", file, name)
			}
		}
		var models []string
		for _, table := range gfmTables(t, files["tables.md"]) {
			if i := slices.Index(table.head, "Model"); i >= 0 {
				for _, row := range table.rows {
					models = append(models, gfmText(row[i]))
				}
			}
		}
		for _, s := range f.Suites {
			for _, m := range s.Models {
				single := strings.Join(strings.Fields(words.Clean(m)), " ")
				if !slices.Contains(models, single) && !slices.Contains(models, words.Clean(m)) {
					t.Errorf("%s: no row reads %q", name, words.Clean(m))
				}
			}
		}
	}
}

func summaryOf(t *testing.T, f *result.File) string {
	t.Helper()
	return renderSummary(arranged(f, nil))
}

// However large a run is and whatever its names are, the summary is short.
func TestSummaryIsShort(t *testing.T) {
	t.Parallel()
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

// uninert takes back what inert adds.
func uninert(field string) string {
	if rest, ok := strings.CutPrefix(field, "'"); ok && inert(rest) == field {
		return rest
	}
	return field
}

// Read back, tables.csv holds the cells: names up to control characters, numbers to the last bit.
func TestCSVReadBack(t *testing.T) {
	t.Parallel()
	hostile := hostileFile()
	for i := range hostile.Cells { // names that a spreadsheet would compute, or a quote ends
		c := &hostile.Cells[i]
		c.Dataset = []string{`=HYPERLINK("http://example.org")`, "+1", "-1", "@SUM(A1)", "'text", `a "quoted", name`,
			"two\nlines\tand\ra tab", "=", "'", "＝SUM(A1)", "＠a",
			"\u00a0=1", " ＋1", "－1"}[i%14]
		c.Accuracy, c.Seconds = 1./3, 1e-9
	}
	for name, f := range map[string]*result.File{"fixture": fixture(), "hostile": hostile} {
		rows := must.Get(csv.NewReader(strings.NewReader(written(t, renderCSV, arranged(f, nil)))).ReadAll())(t)
		if len(rows) != 1+len(f.Cells) {
			t.Errorf("%s: %d lines for %d cells", name, len(rows), len(f.Cells))
		}
		at := map[string]int{}
		for i, column := range rows[0] {
			at[column] = i
		}
		key := func(c *result.Cell) string {
			names := []string{c.Suite, c.Dataset, c.Model, c.Defense, c.Mode, c.Attack}
			return words.Clean(fmt.Sprintf("%s", names)) + fmt.Sprint(c.Epsilon)
		}
		cells := map[string]*result.Cell{}
		for i := range f.Cells {
			cells[key(&f.Cells[i])] = &f.Cells[i]
		}
		if len(cells) != len(f.Cells) {
			t.Fatalf("%s: %d names of %d cells", name, len(cells), len(f.Cells))
		}
		for _, row := range rows[1:] {
			number := func(column string) float64 {
				x, err := strconv.ParseFloat(row[at[column]], 64)
				if err != nil {
					t.Fatalf("%s: %s is %q", name, column, row[at[column]])
				}
				return x
			}
			read := &result.Cell{ID: cell.Of(uninert(row[at["suite"]]), uninert(row[at["model"]]),
				uninert(row[at["defense"]]), uninert(row[at["attack"]]), 0).In(uninert(row[at["dataset"]]),
				uninert(row[at["mode"]]))}
			if row[at["epsilon"]] != "" {
				e := number("epsilon")
				read.Epsilon = cell.Epsilon(e)
			}
			c := cells[key(read)]
			if c == nil {
				t.Errorf("%s: no cell is %s", name, key(read))
				continue
			}
			if int(number("n")) != c.N || int(number("correct")) != c.Correct || number("accuracy") != c.Accuracy ||
				number("ci_low") != c.CI95[0] ||
				number("ci_high") != c.CI95[1] || number("max_norm") != c.MaxNorm || number("seconds") != c.Seconds {
				t.Errorf("%s: %s has other numbers: %q", name, key(read), row)
			}
			for column, field := range row {
				if strings.IndexAny(strings.TrimSpace(field), "=+-@＝＋－＠\t\r") == 0 {
					t.Errorf("%s: %s is a formula: %q", name, rows[0][column], field)
				}
			}
			delete(cells, key(read))
		}
		for k := range cells {
			t.Errorf("%s: no line of %s", name, k)
		}
	}
}
