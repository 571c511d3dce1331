package config

import (
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// text wants a scalar that is not null.
func (d *decoder) text(n *node, where, what string) (string, bool) {
	if n.kind != scalarNode || n.isNull() || n.text == "" {
		d.fail(n.pos, "%s must be %s, not %s", where, what, n.describe())
		return "", false
	}
	return n.text, true
}

func (d *decoder) str(to *string, what string) setter {
	return func(n *node, where string) { *to, _ = d.text(n, where, what) }
}

// file is the path of a file or folder, with slashes on every system.
func (d *decoder) file(to *string) setter {
	return func(n *node, where string) {
		if s, ok := d.text(n, where, "a path"); ok {
			*to = path.Clean(s)
		}
	}
}

func (d *decoder) enum(to *string, allowed []string) setter {
	return func(n *node, where string) {
		s, ok := d.text(n, where, "one of "+strings.Join(allowed, ", "))
		if ok && !slices.Contains(allowed, s) {
			d.fail(n.pos, "%s must be one of %s, not %s%s", where, strings.Join(allowed, ", "), quote(s), maybe(s, allowed))
			return
		}
		*to = s
	}
}

func maybe(word string, known []string) string {
	if near := nearest(word, known); near != "" {
		return fmt.Sprintf("; did you mean %s?", quote(near))
	}
	return ""
}

func (d *decoder) boolean(to *bool) setter {
	return func(n *node, where string) {
		switch {
		case n.kind == scalarNode && !n.quoted && strings.EqualFold(n.text, "true"):
			*to = true
		case n.kind == scalarNode && !n.quoted && strings.EqualFold(n.text, "false"):
			*to = false
		default:
			d.fail(n.pos, "%s must be true or false, not %s", where, n.describe())
		}
	}
}

var wholeNumber = regexp.MustCompile(`^[+-]?[0-9]+$`)

func (d *decoder) integer(to *int, least int) setter {
	return func(n *node, where string) {
		v, err := strconv.ParseInt(n.text, 10, 32)
		if n.kind != scalarNode || n.quoted || !wholeNumber.MatchString(n.text) || err != nil || int(v) < least {
			d.fail(n.pos, "%s must be a whole number from %d up, not %s", where, least, n.describe())
			return
		}
		*to = int(v)
	}
}

// span is the set of numbers a key takes.
type span struct {
	in   func(v float64) bool
	text string
}

var (
	positive    = span{func(v float64) bool { return v > 0 }, "a number above 0, such as 0.5 or 8/255"}
	notNegative = span{func(v float64) bool { return v >= 0 }, "a number from 0 up"}
	anyNumber   = span{func(v float64) bool { return true }, "a number"}
	share       = span{func(v float64) bool { return v > 0 && v <= 1 }, "a number above 0 and up to 1"}
	belowOne    = span{func(v float64) bool { return v >= 0 && v < 1 }, "a number from 0 up and below 1"}
)

var decimal = regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$`)

// parseNumber reads 12, 0.5, 1e-3 and fractions such as 8/255, which are
// divided in float64.
func parseNumber(s string) (v float64, ok bool) {
	above, below, fraction := strings.Cut(s, "/")
	v, ok = parseDecimal(above)
	if fraction && ok {
		var w float64
		w, ok = parseDecimal(below)
		v /= w
	}
	return v, ok && !math.IsNaN(v) && !math.IsInf(v, 0)
}

func parseDecimal(s string) (float64, bool) {
	s = strings.TrimSpace(s)
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil && decimal.MatchString(s)
}

func (d *decoder) number(to *float64, want span) setter {
	return func(n *node, where string) {
		v, ok := parseNumber(n.text)
		if n.kind != scalarNode || !ok || n.quoted && !strings.Contains(n.text, "/") || !want.in(v) {
			d.fail(n.pos, "%s must be %s, not %s", where, want.text, n.describe())
			return
		}
		*to = v
	}
}

// list decodes a list of at least least items; where a single value is as good
// as a list of one, it may stand alone.
func (d *decoder) list(least int, single bool, each setter) setter {
	return func(n *node, where string) {
		switch {
		case single && n.kind == scalarNode:
			each(n, where)
			return
		case n.kind == scalarNode && !n.isNull():
			d.fail(n.pos, "%s must be a list, not %s; write [%s]", where, n.describe(), shorten(n.text))
			return
		case n.kind != listNode:
			d.fail(n.pos, "%s must be a list, not %s", where, n.describe())
			return
		case len(n.items) < least:
			d.fail(n.pos, "%s must not be empty", where)
		}
		for i, item := range n.items {
			each(item, fmt.Sprintf("%s[%d]", where, i))
		}
	}
}

// numbers appends to a list of numbers.
func (d *decoder) numbers(to *[]float64, want span, least int) setter {
	return d.list(least, true, func(n *node, where string) {
		v := math.NaN()
		if d.number(&v, want)(n, where); !math.IsNaN(v) {
			*to = append(*to, v)
		}
	})
}

// words appends to a list of texts, each at most once.
func (d *decoder) words(to *[]string, what string, least int) setter {
	return d.list(least, false, func(n *node, where string) {
		s, ok := d.text(n, where, what)
		if !ok {
			return
		}
		if slices.Contains(*to, s) {
			d.fail(n.pos, "%s: %s is listed twice", where, quote(s))
			return
		}
		*to = append(*to, s)
	})
}
