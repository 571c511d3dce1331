package config

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/harness/result/published"
)

// Published are the published numbers that a suite's reports show beside its own.
type Published struct {
	Table string                 // name of a bundled table, one of [published.Names]; "" if Own has the numbers
	Own   []result.PublishedCell // numbers in the config, of the undefended network and the suite's first control
}

// published reads a bundled table's name, or a mapping {MODEL: {none or ATTACK: [baseline, controlled]}}. Its models
// and attacks need not be the suite's, so that --set may cut the suite.
func (s *Suite) published() value {
	p := &Published{}
	of := func(section string) func(d *decoder, e entry, where string) {
		return func(d *decoder, e entry, where string) { d.refer(&node{pos: e.pos, text: e.key}, where, section) }
	}
	const form = "{none or ATTACK: [baseline, controlled]}"
	own := mapping("a mapping", of("models"), func(model string) value {
		numbers := func(attack string) value { return s.own(p, model, attack) }
		return mapping("a mapping "+form, of("attacks"), numbers)
	})
	table := choice(&p.Table, published.Names())
	return either("the name of a published table or a mapping {MODEL: "+form+"}", table, own).then(
		func(*decoder, *node, string) { s.Published = p }).at(&s.Published)
}

// own reads the numbers of a model under an attack, in per cent: undefended, and under the suite's first control. One
// may be missing.
func (s *Suite) own(p *Published, model, attack string) value {
	number := func(v *float64) value {
		*v = math.NaN()
		given := percentage(v)
		return value{schema: func() schema { return anyOf(schema{"type": "null"}, given.schema()) },
			decode: func(d *decoder, n *node, where string) {
				if !n.isNull() {
					given.decode(d, n, where)
				}
			}}
	}
	var sides []float64
	return list(&sides, span{least: 1, most: 2}, number).then(func(d *decoder, n *node, where string) {
		defenses := [2]string{cell.None, "controlled"}
		copy(defenses[1:], s.Controls)
		d.later = append(d.later, func(c *Config) {
			one := result.PublishedCell{Row: cell.Row{Model: model}, Column: cell.Column{Attack: attack}}
			if a := c.Attack(attack); a != nil && !attacks.Free(a.Kind) {
				norm := a.Norm.String()
				one.Norm, one.Epsilon = &norm, cell.Epsilon(a.Epsilons[0])
				if len(a.Epsilons) != 1 {
					d.fail(n.pos, "%s: attack %s has %d epsilons; give each an attack of its own", where, attack,
						len(a.Epsilons))
				}
			}
			for i, accuracy := range sides {
				if one.Defense, one.Accuracy = defenses[i], accuracy; !math.IsNaN(accuracy) {
					p.Own = append(p.Own, one)
				}
			}
		})
	})
}

// PublishedNumbers returns the numbers published for a suite's cells, or nil if it names none. A number of a bundled
// table belongs to the suite's model of that name (see modelWords), to its AutoAttack or PGD with that norm and
// epsilon, and to no control or the suite's controls, in the order of the table's sides. A number without such a cell
// keeps the paper's names.
func (c *Config) PublishedNumbers(s *Suite) *result.Published {
	if s.Published == nil {
		return nil
	}
	table, known := published.Lookup(s.Published.Table)
	if !known {
		return &result.Published{Source: "config", Cells: append([]result.PublishedCell{}, s.Published.Own...)}
	}
	p := &result.Published{Source: table.Name, Mode: table.Mode, Cells: []result.PublishedCell{}}
	defenses, controls := table.Sides, s.Controls
	for i, side := range defenses {
		if side != cell.None && len(controls) > 0 {
			defenses[i], controls = controls[0], controls[1:]
		}
	}
	for _, known := range table.Cells {
		a := known.Attack
		one := result.PublishedCell{Column: c.publishedColumn(s, a)}
		one.Model = publishedModel(table, known, s.Models)
		if a.Name != cell.None {
			one.Norm = &a.Norm
		}
		for side, defense := range defenses {
			one.Defense, one.Accuracy = defense, known.Accuracy[side]
			p.Cells = append(p.Cells, one)
		}
	}
	return p
}

// publishedModel returns the suite's name for a cell's network, or the paper's if the suite lacks it.
func publishedModel(t published.Table, c published.Cell, models []string) string {
	both := slices.ContainsFunc(t.Cells, func(other published.Cell) bool { return other.Training != c.Training })
	paper, _ := modelWords(c.Model)
	i := slices.IndexFunc(models, func(m string) bool {
		word, training := modelWords(m)
		// A name without training means the paper's only one, or its standard one.
		return word == paper && (training == c.Training || training == "" && (!both || c.Training == "standard"))
	})
	switch {
	case i >= 0:
		return models[i]
	case both:
		return c.Model + " " + c.Training
	}
	return c.Model
}

// modelWords reduces a network's name to the part that all spellings share: RN-18-robust to rn18, trained robust.
func modelWords(name string) (model, training string) {
	between := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	for _, word := range strings.FieldsFunc(strings.ToLower(name), between) {
		switch word {
		case "standard", "robust":
			training = word
		default:
			model += word
		}
	}
	return strings.NewReplacer("wideresnet", "wrn", "resnet", "rn").Replace(model), training
}

// publishedColumn returns the suite's attack for a published one, if one has its kind, norm and epsilon; the standard
// version comes first.
func (c *Config) publishedColumn(s *Suite, a published.Attack) cell.Column {
	found := cell.Column{Attack: a.Name, Epsilon: cell.Epsilon(a.Epsilon)}
	for _, candidate := range s.Attacks {
		of := c.Attack(candidate)
		if of == nil || of.Kind != a.Kind || of.Norm.String() != a.Norm || of.Version == "custom" {
			continue
		}
		near := func(e float64) bool { return math.Abs(e-a.Epsilon) <= 1e-4*a.Epsilon } // 0.03137 is also 8/255
		i := slices.IndexFunc(of.Epsilons, near)
		if i >= 0 && cmp.Or(of.Version, "standard") == "standard" {
			return cell.Column{Attack: candidate, Epsilon: cell.Epsilon(of.Epsilons[i])}
		}
		if i >= 0 && found.Attack == a.Name {
			found = cell.Column{Attack: candidate, Epsilon: cell.Epsilon(of.Epsilons[i])}
		}
	}
	return found
}
