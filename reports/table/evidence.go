package table

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"selfheal/harness/result"
	"selfheal/harness/stats"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// greedyMethod is the solver that every other one starts from.
const greedyMethod = "greedy"

// level is that of a test from which on a report speaks of evidence.
const level = 0.05

// duel is a control and what it has to beat: the network alone, or greedy control by the same embeddings.
type duel struct{ Control, Against string }

// Duels are those of the suite's controls: each against the network alone, and each whose solver does more than
// greedy control does against that, where it is in the suite with the same layers.
func (s Suite) duels() (out []duel) {
	for _, c := range s.Controls {
		out = append(out, duel{c, "none"})
	}
	for _, c := range s.Controls {
		for _, g := range s.Controls {
			one, start := s.File.Controls[c], s.File.Controls[g]
			if one.Solver["method"] != greedyMethod && start.Solver["method"] == greedyMethod &&
				slices.EqualFunc(one.Layers, start.Layers, sameLayer) {
				out = append(out, duel{c, g})
			}
		}
	}
	return out
}

// sameLayer reports whether two layers are drawn towards the same: a file counts by what it holds, whether it was
// fitted or not.
func sameLayer(a, b result.Layer) bool {
	held := func(l result.Layer) result.Layer {
		if e := l.Embedding; e.SHA256 != "" || e.Files != nil {
			l.Embedding = result.LayerEmbedding{SHA256: e.SHA256, Files: e.Files}
		}
		return l
	}
	return reflect.DeepEqual(held(a), held(b))
}

// trial is a duel on one model's images under one attack.
type trial struct {
	duel
	Model  string
	Column words.Column
	stats.Paired
	Kind        string     // of the column
	P, Adjusted float64    // of "as many are healed as harmed"
	Passes      [2]float64 // of an answer, of both sides; 0 where that is not known
}

// trials are the suite's that have the verdicts of both sides, with their exact p-values, adjusted for their number.
func (s Suite) trials() (out []*trial) {
	var family stats.Family
	for _, m := range s.Models {
		for _, d := range s.duels() {
			for _, col := range s.Columns {
				var all gains
				before, now := s.judged(m, d.Against, col), s.judged(m, d.Control, col)
				all.add(before, now)
				if all.by == nil {
					continue
				}
				one := &trial{duel: d, Model: m, Column: col, Kind: s.Kind(col), Paired: all.counted(),
					Passes: [2]float64{passesOf(now), passesOf(before)}}
				one.P = one.McNemar()
				family.Add(one.P, func(p float64) { one.Adjusted = p })
				out = append(out, one)
			}
		}
	}
	family.Holm()
	return out
}

// judged are the cells of a column with verdicts: one, or those of all corruptions that it stands for.
func (s Suite) judged(model, defense string, col words.Column) []*result.Cell {
	for _, by := range s.Corrupted {
		if by.Attack == col.Attack {
			return by.Over(model, defense, by.Names, by.Severities)
		}
	}
	if c := s.Cell(model, defense, col); c != nil {
		return []*result.Cell{c}
	}
	return nil
}

// passesOf is what an answer costs, in plain passes; 0 where that is not known.
func passesOf(cells []*result.Cell) float64 {
	switch c := cells[0]; {
	case c.Defense == "none":
		return 1
	case c.Solver != nil:
		return c.Solver.PassesPerRun
	}
	return 0
}

// gains are, of each image, how many more of its answers are right under the control; nil before there are any.
type gains struct {
	by     []int
	differ bool // some answer on some image
}

