package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"selfheal/harness/cell"
	"selfheal/harness/stats"
	"selfheal/internal/lists"
)

// Pair compares two entries of a group.
type Pair struct {
	A int `json:"a"` // index of the higher one
	B int `json:"b"`
	// Attacks are the columns of Robust: those of the ranking if both entries have them, else the attacks that both
	// have. An image counts if an entry is right under every one.
	Attacks []int `json:"attacks"`
	Robust  *Test `json:"robust,omitempty"`
	Clean   *Test `json:"clean,omitempty"`
	// Corrupted covers the corruptions that both have.
	Corrupted *Sign  `json:"corrupted,omitempty"`
	Why       string `json:"not_comparable,omitempty"` // why Robust is absent
}

// Test is McNemar's exact test on the images that two entries have in common.
type Test struct {
	Shared     int        `json:"shared"`     // number of images
	OnlyA      int        `json:"only_a"`     // images that only A gets right
	OnlyB      int        `json:"only_b"`     // images that only B gets right
	Difference float64    `json:"difference"` // accuracy of A minus accuracy of B on them, in [−1, 1]
	Interval   [2]float64 `json:"interval"`   // 95 % interval of the difference (Tango)
	// Agreeing is the same interval at the level of the test's step in Holm's correction, 95 % for a single test. It
	// contains 0 exactly if the difference is not significant.
	Agreeing [2]float64 `json:"interval_holm,omitempty"`
	Chance
}

// Chance is the probability of a difference at least as large if there is none.
type Chance struct {
	P float64 `json:"p"` // two-sided
	// Holm is P corrected for all tests of its kind in the group. The kinds are pairs under attack, pairs on clean
	// images, pairs under corruptions, and steps of histories.
	Holm        float64 `json:"p_holm"`
	Significant bool    `json:"significant"` // p_holm is at most alpha
}

// Series is the history of one model, under one control and against one attacker, over several runs.
type Series struct {
	cell.Row
	Attacker string  `json:"attacker"`
	Points   []Point `json:"points"` // by time
	Lines    []Line  `json:"lines"`  // clean images and attacks; corruptions if there are no attacks
}

// Point is one run of a history.
type Point struct {
	Entry   int       `json:"entry"`
	Run     string    `json:"run"`
	Created time.Time `json:"created"`
	SHA256  string    `json:"sha256,omitempty"` // of the model's file
}

// Line is a history's accuracy in one column, which at least two of its points have.
type Line struct {
	Column int    `json:"column"`
	Steps  []Step `json:"steps"`
}

// Step compares one point of the column with the next. A is the later one: a positive difference is a rise.
type Step struct {
	From int   `json:"from"` // indices of the history's points
	To   int   `json:"to"`
	Test *Test `json:"test,omitempty"` // absent if the two have no image in common
}

// test tests counts in a family. done is called with the corrected p.
func (c *Chance) test(counts stats.Paired, family *stats.Family, done func(corrected float64)) {
	c.P = counts.McNemar()
	family.Add(c.P, func(p float64) {
		c.Holm, c.Significant = p, p <= Alpha
		done(p)
	})
}

// test compares the verdicts of two entries. It returns nil if they have no image in common.
func test(a, b verdicts, family *stats.Family) *Test {
	p := a.against(b)
	if p.N == 0 {
		return nil
	}
	t := &Test{Shared: p.N, OnlyA: p.Lost, OnlyB: p.Won, Difference: p.Drop(), Interval: p.Interval(0.95)}
	t.test(p, family, func(corrected float64) { t.Agreeing = p.Agreeing(corrected, Alpha) })
	return t
}

