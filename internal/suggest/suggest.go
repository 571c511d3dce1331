// Package suggest finds the known word that a misspelt one was meant to be, for the end of an error message.
package suggest

import (
	"fmt"
	"slices"
	"strings"
)

// Word returns `; did you mean "x"?` if a known word is near, otherwise "".
func Word(word string, known []string) string {
	if near := nearest(word, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// Or is [Word] or, if no known word is near, `; what: a, b, c`.
func Or(word, what string, known []string) string {
	if near := Word(word, known); near != "" {
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
		if w != "" && strings.HasPrefix(lower, w+"-") { // of longer words the first counts
			d = min(d, 1)
		}
		if best == "" || d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// editDistance counts insertions, deletions, substitutions and swaps of neighbours (optimal string alignment). It
// treats long words as far apart.
func editDistance(a, b string) int {
	const longest = 100
	if len(a) > longest || len(b) > longest {
		return longest
	}
	d := make([][]int, len(a)+1) // between prefixes
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
