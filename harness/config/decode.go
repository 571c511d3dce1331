package config

import (
	"cmp"
	"math"
	"slices"
)

// decoder turns nodes into values and collects what is wrong with them.
type decoder struct {
	errs  []*Error
	refs  []reference
	later []func(c *Config) // what needs the whole config, once every name in it is defined
	sets  bool              // the config was changed by --set
}

// reference is a name that must be defined in a section.
type reference struct {
	n       *node
	where   string
	section string
}

func (d *decoder) fail(pos position, format string, args ...any) {
	d.errs = append(d.errs, errorAt(pos, format, args...))
}

// first returns the error that comes first in the file (those of --set last), or nil.
func (d *decoder) first() *Error {
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

// refer notes that n names something in a section, to be checked when the whole file is decoded.
func (d *decoder) refer(n *node, where, section string) {
	if n.kind == scalarNode && !n.isNull() && n.text != "" {
		d.refs = append(d.refs, reference{n, where, section})
	}
}

// resolve checks every reference against the names that c defines.
func (d *decoder) resolve(c *Config) {
	suites := namesOf(c.Suites, suiteName)
	defined := map[string][]string{
		"datasets": namesOf(c.Datasets, datasetName),
		"models":   namesOf(c.Models, modelName),
		"controls": append(namesOf(c.Controls, controlName), None),
		"attacks":  append(namesOf(c.Attacks, attackName), None),
		"suites":   suites, "suites or groups": slices.Concat(suites, namesOf(c.Groups, groupName)),
	}
	for _, r := range d.refs {
		if known := defined[r.section]; !slices.Contains(known, r.n.text) {
			d.fail(r.n.pos, "%s names %s, which is not in %s%s", r.where, quote(r.n.text), r.section,
				hint(r.n.text, "defined", known))
		}
	}
}

func namesOf[T any](list []T, nameOf func(*T) string) []string {
	names := make([]string, len(list))
	for i := range list {
		names[i] = nameOf(&list[i])
	}
	return names
}
