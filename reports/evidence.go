package reports

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"selfheal/harness/result"
	"selfheal/harness/stats"
)

// greedyMethod is the solver that every other one starts from.
const greedyMethod = "greedy"

// level is that of a test from which on a report speaks of evidence.
const level = 0.05

// duel is a control and what it has to beat: the network alone, or greedy control by the same embeddings.
type duel struct{ Control, Against string }

// Duels are those of the suite's controls: each against the network alone, and each whose solver does more than
// greedy control does against that, where it is in the suite with the same layers.
func (s *suite) duels() (out []duel) {
	for _, c := range s.Controls {
		out = append(out, duel{c, "none"})
	}
	for _, c := range s.Controls {
		for _, g := range s.Controls {
			one, start := s.controls[c], s.controls[g]
			if one.Solver["method"] != greedyMethod && start.Solver["method"] == greedyMethod &&
				reflect.DeepEqual(one.Layers, start.Layers) {
				out = append(out, duel{c, g})
			}
		}
	}
	return out
}

// trial is a duel on one model's images under one attack.
type trial struct {
	duel
	Model  string
	Column column
	stats.Paired
	P, Adjusted float64    // of "as many are healed as harmed"
	Passes      [2]float64 // of an answer, of both sides; 0 where that is not known
}

// trials are the suite's that have the verdicts of both sides, with their exact p-values, adjusted for their number.
func (s *suite) trials() (out []trial) {
	var p []float64
	for _, m := range s.Models {
		for _, d := range s.duels() {
			for _, col := range s.Columns {
				before, now := s.Cell(m, d.Against, col), s.Cell(m, d.Control, col)
				if !matched(before, now) {
					continue
				}
				one := trial{duel: d, Model: m, Column: col, Paired: stats.NewPaired(before.Verdicts, now.Verdicts),
					Passes: [2]float64{passesOf(now), passesOf(before)}}
				_, one.P = stats.McNemar(one.Lost, one.Won)
				out, p = append(out, one), append(p, one.P)
			}
		}
	}
	for i, adjusted := range stats.Holm(p) {
		out[i].Adjusted = adjusted
	}
	return out
}

// matched reports whether two cells have verdicts on the same images.
func matched(a, b *result.Cell) bool {
	return a != nil && b != nil && len(a.Verdicts) > 0 && len(a.Verdicts) == len(b.Verdicts)
}

// passesOf is what an answer costs, in plain passes; 0 where that is not known.
func passesOf(c *result.Cell) float64 {
	switch {
	case c.Defense == "none":
		return 1
	case c.Solver != nil:
		return c.Solver.PassesPerRun
	}
	return 0
}

// pooled is a duel over all its models and several attacks. The images are the units: one is won where more of its
// answers are right under the control, lost where fewer are. Answers on one image depend on each other, images do not.
type pooled struct {
	Images, Won, Lost int
	Differ            bool    // some answer on some image
	P                 float64 // of "as many are won as lost", adjusted for the suite's number of such tests
}

// pool counts the images of a duel, on the columns that of picks.
func (s *suite) pool(d duel, of func(column) bool) (out pooled) {
	var gain []int
	for _, m := range s.Models {
		for _, col := range s.Columns {
			before, now := s.Cell(m, d.Against, col), s.Cell(m, d.Control, col)
			if !of(col) || !matched(before, now) || gain != nil && len(gain) != len(now.Verdicts) {
				continue
			}
			if gain == nil {
				gain = make([]int, len(now.Verdicts))
			}
			for i := range gain {
				gain[i] += int(now.Verdicts[i]) - int(before.Verdicts[i])
			}
			out.Differ = out.Differ || now.Verdicts != before.Verdicts
		}
	}
	for _, g := range gain {
		if g > 0 {
			out.Won++
		} else if g < 0 {
			out.Lost++
		}
	}
	out.Images = len(gain)
	_, out.P = stats.McNemar(out.Lost, out.Won)
	return out
}

func attackedColumn(c column) bool { return c.Attack != "none" }
func cleanColumn(c column) bool    { return c.Attack == "none" }

// contest is all that is known of a duel.
type contest struct {
	duel
	Attacked, Clean pooled
	Models, Attacks int
	Passes          [2]float64 // means over the models
}

// contests pool the suite's trials.
func (s *suite) contests(trials []trial) (out []contest) {
	var p []float64
	for _, d := range s.duels() {
		of := slices.DeleteFunc(slices.Clone(trials), func(t trial) bool { return t.duel != d })
		if len(of) == 0 {
			continue
		}
		one := contest{duel: d, Attacked: s.pool(d, attackedColumn), Clean: s.pool(d, cleanColumn),
			Models:  len(distinct(of, func(t trial) string { return t.Model })),
			Attacks: len(distinct(of, func(t trial) string { return t.Column.Title() })),
		}
		if one.Clean.Images > 0 {
			one.Attacks--
		}
		for _, t := range of {
			for side := range one.Passes {
				one.Passes[side] += t.Passes[side] / float64(len(of))
			}
		}
		out, p = append(out, one), append(p, one.Attacked.P, one.Clean.P)
	}
	for i, adjusted := range stats.Holm(p) {
		if i%2 == 0 {
			out[i/2].Attacked.P = adjusted
		} else {
			out[i/2].Clean.P = adjusted
		}
	}
	return out
}

