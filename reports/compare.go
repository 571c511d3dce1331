package reports

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"selfheal/harness/compare"
	"selfheal/internal/input"
)

// comparison is a comparison of runs as it is read.
type comparison struct {
	*compare.Comparison
	Groups []*group
}

// group is one of its tables.
type group struct {
	compare.Group
	Slug  string // for anchors and file names
	heads []head
	runs  int // that it has entries of
	// labels are the entries' keys and names, and what else tells them from those of the same name.
	labels []string
}

// head is what stands under one heading: a column, or all corruptions together.
type head struct {
	Title   string
	columns []int
}

func newComparison(c *compare.Comparison) *comparison {
	out, slugs := &comparison{Comparison: c}, map[string]bool{}
	for _, of := range c.Groups {
		g := &group{Group: of, Slug: uniqueSlug(of.Name, slugs), labels: entryLabels(of.Entries)}
		g.runs = len(distinct(g.Entries, func(e compare.Entry) string { return e.Run }))
		for i, c := range g.Columns {
			if c.Variant != "" {
				last := len(g.heads) - 1
				if last < 0 || !strings.HasPrefix(g.heads[last].Title, corruptionsHead) {
					g.heads, last = append(g.heads, head{Title: corruptionsHead}), last+1
				}
				g.heads[last].columns = append(g.heads[last].columns, i)
				continue
			}
			g.heads = append(g.heads, head{g.attack(i), []int{i}})
		}
		out.Groups = append(out.Groups, g)
	}
	return out
}

const corruptionsHead = "Corruptions, mean"

// WriteCompare renders a comparison into dir, which is made when it does not exist: compare.json, compare.md,
// compare.html (one file, figures inside, nothing fetched) and the figures as compare-FIGURE-GROUP.png and .svg.
// Nothing is written before everything is rendered, and each file appears whole or not at all.
func WriteCompare(dir string, of *compare.Comparison) error {
	files := newComparison(of).files()
	old, err := compareFiles(dir)
	if err == nil {
		err = writeFiles(dir, files)
	}
	if err != nil {
		return err
	}
	for _, name := range old { // figures of an earlier comparison
		if !slices.ContainsFunc(files, func(f file) bool { return f.name == name }) {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return fmt.Errorf("reports: %w", err)
			}
		}
	}
	return nil
}

// files are what c is rendered as.
func (c *comparison) files() []file {
	files := []file{{"compare.json", c.json}, {"compare.md", c.markdown}, {"compare.html", c.html}}
	for _, g := range c.Groups {
		if f := g.scatter(inFile(1, false)); f.Panels != nil {
			f.Head = []string{"Clean and robust accuracy", g.Heading()}
			files = append(files, f.files("compare-scatter-"+g.Slug)...)
		}
		for i, f := range g.Histories() {
			files = append(files, f.files(fmt.Sprintf("compare-history-%s-%d", g.Slug, i+1))...)
		}
	}
	return files
}

// compareFiles lists the files in a folder that have names of a comparison's.
func compareFiles(dir string) (found []string, err error) {
	for _, pattern := range []string{"compare.json", "compare.md", "compare.html", "compare-scatter-*.png",
		"compare-scatter-*.svg", "compare-history-*.png", "compare-history-*.svg"} {
		names, err := fs.Glob(os.DirFS(dir), pattern)
		if err != nil {
			return nil, fmt.Errorf("reports: %s: %w", dir, err)
		}
		found = append(found, names...)
	}
	return found, nil
}

// CompareMay is an error for a folder with files of a comparison's names that are none's: there is no compare.json of
// this program beside them.
func CompareMay(dir string) error {
	found, err := compareFiles(dir)
	if err != nil || len(found) == 0 {
		return err
	}
	var known struct {
		Schema string `json:"schema"`
	}
	data, err := input.Read(filepath.Join(dir, "compare.json"), mostComparison)
	if err == nil && json.Unmarshal(data, &known) == nil && known.Schema == compare.Schema {
		return nil
	}
	return fmt.Errorf("%s holds %s, which selfheal compare did not write", dir, found[0])
}

// mostComparison bounds a compare.json, in bytes.
const mostComparison = 1 << 30

// WriteCompareTables writes what a comparison comes to: aligned for a terminal, else as Markdown.
func WriteCompareTables(w io.Writer, of *compare.Comparison, terminal bool) error {
	c, f := newComparison(of), markdownForm
	if terminal {
		f = plainForm
	}
	return c.write(w, f, false)
}

func (c *comparison) json(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(c.Comparison)
}

func (c *comparison) markdown(w io.Writer) error { return c.write(w, markdownForm, true) }

func (c *comparison) html(w io.Writer) error { return writePage(w, "compare.html.tmpl", c) }

