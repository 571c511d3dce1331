package table

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"selfheal/control/theory"
	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/internal/number"
	"selfheal/reports/view"
	"selfheal/reports/words"
)

// HeadlineTable shows the whole report, one line for each suite, model and control. Values that are equal in all lines
// stand in the caption. A quoted report has no table, because nothing was run.
func (v Report) HeadlineTable() Table {
	t := Table{Anchor: ".headline", Caption: "Accuracy in %, on clean images and the lowest under attack"}
	if v.Quoted {
		return t
	}
	modes := lists.Distinct(v.Suites, func(s Suite) string { return words.If(!s.Plain(), s.Attacker().Name) })
	rows := slices.Concat(lists.Map(v.Suites, Suite.Rows)...)
	controls := lists.Distinct(rows, func(r view.Row) string { return r.Control }) // "" for a suite without controls
	named := lists.Only(controls, func(c string) bool { return c != "" })
	suites, varied := len(v.Suites) > 1, len(controls) > 1
	t.lead("Suite", suites)
	t.lead("Model", !varied)
	t.lead("Model · control", varied)
	if varied {
		t.Caption += ": undefended / controlled"
	} else {
		t.Caption += versus(named)
	}
	t.head(true, "Clean", "Lowest", "95 % intervals", lowestHead)
	if t.head(len(modes) > 1, attackerHead); len(modes) == 1 && modes[0] != "" {
		t.Caption += "; attacker: " + modes[0]
	}
	loops, others := false, false // marks
	for _, s := range v.Suites {
		for _, r := range s.Rows() {
			who := text(words.Clean(r.Model))
			if varied && r.Control != "" {
				who.Spans = append(who.Spans, Span{Text: " · "}, Span{Text: words.Clean(r.Control), Small: true})
			}
			if s.RowMarks(r.Model, r.Control) != "" {
				who.Spans[len(who.Spans)-1].Mark, loops = view.LoopMark, true
			}
			suite := text(words.Clean(s.Name))
			suite.Link = "suite-" + s.Slug
			line := boxes(shown(suites, suite), who, s.headline(r, len(named) > 0),
				shown(len(modes) > 1, s.AttackerOf(r.Control).Title))
			t.add(line)
			spans := slices.Concat(lists.Map(line, func(b Box) []Span { return b.Spans })...)
			others = others ||
				slices.ContainsFunc(spans, func(s Span) bool { return s.Mark != "" && s.Mark != view.LoopMark })
		}
	}
	if loops {
		t.note(view.LoopMark, view.LoopID+": the control solves an optimisation problem for every image")
	}
	if others {
		t.note("", "Other marks are those of the footnotes of the line's suite.")
	}
	if slices.ContainsFunc(v.Suites, func(s Suite) bool { return s.Seeds > 1 }) {
		t.note("", "Of several seeds the accuracy is mean ± standard deviation, the interval the first seed's.")
	}
	return t.marked()
}

// headline returns a row's accuracies: clean, the lowest, its interval and its attack.
func (s Suite) headline(r view.Row, controlled bool) []Box {
	under := func(side int) (low *result.Cell, attack string) {
		low, column := s.Lowest(r.Sides[side])
		if low == nil {
			return nil, words.Dash
		}
		return low, column.Title()
	}
	bare, attack := under(0)
	healed, other := under(1)
	if controlled && attack != other {
		attack += " / " + other
	}
	limits := func(c *result.Cell) string { return cmp.Or(words.Interval(c), words.Dash) }
	lowest := view.Entry{bare, healed}
	return boxes(s.pair(r.Entry(0), view.Scored, true, controlled), s.pair(lowest, view.Scored, true, controlled),
		s.pair(lowest, limits, false, controlled), text(attack))
}

// pair writes both sides of an entry; for accuracies the better one is bold, with the marks of the suite's footnotes.
func (s Suite) pair(e view.Entry, say func(*result.Cell) string, accuracies, controlled bool) Box {
	one := func(side int) Span {
		if !accuracies {
			return Span{Text: say(e[side]), Small: true}
		}
		return Span{Text: say(e[side]), Bold: e.Better() == 2*side-1, Mark: s.Marks(e[side])}
	}
	b := Box{Bar: -1, Anchor: s.Slug, Spans: []Span{one(0)}}
	if controlled {
		b.Spans = append(b.Spans, Span{Text: " / "}, one(1))
	}
	return b
}

