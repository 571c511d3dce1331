package reports

import (
	"cmp"
	"slices"

	"gonum.org/v1/gonum/stat"

	"selfheal/harness/result"
	"selfheal/internal/number"
)

// certifiedBy is what a suite has of a certificate: a cell for each epsilon, which have a table of their own. Those of
// smoothing are of other classifiers, the smoothed ones, than all other cells, and have a figure too.
type certifiedBy struct {
	attack  string
	of      result.Attack
	cells   map[cellKey]*result.Cell
	columns []column              // of its epsilons, ascending
	radii   map[cellKey][]float64 // of the records, one an image: without an epsilon
}

// certificate takes a cell of a certificate out of the suite's others.
func (s *suite) certificate(c *result.Cell) bool {
	a, ok := s.attacks[c.Attack]
	if !ok || !a.Proves() {
		return false
	}
	i := slices.IndexFunc(s.certified, func(by *certifiedBy) bool { return by.attack == c.Attack })
	if i < 0 {
		by := &certifiedBy{attack: c.Attack, of: a, cells: map[cellKey]*result.Cell{}, radii: map[cellKey][]float64{}}
		for _, e := range slices.Sorted(slices.Values(a.Epsilons)) {
			by.columns = append(by.columns, column{Attack: c.Attack, Epsilon: new(e), norm: *a.Norm, recipe: a.Recipe})
		}
		i, s.certified = len(s.certified), append(s.certified, by)
	}
	if c.Error == "" {
		s.certified[i].cells[keyOf(c)] = c
	}
	return true
}

// addRadius takes a record of a certificate in, of its first radius: the others say the same.
func (s *suite) addRadius(r result.Record) {
	for _, by := range s.certified {
		if by.attack == r.Attack && *r.Epsilon == *by.columns[0].Epsilon {
			key := cellKey{model: r.Model, defense: r.Defense}
			by.radii[key] = append(by.radii[key], *r.Radius)
		}
	}
}

// cell is that of a radius, or nil.
func (by *certifiedBy) cell(model, defense string, col column) *result.Cell {
	return by.cells[cellKey{model, defense, by.attack, *col.Epsilon}]
}

// eachCertified lists the cells of certificates, which are no columns.
func (s *suite) eachCertified() (out []compared) {
	for _, by := range s.certified {
		for _, m := range s.Models {
			for _, d := range s.Defenses() {
				for _, col := range by.columns {
					if c := by.cell(m, d, col); c != nil {
						out = append(out, compared{model: m, defense: d, col: col, cell: c,
							alone: by.cell(m, "none", col)})
					}
				}
			}
		}
	}
	return out
}

// bracket is what is known of a classifier in a ball: what is proven, and what attacks have left.
type bracket struct {
	norm             string
	epsilon          float64
	proven, attacked float64 // shares of the images; −1 where that is not known
}

// same reports whether another is of the same ball.
func (b bracket) same(o bracket) bool { return b.norm == o.norm && b.epsilon == o.epsilon }

// brackets are those of a model and defense, at the certificate's epsilons and, of a smoothed classifier, at every
// attack's: of several attacks in one ball what is left by the one that leaves least.
func (s *suite) brackets(by *certifiedBy, model, defense string) (all []bracket) {
	add := func(one bracket) {
		i := slices.IndexFunc(all, one.same)
		if i < 0 {
			all = append(all, one)
			return
		}
		b := &all[i]
		b.proven = max(b.proven, one.proven)
		if b.attacked < 0 || one.attacked >= 0 && one.attacked < b.attacked {
			b.attacked = one.attacked
		}
	}
	for _, col := range by.columns {
		one := bracket{col.norm, *col.Epsilon, -1, -1}
		if c := by.cell(model, defense, col); c != nil {
			one.proven = c.Accuracy
		}
		add(one)
	}
	for _, col := range s.Columns {
		if col.Epsilon == nil {
			continue
		}
		one := bracket{col.norm, *col.Epsilon, -1, -1}
		c := s.Cell(model, defense, col)
		if !by.of.Smooths() { // the very classifier that was attacked
			if c != nil && c.Error == "" && slices.ContainsFunc(all, one.same) {
				one.attacked = c.Accuracy
				add(one)
			}
			continue
		}
		if c != nil {
			for _, of := range c.Smoothed {
				if of.Certificate == by.attack {
					one.proven, one.attacked = float64(of.Proven)/float64(max(c.N, 1)), of.Accuracy
				}
			}
		}
		if one.attacked >= 0 || slices.ContainsFunc(s.Models, func(m string) bool { return s.polled(by, m, col) }) {
			add(one)
		}
	}
	norms := []string{"l2", "linf", "l1"}
	slices.SortStableFunc(all, func(a, b bracket) int {
		return cmp.Or(slices.Index(norms, a.norm)-slices.Index(norms, b.norm), cmp.Compare(a.epsilon, b.epsilon))
	})
	return all
}

