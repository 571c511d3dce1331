package config

// reference is a name (or a list of names) that must be defined in a section.
type reference struct {
	n       *node
	where   string
	section string
}

// refer notes that n names something in a section, to be checked when the whole file is decoded.
func (d *decoder) refer(n *node, where, section string) {
	if n.kind == listNode {
		for _, item := range n.items {
			d.refer(item, where, section)
		}
		return
	}
	if n.kind == scalarNode && !n.isNull() && n.text != "" {
		d.refs = append(d.refs, reference{n, where, section})
	}
}

// resolve checks every reference against the names that c defines.
func (d *decoder) resolve(c *Config) {
	defined := map[string][]string{
		"datasets": namesOf(c.Datasets, datasetName),
		"models":   namesOf(c.Models, modelName),
		"controls": append(namesOf(c.Controls, controlName), None),
		"attacks":  append(namesOf(c.Attacks, attackName), None),
		"suites":   namesOf(c.Suites, suiteName),

		"suites or groups": append(namesOf(c.Suites, suiteName), namesOf(c.Groups, groupName)...),
	}
	for _, r := range d.refs {
		known := defined[r.section]
		ok := false
		for _, k := range known {
			ok = ok || k == r.n.text
		}
		if !ok {
			d.fail(r.n.pos, "%s names %s, which is not in %s%s", r.where, quote(r.n.text), r.section, hint(r.n.text,
				"defined", known))
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
