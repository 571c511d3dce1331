package reports

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"selfheal/harness/result"
	"selfheal/harness/result/published"
)

// inIntervalHead heads the column of words in the table of published numbers.
const inIntervalHead = "Published in our interval"

// compared is a cell of ours beside the published number of the same cell.
type compared struct {
	model, defense string
	col            column
	cell           *result.Cell // nil for a number whose cell was not run
	published      *float64     // a share; nil for a cell that the source lacks
	alone          *result.Cell // of a corruption: the network's alone
}

func publishedKey(p result.PublishedCell) cellKey {
	return cellKey{p.Model, p.Defense, p.Attack, orMinusOne(p.Epsilon)}
}

// compared lists the suite's cells and the published numbers: by model, defense and
// column, then the numbers of cells that the suite has no place for. In a view that is
// quoted every cell is a published number.
func (s *suite) compared() (out []compared) {
	left, numbers := map[cellKey]float64{}, []result.PublishedCell(nil)
	if s.Published != nil {
		numbers = s.Published.Cells
	}
	for _, p := range numbers {
		left[publishedKey(p)] = p.Accuracy
	}
	for _, m := range s.Models {
		for _, one := range s.Series(m) {
			for i, c := range one.Cells {
				line := compared{model: m, defense: one.Defense, col: s.Columns[i], cell: c}
				key := cellKey{m, one.Defense, line.col.Attack, orMinusOne(line.col.Epsilon)}
				if p, known := left[key]; known {
					delete(left, key)
					line.published = &p
				}
				if c != nil && s.Quoted {
					line.cell, line.published = nil, &c.Accuracy
				}
				if line.cell != nil || line.published != nil {
					out = append(out, line)
				}
			}
		}
	}
	var rest []compared // numbers without a place
	for _, p := range numbers {
		if accuracy, open := left[publishedKey(p)]; open {
			delete(left, publishedKey(p))
			rest = append(rest, compared{model: p.Model, defense: p.Defense, col: s.publishedColumn(p),
				published: &accuracy})
		}
	}
	network := func(c compared) [2]string { return [2]string{c.model, c.defense} }
	for _, of := range distinct(rest, network) { // the attacks on one after another
		for _, c := range rest {
			if network(c) == of {
				out = append(out, c)
			}
		}
	}
	return out
}

// publishedColumn is the suite's column of a published number, or where it has none one
// that calls the attack as the paper's tables do.
func (s *suite) publishedColumn(p result.PublishedCell) column {
	col := column{Attack: p.Attack, Epsilon: p.Epsilon}
	if i := slices.IndexFunc(s.Columns, col.same); i >= 0 {
		return s.Columns[i]
	}
	if p.Norm != nil {
		col.norm = *p.Norm
	}
	t, _ := published.Lookup(s.Published.Source)
	if i := slices.IndexFunc(t.Cells, func(c published.Cell) bool { return c.Attack.Name == p.Attack }); i >= 0 {
		col.recipe = t.Cells[i].Attack.Kind
	}
	return col
}

// difference is ours minus the published number; both are there.
func (c compared) difference() float64 { return c.cell.Accuracy - *c.published }

// judged reports whether there is a number, and an interval of ours to look for it in.
func (c compared) judged() bool { return c.cell != nil && c.published != nil && interval(c.cell) != "" }

// side says where the published number lies: −1 below our interval, 0 in it, +1 above.
// A number printed to a hundredth of a point is in it when it may have been so before
// it was rounded.
func (c compared) side() int {
	const half = 0.00005
	switch {
	case *c.published < c.cell.CI95[0]-half:
		return -1
	case *c.published > c.cell.CI95[1]+half:
		return 1
	}
	return 0
}

// verdict is side in words, or why there is none.
func (c compared) verdict() string {
	switch {
	case c.cell == nil:
		return "not run"
	case c.published == nil:
		return "extra"
	case !c.judged():
		return dash
	}
	return [...]string{"no, below", "yes", "no, above"}[c.side()+1]
}

// ComparisonTable puts ours beside the published numbers, a line a cell; without rows
// where the suite has none. Numbers of networks that the suite lacks are counted beneath it.
func (s suiteTables) ComparisonTable() table {
	if s.Published == nil {
		return table{}
	}
	ours := "ours"
	if first := s.ofFirstSeed(); first != "" {
		ours += first + ","
	}
	t := table{Anchor: s.Slug, Lead: 3, Caption: s.caption("Accuracy in %: " + ours + " beside " + s.publishedSource()),
		Head: []string{"Model", "Defense", "Attack", "Ours", "95 % interval", "Published", "Difference (points)",
			inIntervalHead}}
	inside, judged, extra, open := 0, 0, 0, 0
	var lacking []string
	for _, c := range s.compared() {
		if !slices.Contains(s.Models, c.model) {
			lacking = append(lacking, clean(c.model))
			continue
		}
		theirs, difference := dash, dash
		if c.published != nil {
			theirs = percent(*c.published, 0)
			if c.cell != nil {
				difference = points(c.difference())
			}
		}
		switch {
		case c.cell == nil:
			open++
		case c.published == nil:
			extra++
		case c.judged():
			judged++
			if c.side() == 0 {
				inside++
			}
		}
		limits := interval(c.cell)
		if limits == "" {
			limits = dash
		}
		t.add(clean(c.model), defenseName(c.defense), c.col.Title(), accuracy(c.cell), limits, theirs, difference,
			c.verdict())
	}
	t.Notes = []footnote{{"", fmt.Sprintf("%d of %s within our 95 %% intervals. Extra, as the source lacks them: %s. "+
		"Published and not run: %s",
		inside, plural(judged, "published number"), plural(extra, "cell"), plural(open+len(lacking), "number"))}}
	if len(lacking) > 0 {
		t.note("", "%s not in this table, of networks that the suite lacks: %s",
			plural(len(lacking), "published number"), strings.Join(slices.Compact(lacking), ", "))
	}
	if mode := s.Published.Mode; mode != "" && len(s.Controls) > 0 && !strings.HasPrefix(s.Mode, mode) {
		t.note("", "Not the same attacker: the published one is %s, ours %s", clean(mode), s.Attacker().Name)
	}
	return t.marked()
}

// publishedSource says in a caption whose numbers they are.
func (s suiteTables) publishedSource() string {
	source := s.Published.Source
	if t, known := published.Lookup(source); known {
		return "the paper's " + t.Name
	}
	if source == "config" {
		return "the numbers that the config gives"
	}
	return "the numbers of " + clean(source)
}

// points writes a difference of shares in points, with its sign.
func points(difference float64) string {
	out := strconv.FormatFloat(100*difference, 'f', 2, 64)
	switch {
	case strings.Trim(out, "-0.") == "":
		return "0.00"
	case out[0] == '-':
		return "−" + out[1:]
	}
	return "+" + out
}