// Sentence says what the images say of a control.
func (c contest) Sentence() string {
	name, against := clean(c.Control), "the network alone"
	if c.Against != "none" {
		against = clean(c.Against)
	}
	out := fmt.Sprintf("%s against %s", name, against)
	if p := c.Attacked; p.Images > 0 {
		out += fmt.Sprintf(", under attack (%s, %s, the same %s): %s", plural(c.Models, "model"),
			plural(c.Attacks, "attack"), plural(p.Images, "image"), p.words(name))
	}
	if p := c.Clean; p.Images > 0 {
		out += "; on clean images: " + p.words(name)
	}
	if c.Passes[0] > 0 && c.Passes[1] > 0 {
		out += fmt.Sprintf("; an answer costs %s plain passes instead of %s", threeDigits(c.Passes[0]),
			threeDigits(c.Passes[1]))
	}
	return out + "."
}

// words say how the images of a duel divide, and what that is evidence for.
func (p pooled) words(name string) string {
	if !p.Differ {
		return "no answer differs"
	}
	out := fmt.Sprintf("%s and %d lose (%s), ", plural(p.Won, "image gains", "images gain"), p.Lost, chance(p.P))
	switch {
	case p.P > level:
		return out + "no evidence of a difference"
	case p.Won > p.Lost:
		return out + name + " keeps more"
	}
	return out + name + " keeps fewer"
}

// chance writes a p-value as an equation.
func chance(p float64) string {
	s := pValue(p)
	if s[0] == '<' {
		return "p" + nbsp + s
	}
	return "p" + nbsp + "=" + nbsp + s
}

// pValue writes a p-value with two digits, small ones by their order.
func pValue(p float64) string {
	switch {
	case p < 1e-4:
		return "<" + nbsp + "0.0001"
	case p < 0.0995:
		return strconv.FormatFloat(p, 'g', 2, 64)
	}
	return strconv.FormatFloat(p, 'f', 2, 64)
}

// evidenceView is the evidence for a suite's controls as the page shows it.
type evidenceView struct {
	Sentences []string
	Table     table
}

// Evidence is nil where the suite has no controls, or their verdicts are not known.
func (s *suite) Evidence() *evidenceView {
	t := s.trialTable()
	if len(t.Rows) == 0 {
		return nil
	}
	return &evidenceView{s.evidence(), t}
}

// evidence says it in a sentence a duel.
func (s *suite) evidence() (out []string) {
	for _, c := range s.contests(s.trials()) {
		out = append(out, c.Sentence())
	}
	return out
}

// trialTable has a line for each duel, model and attack.
func (s *suite) trialTable() table {
	t := table{Anchor: s.Slug, Lead: 4, Caption: s.caption("Evidence for the controls: verdicts that change on the " +
		"same images" + s.ofFirstSeed()), Head: []string{"Model", "Control", "Against", "Attack", "Images", "Healed",
		"Harmed", "p", "p, adjusted", "Plain passes"}}
	all := s.trials()
	for _, one := range all {
		adjusted, passes := text(pValue(one.Adjusted)), dash
		adjusted.Spans[0].Bold = one.Adjusted <= level
		if one.Passes[0] > 0 && one.Passes[1] > 0 {
			passes = threeDigits(one.Passes[0]) + " / " + threeDigits(one.Passes[1])
		}
		t.add(clean(one.Model), clean(one.Control), defenseName(one.Against), one.Column.Title(), thousands(one.N),
			thousands(one.Won), thousands(one.Lost), pValue(one.P), adjusted, passes)
	}
	t.note("", "Healed: wrong without the control, or under the one it is held against, and right under it; "+
		"harmed: the other way round. p: McNemar's exact test, two-sided; adjusted for the %s of this table (Holm), "+
		"in bold up to %g. Over several models and attacks an image gains where more of its answers are right and "+
		"loses where fewer are: an exact sign test, adjusted for the suite's. Plain passes: of an answer, by "+
		"floating-point operations.",
		plural(len(all), "test"), level)
	return t.marked()
}

// evidenceTable is the table below its sentences.
func (s *suite) evidenceTable() table {
	t := s.trialTable()
	var notes []footnote
	for _, said := range s.evidence() {
		notes = append(notes, footnote{"", said})
	}
	t.Notes = append(notes, t.Notes...)
	return t
}
