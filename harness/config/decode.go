package config

import (
	"cmp"
	"math"
	"slices"
)

// decoder turns nodes into values and collects what is wrong with them.
type decoder struct {
	errs []*Error
	refs []reference
	sets bool // the config was changed by --set
}

func (d *decoder) fail(pos position, format string, args ...any) {
	d.errs = append(d.errs, errorAt(pos, format, args...))
}

// first returns the error that comes first in the file (those of --set last), or nil.
func (d *decoder) first() error {
	if len(d.errs) == 0 {
		return nil
	}
	line := func(e *Error) int {
		if e.pos.line == 0 {
			return math.MaxInt
		}
		return e.pos.line
	}
	return slices.MinFunc(d.errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(line(a), line(b)), cmp.Compare(a.pos.column, b.pos.column))
	})
}
