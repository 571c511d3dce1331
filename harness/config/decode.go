package config

import (
	"cmp"
	"slices"
	"strings"

	"selfheal/internal/lists"
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
func (d *decoder) resolve(root *node) {
	wrong := len(d.errs) > 0
	for _, r := range d.refs {
		var known []string
		lacks := false
		for section := range strings.SplitSeq(r.section, " or ") {
			n := cmp.Or(root.get(section), &node{})
			lacks = lacks || n.kind != mapNode
			known = append(known, lists.Map(n.entries, func(e entry) string { return e.key })...)
		}
		if r.section == "controls" || r.section == "attacks" {
			known = append(known, None)
		}
		if !slices.Contains(known, r.n.text) && !(wrong && lacks) {
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
