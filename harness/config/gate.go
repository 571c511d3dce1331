package config

import (
	"fmt"
	"slices"

	"selfheal/harness/result"
	"selfheal/internal/setting"
)

// Gate holds the rules by which results pass or fail beside a baseline. As JSON it stands
// in baseline files.
type Gate struct {
	MaxDrop  float64            `json:"max_drop"`  // drop in accuracy that may be, a share in [0, 1)
	Alpha    float64            `json:"alpha"`     // probability of a wrong answer, in [0.001, 0.5)
	Min      map[string]float64 `json:"min"`       // by [CellPattern]: the accuracy that is asked for, in [0, 1]
	FailOn   []string           `json:"fail_on"`   // of [result.WarningKinds]: a cell that has one fails
	NewModel bool               `json:"new_model"` // models may be other files than the baseline's
	Accept   []string           `json:"accept"`    // settings that may differ: attacks.pgd.parameters.steps
}

// What the rules may be. The floor of alpha keeps the level 1 − 2·alpha, shared among ten thousands
// of cells, off 1.
var (
	maxDrop    = setting.BelowOne
	gateAlpha  = setting.Interval{Min: 0.001, Max: 0.5, Below: true}
	proportion = setting.Interval{Max: 1}
)

// DefaultGate returns the rules of a gate that nothing is said about.
func DefaultGate() Gate {
	g := Gate{Min: map[string]float64{}, FailOn: []string{}, Accept: []string{}}
	g.object().decode(&decoder{}, defaultNode("{}", position{}), "")
	return g
}

func (g *Gate) object() object {
	warning := func(id *string) value { return choice(id, result.WarningIDs()) }
	path := func(to *string) value { return text(to, "a path in results.json") }
	return object{rows: []row{
		optional("max_drop", decimal(&g.MaxDrop, maxDrop), "0.02",
			"how far a cell's true accuracy may drop below the baseline's, as a fraction"),
		optional("alpha", decimal(&g.Alpha, gateAlpha), "0.05",
			"probability of a wrong answer, at most: that any cell fails for a drop though none is beyond "+
				"`max_drop`; that any fails "+
				"for a `min` though it reaches it; that a drop of `max_drop` passes"),
		optional("min", g.minima(), "", "accuracies that cells must have, as fractions, by cells: {ATTACK: 0.4, "+
			"MODEL/DEFENSE/ATTACK: 0.9}, * for any part, ATTACK@8/255 for one epsilon"),
		optional("fail_on", list(&g.FailOn, span{once: true}, warning), "",
			"ids of [warnings](warnings.md); a cell that has one fails"),
		optional("new_model", boolean(&g.NewModel), "false", "models may be other files than the baseline's"),
		optional("accept", list(&g.Accept, span{once: true}, path), "",
			"settings that may be others than the baseline's, by their paths in results.json: "+
				"attacks.pgd.parameters.steps, or a whole part as attacks.pgd"),
	}}
}

func (g *Gate) minima() value {
	shape := schema{"type": "object", "additionalProperties": decimal(new(float64), proportion).schema()}
	return custom("a mapping from cells", shape, func(d *decoder, n *node, where string) {
		if n.kind != mapNode {
			d.fail(n.pos, "%s must be a mapping from cells, such as aa-linf or MODEL/none/aa-linf, to accuracies, "+
				"not %s", where, n.describe())
		}
		for _, e := range n.entries {
			if _, err := ParseCellPattern(e.key); err != nil {
				d.fail(e.pos, "%s: %v", where, err)
			}
			least := 0.0
			decimal(&least, proportion).decode(d, e.value, join(where, e.key))
			g.Min[e.key] = least
		}
	})
}

// gate is the config's gate; there is none where the config has none.
func (c *Config) gate() value {
	g := DefaultGate()
	v := g.object().value()
	decode := v.decode
	v.decode = func(d *decoder, n *node, where string) {
		decode(d, n, where)
		c.Gate = &g
	}
	return v
}

// Check says what is wrong with rules that did not come from a config. It makes an absent
// list or mapping an empty one.
func (g *Gate) Check() error {
	if g.Min == nil {
		g.Min = map[string]float64{}
	}
	if g.FailOn == nil {
		g.FailOn = []string{}
	}
	if g.Accept == nil {
		g.Accept = []string{}
	}
	within := func(name string, v float64, in setting.Interval) error {
		if in.Holds(v) {
			return nil
		}
		return fmt.Errorf("%s must be a number%s, not %v", name, in, v)
	}
	errs := []error{within("max_drop", g.MaxDrop, maxDrop), within("alpha", g.Alpha, gateAlpha)}
	for key, v := range g.Min {
		if _, err := ParseCellPattern(key); err != nil {
			errs = append(errs, fmt.Errorf("min: %w", err))
		}
		errs = append(errs, within("min."+shorten(key), v, proportion))
	}
	for i, id := range g.FailOn {
		if known := result.WarningIDs(); !slices.Contains(known, id) {
			errs = append(errs, fmt.Errorf("fail_on: there is no warning %s%s", quote(id), hint(id, "warnings", known)))
		}
		if slices.Contains(g.FailOn[:i], id) {
			errs = append(errs, fmt.Errorf("fail_on: %s is listed twice", quote(id)))
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
