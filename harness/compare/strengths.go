package compare

import (
	"cmp"
	"slices"

	"selfheal/harness/cell"
	"selfheal/harness/stats"
)

// Strength ranks a group's entries by the attacks of one norm and epsilon.
type Strength struct {
	Norm    string       `json:"norm"`
	Epsilon cell.Epsilon `json:"epsilon"`
	// RankedBy are the columns of the ranking: an image counts if an entry is right under every one.
	RankedBy []int      `json:"ranked_by"`
	Places   []Standing `json:"places"` // by rank, then entries whose attacker did not know the control by theirs
	Tested   int        `json:"tested"` // number of pairs, for which their p-values are corrected
}

// Standing is an entry's place at a strength.
type Standing struct {
	Entry int `json:"entry"`
	Place
	Behind *Test `json:"behind,omitempty"` // the first of its ranking is A, this entry B; absent for the first
}

// strengths fills in the rankings at each strength.
func (g *Group) strengths() {
	g.Strengths = []Strength{}
	for i, c := range g.Columns {
		k := slices.IndexFunc(g.Strengths, func(s Strength) bool {
			return s.Norm == value(c.Norm) && s.Epsilon == c.Epsilon
		})
		switch {
		case !c.adversarial() || c.Norm == nil || c.Epsilon == 0:
		case k < 0:
			g.Strengths = append(g.Strengths, Strength{Norm: *c.Norm, Epsilon: c.Epsilon, RankedBy: []int{i}})
		default:
			g.Strengths[k].RankedBy = append(g.Strengths[k].RankedBy, i)
		}
	}
	if len(g.Strengths) < 2 {
		g.Strengths = g.Strengths[:0]
	}
	for i := range g.Strengths {
		g.Strengths[i].rank(g)
	}
}

// rank ranks the entries that have the columns shared by the most common of the strength's.
func (s *Strength) rank(g *Group) {
	s.RankedBy, s.Places = g.shared(s.RankedBy), []Standing{}
	for i := range g.Entries {
		e := &g.Entries[i]
		if !slices.ContainsFunc(s.RankedBy, func(c int) bool { return e.Cells[c].Score == nil }) {
			s.Places = append(s.Places, Standing{i, Place{1, [2]int{1, 1}, score(e.N, e.count(s.RankedBy))}, nil})
		}
	}
	apart := func(p Standing) int {
		if g.Entries[p.Entry].unaware() {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(s.Places, func(a, b Standing) int {
		return cmp.Or(apart(a)-apart(b), cmp.Compare(b.Worst.Accuracy, a.Worst.Accuracy))
	})
	over := cached(g.verdicts)
	var family stats.Family
	type pair struct {
		a, b int
		test *Test
	}
	var pairs []pair
	for b := range s.Places {
		for a := range b {
			if apart(s.Places[a]) == apart(s.Places[b]) {
				t := test(over(s.Places[a].Entry, s.RankedBy), over(s.Places[b].Entry, s.RankedBy), &family)
				pairs = append(pairs, pair{a, b, t})
			}
		}
	}
	family.Holm()
	s.Tested = len(family)
	for _, p := range pairs {
		a, b := &s.Places[p.a], &s.Places[p.b]
		a.above(&b.Place, p.test)
		if p.a == 0 || apart(s.Places[p.a-1]) != apart(*a) {
			b.Behind = p.test
		}
	}
}
