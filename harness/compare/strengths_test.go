package compare

import (
	"slices"
	"strings"
	"testing"

	"selfheal/harness/result"
	"selfheal/harness/stats"
)

// Each epsilon has a ranking of its own: of two networks one is ahead at the small one, the other at the large one, and
// the interval beside each difference leaves out 0 exactly if it is significant. An oblivious line is ranked apart.
func TestStrengths(t *testing.T) {
	first := func(n int) string { return strings.Repeat("1", n) + strings.Repeat("0", 40-n) }
	c, err := Of([]Run{runOf("one", from(0, 40), net("a", first(40), first(30), first(8)),
		net("b", first(40), first(28), first(20)), under("a", "k", result.Oblivious, first(40), first(39), first(38)))})
	if err != nil {
		t.Fatal(err)
	}
	g := c.Groups[0]
	if len(g.Entries) != 3 {
		t.Fatalf("%d lines", len(g.Entries))
	}
	if len(g.Strengths) != 2 || g.Strengths[0].Epsilon != 0.1 || g.Strengths[1].Epsilon != 0.2 {
		t.Fatalf("%+v", g.Strengths)
	}
	for i, want := range [][]string{{"a", "b", "a k"}, {"b", "a", "a k"}} {
		s, right := g.Strengths[i], [][2]int{{30, 28}, {20, 8}}[i]
		var got []string
		for _, p := range s.Places {
			got = append(got, strings.TrimSuffix(g.Entries[p.Entry].Model+" "+g.Entries[p.Entry].Defense, " none"))
		}
		if !slices.Equal(got, want) || s.Tested != 1 {
			t.Errorf("at %v: %q of %d tests, want %q", s.Epsilon, got, s.Tested, want)
		}
		p := stats.NewPaired(first(right[0]), first(right[1])).McNemar()
		b := s.Places[1].Behind
		if b == nil || b.P != p || b.Holm != p || b.OnlyA != right[0]-right[1] || s.Places[0].Behind != nil ||
			s.Places[2].Behind != nil {
			t.Fatalf("at %v: %+v, want p %v", s.Epsilon, b, p)
		}
		open := [2]int{1, 2}
		if p <= Alpha {
			open = [2]int{2, 2}
		}
		if s.Places[1].Rank != 2 || s.Places[1].Open != open || s.Places[2].Rank != 1 ||
			(b.Agreeing[0] > 0) != b.Significant || b.Significant != (p <= Alpha) {
			t.Errorf("at %v: %+v", s.Epsilon, s.Places)
		}
	}
	single, err := Of([]Run{runOf("one", from(0, 40), net("a", first(40), first(30)), net("b", first(40), first(20)))})
	if err != nil || len(single.Groups[0].Strengths) != 0 {
		t.Errorf("one strength is ranked twice: %v, %v", single, err)
	}
}
