package reports

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"selfheal/harness/result"
	"selfheal/internal/number"
)

// Attacker is what a suite's numbers are of; of a mode that is not known it has the name only.
func (s *suite) Attacker() result.Mode { return result.AttackerOf(clean(s.Mode), len(s.Controls) > 0) }

// caption says in a suite's caption which attacker its numbers are of.
func (s *suite) caption(what string) string { return what + "; attacker: " + s.Attacker().Name }

// Knows says in words what a suite's attacker knows; "" for a mode that is not known.
func (s *suite) Knows() string {
	if s.Quoted { // a table of a paper is not the place to explain it again
		return ""
	}
	return s.Attacker().Knows
}

// place is where attackers of several modes meet: their numbers may be compared.
type place struct {
	dataset, model, defense, norm string
	epsilon                       float64
	n                             int
}

// weakest are the cells of lowest accuracy by mode, of those under one attack, or under any if it is "".
func weakest(cells []*result.Cell, attack string) map[string]*result.Cell {
	low := map[string]*result.Cell{}
	for _, c := range cells {
		if (attack == "" || c.Attack == attack) && (low[c.Mode] == nil || score(c) < score(low[c.Mode])) {
			low[c.Mode] = c
		}
	}
	return low
}

// meetings sorts the attacked cells of all suites by place, in the order of the suites.
func (v reportTables) meetings() (order []place, at map[place][]*result.Cell, columns map[string]column) {
	at, columns = map[place][]*result.Cell{}, map[string]column{}
	for _, s := range v.Suites {
		s.each(func(c *result.Cell, _ column) {
			if c.Attack == "none" || c.Norm == nil || c.Epsilon == nil {
				return
			}
			known := columns[c.Attack]
			known.Attack = c.Attack
			known.learn(c)
			columns[c.Attack] = known
			p := place{s.Dataset, c.Model, c.Defense, *c.Norm, *c.Epsilon, c.N}
			if at[p] == nil {
				order = append(order, p)
			}
			at[p] = append(at[p], c)
		})
	}
	return order, at, columns
}

// KnowledgeTable puts what was scored in several modes side by side. Each attack
// that several modes share has a line; where none is of all the modes that there are,
// one more line has the strongest attack of each mode, by name.
func (v reportTables) KnowledgeTable() table {
	t := table{Anchor: ".knowledge", Lead: 4, Caption: "Accuracy in % of controlled networks, by what the attacker " +
		"knows; the lowest in bold",
		Head: []string{"Data set", "Model", "Control", "Attack", "Images", "No control"}}
	if v.Quoted { // equal names there are not equal controls
		return t
	}
	order, at, columns := v.meetings()
	order = slices.DeleteFunc(order, func(p place) bool { return p.defense == "none" || len(weakest(at[p], "")) < 2 })
	all := map[string]*result.Cell{}
	for _, p := range order {
		maps.Copy(all, weakest(at[p], ""))
	}
	names := slices.DeleteFunc(result.ModeNames(), func(name string) bool { return all[name] == nil })
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains(names, name) { // one that is not known
			names = append(names, name)
		}
	}
	var words []string
	for _, name := range names {
		m, _ := result.ModeOf(clean(name))
		t.Head = append(t.Head, m.Title)
		if m.Made != "" {
			words = append(words, m.Title+", "+m.Made)
		}
	}
	if words != nil {
		t.Notes = []footnote{{"", "The adversarial images: " + strings.Join(words, "; ")}}
	}
	for _, p := range order {
		strongest, whole, bare := weakest(at[p], ""), false, p
		bare.defense = "none"
		attacks := distinct(at[p], func(c *result.Cell) string { return c.Attack })
		for _, attack := range attacks {
			cells := weakest(at[p], attack)
			if len(cells) < 2 {
				continue
			}
			whole = whole || len(cells) == len(strongest)
			col := columns[attack]
			col.Epsilon = &p.epsilon
			col.ambiguous = slices.ContainsFunc(attacks, func(other string) bool {
				return other != attack && columns[other].Name() == col.Name()
			})
			var baseline *result.Cell
			for _, name := range names { // the same attack on the same network, whatever the mode
				baseline = cmp.Or(baseline, weakest(at[bare], attack)[name])
			}
			t.Rows = append(t.Rows, p.line(col.Title(), baseline, names, cells, nil))
		}
		if !whole {
			t.Rows = append(t.Rows, p.line("strongest "+normName(p.norm)+" ("+number.Format(p.epsilon)+")", nil, names,
				strongest, columns))
		}
	}
	if slices.ContainsFunc(t.Rows, func(r []box) bool { return r[2].Spans[0].Mark != "" }) {
		t.note(loopMark, loopID+": the control solves an optimisation problem for every image, so that only an attack "+
			"through that loop judges its robustness")
	}
	return t.marked()
}

// line is a row of the table of what the attacker knows. With names, each number is
// followed by the attack that it is of.
func (p place) line(attack string, baseline *result.Cell, modes []string, cells map[string]*result.Cell,
	names map[string]column) []box {
	defense := text(defenseName(p.defense))
	low, high := 2.0, -1.0
	for _, c := range cells {
		low, high = min(low, score(c)), max(high, score(c))
		if slices.ContainsFunc(c.Warnings, func(w result.Warning) bool { return w.ID == loopID }) {
			defense.Spans[0].Mark = loopMark
		}
	}
	line := boxes(clean(p.dataset), clean(p.model), defense, attack, thousands(p.n), scored(baseline))
	for _, name := range modes {
		c := cells[name]
		b := text(scored(c))
		b.Spans[0].Bold = c != nil && score(c) == low && low < high
		if c != nil && names != nil {
			b.Spans = append(b.Spans, span{Text: " (" + names[c.Attack].Short() + ")"})
		}
		line = append(line, b)
	}
	return line
}
