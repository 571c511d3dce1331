package config

import (
	"cmp"
	"encoding/json"
	"slices"

	"selfheal/harness/result"
	"selfheal/internal/setting"
)

// Gate holds the rules by which results pass or fail against a baseline. Baseline files have it as JSON.
type Gate struct {
	MaxDrop float64            `json:"max_drop"` // drop in accuracy that is allowed, a fraction in [0, 1)
	Alpha   float64            `json:"alpha"`    // probability of a wrong answer, in [0.001, 0.5)
	Min     map[string]float64 `json:"min"`      // by [CellPattern]: the least accuracy, in [0, 1]
	// ids of warnings ([result.WarningKinds]); a cell with one of them fails
	FailOn   []string `json:"fail_on"`
	NewModel bool     `json:"new_model"` // models may be other files than the baseline's
	Accept   []string `json:"accept"`    // settings that may differ: attacks.pgd.parameters.steps
	// GradientFailures are the cells, by [CellPattern], that a baseline may have although gradients failed on
	// standing images.
	GradientFailures []string `json:"gradient_failures,omitempty"`
}

var (
	// gateAlpha has a minimum, so that the level 1 − 2·alpha stays below 1 if ten thousands of cells share it.
	gateAlpha  = setting.Interval{Min: 0.001, Max: 0.5, Below: true}
	proportion = setting.Interval{Max: 1}
)

// DefaultGate returns the rules of a config that sets none.
func DefaultGate() Gate {
	g := Gate{Min: map[string]float64{}, FailOn: []string{}, Accept: []string{}}
	g.object().decode(&decoder{}, &node{kind: mapNode}, "")
	return g
}

func (g *Gate) object() object {
	warning := func(id *string) value { return choice(id, result.WarningIDs()) }
	cell := func(to *string) value {
		return text(to, "a cell, such as aa-linf or MODEL/none/aa-linf").then(func(d *decoder, n *node, where string) {
			d.pattern(n.pos, *to, where)
		})
	}
	path := func(to *string) value { return text(to, "a path in results.json") }
	return object{rows: []row{
		optional("max_drop", decimal(&g.MaxDrop, setting.BelowOne), "0.02",
			"allowed drop of a cell's true accuracy, as a fraction"),
		optional("alpha", decimal(&g.Alpha, gateAlpha), "0.05",
			"largest probability that any cell fails for a drop though none is beyond `max_drop`, that any fails for "+
				"a `min` that it reaches, or that a drop of `max_drop` passes"),
		optional("min", g.minima(), "", "fractions that cells must reach: {ATTACK: 0.4, "+
			"MODEL/DEFENSE/ATTACK: 0.9}, * for any part, ATTACK@8/255 for one epsilon"),
		optional("fail_on", list(&g.FailOn, span{once: true}, warning), "",
			"ids of [warnings](warnings.md) with which a cell fails"),
		optional("new_model", boolean(&g.NewModel), "false", "models may be other files than the baseline's"),
		optional("accept", list(&g.Accept, span{once: true}, path), "",
			"settings that may be others than the baseline's: attacks.pgd.parameters.steps, or all of attacks.pgd"),
		optional("gradient_failures", list(&g.GradientFailures, span{once: true}, cell), "",
			"cells, named as in `min`, that a baseline takes although gradients failed on images that stand, or the "+
				"attack misses planted perturbations"),
	}}
}

// pattern checks a [CellPattern].
func (d *decoder) pattern(pos position, text, where string) {
	if _, err := ParseCellPattern(text); err != nil {
		d.fail(pos, "%s: %v", where, err)
	}
}

func (g *Gate) minima() value {
	pattern := func(d *decoder, e entry, where string) { d.pattern(e.pos, e.key, where) }
	const want = "a mapping from cells, such as aa-linf or MODEL/none/aa-linf, to accuracies"
	return mapping(want, pattern, func(cells string) value {
		least := 0.0
		return decimal(&least, proportion).then(func(*decoder, *node, string) { g.Min[cells] = least })
	})
}

// gate reads the config's gate into Gate, which stays nil without one.
func (c *Config) gate() value {
	g := DefaultGate()
	return g.object().value().then(func(*decoder, *node, string) { c.Gate = &g }).at(&c.Gate)
}

// Set changes rules by --set arguments, gate.KEY=VALUE, and checks them all as if they came from a config.
func (g *Gate) Set(sets ...string) error {
	text, err := json.Marshal(map[string]*Gate{"gate": g})
	if err != nil {
		return err
	}
	root, err := parseTree("gate", text)
	if err != nil {
		return err
	}
	old := root.get("gate")
	old.entries = slices.DeleteFunc(old.entries, func(e entry) bool { return e.value.isNull() })
	d, rules := decoder{}, DefaultGate()
	d.set(root, sets)
	for _, e := range root.entries {
		if e.key != "gate" {
			d.fail(e.pos, "check reads the gate alone, as by gate.max_drop=0.01")
		}
	}
	rules.object().decode(&d, cmp.Or(root.get("gate"), &node{kind: mapNode}), "gate")
	err = d.errs.sorted()
	for _, e := range d.errs {
		if e.pos.line > 0 { // the place is in the text above, which the user has not seen
			e.pos = position{}
		}
	}
	if err == nil {
		*g = rules
	}
	return err
}
