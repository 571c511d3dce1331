package table

import (
	"cmp"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/stat"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// kind is a row of the table of kinds of attacks whose cells are no columns of the suite's tables.
type kind struct {
	holds  func(by *view.Apart) bool
	late   bool // its tables stand behind the suite's others
	tables func(s Suite, by *view.Apart) []Table
	// A certificate's table may have one more column, with a heading and a value for each line, and has footnotes.
	head  string
	value func(by *view.Apart, of view.Series) string
	notes func(by *view.Apart, shown certified) []string
}

// kinds is the table. The first row that holds is an attack's.
var kinds = []kind{
	{holds: func(by *view.Apart) bool { return by.Of.Corruptions() }, late: true,
		tables: func(s Suite, by *view.Apart) []Table {
			return []Table{corruptionScores(s, by), corruptionTable(s, by)}
		}},
	{holds: func(by *view.Apart) bool { return by.Proof.Smooths }, head: "Mean radius", value: meanRadius,
		notes: smoothingNotes},
	{holds: func(by *view.Apart) bool { return by.Proof.Gaps }, head: "Mean gap", value: meanGap, notes: bracketNotes},
	{holds: func(by *view.Apart) bool { return true }, notes: proofNotes},
}

// SetTables returns the tables of cells that are no columns, of the kinds that stand late or of the others.
func (s Suite) SetTables(late bool) (list []Table) {
	for _, by := range s.Sets {
		k := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.holds(by) })]
		switch {
		case k.late != late:
		case k.tables != nil:
			list = append(list, k.tables(s, by)...)
		default:
			list = append(list, s.certifiedTable(by, k))
		}
	}
	return list
}

// certified says what a table of a certificate has: numbers of attacks, and balls that are certified because they lie
// in a certified ℓ2 ball.
type certified struct{ attacked, included bool }

// inclusionMark marks balls that are certified by inclusion.
const inclusionMark = "⊂"

// certifiedTable gives the accuracy proved for the classifiers, beside the accuracy that attacks leave.
func (s Suite) certifiedTable(by *view.Apart, k kind) Table {
	t := s.table("Certified accuracy in % ("+words.Clean(by.Attack)+"): [proven, left by attacks]"+s.OfFirstSeed(), 2,
		"Model", defenseHead)
	var has certified
	for _, b := range by.Brackets(s.Suite, s.Models[0], cell.None) {
		head := words.NormName(b.Norm) + " (" + b.Epsilon.String() + ")"
		if by.Proof.Smooths && b.Norm != "l2" {
			head, has.included = head+words.Nbsp+inclusionMark, true
		}
		t.head(true, head)
	}
	t.head(k.value != nil, k.head)
	for _, of := range s.Lines() {
		line := boxes(of.Model, words.DefenseName(of.Defense))
		for _, b := range by.Brackets(s.Suite, of.Model, of.Defense) {
			one := words.Dash
			if b.Proven >= 0 {
				one = words.Percent(b.Proven, s.N)
			}
			if b.Attacked >= 0 {
				one, has.attacked = words.Range(one, words.Percent(b.Attacked, s.N)), true
			}
			line = append(line, text(one))
		}
		if k.value != nil {
			line = append(line, text(k.value(by, of)))
		}
		t.add(line)
	}
	for _, note := range k.notes(by, has) {
		t.note("", "%s", note)
	}
	return t.marked()
}

// said returns the sentences that are not empty.
func said(sentences ...string) []string {
	return slices.DeleteFunc(sentences, func(s string) bool { return s == "" })
}

func meanRadius(by *view.Apart, of view.Series) string {
	if radii := by.RadiiOf(of.Model, of.Defense); len(radii) > 0 {
		return words.Strength("l2", stat.Mean(radii, nil))
	}
	return words.Dash
}

func meanGap(by *view.Apart, of view.Series) string {
	if c := by.Cell(of.Model, of.Defense, by.Columns[0]); c != nil && c.Area != nil {
		return words.Strength(*c.Norm, *c.Area)
	}
	return words.Dash
}

