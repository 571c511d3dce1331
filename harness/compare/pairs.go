package compare

import (
	"slices"
	"strings"
	"time"

	"selfheal/harness/stats"
)

// Pair is any two entries of a group, beside each other.
type Pair struct {
	A int `json:"a"` // the one that stands higher
	B int `json:"b"`
	// Attacks are the columns that Robust is over: those of the ranking where both have them, else the attacks that
	// both have. An image counts where an entry is right under every one.
	Attacks []int `json:"attacks"`
	Robust  *Test `json:"robust,omitempty"`
	Clean   *Test `json:"clean,omitempty"`
	// Corrupted is over the corruptions that both have.
	Corrupted *Sign  `json:"corrupted,omitempty"`
	Why       string `json:"not_comparable,omitempty"` // why Robust is absent
}

// Test is the exact test of McNemar on the images that two entries have in common.
type Test struct {
	Shared     int        `json:"shared"`     // images
	OnlyA      int        `json:"only_a"`     // of them, that A alone is right on
	OnlyB      int        `json:"only_b"`     // that B alone is right on
	Difference float64    `json:"difference"` // accuracy of A less that of B on them, in [−1, 1]
	Interval   [2]float64 `json:"interval"`   // of the difference, 95 % (Tango)
	Chance
}

// Chance is how probable a difference at least as large is where there is none.
type Chance struct {
	P float64 `json:"p"` // two-sided
	// Holm is P corrected for all tests of its kind in the group: pairs under attack, on clean images and under
	// corruptions, and steps of histories are a kind each.
	Holm        float64 `json:"p_holm"`
	Significant bool    `json:"significant"` // p_holm is at most alpha
}

// Series is what became of one model, under one control and before one attacker, from run to run.
type Series struct {
	Model    string  `json:"model"`
	Defense  string  `json:"defense"`
	Attacker string  `json:"attacker"`
	Dataset  string  `json:"dataset"`
	Points   []Point `json:"points"` // by time
	Lines    []Line  `json:"lines"`  // clean images and attacks; corruptions where there are no attacks
}

// Point is a run of a history.
type Point struct {
	Entry   int       `json:"entry"`
	Run     string    `json:"run"`
	Created time.Time `json:"created"`
	SHA256  string    `json:"sha256,omitempty"` // of the model's file
}

// Line is a history's accuracy in one column, which two of its points have at least.
type Line struct {
	Column int    `json:"column"`
	Steps  []Step `json:"steps"`
}

// Step leads from one point that has the column to the next. A is the later one: a positive difference is a rise.
type Step struct {
	From int   `json:"from"` // places in the history's points
	To   int   `json:"to"`
	Test *Test `json:"test,omitempty"` // absent where the two have no image in common
}

// test counts what two entries are right on; nil where they have no image in common.
func test(a, b verdicts) *Test {
	shared, onlyA, onlyB := a.against(b)
	if shared == 0 {
		return nil
	}
	p := stats.Paired{N: shared, Lost: onlyA, Won: onlyB}
	_, twoSided := stats.McNemar(onlyA, onlyB)
	return &Test{Shared: shared, OnlyA: onlyA, OnlyB: onlyB, Difference: p.Drop(), Interval: p.Interval(0.95),
		Chance: Chance{P: twoSided}}
}

// corrected gives tests of one kind their corrected values.
func corrected(tests []*Chance) {
	values := make([]float64, len(tests))
	for i, t := range tests {
		values[i] = t.P
	}
	for i, p := range stats.Holm(values) {
		tests[i].Holm, tests[i].Significant = p, p <= Alpha
	}
}

