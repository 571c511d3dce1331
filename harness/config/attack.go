package config

import (
	"fmt"
	"slices"
	"strings"
)

// AttackKinds are the values of an attack's kind.
var AttackKinds = []string{"autoattack", "apgd-ce", "apgd-dlr", "apgd-t", "fab", "fab-t", "square", "pgd", "fgsm", "bisection"}

// AttackVersions are AutoAttack's versions.
var AttackVersions = []string{"standard", "plus", "rand", "custom", "quick"}

// Norms are the values of an attack's norm.
var Norms = []string{"linf", "l2", "l1"}

// components are the attacks that AutoAttack's custom version may be made of.
var components = []string{"apgd-ce", "apgd-dlr", "apgd-t", "fab", "fab-t", "square"}

// param is a row of the table of attacks' own parameters.
type param struct {
	name  string
	kinds []string // that take it; autoattack takes what one of its components takes
	value func(d *decoder, n *node, where string) any
}

func whole(d *decoder, n *node, where string) any {
	var v int
	d.integer(&v, 1)(n, where)
	return v
}

func real(want span) func(d *decoder, n *node, where string) any {
	return func(d *decoder, n *node, where string) any {
		var v float64
		d.number(&v, want)(n, where)
		return v
	}
}

func truth(d *decoder, n *node, where string) any {
	var v bool
	d.boolean(&v)(n, where)
	return v
}

func word(what string) func(d *decoder, n *node, where string) any {
	return func(d *decoder, n *node, where string) any {
		v, _ := d.text(n, where, "the name of a "+what)
		return v
	}
}

// params is the one place that says which parameters an attack has; what a
// value means and its default are the attack's own affair.
var params = []param{
	{"steps", []string{"apgd-ce", "apgd-dlr", "apgd-t", "fab", "fab-t", "pgd", "bisection"}, whole},
	{"restarts", []string{"apgd-ce", "apgd-dlr", "apgd-t", "fab", "fab-t", "square", "pgd", "bisection"}, whole},
	{"targets", []string{"apgd-t", "fab-t", "bisection"}, whole},
	{"queries", []string{"square"}, whole},
	{"step_size", []string{"pgd"}, real(positive)},
	{"schedule", []string{"pgd"}, word("schedule")},
	{"loss", []string{"apgd-dlr", "apgd-t", "pgd", "fgsm", "bisection"}, word("loss")},
	{"rho", []string{"apgd-ce", "apgd-dlr", "apgd-t"}, real(share)},
	{"eot_iter", []string{"apgd-ce", "apgd-dlr", "apgd-t"}, whole},
	{"large_radii", []string{"apgd-ce", "apgd-dlr", "apgd-t"}, truth},
	{"alpha_max", []string{"fab", "fab-t"}, real(share)},
	{"eta", []string{"fab", "fab-t"}, real(positive)},
	{"beta", []string{"fab", "fab-t"}, real(share)},
	{"p_init", []string{"square"}, real(share)},
	{"rescale_schedule", []string{"square"}, truth},
	{"tolerance", []string{"bisection"}, real(share)},
}

func (p param) allowed(kind string) bool {
	if kind == "autoattack" {
		return p.name != "loss" && slices.ContainsFunc(p.kinds, func(k string) bool { return slices.Contains(components, k) })
	}
	return slices.Contains(p.kinds, kind)
}

// AttackParams returns the names of the parameters that attacks of a kind may be given.
func AttackParams(kind string) []string {
	var list []string
	for _, p := range params {
		if p.allowed(kind) {
			list = append(list, p.name)
		}
	}
	return list
}

// Component is an attack of AutoAttack's version custom.
type Component struct {
	Kind   string
	Params []Param // its own, in the file's order
}

// Custom returns what version custom is made of: its components in order, each
// with the parameters given for it alone, and those given for all that have them.
// (In Params the former are called "components[I].NAME".)
func (a Attack) Custom() (components []Component, shared []Param) {
	for i, kind := range a.Components {
		c := Component{Kind: kind}
		for _, p := range a.Params {
			if own, ok := strings.CutPrefix(p.Name, componentPath(i)+"."); ok {
				c.Params = append(c.Params, Param{own, p.Value})
			}
		}
		components = append(components, c)
	}
	for _, p := range a.Params {
		if !strings.HasPrefix(p.Name, "components[") {
			shared = append(shared, p)
		}
	}
	return components, shared
}

func componentPath(i int) string { return fmt.Sprintf("components[%d]", i) }

