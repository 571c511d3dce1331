package config

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"selfheal/harness/cell"
	"selfheal/internal/number"
)

// CellPattern matches cells: [[[SUITE/]MODEL/]DEFENSE/]ATTACK. A part is a name or *, and a missing part matches any.
// none matches clean images and the undefended network. ATTACK@EPSILON matches one of an attack's epsilons. The name
// of a corruption attack matches all of its cells, NAME:fog every severity of one corruption, and NAME:fog:3 one
// cell; likewise for patches and NAME:4. DEFENSE:MODE matches the cells of one of a suite's modes.
type CellPattern struct {
	parts   [4]string // suite, model, defense, attack; "*" for any
	mode    string    // of a defense; "" for any
	base    string    // name before the @ of an attack with an epsilon
	epsilon float64   // 0 for any
}

var patternEpsilon = regexp.MustCompile(`@([0-9.eE+-]+(?:/[0-9.]+)?)$`)

// ParseCellPattern reads a pattern.
func ParseCellPattern(s string) (CellPattern, error) {
	p := CellPattern{parts: [4]string{"*", "*", "*", "*"}}
	text, suffix := s, ""
	if m := patternEpsilon.FindStringSubmatchIndex(s); m != nil { // cut first: 8/255 has a slash
		if v, ok := number.Parse(s[m[2]:m[3]]); ok && v > 0 {
			text, suffix, p.epsilon = s[:m[0]], s[m[0]:], v
		}
	}
	parts := strings.Split(text, "/")
	if len(parts) > len(p.parts) {
		return p, fmt.Errorf("%s has %d parts, a cell has at most SUITE/MODEL/DEFENSE/ATTACK", quote(s), len(parts))
	}
	for i, part := range parts {
		name := part
		if i >= len(parts)-2 {
			name, _, _ = strings.Cut(part, ":") // a corruption, such as NAME:fog:3, or a defense's mode
		}
		if problem := nameProblem(name); name != "*" && problem != "" {
			return p, fmt.Errorf("%s does not name cells (ATTACK, DEFENSE/ATTACK, MODEL/DEFENSE/ATTACK or "+
				"SUITE/MODEL/DEFENSE/ATTACK, * for any): %s: %s", quote(s), quote(part), problem)
		}
		p.parts[len(p.parts)-len(parts)+i] = part
	}
	p.parts[2], p.mode, _ = strings.Cut(p.parts[2], ":")
	if suffix != "" { // names may contain an @ too
		p.base = p.parts[3]
		p.parts[3] += suffix
	}
	return p, nil
}

// Matches reports whether the pattern matches a cell. An epsilon within 1 % of the pattern's matches.
func (p CellPattern) Matches(id cell.ID) bool {
	for i, name := range []string{id.Suite, id.Model, id.Defense} {
		if p.parts[i] != "*" && p.parts[i] != name {
			return false
		}
	}
	if p.mode != "" && p.mode != id.Mode {
		return false
	}
	variant := strings.HasPrefix(id.Attack, p.parts[3]+":")
	if p.parts[3] == "*" || p.parts[3] == id.Attack || variant {
		return true
	}
	return p.epsilon > 0 && (p.base == "*" || p.base == id.Attack) &&
		math.Abs(float64(id.Epsilon)-p.epsilon) < 0.01*p.epsilon
}