// test tests every pair of entries.
func (g *Group) test() {
	g.Pairs = []Pair{}
	by := map[string][]verdicts{} // of every entry that has the columns
	over := func(e int, columns []int) verdicts {
		key := string(encoded(columns))
		if by[key] == nil {
			by[key] = make([]verdicts, len(g.Entries))
		}
		if v := by[key]; v[e].known == nil {
			v[e] = g.verdicts(&g.Entries[e], columns)
		}
		return by[key][e]
	}
	counts := map[string][]int{}
	var robust, clean, corrupted []*Chance
	for b := range g.Entries {
		for a := range b {
			p := Pair{A: a, B: b, Attacks: g.common(a, b, Column.adversarial)}
			if g.Entries[a].Worst != nil && g.Entries[b].Worst != nil {
				p.Attacks = g.RankedBy
			}
			if len(p.Attacks) == 0 {
				p.Why = "no attack in common"
			} else if p.Robust = test(over(a, p.Attacks), over(b, p.Attacks)); p.Robust == nil {
				p.Why = "no image in common"
			} else {
				robust = append(robust, &p.Robust.Chance)
			}
			if g.clean(&g.Entries[a]) != nil && g.clean(&g.Entries[b]) != nil {
				if p.Clean = test(over(a, []int{0}), over(b, []int{0})); p.Clean != nil {
					clean = append(clean, &p.Clean.Chance)
				}
			}
			if p.Corrupted = g.sign(a, b, counts); p.Corrupted != nil {
				corrupted = append(corrupted, &p.Corrupted.Chance)
			}
			g.Pairs = append(g.Pairs, p)
		}
	}
	corrected(robust)
	corrected(clean)
	corrected(corrupted)
	for i := range g.Entries {
		if e := &g.Entries[i]; e.Worst != nil {
			e.Open = [2]int{1, 0}
			for k := range g.Entries {
				if o := &g.Entries[k]; o.Worst != nil && g.Rivals(e, o) {
					e.Open[1]++
				}
			}
		}
	}
	for _, p := range g.Pairs {
		if a, b := &g.Entries[p.A], &g.Entries[p.B]; a.Worst != nil && b.Worst != nil && g.Rivals(a, b) &&
			p.Robust != nil && p.Robust.Significant {
			if p.Robust.Difference < 0 { // on the images in common it is the other way round
				a, b = b, a
			}
			a.Open[1]--
			b.Open[0]++
		}
	}
}

// encoded are columns as the key of a map.
func encoded(columns []int) (key []rune) {
	for _, c := range columns {
		key = append(key, rune(c))
	}
	return key
}

// common are the columns of a kind that two entries have.
func (g *Group) common(a, b int, kind func(Column) bool) []int {
	by := []int{}
	for i, c := range g.Columns {
		if both := []int{i}; kind(c) && g.Entries[a].has(both) && g.Entries[b].has(both) {
			by = append(by, i)
		}
	}
	return by
}

// follow finds what several runs have tested: the same names before the same attacker.
func (g *Group) follow() {
	g.History = []Series{}
	type key struct{ model, defense, attacker, dataset string }
	of := map[key][]int{}
	var order []key
	for i, e := range g.Entries {
		k := key{e.Model, e.Defense, e.Attacker, e.Dataset}
		if of[k] == nil {
			order = append(order, k)
		}
		of[k] = append(of[k], i)
	}
	slices.SortFunc(order, func(a, b key) int {
		return strings.Compare(strings.Join([]string{a.model, a.defense, a.attacker, a.dataset}, "\n"),
			strings.Join([]string{b.model, b.defense, b.attacker, b.dataset}, "\n"))
	})
	var steps []*Chance
	for _, k := range order {
		s := Series{Model: k.model, Defense: k.defense, Attacker: k.attacker, Dataset: k.dataset}
		for _, i := range of[k] {
			e := g.Entries[i]
			s.Points = append(s.Points, Point{i, e.Run, e.created, e.SHA256})
		}
		slices.SortStableFunc(s.Points, func(a, b Point) int {
			if d := a.Created.Compare(b.Created); d != 0 {
				return d
			}
			return strings.Compare(a.Run, b.Run)
		})
		for c, col := range g.Columns {
			if col.corrupted() { // they are many, and would take the tests of attacks their power
				continue
			}
			line := Line{Column: c}
			last := -1
			for to, p := range s.Points {
				if g.Entries[p.Entry].Cells[c].Score == nil {
					continue
				}
				if last >= 0 {
					now, before := g.Entries[p.Entry], g.Entries[s.Points[last].Entry]
					t := test(g.verdicts(&now, []int{c}), g.verdicts(&before, []int{c}))
					if line.Steps = append(line.Steps, Step{last, to, t}); t != nil {
						steps = append(steps, &t.Chance)
					}
				}
				last = to
			}
			if line.Steps != nil {
				s.Lines = append(s.Lines, line)
			}
		}
		if s.Lines != nil {
			g.History = append(g.History, s)
		}
	}
	corrected(steps)
}
