package config

import (
	"fmt"
	"slices"
	"strings"
)

// AttackKinds are the values of an attack's kind.
var AttackKinds = []string{"autoattack", "apgd-ce", "apgd-dlr", "apgd-t", "fab", "fab-t", "square", "pgd", "fgsm"}

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

func word(d *decoder, n *node, where string) any {
	v, _ := d.text(n, where, "the name of a loss")
	return v
}

// params is the one place that says which parameters an attack has; what a
// value means and its default are the attack's own affair.
var params = []param{
	{"steps", []string{"apgd-ce", "apgd-dlr", "apgd-t", "fab", "fab-t", "pgd"}, whole},
	{"restarts", []string{"apgd-ce", "apgd-dlr", "apgd-t", "fab", "fab-t", "square", "pgd"}, whole},
	{"targets", []string{"apgd-t", "fab-t"}, whole},
	{"queries", []string{"square"}, whole},
	{"step_size", []string{"pgd"}, real(positive)},
	{"loss", []string{"apgd-t", "pgd", "fgsm"}, word},
	{"rho", []string{"apgd-ce", "apgd-dlr", "apgd-t"}, real(share)},
	{"eot_iter", []string{"apgd-ce", "apgd-dlr", "apgd-t"}, whole},
	{"large_radii", []string{"apgd-ce", "apgd-dlr", "apgd-t"}, truth},
	{"alpha_max", []string{"fab", "fab-t"}, real(share)},
	{"eta", []string{"fab", "fab-t"}, real(positive)},
	{"beta", []string{"fab", "fab-t"}, real(share)},
	{"p_init", []string{"square"}, real(share)},
	{"rescale_schedule", []string{"square"}, truth},
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

func (d *decoder) attack(name string, n *node, where string) Attack {
	a := Attack{Name: name}
	var versionNode, componentsNode *node
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
				var c string
				d.enum(&c, components)(n, where)
				a.Components = append(a.Components, c)
			})(n, where)
		}),
	}
	for _, p := range params {
		fields = append(fields, optional(p.name, nil)) // decoded below, in the file's order
	}
	d.object(n, where, fields...)
	if n.kind != mapNode || a.Kind == "" {
		return a
	}

	for _, e := range n.entries {
		i := slices.IndexFunc(params, func(p param) bool { return p.name == e.key })
		switch {
		case i < 0:
		case !params[i].allowed(a.Kind):
			d.fail(e.pos, "%s is not a parameter of %s; its parameters: %s", join(where, e.key), a.Kind, strings.Join(AttackParams(a.Kind), ", "))
		default:
			a.Params = append(a.Params, Param{e.key, params[i].value(d, e.value, join(where, e.key))})
		}
	}
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
		} else if !custom && componentsNode != nil {
			d.fail(componentsNode.pos, "%s is only for version custom, not %s", join(where, "components"), a.Version)
		}
	}
	d.epsilons(a, n.get("epsilon"), join(where, "epsilon"))
	return a
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
