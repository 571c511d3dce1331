package table

import (
	"gonum.org/v1/gonum/stat"

	"selfheal/internal/number"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// inclusionMark marks balls that are certified since a certified ℓ2 ball holds them.
const inclusionMark = "⊂"

// CertifiedTables have a certificate each: what is proven of the classifiers, or of the smoothed ones, beside what
// attacks leave of them.
func (s Suite) CertifiedTables() (list []Table) {
	for _, by := range s.Certified {
		smooths := by.Of.Smooths()
		t := Table{Anchor: s.Slug, Lead: 2, Head: []string{"Model", "Defense"},
			Caption: s.Caption("Certified accuracy in % (" + words.Clean(by.Attack) + "): [proven, left by attacks]" +
				s.OfFirstSeed())}
		included := false
		for _, b := range s.Brackets(by, s.Models[0], "none") {
			head := words.NormName(b.Norm) + " (" + number.Format(b.Epsilon) + ")"
			if smooths && b.Norm != "l2" {
				head, included = head+words.Nbsp+inclusionMark, true
			}
			t.Head = append(t.Head, head)
		}
		if smooths {
			t.Head = append(t.Head, "Mean radius")
		}
		attacked := false
		for _, m := range s.Models {
			for _, d := range s.Defenses() {
				line, n := boxes(words.Clean(m), words.DefenseName(d)), s.N
				for _, b := range s.Brackets(by, m, d) {
					one := words.Dash
					if b.Proven >= 0 {
						one = words.Percent(b.Proven, n)
					}
					if b.Attacked >= 0 {
						one, attacked = "["+one+","+words.Nbsp+words.Percent(b.Attacked, n)+"]", true
					}
					line = append(line, text(one))
				}
				if smooths {
					mean := words.Dash
					if radii := by.RadiiOf(m, d); len(radii) > 0 {
						mean = words.Strength("l2", stat.Mean(radii, nil))
					}
					line = append(line, text(mean))
				}
				t.Rows = append(t.Rows, line)
			}
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

// noteSmoothing says what a table of a smoothed classifier's certificates says.
func noteSmoothing(by *view.Certificate, t *Table, attacked, included bool) {
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

// noteBounds says what a table of certificates by bounds says.
func noteBounds(by *view.Certificate, t *Table, attacked bool) {
	t.note("", "%s. On a proven image no perturbation within ε changes the answer of the network, alone or "+
		"controlled: bounds of its logits over the ball leave no other class, with slack for all rounding in float32.",
		words.Clean(by.Of.Title))
	if attacked {
		t.note("", "Left by attacks: the least of the suite's attacks in that ball. The best attacker's lies between "+
			"both numbers.")
	}
}
