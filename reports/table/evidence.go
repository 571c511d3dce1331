package table

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/harness/stats"
	"selfheal/internal/lists"
	"selfheal/internal/number"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// level is the significance level below which a report speaks of evidence.
const level = 0.05

// contrast is a control and what it must beat: the undefended network, or greedy control by the same embeddings.
type contrast struct{ Control, Against string }

// contrasts pairs each control with the undefended network, and each with a better solver also with greedy control of
// its layers.
func contrasts(s Suite) (out []contrast) {
	out = lists.Map(s.Controls, func(c string) contrast { return contrast{c, cell.None} })
	for _, c := range s.Controls {
		for _, g := range s.Controls {
			a, b := s.Side(c), s.Side(g)
			one, start := s.File.Controls[a.Control], s.File.Controls[b.Control]
			if a.Mode == b.Mode && one.Solver["method"] != "greedy" && start.Solver["method"] == "greedy" &&
				slices.EqualFunc(one.Layers, start.Layers, sameLayer) {
				out = append(out, contrast{c, g})
			}
		}
	}
	return out
}

// sameLayer reports whether two layers have the same target: files are compared by content.
func sameLayer(a, b result.Layer) bool {
	held := func(l result.Layer) result.Layer {
		if e := l.Embedding; e.SHA256 != "" || e.Files != nil {
			l.Embedding = result.LayerEmbedding{SHA256: e.SHA256, Files: e.Files}
		}
		return l
	}
	return reflect.DeepEqual(held(a), held(b))
}

// pairedTest tests a contrast on one model's images under one attack.
type pairedTest struct {
	contrast
	model  string
	column words.Column
	stats.Paired
	p, adjusted float64    // for "as many are healed as harmed"
	passes      [2]float64 // per answer, on both sides; 0 if unknown
}

// pairedTests returns the suite's tests that have the verdicts of both sides; their p-values are adjusted for their
// number.
func pairedTests(s Suite) (out []*pairedTest) {
	var family stats.Family
	for _, m := range s.Models {
		for _, c := range contrasts(s) {
			for _, col := range s.Columns {
				if view.Repeats(s.Suite, c.Control, col) {
					continue
				}
				var all gains
				before, now := all.add(s, m, c, col)
				if all.by == nil {
					continue
				}
				one := &pairedTest{contrast: c, model: m, column: col, Paired: all.counted(),
					passes: [2]float64{passesOf(now), passesOf(before)}}
				one.p = one.McNemar()
				family.Add(one.p, func(p float64) { one.adjusted = p })
				out = append(out, one)
			}
		}
	}
	family.Holm()
	return out
}

// judged returns the cells of a column with verdicts: one, or one for each corruption that it averages.
func judged(s Suite, model, defense string, col words.Column) []*result.Cell {
	if by := lists.Find(s.Corrupted(), func(by *view.Apart) bool { return by.Attack == col.Attack }); by != nil {
		return (*by).Over(model, defense, (*by).Names, (*by).Severities)
	}
	if c := s.Cell(model, defense, col); c != nil {
		return []*result.Cell{c}
	}
	return nil
}

// passesOf returns the cost of an answer, in plain passes; 0 if unknown.
func passesOf(cells []*result.Cell) float64 {
	switch c := cells[0]; {
	case c.Defense == cell.None:
		return 1
	case c.Solver != nil:
		return c.Solver.PassesPerRun
	}
	return 0
}

// gains counts for each image how many more of its answers are right under the control; nil before any are added.
type gains struct {
	by     []int
	differ bool // some answer differs on some image
}

// add adds the cells of both sides, if all have verdicts on the same images, and returns them.
func (g *gains) add(s Suite, model string, of contrast, col words.Column) (before, now []*result.Cell) {
	before, now = judged(s, model, of.Against, col), judged(s, model, of.Control, col)
	for i, c := range now {
		if len(before) != len(now) || !Matched(before[i], c) || g.by != nil && len(g.by) != len(c.Verdicts) {
			continue
		}
		if g.by == nil {
			g.by = make([]int, len(c.Verdicts))
		}
		g.differ = g.differ || before[i].Verdicts != c.Verdicts
		for k := range g.by {
			g.by[k] += int(c.Verdicts[k]) - int(before[i].Verdicts[k])
		}
	}
	return before, now
}

// Matched reports whether two cells have verdicts on the same images.
func Matched(a, b *result.Cell) bool {
	return a != nil && b != nil && len(a.Verdicts) > 0 && len(a.Verdicts) == len(b.Verdicts)
}

// counted counts the images with more right answers and those with fewer. An image counts once, because its answers are
// dependent.
func (g *gains) counted() (p stats.Paired) {
	for _, more := range g.by {
		p.Add(more)
	}
	return p
}

// pooledTest tests a contrast over all models and the columns of one kind.
type pooledTest struct {
	stats.Paired
	kind    string // "clean", "attacked", "corrupted"
	columns int
	differ  bool
	p       float64 // for "as many are won as lost", adjusted for the number of such tests in the suite
	single  [2]int  // its paired tests that are significantly better, and worse
}

