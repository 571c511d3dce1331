// Package compare compares the results of many runs. It ranks the entries, tests any two on the images that both
// have, and follows over time what was tested again; docs/compare.md explains the methods. The caller reads the runs
// and calls [Of] once. The package reads no files, needs no ONNX Runtime, and gives the same comparison for the same
// runs.
package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/lists"
)

// Schema names the version of a comparison's layout as JSON.
const Schema = "selfheal.compare/1"

// Alpha is the level of every test: within a family of tests, the probability of any wrong difference is at most
// this.
const Alpha = 0.05

// mostEntries bounds the entries of a group, as their pairs grow with the square.
const mostEntries = 400

// Comparison is compare.json. Entries and columns are named by their index in their group's lists, from 0.
type Comparison struct {
	Schema string   `json:"schema"`
	Alpha  float64  `json:"alpha"`  // level of the tests, after Holm's correction
	Runs   []Run    `json:"runs"`   // in the given order
	Groups []Group  `json:"groups"` // tables of runs with images in common
	Notes  []string `json:"notes"`  // differences between the runs, and what is not compared
}

// Run is the content of one folder.
type Run struct {
	Name       string    `json:"name"`   // the folder's, with as much of its path as distinguishes it
	Folder     string    `json:"folder"` // as given
	Created    time.Time `json:"created"`
	Unfinished bool      `json:"unfinished"` // cells may still be missing
	Seed       uint64    `json:"seed"`
	Selfheal   string    `json:"selfheal"` // the version of selfheal that made the run
	Provider   string    `json:"provider"`
	Precision  string    `json:"precision"`

	File *result.File `json:"-"`
	Path string       `json:"-"` // path of the folder from the root
}

// Group is a table of results on connected images: each set of images shares some with another.
type Group struct {
	Name    string   `json:"name"`   // of its data sets
	Images  int      `json:"images"` // number of different images
	Columns []Column `json:"columns"`
	// RankedBy are the columns of the ranking: an image counts if an entry is right under every one.
	RankedBy []int    `json:"ranked_by"`
	Entries  []Entry  `json:"entries"` // by rank, then entries without rank
	Pairs    []Pair   `json:"pairs"`
	History  []Series `json:"history"`
	// Strengths rank the entries at each norm and epsilon; absent if the attacks have only one.
	Strengths []Strength `json:"strengths,omitempty"`

	Tested int `json:"-"` // number of pairs under attack, for which their p-values are corrected
	Steps  int `json:"-"` // number of steps of histories, likewise

	sets []*set
}

// Entry is a model, undefended or under a control, against one attacker in one run.
type Entry struct {
	Run string `json:"run"`
	cell.Row
	Attacker string `json:"attacker"`         // the suite's mode; whitebox for an undefended network
	SHA256   string `json:"sha256,omitempty"` // of the model's file
	N        int    `json:"n"`
	Place
	Unranked string `json:"unranked,omitempty"` // why it has no rank
	Cells    []Cell `json:"cells"`              // one for each column

	set   *set
	found map[string]*result.Cell // by the column's key
}

// Place is an entry's place in a ranking.
type Place struct {
	// Rank counts from 1 and is the same for equals; 0 for none. Entries whose attacker did not know the control have
	// a ranking of their own.
	Rank int `json:"rank"`
	// Open are the best and the worst rank that the tests leave open; 0 for an entry without a rank.
	Open  [2]int `json:"open"`
	Worst *Score `json:"worst,omitempty"` // score of the ranking; absent without a rank
}

// Cell is an entry's result in one column.
type Cell struct {
	Score   *Score `json:"score,omitempty"`
	Missing string `json:"missing,omitempty"` // why there is no score: not run, not yet, failed
	Seed    uint64 `json:"seed"`              // of the attack

	verdicts string
}

// Score is an accuracy over an entry's own images.
type Score struct {
	N        int        `json:"n"`
	Correct  int        `json:"correct"`
	Accuracy float64    `json:"accuracy"`
	CI95     [2]float64 `json:"ci95"` // 95 % interval (Wilson)
}

