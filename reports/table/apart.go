package table

import (
	"cmp"
	"slices"

	"gonum.org/v1/gonum/stat"

	"selfheal/harness/result"
	"selfheal/internal/number"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// inclusionMark marks balls that are certified since a certified ℓ2 ball holds them.
const inclusionMark = "⊂"

// CertifiedTables have a certificate each: what is proven of the classifiers, beside what attacks leave of them.
func (s Suite) CertifiedTables() (list []Table) {
	for _, by := range s.Certified {
		smooths := by.Of.Smooths()
		t := s.table("Certified accuracy in % ("+words.Clean(by.Attack)+"): [proven, left by attacks]"+s.OfFirstSeed(),
			2, "Model", "Defense")
		attacked, included := false, false
		for _, b := range by.Brackets(s.Suite, s.Models[0], "none") {
			head := words.NormName(b.Norm) + " (" + number.Format(b.Epsilon) + ")"
			if smooths && b.Norm != "l2" {
				head, included = head+words.Nbsp+inclusionMark, true
			}
			t.head(true, head)
		}
		t.head(smooths, "Mean radius")
		for _, of := range s.Lines() {
			var values []string
			for _, b := range by.Brackets(s.Suite, of.Model, of.Defense) {
				one := words.Dash
				if b.Proven >= 0 {
					one = words.Percent(b.Proven, s.N)
				}
				if b.Attacked >= 0 {
					one, attacked = words.Range(one, words.Percent(b.Attacked, s.N)), true
				}
				values = append(values, one)
			}
			mean := words.Dash
			if radii := by.RadiiOf(of.Model, of.Defense); len(radii) > 0 {
				mean = words.Strength("l2", stat.Mean(radii, nil))
			}
			t.add(of.Model, words.DefenseName(of.Defense), values, shown(smooths, mean))
		}
		if smooths {
			noteSmoothing(by, &t, attacked, included)
		} else {
			noteBounds(by, &t, attacked)
		}
		list = append(list, t.marked())
	}
	return list
}

func noteSmoothing(by *view.Apart, t *Table, attacked, included bool) {
	t.note("", "%s. The smoothed classifier answers the class that the network, alone or controlled, answers most "+
		"often under Gaussian noise: another classifier than the one of the other tables. No perturbation within ε "+
		"changes its answer on a proven image; each such certificate is wrong with a probability of at most %v.",
		words.Clean(by.Of.Title), by.Of.Parameters["alpha"])
	if attacked {
		t.note("", "Left by attacks: images on which the smoothed classifier is right on what the suite's attacks "+
			"made of them, of several in one ball the fewest. They were made against the network, not against the "+
			"smoothed classifier: an attack through the noise may leave less.")
	}
	if included {
		t.note("", "%s: by inclusion. The ℓ∞ ball of ε lies in the ℓ2 ball of ε·√d, d being the values of "+
			"an image, the ℓ1 ball of ε in the ℓ2 ball of ε.", inclusionMark)
	}
	t.note("", "Mean radius: in ℓ2, over all images; it is 0 where another class is answered, or none.")
	if by.Of.Parameters["stopping"] == true {
		t.note("", "Sampling ended as soon as every ε of this certificate was decided: what is proven at others, and "+
			"radii, are lower bounds, which all samples might raise.")
	}
}

func noteBounds(by *view.Apart, t *Table, attacked bool) {
	t.note("", "%s. On a proven image no perturbation within ε changes the answer of the network, alone or "+
		"controlled: bounds of its logits over the ball leave no other class, with slack for all rounding in float32.",
		words.Clean(by.Of.Title))
	if attacked {
		t.note("", "Left by attacks: the least of the suite's attacks in that ball. The best attacker's lies between "+
			"both numbers.")
	}
}

// CorruptionTables are the scores of the suite's corruptions, and the accuracy under each of them.
func (s Suite) CorruptionTables() (list []Table) {
	for _, by := range s.Corrupted {
		list = append(list, corruptionScores(s, by), corruptionTable(s, by))
	}
	return list
}

func corruptionScores(s Suite, by *view.Apart) Table {
	t := Table{Anchor: s.Slug, Lead: 2, Caption: "Common corruptions (" + words.Clean(by.Attack) +
		"): means over corruptions and severities, in %",
		Head: []string{"Model", "Defense", "Clean error", "Mean accuracy", "Mean corruption error"}}
	if t.head(by.Normalised, "mCE"); by.Normalised {
		t.note("", "mCE: each corruption's error divided by AlexNet's, as the corruptions' authors do it.")
	}
	for _, of := range s.Lines() {
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

// relative is the mean corruption error over AlexNet's; a dash where AlexNet's is not known or of other severities.
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
		add := func(title string, names []string) {
			line := boxes(r.Model, shown(several, r.Control), title)
			for _, severities := range append(slices.Collect(slices.Chunk(by.Severities, 1)), by.Severities) {
				e := view.Entry{by.Mean(r.Model, "none", names, severities),
					by.Mean(r.Model, cmp.Or(r.Control, "none"), names, severities)}
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