// add adds the cells of both sides, where all have verdicts on the same images.
func (g *gains) add(before, now []*result.Cell) {
	if len(before) != len(now) {
		return
	}
	for i, c := range now {
		if !Matched(before[i], c) || g.by != nil && len(g.by) != len(c.Verdicts) {
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
}

// Matched reports whether two cells have verdicts on the same images.
func Matched(a, b *result.Cell) bool {
	return a != nil && b != nil && len(a.Verdicts) > 0 && len(a.Verdicts) == len(b.Verdicts)
}

// counted are the images with more right answers and those with fewer. Answers on one image depend on each other,
// images do not: an image counts once.
func (g *gains) counted() (p stats.Paired) {
	for _, more := range g.by {
		p.Add(more)
	}
	return p
}

// pool is a duel over all its models and the columns of one kind.
type pool struct {
	Kind    string // "clean", "attacked", "corrupted"
	Columns int
	stats.Paired
	Differ bool
	P      float64 // of "as many are won as lost", adjusted for the suite's number of such tests
	Single [2]int  // trials of it that are better and worse beyond chance
}

// contest is all that is known of a duel.
type contest struct {
	duel
	Pools  []*pool
	Models int
	Passes [2]float64 // means over the models
}

// contests pool the suite's trials.
func (s Suite) contests(trials []*trial) (out []contest) {
	var family stats.Family
	for _, d := range s.duels() {
		of := slices.DeleteFunc(slices.Clone(trials), func(t *trial) bool { return t.duel != d })
		if len(of) == 0 {
			continue
		}
		one := contest{duel: d, Models: len(view.Distinct(of, func(t *trial) string { return t.Model }))}
		for _, kind := range []string{"attacked", "corrupted", "clean"} {
			if pooled := s.pool(d, kind); pooled != nil {
				pooled.Single = beyondChance(of, kind)
				family.Add(pooled.P, func(p float64) { pooled.P = p })
				one.Pools = append(one.Pools, pooled)
			}
		}
		for _, t := range of {
			for side := range one.Passes {
				one.Passes[side] += t.Passes[side] / float64(len(of))
			}
		}
		out = append(out, one)
	}
	family.Holm()
	return out
}

// beyondChance counts the trials of a kind that are better and those that are worse, at the level of the tests.
func beyondChance(trials []*trial, kind string) (n [2]int) {
	for _, t := range trials {
		switch {
		case t.Kind != kind || t.Adjusted > level:
		case t.Won > t.Lost:
			n[0]++
		default:
			n[1]++
		}
	}
	return n
}

// pool counts the images of a duel over the columns of a kind; nil where there are none.
func (s Suite) pool(d duel, kind string) *pool {
	all, out := gains{}, &pool{Kind: kind}
	for _, col := range s.Columns {
		if s.Kind(col) != kind {
			continue
		}
		for _, m := range s.Models {
			all.add(s.judged(m, d.Against, col), s.judged(m, d.Control, col))
		}
		out.Columns++
	}
	if all.by == nil {
		return nil
	}
	out.Paired, out.Differ = all.counted(), all.differ
	out.P = out.McNemar()
	return out
}

// Sentence says what the images say of a control.
func (c contest) Sentence() string {
	name, against := words.Clean(c.Control), "the network alone"
	if c.Against != "none" {
		against = words.Clean(c.Against)
	}
	out := fmt.Sprintf("%s against %s on the same %s", name, against, words.Plural(c.Pools[0].N, "image"))
	if c.Models > 1 {
		out += fmt.Sprintf(", over %d models", c.Models)
	}
	for i, p := range c.Pools {
		under := map[string]string{"attacked": "under " + words.Plural(p.Columns, "attack"),
			"corrupted": "under corruption",
			"clean":     "without attack"}
		out += [...]string{": ", "; ", "; "}[i] + under[p.Kind] + " " + p.words(name)
	}
	if c.Passes[0] > 0 && c.Passes[1] > 0 {
		out += fmt.Sprintf("; an answer costs %s instead of %s", words.PlainPasses(c.Passes[0]),
			words.ThreeDigits(c.Passes[1]))
	}
	return out + "."
}

// words say how the images divide, and what that is evidence for.
func (p pool) words(name string) string {
	if !p.Differ {
		return "no answer differs"
	}
	out := fmt.Sprintf("%s and %d lose (%s), ", words.Plural(p.Won, "image gains", "images gain"), p.Lost, chance(p.P))
	against := p.Single[1] // lines of the table that say another thing
	switch {
	case p.P > level:
		out += "no evidence of a difference"
		against += p.Single[0]
	case p.Won > p.Lost:
		out += name + " keeps more"
	default:
		out += name + " keeps fewer"
		against = p.Single[0]
	}
	if against > 0 {
		out += fmt.Sprintf(" over all, but in the table %d better and %d worse beyond chance", p.Single[0], p.Single[1])
	}
	return out
}

// chance writes a p-value as an equation.
func chance(p float64) string {
	s := pValue(p)
	if s[0] == '<' {
		return "p" + words.Nbsp + s
	}
	return "p" + words.Nbsp + "=" + words.Nbsp + s
}

// pValue writes a p-value with two digits, small ones by their order.
func pValue(p float64) string {
	switch {
	case p < 1e-4:
		return "<" + words.Nbsp + "0.0001"
	case p < 0.0995:
		return strconv.FormatFloat(p, 'g', 2, 64)
	}
	return strconv.FormatFloat(p, 'f', 2, 64)
}

// evidenceView is the evidence for a suite's controls as the page shows it.
type evidenceView struct {
	Sentences []string
	Table     Table
}

// Evidence is nil where the suite has no controls, or their verdicts are not known.
func (s Suite) Evidence() *evidenceView {
	t := s.trialTable()
	if len(t.Rows) == 0 {
		return nil
	}
	return &evidenceView{s.evidence(), t}
}

// evidence says it in a sentence a duel.
func (s Suite) evidence() (out []string) {
	for _, c := range s.contests(s.trials()) {
		out = append(out, c.Sentence())
	}
	return out
}

// trialTable has a line for each duel, model and attack.
func (s Suite) trialTable() Table {
	t := Table{Anchor: s.Slug, Lead: 4, Caption: s.Caption("Evidence for the controls: verdicts that change on the " +
		"same images" + s.OfFirstSeed()), Head: []string{"Model", "Control", "Against", "Attack", "Images", "Healed",
		"Harmed", "p", "p, adjusted", "Plain passes"}}
	all := s.trials()
	for _, one := range all {
		adjusted, passes := bold(pValue(one.Adjusted), one.Adjusted <= level), words.Dash
		if one.Passes[0] > 0 && one.Passes[1] > 0 {
			passes = words.ThreeDigits(one.Passes[0]) + " / " + words.ThreeDigits(one.Passes[1])
		}
		t.add(one.Model, one.Control, words.DefenseName(one.Against), one.Column.Title(), one.N, one.Won, one.Lost,
			pValue(one.P), adjusted, passes)
	}
	t.note("", "Healed: wrong without the control, or under the one it is held against, and right under it; "+
		"harmed: the other way round. p: McNemar's exact test, two-sided; adjusted for the %s of this table (Holm), "+
		"in bold up to %g. Over several models and attacks an image gains where more of its answers are right and "+
		"loses where fewer are: an exact sign test, adjusted for the suite's. Plain passes: of an answer, by "+
		"floating-point operations.",
		words.Plural(len(all), "test"), level)
	return t.marked()
}

// EvidenceTable is the table below its sentences.
func (s Suite) EvidenceTable() Table {
	t := s.trialTable()
	var notes []Footnote
	for _, said := range s.evidence() {
		notes = append(notes, Footnote{"", said})
	}
	t.Notes = append(notes, t.Notes...)
	return t
}