// Of compares runs. Folder, Path, File and Unfinished of each must be set.
func Of(runs []Run) (*Comparison, error) {
	c := &Comparison{Schema: Schema, Alpha: Alpha, Runs: slices.Clone(runs), Groups: []Group{}, Notes: []string{}}
	c.named()
	for _, group := range grouped(setsOf(c.Runs)) {
		if err := group.fill(); err != nil {
			return nil, err
		}
		c.Groups = append(c.Groups, *group)
	}
	if len(c.Groups) == 0 {
		return nil, fmt.Errorf("%s: no cell is finished, there is nothing to compare yet", runs[0].Folder)
	}
	slices.SortStableFunc(c.Groups, func(a, b Group) int {
		return cmp.Or(len(b.Entries)-len(a.Entries), strings.Compare(a.Name, b.Name), b.Images-a.Images,
			strings.Compare(a.Entries[0].Run, b.Entries[0].Run))
	})
	c.notes()
	return c, nil
}

// named fills in the runs' descriptions from their files, and gives each a short distinct name.
func (c *Comparison) named() {
	parts := make([][]string, len(c.Runs))
	for i := range c.Runs {
		r := &c.Runs[i]
		r.Created, r.Seed = r.File.Created, r.File.Seed
		r.Selfheal, r.Provider, r.Precision = r.File.Environment.Selfheal, r.File.Environment.Provider,
			r.File.Environment.Precision
		parts[i] = strings.FieldsFunc(r.Path, func(c rune) bool { return c == '/' || c == '\\' })
	}
	last := func(n int, of []string) string { return strings.Join(of[max(0, len(of)-n):], "/") }
	for i, mine := range parts {
		n := 1
		for n < len(mine) && slices.ContainsFunc(parts, func(o []string) bool {
			return !slices.Equal(o, mine) && last(n, o) == last(n, mine)
		}) {
			n++
		}
		c.Runs[i].Name = cmp.Or(last(n, mine), c.Runs[i].Folder)
	}
}

func (g *Group) fill() error {
	found := g.find()
	if len(g.Entries) > mostEntries {
		return fmt.Errorf("%d models and controls of data set %s are more than the %d that can be compared: give "+
			"fewer folders", len(g.Entries), g.Name, mostEntries)
	}
	g.arrange(found)
	g.order()
	g.test()
	g.rank()
	g.follow()
	g.strengths()
	return nil
}

// notes writes the differences between the runs, apart from what was tested.
func (c *Comparison) notes() {
	note := func(format string, args ...any) { c.Notes = append(c.Notes, fmt.Sprintf(format, args...)) }
	for i, r := range c.Runs {
		if r.Unfinished {
			note("%s is not finished: what it lacks is “not yet”", r.Name)
		}
		if len(r.File.Seeds) > 1 {
			note("%s has several seeds: it takes part with the first, %d", r.Name, r.Seed)
		}
		if !slices.ContainsFunc(r.File.Cells, judged) {
			note("%s has no cell with verdicts", r.Name)
		}
		for _, other := range c.Runs[:i] {
			if !r.Created.IsZero() && r.Created.Equal(other.Created) && r.File.ConfigSHA256 == other.File.ConfigSHA256 {
				note("%s and %s hold the same run", min(other.Name, r.Name), max(other.Name, r.Name))
			}
		}
	}
	for _, of := range []struct {
		what string
		say  func(Run) string
	}{
		{"versions of selfheal", func(r Run) string { return r.Selfheal }},
		{"providers", func(r Run) string { return r.Provider }},
		{"precisions", func(r Run) string { return r.Precision }},
	} {
		values := slices.DeleteFunc(lists.Distinct(c.Runs, of.say), func(v string) bool { return v == "" })
		if len(values) > 1 {
			slices.Sort(values)
			note("the runs are of several %s: %s", of.what, strings.Join(values, ", "))
		}
	}
	for i, g := range c.Groups {
		for _, other := range c.Groups[:i] {
			note("%s and %s have no image in common: what was tested on the one is not comparable with what was "+
				"tested on the other", other.Name, g.Name)
		}
	}
	slices.Sort(c.Notes)
}

func judged(c result.Cell) bool { return c.Error == "" && c.N > 0 && len(c.Verdicts) == c.N }