// WarningTable counts warnings by id, the most frequent first. It shows at most so many kinds, with names of at most so
// many letters.
func (v Report) WarningTable(kinds, letters int) Table {
	t := Table{Lead: 1, Caption: "Warnings", Head: []string{"Warning", "Accuracies"}}
	count := map[string]int{}
	for _, c := range v.File.Cells {
		for _, id := range lists.Distinct(c.Warnings, func(w result.Warning) string { return w.ID }) {
			count[id]++
		}
	}
	ids := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(count[b]-count[a], strings.Compare(a, b))
	})
	for _, id := range ids[:min(len(ids), kinds)] {
		t.add(words.Clip(words.Clean(id), letters), words.Thousands(count[id]))
	}
	if n := len(ids) - len(t.Rows); n > 0 {
		t.note("", "and %s of other kinds", words.Plural(n, "warning"))
	}
	return t
}

// place identifies cells of several modes whose numbers may be compared.
type place struct {
	cell.Row
	norm    string
	epsilon cell.Epsilon
	n       int
}

// weakest returns by mode the cells of lowest accuracy under one attack, or under any if attack is "".
func weakest(cells []*result.Cell, attack string) map[string]*result.Cell {
	low := map[string]*result.Cell{}
	for _, c := range cells {
		if (attack == "" || c.Attack == attack) && (low[c.Mode] == nil || view.Score(c) < view.Score(low[c.Mode])) {
			low[c.Mode] = c
		}
	}
	return low
}

// meetings groups the attacked cells of all suites by place, in the order of the suites.
func (v Report) meetings() (order []place, at map[place][]*result.Cell, columns map[string]words.Column) {
	at, columns = map[place][]*result.Cell{}, map[string]words.Column{}
	for _, s := range v.Suites {
		s.Each(func(c *result.Cell, _ words.Column) {
			if c.Attack == cell.None || c.Norm == nil || c.Epsilon == 0 {
				return
			}
			known := columns[c.Attack]
			known.Attack = c.Attack
			known.Learn(c)
			columns[c.Attack] = known
			p := place{c.Row, *c.Norm, c.Epsilon, c.N}
			p.Defense = s.Side(c.Defense).Control // of every mode
			if at[p] == nil {
				order = append(order, p)
			}
			at[p] = append(at[p], c)
		})
	}
	return order, at, columns
}

// KnowledgeTable puts the scores of several modes side by side. It has a line for each attack that several modes share.
// If no attack is in all modes, one more line has the strongest attack of each mode, by name.
func (v Report) KnowledgeTable() Table {
	t := Table{Anchor: ".knowledge", Lead: 4, Caption: "Accuracy in % of controlled networks, by what the attacker " +
		"knows; the lowest in bold",
		Head: []string{"Data set", "Model", "Control", "Attack", "Images", "Undefended"}}
	if v.Quoted { // equal names do not mean equal controls there
		return t
	}
	order, at, columns := v.meetings()
	order = lists.Only(order, func(p place) bool { return p.Defense != cell.None && len(weakest(at[p], "")) > 1 })
	all := map[string]*result.Cell{}
	for _, p := range order {
		maps.Copy(all, weakest(at[p], ""))
	}
	names := lists.Only(result.ModeNames(), func(name string) bool { return all[name] != nil })
	for _, name := range slices.Sorted(maps.Keys(all)) { // the unknown ones
		names = lists.Once(names, name)
	}
	var said []string
	for _, name := range names {
		m, _ := result.ModeOf(words.Clean(name))
		t.head(true, m.Title)
		if m.Made != "" {
			said = append(said, m.Title+", "+m.Made)
		}
	}
	if said != nil {
		t.note("", "The adversarial images: %s", strings.Join(said, "; "))
	}
	for _, p := range order {
		strongest, whole, bare := weakest(at[p], ""), false, p
		bare.Defense = cell.None
		attacks := lists.Distinct(at[p], func(c *result.Cell) string { return c.Attack })
		for _, attack := range attacks {
			cells := weakest(at[p], attack)
			if len(cells) < 2 {
				continue
			}
			whole = whole || len(cells) == len(strongest)
			col := columns[attack]
			col.Epsilon = p.epsilon
			col.Ambiguous = slices.ContainsFunc(attacks, func(other string) bool {
				return other != attack && columns[other].Name() == col.Name()
			})
			var baseline *result.Cell
			for _, name := range append([]string{result.Whitebox}, names...) { // the same attack, in every mode
				baseline = cmp.Or(baseline, weakest(at[bare], attack)[name])
			}
			t.add(p.line(col.Title(), baseline, names, cells, nil))
		}
		if !whole {
			name := "strongest " + words.NormName(p.norm) + " (" + p.epsilon.String() + ")"
			t.add(p.line(name, nil, names, strongest, columns))
		}
	}
	if slices.ContainsFunc(t.Rows, func(r []Box) bool { return r[2].Spans[0].Mark != "" }) {
		t.note(view.LoopMark, view.LoopID+": the control solves an optimisation problem for every image, so that only "+
			"an attack through that loop judges its robustness")
	}
	return t.marked()
}

