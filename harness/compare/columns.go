package compare

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/internal/number"
)

// Column is an attack with its settings: entries share a column only if nothing but the seed differs.
type Column struct {
	Attack string `json:"attack"` // none for clean images; otherwise the name in a run
	Kind   string `json:"kind"`   // empty for clean images
	Title  string `json:"title"`  // for readers, such as "PGD-40, 2 restarts"; may be empty
	// Variant is the part of an attack with several cells, such as fog:3 of a corruption or 4 of a patch.
	Variant string       `json:"variant,omitempty"`
	Norm    *string      `json:"norm"`
	Epsilon cell.Epsilon `json:"epsilon"`
	Recipe  string       `json:"recipe"`
	// Settings are version, parameters and components, if the results have them.
	Settings map[string]any `json:"settings,omitempty"`
	// Apart says how the column differs from others of its kind, recipe, norm and epsilon; empty if there are none.
	Apart   string   `json:"apart"`
	Seeds   []uint64 `json:"seeds"`   // of its cells, each once
	Entries int      `json:"entries"` // number of entries with a cell in it

	key string
}

func columnOf(run *Run, c *result.Cell) Column {
	if c.Attack == cell.None {
		return Column{Attack: cell.None, Seeds: []uint64{}}
	}
	_, a, known := result.AttackOf(run.File.Attacks, c.Attack)
	_, variant, _ := strings.Cut(c.Attack, ":")
	col := Column{Attack: c.Attack, Kind: a.Kind, Title: a.Title, Variant: variant, Norm: c.Norm, Epsilon: c.Epsilon,
		Recipe: cmp.Or(c.Recipe, a.Recipe), Seeds: []uint64{}}
	made := []any{col.Kind, variant, c.Norm, c.Epsilon, col.Recipe}
	if known {
		col.Settings = settings(a, variant)
		if c.Source != "" {
			col.Settings["source"] = c.Source
		}
		made = append(made, col.Settings)
	} else { // nothing says that it equals another
		col.Apart = "settings unknown, run " + run.Name
		made = append(made, run.Folder, c.Attack, c.Source)
	}
	col.key = encoded(made)
	return col
}

// encoded returns the JSON of a value that was read from JSON.
func encoded(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("compare: %v", err))
	}
	return string(data)
}

// settings returns the values that an attack's numbers depend on, besides kind, norm, epsilon and recipe.
func settings(a result.Attack, variant string) map[string]any {
	of := map[string]any{}
	if a.Version != "" {
		of["version"] = a.Version
	}
	for key, value := range a.Parameters {
		listed := slices.Contains(attacks.Listed(a.Kind), key)
		if variant == "" || !listed { // the cell's variant says which of them it has
			of[key] = value
		}
	}
	var kinds []string
	for i, c := range a.Components {
		for key, value := range c.Parameters {
			of[fmt.Sprintf("%d %s %s", i+1, c.Kind, key)] = value
		}
		kinds = append(kinds, c.Kind)
	}
	if kinds != nil {
		of["components"] = strings.Join(kinds, ", ")
	}
	return of
}

// norms in the order of columns.
var norms = lists.Map(attacks.Norms(), attacks.Norm.String)

func (c Column) clean() bool { return c.Attack == cell.None }

// value returns *p, or the zero value for a nil p.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// adversarial reports whether the column searches for images that deceive the model; corruptions and certificates do
// not.
func (c Column) adversarial() bool {
	a := result.Attack{Kind: c.Kind}
	return !c.clean() && a.Crafted()
}

// compareColumns orders clean images first, then attacks by norm, strength and kind, then attacks without norm.
func compareColumns(a, b Column) int {
	rank := func(c Column) int {
		switch i := slices.Index(norms, value(c.Norm)); {
		case c.clean():
			return -1
		case c.Norm == nil:
			return len(norms) + 1
		case i < 0:
			return len(norms)
		default:
			return i
		}
	}
	return cmp.Or(rank(a)-rank(b), cmp.Compare(value(a.Norm), value(b.Norm)), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Epsilon, b.Epsilon), cmp.Compare(a.Variant, b.Variant), cmp.Compare(a.key, b.key))
}

// tellApart writes how columns of one kind, recipe, norm and epsilon differ.
func tellApart(columns []Column) {
	for i := range columns {
		c := &columns[i]
		if c.Apart != "" {
			continue
		}
		mine, differ, words := c.said(), map[string]bool{}, []string(nil)
		for _, o := range columns {
			if o.Kind == c.Kind && o.recipe() == c.recipe() && o.Variant == c.Variant &&
				value(o.Norm) == value(c.Norm) && o.Epsilon == c.Epsilon {
				theirs := o.said()
				for _, key := range slices.AppendSeq(slices.Collect(maps.Keys(theirs)), maps.Keys(mine)) {
					if theirs[key] != mine[key] {
						differ[key] = true
					}
				}
			}
		}
		for _, key := range slices.Sorted(maps.Keys(differ)) {
			words = append(words, key+" "+cmp.Or(mine[key], "unknown"))
		}
		const most = 4
		if more := len(words) - most; more > 0 {
			words = append(words[:most], fmt.Sprintf("and %d more", more))
		}
		c.Apart = strings.Join(words, ", ")
	}
}

// recipe returns the recipe's name, without its version.
func (c Column) recipe() string {
	name, _, _ := strings.Cut(c.Recipe, "/")
	return name
}

// said returns a column's settings as text.
func (c Column) said() map[string]string {
	of := map[string]string{"recipe": c.Recipe}
	for key, value := range c.Settings {
		if v, ok := value.(float64); ok {
			of[key] = number.Format(v)
		} else {
			of[key] = strings.Trim(encoded(value), `"`)
		}
	}
	return of
}