func (g *Group) test() {
	g.Pairs = []Pair{}
	over, counts := cached(g.verdicts), cached(g.counts)
	var robust, clean, corrupted stats.Family
	for b := range g.Entries {
		for a := range b {
			p := Pair{A: a, B: b, Attacks: g.common(a, b, Column.adversarial)}
			if g.Entries[a].Worst != nil && g.Entries[b].Worst != nil {
				p.Attacks = g.RankedBy
			}
			if len(p.Attacks) == 0 {
				p.Why = "no attack in common"
			} else if p.Robust = test(over(a, p.Attacks), over(b, p.Attacks), &robust); p.Robust == nil {
				p.Why = "no image in common"
			}
			if columns := g.common(a, b, Column.clean); len(columns) > 0 {
				p.Clean = test(over(a, columns), over(b, columns), &clean)
			}
			if columns := g.common(a, b, Column.corrupted); len(columns) > 0 {
				p.Corrupted = sign(counts(a, columns), counts(b, columns), len(columns), &corrupted)
			}
			g.Pairs = append(g.Pairs, p)
		}
	}
	for _, family := range []stats.Family{robust, clean, corrupted} {
		family.Holm()
	}
	g.Tested = len(robust)
}

// rank sets the entries' ranks and the ranks that the tests leave open.
func (g *Group) rank() {
	for _, p := range g.Pairs {
		a, b := &g.Entries[p.A], &g.Entries[p.B]
		if a.Worst != nil && b.Worst != nil && g.Rivals(a, b) {
			a.Place.above(&b.Place, p.Robust)
		}
	}
}

// above updates two places of a ranking, of which the other has no higher score, by their test.
func (a *Place) above(b *Place, t *Test) {
	if a.Worst.Accuracy > b.Worst.Accuracy { // otherwise they have the same rank
		b.Rank++
	}
	if t == nil || !t.Significant {
		a.Open[1]++
	} else {
		if t.Difference < 0 { // on the images in common the order is reversed
			a, b = b, a
		}
		b.Open[0]++
	}
	b.Open[1]++
}

// cached remembers the results of a function of an entry and columns.
func cached[T any](of func(entry int, columns []int) T) func(int, []int) T {
	known := map[string]T{}
	return func(entry int, columns []int) T {
		key := fmt.Sprint(entry, columns)
		v, ok := known[key]
		if !ok {
			v = of(entry, columns)
			known[key] = v
		}
		return v
	}
}

// common returns the columns of a kind that two entries have.
func (g *Group) common(a, b int, kind func(Column) bool) []int {
	return lists.Indices(len(g.Columns), func(i int) bool {
		return kind(g.Columns[i]) && g.Entries[a].Cells[i].Score != nil && g.Entries[b].Cells[i].Score != nil
	})
}

// follow finds entries of several runs with the same names and the same attacker.
func (g *Group) follow() {
	g.History = []Series{}
	type key struct {
		cell.Row
		attacker string
	}
	of := map[key][]Point{}
	for i, e := range g.Entries {
		k := key{e.Row, e.Attacker}
		of[k] = append(of[k], Point{i, e.Run, e.set.run.Created, e.SHA256})
	}
	var steps stats.Family
	for _, k := range slices.SortedFunc(maps.Keys(of), func(a, b key) int {
		return cmp.Or(cell.CompareRows(a.Row, b.Row), strings.Compare(a.attacker, b.attacker))
	}) {
		s := Series{Row: k.Row, Attacker: k.attacker, Points: of[k]}
		slices.SortStableFunc(s.Points, func(a, b Point) int {
			return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Run, b.Run))
		})
		for c, col := range g.Columns {
			if col.corrupted() { // many columns would cost the tests of attacks their power
				continue
			}
			if line := g.line(c, s.Points, &steps); line.Steps != nil {
				s.Lines = append(s.Lines, line)
			}
		}
		if s.Lines != nil {
			g.History = append(g.History, s)
		}
	}
	steps.Holm()
	g.Steps = len(steps)
}

// line tests each of a history's points that have a column against the one before it.
func (g *Group) line(column int, points []Point, family *stats.Family) Line {
	line, last, before := Line{Column: column}, -1, verdicts{}
	for to, p := range points {
		if g.Entries[p.Entry].Cells[column].Score == nil {
			continue
		}
		now := g.verdicts(p.Entry, []int{column})
		if last >= 0 {
			line.Steps = append(line.Steps, Step{last, to, test(now, before, family)})
		}
		last, before = to, now
	}
	return line
}