// line returns a row of the table of what the attacker knows. With names, each number is followed by its attack.
func (p place) line(attack string, baseline *result.Cell, modes []string, cells map[string]*result.Cell,
	names map[string]words.Column) []Box {
	defense := text(words.DefenseName(p.Defense))
	low, high := 2.0, -1.0
	for _, c := range cells {
		low, high = min(low, view.Score(c)), max(high, view.Score(c))
		if slices.ContainsFunc(c.Warnings, func(w result.Warning) bool { return w.ID == view.LoopID }) {
			defense.Spans[0].Mark = view.LoopMark
		}
	}
	line := boxes(p.Dataset, p.Model, defense, attack, p.n, view.Scored(baseline))
	for _, name := range modes {
		c := cells[name]
		b := text(view.Scored(c))
		b.Spans[0].Bold = c != nil && view.Score(c) == low && low < high
		if c != nil && names != nil {
			b.Spans = append(b.Spans, Span{Text: " (" + names[c.Attack].Short() + ")"})
		}
		line = append(line, b)
	}
	return line
}

// Made returns the tables of settings that the numbers depend on, except empty ones.
func (v Report) Made() []Table {
	return filled(v.datasetTable(), v.modelTable(), v.attackTable(), v.controlTable())
}

// described joins the parts of a piece of provenance that are not empty.
func described(parts ...string) Box {
	parts = slices.DeleteFunc(parts, func(w string) bool { return w == "" })
	return text(cmp.Or(words.Clean(strings.Join(parts, "; ")), words.Dash))
}

// titled puts a word before a value; "" for an empty value.
func titled(word string, v any) string {
	said, is := v.(string)
	if !is {
		said = setting(v)
	}
	if said == "" || reflect.ValueOf(v).IsZero() {
		return ""
	}
	return word + " " + said
}

func (v Report) datasetTable() Table {
	t := Table{Lead: 1, Caption: "Data sets", Head: []string{"Data set", "Images", formatHead, chosenHead,
		"SHA-256 of pixels and labels"}}
	for _, name := range slices.Sorted(maps.Keys(v.File.Datasets)) {
		d := v.File.Datasets[name]
		classes := words.If(d.Classes > 0, words.Plural(d.Classes, "class", "classes"))
		t.add(name, d.N, described(d.Format), described(d.Words(), titled("indices", indices(d.Indices)),
			titled("the first", d.Limit), classes), d.SHA256)
	}
	return t
}

// indices writes a list of images: a contiguous range by its ends, a long list by its first dozen.
func indices(ids []int) string {
	n := len(ids)
	if n > 2 && ids[n-1]-ids[0] == n-1 && slices.IsSorted(ids) {
		return fmt.Sprintf("%d to %d", ids[0], ids[n-1])
	}
	return words.Some(strings.Fields(setting(ids)))
}