func smoothingNotes(by *view.Apart, has certified) []string {
	return said(
		fmt.Sprintf("%s. The smoothed classifier answers the class that the line's network answers "+
			"most often under Gaussian noise: another classifier than the one of the other tables. No perturbation "+
			"within ε changes its answer on a proven image; each such certificate is wrong with a probability of at "+
			"most %v.",
			words.Clean(by.Of.Title), by.Of.Parameters["alpha"]),
		words.If(has.attacked, "Left by attacks: images on which the smoothed classifier is right on what the suite's "+
			"attacks made of them, of several in one ball the fewest. They were made against the network, not against "+
			"the smoothed classifier: an attack through the noise may leave less."),
		words.If(has.included, inclusionMark+": by inclusion. The ℓ∞ ball of ε lies in the ℓ2 ball of ε·√d, d being "+
			"the values of an image, the ℓ1 ball of ε in the ℓ2 ball of ε."),
		"Mean radius: in ℓ2, over all images; it is 0 where another class is answered, or none.",
		words.If(by.Of.Parameters["stopping"] == true, "Sampling ended as soon as every ε of this certificate was "+
			"decided: what is proven at others, and radii, are lower bounds, which all samples might raise."))
}

func bracketNotes(by *view.Apart, _ certified) []string {
	return []string{words.Clean(by.Of.Title) + ". Proven: no perturbation within ε changes the answer of the " +
		"line's network. Left: none was found that does. Mean gap: between the largest radius proven " +
		"and the smallest broken, over all images; 0 where the network is wrong without a perturbation."}
}

func proofNotes(by *view.Apart, has certified) []string {
	reason := ""
	if spec, err := attacks.Lookup(by.Of.Kind); err == nil && spec.Reason != "" {
		reason = ": " + spec.Reason
	}
	return said(words.Clean(by.Of.Title)+". On a proven image no perturbation within ε changes the answer of the "+
		"line's network"+reason+".", words.If(has.attacked, "Left by attacks: the least of the suite's "+
		"attacks in that ball. The best attacker's lies between both numbers."))
}

func corruptionScores(s Suite, by *view.Apart) Table {
	t := Table{Anchor: s.Slug, Lead: 2, Caption: "Common corruptions (" + words.Clean(by.Attack) +
		"): means over corruptions and severities, in %",
		Head:  []string{"Model", defenseHead, "Clean error", "Mean accuracy", "Mean corruption error"},
		plain: len(s.Controls) == 0}
	if t.head(by.Normalised, "mCE"); by.Normalised {
		t.note("", "mCE: each corruption's error divided by AlexNet's, as the corruptions' authors do it.")
	}
	for _, of := range s.Lines() {
		if s.Side(of.Defense).Again {
			continue
		}
		all := by.Mean(of.Model, of.Defense, by.Names, by.Severities)
		t.add(of.Model, words.DefenseName(of.Defense), wrong(of.Cells[0]), words.Accuracy(all), wrong(all),
			shown(by.Normalised, relative(by, of.Model, of.Defense)))
	}
	return t.marked()
}

func wrong(c *result.Cell) string {
	if c == nil {
		return words.Dash
	}
	return words.Percent(1-c.Accuracy, c.N)
}

// relative returns the mean corruption error over AlexNet's; a dash if AlexNet's is unknown or has other severities.
func relative(by *view.Apart, model, defense string) string {
	sum := 0.0
	for _, name := range by.Names {
		c := by.Mean(model, defense, []string{name}, by.Severities)
		if c == nil || c.AlexNetError == 0 || len(by.Severities) < 5 {
			return words.Dash
		}
		sum += (1 - c.Accuracy) / c.AlexNetError
	}
	return words.Percent(sum/float64(len(by.Names)), 1)
}

func corruptionTable(s Suite, by *view.Apart) Table {
	several := len(s.Controls) > 1
	t := Table{Anchor: s.Slug, Caption: "Accuracy in % by corruption (" + words.Clean(by.Attack) + ") and severity" +
		versus(s.Controls) + s.OfFirstSeed()}
	t.lead("Model", true)
	t.lead("Control", several)
	t.lead("Corruption", true)
	t.head(true, by.Severities...)
	t.head(true, "Mean")
	for _, r := range s.Rows() {
		if s.Side(r.Control).Again {
			continue
		}
		add := func(title string, names []string) {
			line := boxes(r.Model, shown(several, r.Control), title)
			for _, severities := range append(slices.Collect(slices.Chunk(by.Severities, 1)), by.Severities) {
				e := view.Entry{by.Mean(r.Model, cell.None, names, severities),
					by.Mean(r.Model, cmp.Or(r.Control, cell.None), names, severities)}
				line = append(line, s.pair(e, words.Accuracy, true, r.Control != ""))
			}
			t.add(line)
		}
		for _, name := range by.Names {
			add(words.CorruptionTitle(name), []string{name})
		}
		if len(by.Names) > 1 {
			add("Mean", by.Names)
		}
	}
	return t.marked()
}
