package view

import (
	"cmp"
	"fmt"
	"strings"

	"selfheal/harness/cell"
	"selfheal/harness/compare"
	"selfheal/internal/lists"
	"selfheal/reports/words"
)

// Group is a group of a comparison, arranged for reading.
type Group struct {
	compare.Group
	Slug string // for anchors and file names
	// Labels are the entries' keys and names, and what distinguishes entries of the same name.
	Labels []string
}

// Groups arranges the groups of c.
func Groups(c *compare.Comparison) []*Group {
	slugs := map[string]bool{}
	return lists.Map(c.Groups, func(of compare.Group) *Group {
		return &Group{of, words.UniqueSlug(of.Name, slugs), entryLabels(of.Entries)}
	})
}

// Heading returns the data sets' name and the number of images.
func (g *Group) Heading() string { return words.Clean(g.Name) + ", " + words.Plural(g.Images, "image") }

// Attack returns the heading of a column.
func (g *Group) Attack(i int) string {
	c := g.Columns[i]
	out := words.Column{Column: cell.Column{Attack: c.Attack, Epsilon: c.Epsilon}, Norm: *cmp.Or(c.Norm, new("")),
		Recipe:      c.Recipe,
		AttackTitle: c.Title}.Title()
	if corruption, severity, ok := strings.Cut(c.Variant, ":"); ok {
		out = words.CorruptionTitle(corruption) + " " + words.Clean(severity)
	}
	if c.Apart != "" {
		out += ", " + words.Clean(c.Apart)
	}
	return out
}

func (g *Group) Attacks(columns []int) []string { return lists.Map(columns, g.Attack) }

// Ranking names the score that ranks the entries.
func (g *Group) Ranking() string {
	attacks := g.Attacks(g.RankedBy)
	out := "Ranked by accuracy under " + strings.Join(attacks, "")
	switch {
	case !g.Attacked():
		out = "Ranked by accuracy on clean images, as no attack was run"
	case len(attacks) > 1:
		out = "Ranked by worst: the fraction of images that a line is right on under every one of " +
			words.Some(attacks)
	}
	if unranked := len(g.Entries) - g.Ranked(); unranked > 0 {
		out += fmt.Sprintf("; %s not have all of that, and no rank", words.Plural(unranked, "line does", "lines do"))
	}
	return out + "."
}

// Attacked reports whether an attack ranks the entries.
func (g *Group) Attacked() bool {
	return len(g.RankedBy) != 1 || g.Columns[g.RankedBy[0]].Attack != cell.None
}

// Ranked returns the number of entries with a rank: they come first.
func (g *Group) Ranked() int {
	return lists.Count(g.Entries, func(e compare.Entry) bool { return e.Rank > 0 })
}

// EntryKey returns letters for the i-th entry: A to Z, then AA.
func EntryKey(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return EntryKey(i/26-1) + EntryKey(i%26)
}

func EntryName(e compare.Entry) string {
	if e.Defense == cell.None {
		return words.Clean(e.Model)
	}
	return words.Clean(e.Model) + " · " + words.Clean(e.Defense)
}

func entryLabels(entries []compare.Entry) []string {
	same, labels := map[string][]compare.Entry{}, make([]string, len(entries))
	for _, e := range entries {
		same[EntryName(e)] = append(same[EntryName(e)], e)
	}
	for i, e := range entries {
		named := EntryName(e)
		several := func(like func(compare.Entry) bool) bool { return lists.Count(same[named], like) > 1 }
		labels[i] = EntryKey(i) + "  " + named
		if several(func(o compare.Entry) bool { return o.Attacker != e.Attacker || o.Run == e.Run }) {
			labels[i] += ", " + e.Attacker
		}
		if several(func(o compare.Entry) bool { return o.Attacker == e.Attacker }) {
			labels[i] += ", " + words.Clean(e.Run)
		}
	}
	return labels
}

// ScoreText writes an accuracy in per cent.
func ScoreText(s *compare.Score) string {
	if s == nil {
		return words.Dash
	}
	return words.Percent(s.Accuracy, s.N)
}

// HistoryName names the cell whose history s is.
func (g *Group) HistoryName(s compare.Series) string {
	return "From run to run: " + EntryName(compare.Entry{Row: s.Row}) + ", " + s.Attacker
}
