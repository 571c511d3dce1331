package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"selfheal/harness/result"
)

// Gate holds the rules by which results pass or fail beside a baseline. As JSON it stands
// in baseline files.
type Gate struct {
	MaxDrop  float64            `json:"max_drop"`  // drop in accuracy that may be, a share in [0, 1)
	Alpha    float64            `json:"alpha"`     // probability of a wrong answer, in [0.001, 0.5)
	Min      map[string]float64 `json:"min"`       // by [CellPattern]: the accuracy that is asked for, in [0, 1]
	FailOn   []string           `json:"fail_on"`   // of [WarningIDs]: a cell that has one fails
	NewModel bool               `json:"new_model"` // models may be other files than the baseline's
}

// DefaultGate returns the rules of a gate that nothing is said about.
func DefaultGate() Gate {
	return Gate{MaxDrop: 0.02, Alpha: 0.05, Min: map[string]float64{}, FailOn: []string{}}
}

// WarningIDs are the ids that a cell's warnings may have.
var WarningIDs = result.WarningIDs()

var (
	// The floor keeps the level 1 − 2·alpha, shared among ten thousands of cells, off 1.
	gateAlpha  = span{func(v float64) bool { return v >= 0.001 && v < 0.5 }, "a number from 0.001 up and below 0.5"}
	proportion = span{func(v float64) bool { return v >= 0 && v <= 1 }, "a number from 0 to 1"}
)

func (d *decoder) gate(n *node, where string) *Gate {
	g := DefaultGate()
	d.object(n, where,
		optional("max_drop", d.number(&g.MaxDrop, belowOne)),
		optional("alpha", d.number(&g.Alpha, gateAlpha)),
		optional("min", func(n *node, where string) {
			if n.kind != mapNode {
				d.fail(n.pos, "%s must be a mapping from cells, such as aa-linf or MODEL/none/aa-linf, to accuracies, not %s", where, n.describe())
				return
			}
			for _, e := range n.entries {
				if _, err := ParseCellPattern(e.key); err != nil {
					d.fail(e.pos, "%s: %v", where, err)
				}
				v := 0.0
				d.number(&v, proportion)(e.value, join(where, e.key))
				g.Min[e.key] = v
			}
		}),
		optional("fail_on", func(n *node, where string) {
			d.words(&g.FailOn, "the id of a warning", 0)(n, where)
			for i, id := range n.items {
				if id.kind == scalarNode && !slices.Contains(WarningIDs, id.text) {
					d.fail(id.pos, "%s[%d]: there is no warning %s%s", where, i, quote(id.text), hint(id.text, "warnings", WarningIDs))
				}
			}
		}),
		optional("new_model", d.boolean(&g.NewModel)),
	)
	return &g
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
	if !belowOne.in(g.MaxDrop) {
		return fmt.Errorf("max_drop must be %s, not %v", belowOne.text, g.MaxDrop)
	}
	if !gateAlpha.in(g.Alpha) {
		return fmt.Errorf("alpha must be %s, not %v", gateAlpha.text, g.Alpha)
	}
	for key, v := range g.Min {
		if _, err := ParseCellPattern(key); err != nil {
			return fmt.Errorf("min: %w", err)
		}
		if !proportion.in(v) {
			return fmt.Errorf("min.%s must be %s, not %v", shorten(key), proportion.text, v)
		}
	}
	for i, id := range g.FailOn {
		if !slices.Contains(WarningIDs, id) {
			return fmt.Errorf("fail_on: there is no warning %s%s", quote(id), hint(id, "warnings", WarningIDs))
		}
		if slices.Contains(g.FailOn[:i], id) {
			return fmt.Errorf("fail_on: %s is listed twice", quote(id))
		}
	}
	return nil
}

// CellPattern names cells: ATTACK, DEFENSE/ATTACK, MODEL/DEFENSE/ATTACK or
// SUITE/MODEL/DEFENSE/ATTACK. A part is a name or *, for any; what stands before the first
// part is any too. none is the clean images and the undefended network. ATTACK@EPSILON
// names one of an attack's epsilons.
type CellPattern struct {
	parts   [4]string // suite, model, defense, attack; "*" for any
	base    string    // of an attack with an epsilon: its name
	epsilon float64   // 0 for any
}

var patternEpsilon = regexp.MustCompile(`@([0-9.eE+-]+(?:/[0-9.]+)?)$`)

// ParseCellPattern reads a pattern.
func ParseCellPattern(s string) (CellPattern, error) {
	p := CellPattern{parts: [4]string{"*", "*", "*", "*"}}
	text, suffix := s, ""
	if m := patternEpsilon.FindStringSubmatchIndex(s); m != nil { // cut first: 8/255 has a slash
		if v, ok := parseNumber(s[m[2]:m[3]]); ok && v > 0 {
			text, suffix, p.epsilon = s[:m[0]], s[m[0]:], v
		}
	}
	parts := strings.Split(text, "/")
	if len(parts) > len(p.parts) {
		return p, fmt.Errorf("%s has %d parts, a cell has at most SUITE/MODEL/DEFENSE/ATTACK", quote(s), len(parts))
	}
	for i, part := range parts {
		if problem := nameProblem(part); part != "*" && problem != "" {
			return p, fmt.Errorf("%s does not name cells (ATTACK, DEFENSE/ATTACK, MODEL/DEFENSE/ATTACK or SUITE/MODEL/DEFENSE/ATTACK, * for any): %s: %s", quote(s), quote(part), problem)
		}
		p.parts[len(p.parts)-len(parts)+i] = part
	}
	if suffix != "" { // names may hold an @ too
		p.base = p.parts[3]
		p.parts[3] += suffix
	}
	return p, nil
}

// Matches reports whether a cell is one that the pattern names. epsilon is nil for clean
// images; one that differs from the pattern's by less than 1 % is the same.
func (p CellPattern) Matches(suite, model, defense, attack string, epsilon *float64) bool {
	for i, name := range []string{suite, model, defense} {
		if p.parts[i] != "*" && p.parts[i] != name {
			return false
		}
	}
	if p.parts[3] == "*" || p.parts[3] == attack {
		return true
	}
	return p.epsilon > 0 && (p.base == "*" || p.base == attack) && epsilon != nil && math.Abs(*epsilon-p.epsilon) < 0.01*p.epsilon
}
