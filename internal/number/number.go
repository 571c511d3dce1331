// Package number reads and writes numbers as people do: 12, 0.5, 1e-3, 8/255.
package number

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

var decimal = regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$`)

// Parse reads a decimal number, or a fraction of two, which are divided in float64. The
// number is finite; ok is false for any other text.
func Parse(s string) (v float64, ok bool) {
	above, below, fraction := strings.Cut(s, "/")
	v, ok = parseDecimal(above)
	if fraction && ok {
		var w float64
		w, ok = parseDecimal(below)
		v /= w
	}
	return v, ok && Finite(v)
}

func parseDecimal(s string) (float64, bool) {
	s = strings.TrimSpace(s)
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil && decimal.MatchString(s)
}

// Format writes k/255 where the number is such a fraction of 1 (within 1e-9, relative) and no
// short decimal says the same, else the shortest decimal.
func Format(v float64) string {
	short := strconv.FormatFloat(v, 'f', -1, 64)
	k := math.Round(v * 255)
	if len(short) > len("0.1234") && k >= 1 && k <= 255 && math.Abs(v*255-k) <= 1e-9*k {
		return strconv.FormatFloat(k, 'f', 0, 64) + "/255"
	}
	return short
}

// Finite reports whether a number is neither NaN nor infinite.
func Finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