func (v Report) modelTable() Table {
	t := Table{Lead: 1, Caption: "Models",
		Head: []string{"Model", "Parameters", "Segments", "FLOPs per image", takenHead, "SHA-256 of the file"}}
	for _, name := range slices.Sorted(maps.Keys(v.File.Models)) {
		m := v.File.Models[name]
		var flops any = words.Dash
		if m.FLOPs > 0 {
			flops = m.FLOPs
		}
		p := cmp.Or(m.Preprocess, &result.Preprocess{})
		t.add(name, m.Parameters, m.Segments, flops, described(m.Layout, titled("scale", p.Scale),
			titled("mean", p.Mean), titled("std", p.Std), m.Output, m.OutputName,
			titled("split at", strings.Join(m.Split, ", "))), m.SHA256)
	}
	return t
}

func (v Report) attackTable() Table {
	t := Table{Lead: 2, Caption: "Attacks", Head: []string{"Attack", "Made as", "Recipe", "Norm", "ε", settingsHead}}
	for _, name := range slices.Sorted(maps.Keys(v.File.Attacks)) {
		a := v.File.Attacks[name]
		t.add(name, described(a.Title), described(a.Recipe), described(words.NormName(*cmp.Or(a.Norm, new("")))),
			described(setting(a.Epsilons)), described(settings(a.Parameters)))
		for _, c := range a.Components {
			t.add(name, "component "+words.Component(c.Kind), "", "", "", described(settings(c.Parameters)))
		}
	}
	return t.marked()
}

func (v Report) controlTable() Table {
	t := Table{Lead: 2, Caption: "Controls", Head: []string{"Control", "Part", settingsHead}}
	for _, name := range slices.Sorted(maps.Keys(v.File.Controls)) {
		c := v.File.Controls[name]
		t.add(name, "solver", described(settings(c.Solver)))
		for _, l := range c.Layers {
			e := l.Embedding
			parts := []string{e.Kind, titled("fitted on", e.Fit), e.Path, titled("SHA-256", e.SHA256),
				titled("variance", e.Variance), titled("rank", e.Rank)}
			files := lists.Map(slices.Sorted(maps.Keys(e.Files)), func(size string) string {
				return "SHA-256 of size " + size + " " + e.Files[size]
			})
			t.add(name, words.LayerName(l.At), described(append(parts, files...)...))
		}
	}
	return t.marked()
}

func settings(p result.Parameters) string {
	names := slices.Sorted(maps.Keys(p))
	for i, name := range names {
		names[i] += " " + setting(p[name])
	}
	return strings.Join(names, ", ")
}

// setting writes a parameter's value: numbers as in a config, lists without brackets.
func setting(v any) string {
	switch v := v.(type) {
	case float64:
		return number.Format(v)
	case []float64:
		return strings.Join(lists.Map(v, number.Format), ", ")
	}
	return strings.Trim(fmt.Sprint(v), "[]")
}

func (v Report) FitTable() Table {
	t := Table{Lead: 3, Caption: "Fitted embeddings",
		Head: []string{"Control", "Model", "At", "Dimension", "Rank", "Variance kept (%)", "Samples", "Time"}}
	for _, f := range v.File.Fits {
		time := timed(f.Seconds)
		if f.Cached {
			time = text("cached")
		}
		t.add(f.Control, f.Model, f.At, f.Dim, f.Rank, words.Percent(f.Variance, 1000), f.Samples, time)
	}
	return t.marked()
}

// Checks returns the theory's checks, one table per experiment. They compare with a finer tolerance than other tables.
func Checks(checks []theory.Check) (out []Table) {
	for _, name := range lists.Distinct(checks, func(c theory.Check) string { return c.Part }) {
		part := Table{Lead: 1, Caption: words.Heading(name),
			Head: []string{"Check", claimHead, "Measured", "Expected", "Tolerance", passHead}}
		for _, c := range checks {
			if c.Part != name {
				continue
			}
			tolerance, outcome := words.Dash, text("pass")
			switch {
			case c.Factor != 0:
				tolerance = c.Looseness()
			case c.Tolerance != 0:
				tolerance = words.Digits(c.Tolerance, 6)
			}
			if !c.Pass {
				outcome = bold("FAIL", true)
			}
			expected := c.Relation + words.Nbsp + words.Digits(c.Expected, 6)
			part.add(c.Name, c.Claim, words.Digits(c.Measured, 6), expected, tolerance, outcome)
		}
		out = append(out, part)
	}
	return out
}
