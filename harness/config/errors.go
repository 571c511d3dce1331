package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"selfheal/internal/lists"
)

// Error is one fault of a config, and its place.
type Error struct {
	pos     position
	message string // without the place
}

// Error returns "PLACE: MESSAGE"; the place is FILE:LINE:COLUMN, the --set argument at fault, or absent.
func (e *Error) Error() string {
	if e.pos == (position{}) {
		return e.message
	}
	return e.pos.String() + ": " + e.message
}

// Errors are all faults of a config, in the order of the file, then of the --set arguments.
type Errors []*Error

// mostErrors bounds how many errors are printed.
const mostErrors = 20

// Error returns a line for each.
func (list Errors) Error() string {
	lines := lists.Map(list[:min(len(list), mostErrors)], (*Error).Error)
	if more := len(list) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("%d more errors", more))
	}
	return strings.Join(lines, "\n")
}

// sorted puts them in order. It returns nil for none.
func (list Errors) sorted() error {
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(uint(a.pos.line-1), uint(b.pos.line-1)), cmp.Compare(a.pos.column, b.pos.column))
	})
	return list
}

func errorAt(pos position, format string, args ...any) *Error {
	return &Error{pos, fmt.Sprintf(format, args...)}
}

// quote puts s in double quotes on one line and shortens it if it is long.
func quote(s string) string { return fmt.Sprintf("%q", shorten(s)) }

// shorten returns the first line of s, cut if it is long.
func shorten(s string) string {
	first, _, more := strings.Cut(s, "\n")
	if short := cut(first, 60); short != first || !more {
		return short
	}
	return first + "…"
}

// cut cuts a text after so many characters.
func cut(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
