package table

import (
	"cmp"
	"slices"
	"strings"

	"selfheal/harness/result/published"
	"selfheal/reports/words"
)

const inIntervalHead = "Published in our interval"

// ComparisonTable puts ours beside the published numbers, a line a cell; without rows
// where the suite has none. Numbers of networks that the suite lacks are counted beneath it.
func (s Suite) ComparisonTable() Table {
	if s.Published == nil {
		return Table{}
	}
	ours := "ours"
	if s.Seeds > 1 {
		ours += s.OfFirstSeed() + ","
	}
	t := s.table("Accuracy in %: "+ours+" beside "+publishedSource(s.Published.Source), 3, "Model", "Defense",
		"Attack", "Ours", "95 % interval", "Published", "Difference (points)", inIntervalHead)
	inside, judged, extra, open := 0, 0, 0, 0
	var lacking []string
	for _, c := range s.Compared() {
		if !slices.Contains(s.Models, c.Model) {
			lacking = append(lacking, words.Clean(c.Model))
			continue
		}
		theirs, difference := words.Dash, words.Dash
		if c.Published != nil {
			theirs = words.Percent(*c.Published, 0)
			if c.Cell != nil {
				difference = words.Points(c.Difference(), 2)
			}
		}
		switch {
		case c.Cell == nil:
			open++
		case c.Published == nil:
			extra++
		case c.Judged():
			judged++
			if c.Side() == 0 {
				inside++
			}
		}
		t.add(c.Model, words.DefenseName(c.Defense), c.Column.Title(), words.Accuracy(c.Cell),
			cmp.Or(words.Interval(c.Cell), words.Dash), theirs, difference, c.Verdict())
	}
	t.note("", "%d of %s within our 95 %% intervals. Extra, as the source lacks them: %s. Published and not run: %s",
		inside, words.Plural(judged, "published number"), words.Plural(extra, "cell"),
		words.Plural(open+len(lacking), "number"))
	if len(lacking) > 0 {
		t.note("", "%s not in this table, of networks that the suite lacks: %s",
			words.Plural(len(lacking), "published number"), strings.Join(slices.Compact(lacking), ", "))
	}
	if mode := s.Published.Mode; mode != "" && len(s.Controls) > 0 && !strings.HasPrefix(s.Mode, mode) {
		t.note("", "Not the same attacker: the published one is %s, ours %s", words.Clean(mode), s.Attacker().Name)
	}
	return t.marked()
}

func publishedSource(source string) string {
	if t, known := published.Lookup(source); known {
		return "the paper's " + t.Name
	}
	if source == "config" {
		return "the numbers that the config gives"
	}
	return "the numbers of " + words.Clean(source)
}
