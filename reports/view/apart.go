package view

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strings"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/reports/words"
)

// Apart is an attack whose cells are not columns of the suite's tables. Corruptions have a cell for each corruption and
// severity; other tables show their mean. A certificate has a cell for each epsilon; smoothing's cells are for the
// smoothed classifiers.
type Apart struct {
	Attack            string
	Of                result.Attack
	Proof             attacks.Proof  // of a certificate
	Columns           []words.Column // of its cells; a certificate's in ascending order of epsilon
	Names, Severities []string       // of corruptions
	Normalised        bool           // AlexNet's errors are known
	cells
	radii  map[cell.Row][]float64 // from records of smoothing, and proved ones of a bracket: one per image
	broken map[cell.Row][]float64 // from a bracket's records, +Inf if nothing breaks the image
}

// setApart removes a cell of a corruption or a certificate from the suite's other cells.
func setApart(s *Suite, c *result.Cell) bool {
	name, a, ok := result.AttackOf(s.File.Attacks, c.Attack)
	if !ok || !a.Corruptions() && !a.Proves() {
		return false
	}
	i := slices.IndexFunc(s.Sets, func(by *Apart) bool { return by.Attack == name })
	if a.Corruptions() {
		s.Attacks = lists.Once(s.Attacks, name)
	}
	if i < 0 {
		if i = len(s.Sets); a.Corruptions() {
			i = len(s.Corrupted())
		}
		s.Sets = slices.Insert(s.Sets, i, newApart(name, a))
	}
	if by := s.Sets[i]; c.Error == "" {
		by.cells[keyOf(c.ID)], by.Normalised = c, by.Normalised || c.AlexNetError > 0
	}
	return true
}

// Corrupted returns the suite's corruptions.
func (s *Suite) Corrupted() []*Apart {
	return lists.Only(s.Sets, func(by *Apart) bool { return by.Of.Corruptions() })
}

// Certified returns the suite's certificates whose proof is such; all for nil.
func (s *Suite) Certified(such func(attacks.Proof) bool) []*Apart {
	return lists.Only(s.Sets, func(by *Apart) bool {
		return by.Of.Proves() && (such == nil || such(by.Proof))
	})
}

func newApart(name string, a result.Attack) *Apart {
	by := &Apart{Attack: name, Of: a, Proof: attacks.ProofOf(a.Kind), cells: cells{}, radii: map[cell.Row][]float64{},
		broken: map[cell.Row][]float64{}}
	for _, attack := range a.Cells(name) {
		col := words.ColumnOf(attack)
		col.Recipe = a.Recipe
		if parts := strings.Split(attack, ":"); len(parts) == 3 {
			by.Names, by.Severities = lists.Once(by.Names, parts[1]), lists.Once(by.Severities, parts[2])
			by.Columns = append(by.Columns, col)
			continue
		}
		for _, e := range slices.Sorted(slices.Values(a.Strengths())) {
			col.Epsilon, col.Norm = cell.Epsilon(e), *a.Norm
			by.Columns = append(by.Columns, col)
		}
		if by.Proof.Gaps {
			col.Norm = *a.Norm
			by.Columns = append(by.Columns, col)
		}
	}
	return by
}

// Apart lists the cells that are not columns: of corruptions, then of certificates.
func (s *Suite) Apart() (out []Compared) {
	for _, by := range s.Sets {
		for _, of := range s.Lines() {
			for _, col := range by.Columns {
				if c := by.Cell(of.Model, of.Defense, col); c != nil {
					out = append(out, Compared{Model: of.Model, Defense: of.Defense, Column: col, Cell: c,
						Alone: by.Cell(of.Model, cell.None, col)})
				}
			}
		}
	}
	return out
}

// Over lists the cells of some corruptions and severities; nil if one is missing.
func (by *Apart) Over(model, defense string, names, severities []string) (list []*result.Cell) {
	for _, name := range names {
		for _, severity := range severities {
			c := by.Cell(model, defense, words.ColumnOf(by.Attack+":"+name+":"+severity))
			if c == nil {
				return nil
			}
			list = append(list, c)
		}
	}
	return list
}

// Mean returns a cell with the mean accuracy over some corruptions and severities; nil if one is missing. It has no
// interval: its cells use the same images.
func (by *Apart) Mean(model, defense string, names, severities []string) *result.Cell {
	of := by.Over(model, defense, names, severities)
	if len(of) == 0 {
		return nil
	}
	m := *of[0]
	m.Accuracy, m.Seconds, m.MaxNorm, m.Warnings = 0, 0, 0, nil
	m.Verdicts, m.CI95, m.Correct, m.Seeds, m.Solver = "", [2]float64{}, 0, nil, nil
	for _, c := range of {
		m.Accuracy += c.Accuracy / float64(len(of))
		m.Seconds += c.Seconds
		m.MaxNorm = max(m.MaxNorm, c.MaxNorm)
		for _, w := range c.Warnings {
			m.Warnings = lists.Once(m.Warnings, w)
		}
	}
	return &m
}

// RadiiOf returns the radii for a model and defense, one per image; nil without records.
func (by *Apart) RadiiOf(model, defense string) []float64 {
	return by.radii[cell.Row{Model: model, Defense: defense}]
}

// add takes the radii of a record. Smoothing's records at other radii repeat those at the first.
func (by *Apart) add(r result.Record) {
	row := cell.Row{Model: r.Model, Defense: r.Defense}
	switch {
	case by.Attack != r.Attack:
	case r.Radius != nil && r.Epsilon == by.Columns[0].Epsilon:
		by.radii[row] = append(by.radii[row], *r.Radius)
	case r.Proven != nil:
		broken := result.Distance(math.Inf(1)) // it is null in a file
		by.radii[row] = append(by.radii[row], *r.Proven)
		by.broken[row] = append(by.broken[row], float64(*cmp.Or(r.Broken, &broken)))
	}
}