// write writes the tables in a form, all of them or those that a terminal has room for.
func (c *comparison) write(w io.Writer, f form, all bool) error {
	var sb strings.Builder
	sb.WriteString(f.heading(1, f.escape(c.Title())) + "\n")
	for _, n := range c.Notes {
		sb.WriteString("\n" + f.escape(clean(n)) + ".\n")
	}
	for _, g := range c.Groups {
		fmt.Fprintf(&sb, "\n%s\n\n%s\n", f.heading(2, f.escape(g.Heading())), f.escape(g.RankedBy()))
		tables := append(append([]table{g.RankTable(), g.MatrixTable()}, g.HistoryTables()...), g.CorruptionTable())
		if all {
			tables = append(tables, g.PairTable(), g.AttackTable())
		}
		for _, t := range tables {
			f.table(&sb, t)
		}
	}
	if all {
		f.table(&sb, c.RunTable())
	}
	_, err := io.WriteString(w, sb.String())
	return err
}

// Title says how many runs.
func (c *comparison) Title() string {
	if len(c.Runs) == 1 {
		return "selfheal: one run, its models beside each other"
	}
	return fmt.Sprintf("selfheal: %d runs beside each other", len(c.Runs))
}

// Headline counts what is compared.
func (c *comparison) Headline() string {
	entries, pairs := 0, 0
	for _, g := range c.Groups {
		entries, pairs = entries+len(g.Entries), pairs+g.Tested
	}
	return fmt.Sprintf("%s, %s, %s tested on shared images", plural(len(c.Runs), "run"), plural(entries,
		"model with or without a control", "models, each with or without a control"), plural(pairs, "pair"))
}

// Heading is the data sets' name and how many images there are.
func (g *group) Heading() string { return clean(g.Name) + ", " + plural(g.Images, "image") }

// attack is the heading of a column.
func (g *group) attack(i int) string {
	c := g.Columns[i]
	norm := ""
	if c.Norm != nil {
		norm = *c.Norm
	}
	out := column{Attack: c.Attack, Epsilon: c.Epsilon, norm: norm, recipe: c.Recipe, title: c.Title}.Title()
	if c.Variant != "" {
		corruption, severity, _ := strings.Cut(c.Variant, ":")
		out = corruptionTitle(corruption) + " " + clean(severity)
	}
	if c.Apart != "" {
		out += ", " + clean(c.Apart)
	}
	return out
}

// attacks are the headings of columns.
func (g *group) attacks(columns []int) (out []string) {
	for _, c := range columns {
		out = append(out, g.attack(c))
	}
	return out
}

// RankedBy says what the ranking is by.
func (g *group) RankedBy() string {
	by := g.Group.RankedBy
	out := "Ranked by accuracy under " + strings.Join(g.attacks(by), "")
	if len(by) == 1 && g.Columns[by[0]].Attack == "none" {
		out = "Ranked by accuracy on clean images, as no attack was run"
	} else if len(by) > 1 {
		out = "Ranked by worst: the share of images that a line is right on under every one of " +
			some(g.attacks(by))
	}
	if unranked := len(g.Entries) - g.ranked(); unranked > 0 {
		out += fmt.Sprintf("; %s not have all of that, and no rank", plural(unranked, "line does", "lines do"))
	}
	return out + "."
}

// ranked is how many entries have a rank: they come first.
func (g *group) ranked() int {
	return countOf(g.Entries, func(e compare.Entry) bool { return e.Rank > 0 })
}

// key is a letter for the i-th entry: A to Z, then AA.
func key(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return key(i/26-1) + key(i%26)
}

// name is an entry in words: the model and its control.
func name(e compare.Entry) string {
	if e.Defense == "none" {
		return clean(e.Model)
	}
	return clean(e.Model) + " · " + clean(e.Defense)
}

// entryLabels makes the labels of all entries.
func entryLabels(entries []compare.Entry) []string {
	same, labels := map[string][]compare.Entry{}, make([]string, len(entries))
	for _, e := range entries {
		same[name(e)] = append(same[name(e)], e)
	}
	for i, e := range entries {
		named := name(e)
		several := func(like func(compare.Entry) bool) bool { return countOf(same[named], like) > 1 }
		labels[i] = key(i) + "  " + named
		if several(func(o compare.Entry) bool { return o.Attacker != e.Attacker || o.Run == e.Run }) {
			labels[i] += ", " + e.Attacker
		}
		if several(func(o compare.Entry) bool { return o.Attacker == e.Attacker }) {
			labels[i] += ", " + clean(e.Run)
		}
	}
	return labels
}

// countOf counts what holds of a list.
func countOf[T any](list []T, holds func(T) bool) (n int) {
	for _, v := range list {
		if holds(v) {
			n++
		}
	}
	return n
}
