package reports

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"selfheal/harness/result"
	"selfheal/internal/number"
)

// modeOf finds a mode; one that is not known has its name only.
func modeOf(name string) result.Mode {
	m, _ := result.ModeOf(clean(name))
	return m
}

// caption says in a suite's caption which attacker its numbers are of.
func (s *suite) caption(what string) string { return what + "; attacker: " + clean(s.Mode) }

// Attacker says in words what a suite's attacker knows; "" for a mode that is not known.
func (s *suite) Attacker() string {
	if s.Quoted { // a table of a paper is not the place to explain it again
		return ""
	}
	return modeOf(s.Mode).Knows
}

// place is where attackers of several modes meet: their numbers may be compared.
type place struct {
	dataset, model, defense, norm string
	epsilon                       float64
	n                             int
}

// meeting holds the cells of one place, under each of its attacks by mode.
type meeting struct {
	attacks []string
	cells   map[string]map[string]*result.Cell // by attack and mode
}

// modes are those that some cell of the meeting is of, in no order.
func (m *meeting) modes() map[string]bool {
	names := map[string]bool{}
	for _, of := range m.cells {
		for name := range of {
			names[name] = true
		}
	}
	return names
}

// rank is a mode's place in the order of modes, behind all of them if it is not known.
func rank(name string) int {
	if i := slices.Index(result.ModeNames(), name); i >= 0 {
		return i
	}
	return len(result.Modes)
}

// strongest are the cells of lowest accuracy by mode, over all attacks.
func (m *meeting) strongest() map[string]*result.Cell {
	low := map[string]*result.Cell{}
	for _, attack := range m.attacks {
		for name, c := range m.cells[attack] {
			if low[name] == nil || score(c) < score(low[name]) {
				low[name] = c
			}
		}
	}
	return low
}

// meetings sorts the attacked cells of all suites by place, in the order of the suites.
func (v *view) meetings() (order []place, at map[place]*meeting, columns map[string]column) {
	at, columns = map[place]*meeting{}, map[string]column{}
	for _, s := range v.Suites {
		s.each(func(c *result.Cell, col column) {
			if c.Attack == "none" || c.Norm == nil || c.Epsilon == nil {
				return
			}
			known := columns[c.Attack]
			known.Attack = c.Attack
			known.learn(c)
			columns[c.Attack] = known
			p := place{s.Dataset, c.Model, c.Defense, *c.Norm, *c.Epsilon, c.N}
			if at[p] == nil {
				at[p], order = &meeting{cells: map[string]map[string]*result.Cell{}}, append(order, p)
			}
			m := at[p]
			if m.cells[c.Attack] == nil {
				m.cells[c.Attack], m.attacks = map[string]*result.Cell{}, append(m.attacks, c.Attack)
			}
			if m.cells[c.Attack][s.Mode] == nil {
				m.cells[c.Attack][s.Mode] = c
			}
		})
	}
	return order, at, columns
}

// KnowledgeTable puts what was scored in several modes side by side. Each attack
// that several modes share has a line; where none is of all the modes that there are,
// one more line has the strongest attack of each mode, by name.
func (v *view) KnowledgeTable() table {
	t := table{Anchor: ".knowledge", Lead: 4, Caption: "Accuracy in % of controlled networks, by what the attacker " +
		"knows; the lowest in bold",
		Head: []string{"Data set", "Model", "Control", "Attack", "Images", "No control"}}
	if v.Quoted { // equal names there are not equal controls
		return t
	}
	order, at, columns := v.meetings()
	order = slices.DeleteFunc(order, func(p place) bool { return p.defense == "none" || len(at[p].modes()) < 2 })
	all := map[string]bool{}
	for _, p := range order {
		maps.Copy(all, at[p].modes())
	}
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
	var words []string
	for _, name := range names {
		m := modeOf(name)
		t.Head = append(t.Head, m.Title)
		if m.Made != "" {
			words = append(words, m.Title+", "+m.Made)
		}
	}
	if words != nil {
		t.Notes = []footnote{{"", "The adversarial images: " + strings.Join(words, "; ")}}
	}
	for _, p := range order {
		m, whole, bare := at[p], false, p
		bare.defense = "none"
		for _, attack := range m.attacks {
			if len(m.cells[attack]) < 2 {
				continue
			}
			whole = whole || len(m.cells[attack]) == len(m.modes())
			col := columns[attack]
			col.Epsilon = &p.epsilon
			col.ambiguous = slices.ContainsFunc(m.attacks, func(other string) bool {
				return other != attack && columns[other].Name() == col.Name()
			})
			var baseline *result.Cell
			if undefended := at[bare]; undefended != nil {
				for _, name := range names { // the same attack on the same network, whatever the mode
					baseline = cmp.Or(baseline, undefended.cells[attack][name])
				}
			}
			t.Rows = append(t.Rows, p.line(col.Title(), baseline, names, m.cells[attack], nil))
		}
		if !whole {
			t.Rows = append(t.Rows, p.line("strongest "+normName(p.norm)+" ("+number.Format(p.epsilon)+")", nil, names,
				m.strongest(), columns))
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
		if looped(c) {
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