// pooled counts the images of a contrast over the columns of a kind; nil if there are none.
func pooled(s Suite, of contrast, kind string, tests []*pairedTest) *pooledTest {
	all, out := gains{}, &pooledTest{kind: kind}
	for _, col := range s.Columns {
		if s.Kind(col) == kind && !view.Repeats(s.Suite, of.Control, col) {
			for _, m := range s.Models {
				all.add(s, m, of, col)
			}
			out.columns++
		}
	}
	if all.by == nil {
		return nil
	}
	out.Paired, out.differ = all.counted(), all.differ
	out.p = out.McNemar()
	for _, t := range tests {
		switch {
		case s.Kind(t.column) != kind || t.adjusted > level:
		case t.Won > t.Lost:
			out.single[0]++
		default:
			out.single[1]++
		}
	}
	return out
}

// Evidence holds a sentence for each contrast, and a table of the tests. It is empty if the suite has no controls or
// their verdicts are unknown.
type Evidence struct {
	Sentences []string
	Table     Table
}

// Evidence tests whether the suite's controls help.
func (s Suite) Evidence() (e Evidence) {
	all := pairedTests(s)
	if all == nil {
		return e
	}
	var family stats.Family
	var later []func() string // run when all p-values are known
	for _, c := range contrasts(s) {
		of := lists.Only(all, func(t *pairedTest) bool { return t.contrast == c })
		var pools []*pooledTest
		for _, kind := range []string{"attacked", "corrupted", "clean"} {
			if one := pooled(s, c, kind, of); one != nil {
				family.Add(one.p, func(p float64) { one.p = p })
				pools = append(pools, one)
			}
		}
		if pools != nil {
			later = append(later, func() string { return c.sentence(pools, of) })
		}
	}
	family.Holm()
	return Evidence{lists.Map(later, func(say func() string) string { return say() }), testTable(s, all)}
}

func (c contrast) sentence(pools []*pooledTest, tests []*pairedTest) string {
	name, against := words.Clean(c.Control), "the undefended network"
	if c.Against != cell.None {
		against = words.Clean(c.Against)
	}
	out := fmt.Sprintf("%s against %s on the same %s", name, against, words.Plural(pools[0].N, "image"))
	if n := len(lists.Distinct(tests, func(t *pairedTest) string { return t.model })); n > 1 {
		out += fmt.Sprintf(", over %d models", n)
	}
	for i, p := range pools {
		under := map[string]string{"attacked": "under " + words.Plural(p.columns, "attack"),
			"corrupted": "under corruption",
			"clean":     "without attack"}
		out += [...]string{": ", "; ", "; "}[i] + under[p.kind] + " " + p.words(name)
	}
	var passes [2]float64 // means over the tests
	for _, t := range tests {
		for side := range passes {
			passes[side] += t.passes[side] / float64(len(tests))
		}
	}
	if passes[0] > 0 && passes[1] > 0 {
		out += fmt.Sprintf("; an answer costs %s instead of %s", words.PlainPasses(passes[0]),
			words.ThreeDigits(passes[1]))
	}
	return out + "."
}

// words says how the images divide, and what that is evidence for.
func (p pooledTest) words(name string) string {
	if !p.differ {
		return "no answer differs"
	}
	out := fmt.Sprintf("%s and %d lose (%s), ", words.Plural(p.Won, "image gains", "images gain"), p.Lost, chance(p.p))
	against := p.single[1] // lines of the table that contradict the pooled test
	switch {
	case p.p > level:
		out += "no evidence of a difference"
		against += p.single[0]
	case p.Won > p.Lost:
		out += name + " keeps more"
	default:
		out += name + " keeps fewer"
		against = p.single[0]
	}
	if against > 0 {
		out += fmt.Sprintf(" over all, but in the table %d better and %d worse beyond chance", p.single[0], p.single[1])
	}
	return out
}

func chance(p float64) string {
	s := pValue(p)
	if s[0] == '<' {
		return "p" + words.Nbsp + s
	}
	return "p" + words.Nbsp + "=" + words.Nbsp + s
}

// pValue writes a p-value with three digits.
func pValue(p float64) string { return strings.Replace(number.Probability(p), "<", "<"+words.Nbsp, 1) }

func testTable(s Suite, all []*pairedTest) Table {
	t := s.table("Evidence for the controls: verdicts that change on the same images"+s.OfFirstSeed(), 4, "Model",
		"Control", "Against", "Attack", "Images", "Healed", "Harmed", "p", "p, adjusted", "Plain passes")
	for _, one := range all {
		passes := words.Dash
		if one.passes[0] > 0 && one.passes[1] > 0 {
			passes = words.ThreeDigits(one.passes[0]) + " / " + words.ThreeDigits(one.passes[1])
		}
		t.add(one.model, one.Control, words.DefenseName(one.Against), one.column.Title(), one.N, one.Won, one.Lost,
			pValue(one.p), bold(pValue(one.adjusted), one.adjusted <= level), passes)
	}
	t.note("", "Healed: wrong without the control, or under the one it is held against, and right under it; "+
		"harmed: the other way round. p: McNemar's exact test, two-sided; adjusted for the %s of this table (Holm), "+
		"in bold up to %g. Over several models and attacks an image gains where more of its answers are right and "+
		"loses where fewer are: an exact sign test, adjusted for the suite's. Plain passes: of an answer, by "+
		"floating-point operations.",
		words.Plural(len(all), "test"), level)
	return t.marked()
}

// EvidenceTable returns the table below the suite's sentences.
func (s Suite) EvidenceTable() Table {
	e := s.Evidence()
	notes := lists.Map(e.Sentences, func(said string) Footnote { return Footnote{"", said} })
	e.Table.Notes = append(notes, e.Table.Notes...)
	return e.Table
}
