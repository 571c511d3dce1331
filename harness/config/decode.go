package config

import (
	"slices"
	"strings"

	"selfheal/internal/suggest"
)

type decoder struct {
	errs  Errors
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

// refer notes that n names something in a section, to be checked when the whole file is decoded.
func (d *decoder) refer(n *node, where, section string) {
	if n.kind == scalarNode && !n.isNull() && n.text != "" {
		d.refs = append(d.refs, reference{n, where, section})
	}
}

// resolve checks references. After other errors it leaves out sections that the file lacks: they may be misspelt.
func (d *decoder) resolve(c *Config, root *node) {
	wrong := len(d.errs) > 0
	suites := namesOf(c.Suites, suiteName)
	defined := map[string][]string{
		"datasets": namesOf(c.Datasets, datasetName),
		"models":   namesOf(c.Models, modelName),
		"controls": append(namesOf(c.Controls, controlName), None),
		"attacks":  append(namesOf(c.Attacks, attackName), None),
		"suites":   suites, "suites or groups": slices.Concat(suites, namesOf(c.Groups, groupName)),
	}
	for _, r := range d.refs {
		if wrong && slices.ContainsFunc(strings.Split(r.section, " or "), func(section string) bool {
			n := root.get(section)
			return n == nil || n.kind != mapNode
		}) {
			continue
		}
		if known := defined[r.section]; !slices.Contains(known, r.n.text) {
			d.fail(r.n.pos, "%s names %s, which is not in %s%s", r.where, quote(r.n.text), r.section,
				suggest.Or(r.n.text, "defined", known))
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
