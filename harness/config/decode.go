package config

import (
	"cmp"
	"strings"

	"selfheal/harness/cell"
	"selfheal/internal/lists"
	"selfheal/internal/suggest"
)

type decoder struct {
	errs  Errors
	refs  []reference
	later []func(c *Config) // checks of the whole config, once every name in it is defined
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

// resolve checks references. After other errors it leaves out sections that the file lacks, as they may be misspelt.
func (d *decoder) resolve(root *node) {
	wrong := len(d.errs) > 0
	type defined struct {
		names []string
		known map[string]bool
		lacks bool
	}
	sections := map[string]defined{}
	for _, r := range d.refs {
		of, seen := sections[r.section]
		if !seen {
			for section := range strings.SplitSeq(r.section, " or ") {
				n := cmp.Or(root.get(section), &node{})
				of.lacks = of.lacks || n.kind != mapNode
				of.names = append(of.names, lists.Map(n.entries, func(e entry) string { return e.key })...)
			}
			if r.section == "controls" || r.section == "attacks" {
				of.names = append(of.names, cell.None)
			}
			of.known = map[string]bool{}
			for _, name := range of.names {
				of.known[name] = true
			}
			sections[r.section] = of
		}
		if of.known[r.n.text] || wrong && of.lacks {
			continue
		}
		hint := ""
		if len(d.errs) < mostErrors {
			hint = suggest.Or(r.n.text, "defined", of.names)
		}
		d.fail(r.n.pos, "%s names %s, which is not in %s%s", r.where, quote(r.n.text), r.section, hint)
	}
}

func namesOf[T any](list []T, nameOf func(*T) string) []string {
	names := make([]string, len(list))
	for i := range list {
		names[i] = nameOf(&list[i])
	}
	return names
}
