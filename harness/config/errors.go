package config

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Error is what is wrong with a config and where, as one line:
// config.yaml:12:5: unknown key "epsilom" in attacks.aa-linf; did you mean "epsilon"?
type Error struct {
	pos     position
	Message string // without the place
}

// Error returns "PLACE: MESSAGE"; the place is FILE:LINE:COLUMN, or the --set argument at fault.
func (e *Error) Error() string { return e.pos.String() + ": " + e.Message }

func errorAt(pos position, format string, args ...any) *Error {
	return &Error{pos, fmt.Sprintf(format, args...)}
}

// quote puts s in double quotes on one line, shortened when it is long.
func quote(s string) string { return fmt.Sprintf("%q", shorten(s)) }

// shorten returns the first line of s, cut when it is long.
func shorten(s string) string {
	const limit = 60
	s, _, more := strings.Cut(s, "\n")
	if utf8.RuneCountInString(s) > limit {
		s, more = string([]rune(s)[:limit]), true
	}
	if more {
		s += "…"
	}
	return s
}

// hint returns `; did you mean "x"?` when a known word is near, and otherwise
// `; what: a, b, c` (or what there is to say when nothing is known).
func hint(word, what string, known []string) string {
	if near := suggestion(word, known); near != "" {
		return near
	}
	if len(known) == 0 {
		return "; none is defined"
	}
	const most = 30
	list := known
	if len(list) > most {
		list = append(slices.Clone(list[:most]), fmt.Sprintf("and %d more", len(known)-most))
	}
	return "; " + what + ": " + strings.Join(list, ", ")
}

// suggestion is `; did you mean "x"?` when a known word is near, else "".
func suggestion(word string, known []string) string {
	if near := nearest(word, known); near != "" {
		return fmt.Sprintf("; did you mean %s?", quote(near))
	}
	return ""
}

// nearest returns the known word that word is most likely a slip for, or "".
func nearest(word string, known []string) string {
	best, bestDistance := "", 0
	w := strings.ToLower(word)
	for _, k := range known {
		lower := strings.ToLower(k)
		d := editDistance(w, lower)
		if d > max(1, min(len(w), len(lower))/3) {
			// An abbreviation, or the same word with something appended: "eps", "datasets".
			if short := min(len(w), len(lower)); short < 3 || w[:short] != lower[:short] {
				continue
			}
		}
		if best == "" || d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// editDistance counts insertions, deletions, substitutions and swaps of
// neighbours (optimal string alignment). Long words count as far apart.
func editDistance(a, b string) int {
	const longest = 100
	if len(a) > longest || len(b) > longest {
		return longest
	}
	d := make([][]int, len(a)+1) // between beginnings
	for i := range d {
		d[i] = make([]int, len(b)+1)
		for j := range d[i] {
			if i == 0 || j == 0 {
				d[i][j] = i + j
				continue
			}
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