// Bracket bounds the robust accuracy of a classifier in a ball from both sides: by proofs and by attacks.
type Bracket struct {
	Norm             string
	Epsilon          cell.Epsilon
	Proven, Attacked float64 // fractions of the images; −1 if unknown
}

// Proofs returns what the certificate alone says of a model and defense, at each of its epsilons.
func (by *Apart) Proofs(model, defense string) (all []Bracket) {
	for _, col := range by.Columns {
		c := by.Cell(model, defense, col)
		if !by.Proof.Gaps {
			one := Bracket{col.Norm, col.Epsilon, -1, -1}
			if c != nil {
				one.Proven = c.Accuracy
			}
			all = append(all, one)
			continue
		}
		for _, e := range slices.Sorted(slices.Values(by.Of.Epsilons)) {
			one := Bracket{col.Norm, cell.Epsilon(e), -1, -1}
			for i := 0; c != nil && i < len(c.Brackets); i++ {
				if b, n := c.Brackets[i], float64(max(c.N, 1)); b.Epsilon == e {
					one.Proven, one.Attacked = float64(b.Proven)/n, float64(b.Left)/n
				}
			}
			all = append(all, one)
		}
	}
	return all
}

// Brackets returns the brackets of a model and defense, at the certificate's epsilons and, for a smoothed classifier,
// at every attack's. If several attacks share a ball, it takes the one that leaves least.
func (by *Apart) Brackets(s *Suite, model, defense string) []Bracket {
	all := by.Proofs(model, defense)
	find := func(col words.Column) int {
		return slices.IndexFunc(all, func(b Bracket) bool { return b.Norm == col.Norm && b.Epsilon == col.Epsilon })
	}
	add := func(col words.Column, proven, attacked float64) {
		i := find(col)
		if i < 0 {
			all = append(all, Bracket{col.Norm, col.Epsilon, proven, attacked})
			return
		}
		b := &all[i]
		b.Proven = max(b.Proven, proven)
		if b.Attacked < 0 || attacked >= 0 && attacked < b.Attacked {
			b.Attacked = attacked
		}
	}
	for _, col := range s.Columns {
		c := s.Cell(model, defense, col)
		switch {
		case col.Epsilon == 0:
		case by.Proof.Smooths:
			if of := by.smoothed(c); of != nil {
				add(col, float64(of.Proven)/float64(max(c.N, 1)), of.Accuracy)
			} else if slices.ContainsFunc(s.Lines(), func(of Series) bool { // other networks were attacked
				return by.smoothed(s.Cell(of.Model, of.Defense, col)) != nil
			}) {
				add(col, -1, -1)
			}
		case c != nil && find(col) >= 0: // this very classifier was attacked
			add(col, -1, c.Accuracy)
		}
	}
	norms := []string{"l2", "linf", "l1", "l0"}
	slices.SortStableFunc(all, func(a, b Bracket) int {
		return cmp.Or(slices.Index(norms, a.Norm)-slices.Index(norms, b.Norm), cmp.Compare(a.Epsilon, b.Epsilon))
	})
	return all
}

// smoothed returns the answers of the certificate's classifier on a cell's images; nil if it was not asked.
func (by *Apart) smoothed(c *result.Cell) *result.Smoothed {
	if c == nil {
		return nil
	}
	return lists.Find(c.Smoothed, func(of result.Smoothed) bool { return of.Certificate == by.Attack })
}

// Curves returns a model's curves: a line for each defense that has records, the fraction of images that are proved at
// each radius.
func (by *Apart) Curves(s *Suite, model string) Curves {
	c := Curves{Row: cell.Row{Model: model}, Attack: words.ColumnOf(by.Attack)}
	c.Attack.Norm, c.Attack.Recipe = "l2", by.Of.Recipe
	for i, d := range s.Defenses() {
		line, radii, end := Curve{Defense: d, Index: i}, by.RadiiOf(model, d), 0.0
		for _, col := range by.Columns {
			if cell := by.Cell(model, d, col); cell != nil {
				end = float64(col.Epsilon)
				line.Points = append(line.Points, Point{end, cell.Accuracy})
			}
		}
		if len(radii) > 0 {
			line.Steps = above(radii, max(end, slices.Max(radii)))
			c.Lines = append(c.Lines, line)
		}
	}
	return c
}

// Bracketed returns a bracket's lines for a model, for each defense that has records the images left by attacks and
// those proven, with a step at each radius to which an image is proved or at which it is broken.
func (by *Apart) Bracketed(s *Suite, model string) (left, proven []Curve) {
	for i, d := range s.Defenses() {
		row := cell.Row{Model: model, Defense: d}
		if radii, broken := by.radii[row], by.broken[row]; len(radii) > 0 {
			left = append(left, Curve{Defense: d, Index: i, Steps: above(broken, radii...)})
			proven = append(proven, Curve{Defense: d, Index: i, Steps: above(radii, broken...)})
		}
	}
	return left, proven
}

// above returns the fraction of values that lie above 0, above each finite value, and above more.
func above(values []float64, more ...float64) (steps []Point) {
	at := slices.DeleteFunc(slices.Concat([]float64{0}, values, more), func(v float64) bool { return math.IsInf(v, 1) })
	slices.Sort(at)
	values = slices.Sorted(slices.Values(values))
	for _, r := range slices.Compact(at) {
		over := len(values) - sort.Search(len(values), func(i int) bool { return values[i] > r })
		steps = append(steps, Point{r, float64(over) / float64(len(values))})
	}
	return steps
}