// component decodes the i-th component of version custom: the name of an attack,
// or a mapping of its kind and parameters.
func (d *decoder) component(i int, n *node, where string) (kind string, own []Param) {
	if n.kind != mapNode {
		d.enum(&kind, components)(n, where)
		return kind, nil
	}
	d.object(n, where, append([]field{required("kind", d.enum(&kind, components))}, paramFields()...)...)
	for _, p := range d.params(n, where, kind) {
		own = append(own, Param{componentPath(i) + "." + p.Name, p.Value})
	}
	return kind, own
}

// paramFields makes every parameter a known key; params decodes them.
func paramFields() []field {
	var fields []field
	for _, p := range params {
		fields = append(fields, optional(p.name, nil))
	}
	return fields
}

// params decodes the parameters of a kind, in the file's order.
func (d *decoder) params(n *node, where, kind string) (list []Param) {
	if kind == "" { // the kind is at fault
		return nil
	}
	for _, e := range n.entries {
		i := slices.IndexFunc(params, func(p param) bool { return p.name == e.key })
		switch {
		case i < 0:
		case !params[i].allowed(kind):
			d.fail(e.pos, "%s is not a parameter of %s; its parameters: %s", join(where, e.key), kind, strings.Join(AttackParams(kind), ", "))
		default:
			list = append(list, Param{e.key, params[i].value(d, e.value, join(where, e.key))})
		}
	}
	return list
}

func (d *decoder) attack(name string, n *node, where string) Attack {
	a := Attack{Name: name}
	var versionNode, componentsNode *node
	var own []Param // of components
	fields := []field{
		required("kind", d.enum(&a.Kind, AttackKinds)),
		optional("version", func(n *node, where string) {
			versionNode = n
			d.enum(&a.Version, AttackVersions)(n, where)
		}),
		required("norm", d.enum(&a.Norm, Norms)),
		required("epsilon", d.numbers(&a.Epsilons, positive, 1)),
		optional("components", func(n *node, where string) {
			componentsNode = n
			d.list(1, false, func(n *node, where string) {
				kind, params := d.component(len(a.Components), n, where)
				a.Components = append(a.Components, kind)
				own = append(own, params...)
			})(n, where)
		}),
	}
	d.object(n, where, append(fields, paramFields()...)...)
	if n.kind != mapNode || a.Kind == "" {
		return a
	}

	a.Params = d.params(n, where, a.Kind)
	if a.Kind != "autoattack" {
		for _, v := range []struct {
			key  string
			node *node
		}{{"version", versionNode}, {"components", componentsNode}} {
			if v.node != nil {
				d.fail(v.node.pos, "%s is only for kind autoattack, not %s", join(where, v.key), a.Kind)
			}
		}
		a.Version, a.Components = "", nil
	} else {
		if a.Version == "" {
			a.Version = "standard"
		}
		if custom := a.Version == "custom"; custom && componentsNode == nil {
			d.fail(versionNode.pos, "%s: version custom needs components, a list of %s", where, kindList(components))
		} else if custom {
			d.unshared(a, n, where)
			a.Params = append(a.Params, own...)
		} else if !custom && componentsNode != nil {
			d.fail(componentsNode.pos, "%s is only for version custom, not %s", join(where, "components"), a.Version)
		}
	}
	d.epsilons(a, n.get("epsilon"), join(where, "epsilon"))
	return a
}

// unshared reports parameters for all components that none of them has.
func (d *decoder) unshared(a Attack, n *node, where string) {
	for _, p := range a.Params {
		i := slices.IndexFunc(params, func(row param) bool { return row.name == p.Name })
		if !slices.ContainsFunc(a.Components, func(kind string) bool { return kind == "" || params[i].allowed(kind) }) {
			at := slices.IndexFunc(n.entries, func(e entry) bool { return e.key == p.Name })
			d.fail(n.entries[at].pos, "%s is a parameter of none of the components (%s)", join(where, p.Name), strings.Join(a.Components, ", "))
		}
	}
}

// epsilons checks what makes no sense as a list of radii.
func (d *decoder) epsilons(a Attack, n *node, where string) {
	seen := map[float64]bool{}
	for _, v := range a.Epsilons {
		if seen[v] {
			d.fail(n.pos, "%s lists %v twice", where, v)
		}
		seen[v] = true
		if a.Norm == "linf" && v > 1 {
			note := ""
			if v <= 255 {
				note = fmt.Sprintf("; did you mean %v/255?", v)
			}
			d.fail(n.pos, "%s is %v, but in linf nothing is farther than 1, since pixels are in [0,1]%s", where, v, note)
		}
	}
}
