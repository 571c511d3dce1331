package gate

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"selfheal/harness/cell"
	"selfheal/harness/config"
	"selfheal/harness/result"
)

// Part returns what the baseline has about some models of a run, and the rules without the minimums that name none of
// its cells. In suites of the mode transfer every model gets the images made on these, so all their cells belong to it.
func (b *Baseline) Part(f *result.File, rules config.Gate, models ...string) (*Baseline, config.Gate, error) {
	cells, err := cellsOf(f)
	if err != nil {
		return nil, rules, fmt.Errorf("results: %w", err)
	}
	b, _ = b.renamedTo(selected(cells, f))
	part := *b
	part.Cells = slices.DeleteFunc(slices.Clone(b.Cells), func(c Cell) bool {
		return !slices.Contains(models, c.Model) && (c.Mode != result.Transfer ||
			!slices.ContainsFunc(b.Cells, func(other Cell) bool {
				return other.Suite == c.Suite && slices.Contains(models, other.Model)
			}))
	})
	for _, name := range models {
		if _, known := b.Models[name]; !known {
			return nil, rules, fmt.Errorf("the baseline has no model %s", plain(name))
		}
	}
	rules.Min = maps.Clone(rules.Min)
	maps.DeleteFunc(rules.Min, func(text string, _ float64) bool {
		p, err := config.ParseCellPattern(text)
		return err == nil && !slices.ContainsFunc(part.Cells, func(c Cell) bool { return p.Matches(c.ID) })
	})
	return &part, rules, nil
}

// renamedTo returns the baseline with the names that its models have in the results: a model that these lack has the
// name of the only new one with its file and its settings. renames lists them for a note.
func (b *Baseline) renamedTo(now made) (as *Baseline, renames []string) {
	names := map[string]string{}
	for old, was := range b.Models {
		var fresh []string
		for name, is := range now.Models {
			if _, known := b.Models[name]; !known && reflect.DeepEqual(was, is) {
				fresh = append(fresh, name)
			}
		}
		if _, still := now.Models[old]; !still && len(fresh) == 1 {
			names[old] = fresh[0]
		}
	}
	if len(names) == 0 || len(slices.Compact(slices.Sorted(maps.Values(names)))) < len(names) {
		return b, nil
	}
	part := *b
	part.Models, part.Cells = maps.Clone(b.Models), slices.Clone(b.Cells)
	for _, old := range slices.Sorted(maps.Keys(names)) {
		part.Models[names[old]] = part.Models[old]
		delete(part.Models, old)
		renames = append(renames, plain(old)+" is now "+plain(names[old]))
	}
	for i := range part.Cells {
		for _, name := range []*string{&part.Cells[i].Model, &part.Cells[i].Source} {
			if to, ok := names[*name]; ok {
				*name = to
			}
		}
	}
	return &part, renames
}

// Answers says in one line for each of some models, and each control, what became of it: the lowest accuracy under any
// attack, before and now, with the interval of the change.
func (r *Report) Answers(models ...string) (lines []string) {
	var rows []cell.Row
	lowest := map[cell.Row]Compared{}
	for _, c := range r.Cells {
		if c.Change == nil || !slices.Contains(models, c.Model) {
			continue
		}
		old, ok := lowest[c.Row]
		if !ok {
			rows = append(rows, c.Row)
		}
		clean, oldClean := c.Attack == cell.None, old.Attack == cell.None
		if !ok || oldClean && !clean || oldClean == clean && c.Accuracy <= old.Accuracy {
			lowest[c.Row] = c
		}
	}
	for _, row := range rows {
		c, what := lowest[row], "robust accuracy"
		if c.Attack == cell.None {
			what = "accuracy"
		}
		name, x := c.name(), c.Change
		if row.Defense != cell.None && !strings.Contains(name, c.Mode) {
			name += ", " + c.Mode
		}
		lines = append(lines, fmt.Sprintf("%s: %s %s → %s %%, change %s points [%s, %s], %s: %s", name, what,
			percent(x.Before), percent(c.Accuracy), signed(-x.Drop), signed(-x.Interval[1]), signed(-x.Interval[0]),
			count(c.N, "image"), c.Outcome))
	}
	return lines
}