// polled reports whether the certificate's classifiers were asked about an attack on a model.
func (s *suite) polled(by *certifiedBy, model string, col column) bool {
	return slices.ContainsFunc(s.Defenses(), func(d string) bool {
		c := s.Cell(model, d, col)
		return c != nil && slices.ContainsFunc(c.Smoothed, func(of result.Smoothed) bool {
			return of.Certificate == by.attack
		})
	})
}

// inclusionMark marks balls that are certified since a certified ℓ2 ball holds them.
const inclusionMark = "⊂"

// CertifiedTables have a certificate each: what is proven of the classifiers, or of the smoothed ones, beside what
// attacks leave of them.
func (s suiteTables) CertifiedTables() (list []table) {
	for _, by := range s.certified {
		smooths := by.of.Smooths()
		t := table{Anchor: s.Slug, Lead: 2, Head: []string{"Model", "Defense"},
			Caption: s.caption("Certified accuracy in % (" + clean(by.attack) + "): [proven, left by attacks]" +
				s.ofFirstSeed())}
		included := false
		for _, b := range s.brackets(by, s.Models[0], "none") {
			head := normName(b.norm) + " (" + number.Format(b.epsilon) + ")"
			if smooths && b.norm != "l2" {
				head, included = head+nbsp+inclusionMark, true
			}
			t.Head = append(t.Head, head)
		}
		if smooths {
			t.Head = append(t.Head, "Mean radius")
		}
		attacked := false
		for _, m := range s.Models {
			for _, d := range s.Defenses() {
				line, n := boxes(clean(m), defenseName(d)), s.N
				for _, b := range s.brackets(by, m, d) {
					one := dash
					if b.proven >= 0 {
						one = percent(b.proven, n)
					}
					if b.attacked >= 0 {
						one, attacked = "["+one+","+nbsp+percent(b.attacked, n)+"]", true
					}
					line = append(line, text(one))
				}
				if smooths {
					mean := dash
					if radii := by.radii[cellKey{model: m, defense: d}]; len(radii) > 0 {
						mean = strength("l2", stat.Mean(radii, nil))
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
func noteSmoothing(by *certifiedBy, t *table, attacked, included bool) {
	t.note("", "%s. The smoothed classifier answers the class that the network, alone or controlled, answers most "+
		"often under Gaussian noise: another classifier than the one of the other tables. No perturbation within ε "+
		"changes its answer on a proven image; each such certificate is wrong with a probability of at most %v.",
		clean(by.of.Title), by.of.Parameters["alpha"])
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
	if by.of.Parameters["stopping"] == true {
		t.note("", "Sampling ended as soon as every ε of this certificate was decided: what is proven at others, and "+
			"radii, are lower bounds, which all samples might raise.")
	}
}

// noteBounds says what a table of certificates by bounds says.
func noteBounds(by *certifiedBy, t *table, attacked bool) {
	t.note("", "%s. On a proven image no perturbation within ε changes the answer of the network, alone or "+
		"controlled: bounds of its logits over the ball leave no other class, with slack for all rounding in float32.",
		clean(by.of.Title))
	if attacked {
		t.note("", "Left by attacks: the least of the suite's attacks in that ball. The best attacker's lies between "+
			"both numbers.")
	}
}

// curves are those of a model: a line a defense that has records.
func (by *certifiedBy) curves(s *suite, model string) curves {
	c := curves{Model: model, Attack: column{Attack: by.attack, norm: "l2", recipe: by.of.Recipe}}
	for i, d := range s.Defenses() {
		if line := by.curve(model, d); line.Steps != nil {
			line.Index = i
			c.Lines = append(c.Lines, line)
		}
	}
	return c
}

// curve is the share of images that are proven at each radius: it holds a value up to a radius and falls behind it.
// Without records there is none.
func (by *certifiedBy) curve(model, defense string) curve {
	c := curve{Defense: defense}
	radii := slices.Sorted(slices.Values(by.radii[cellKey{model: model, defense: defense}]))
	if len(radii) == 0 {
		return c
	}
	n, end := len(radii), 0.0
	for _, col := range by.columns {
		if cell := by.cell(model, defense, col); cell != nil {
			c.Points = append(c.Points, point{*col.Epsilon, cell.Accuracy})
			end = *col.Epsilon
		}
	}
	end = max(end, radii[n-1])
	c.Steps = append(c.Steps, point{0, share(radii, 0)})
	for i, r := range radii {
		if r > 0 && (i == n-1 || radii[i+1] > r) {
			c.Steps = append(c.Steps, point{r, float64(n-1-i) / float64(n)})
		}
	}
	if last := c.Steps[len(c.Steps)-1]; last.Epsilon < end {
		c.Steps = append(c.Steps, point{end, last.Accuracy})
	}
	return c
}

// share is that of the radii above r.
func share(radii []float64, r float64) float64 {
	above := 0
	for _, v := range radii {
		if v > r {
			above++
		}
	}
	return float64(above) / float64(len(radii))
}

// smoothed are the suite's certificates of smoothed classifiers, which have a figure.
func (s *suite) smoothed() (list []*certifiedBy) {
	for _, by := range s.certified {
		if by.of.Smooths() {
			list = append(list, by)
		}
	}
	return list
}
