package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"selfheal/attacks"
	"selfheal/attacks/corruption"
	"selfheal/internal/lists"
	"selfheal/internal/number"
	"selfheal/internal/setting"
)

// Attack is a named attack. It makes one cell for each of its Epsilons, Corruptions or Sides.
type Attack struct {
	Name string
	attacks.Setup
	Epsilons    []float64
	Corruptions []attacks.Corruption // for kind corruption, which has no epsilons; nil for others
	Sides       []int                // for kind patch; nil for others
	// Prove lets bounds decide images that AutoAttack's first component leaves.
	Prove bool
}

// Norms are the values of an attack's norm.
var Norms = lists.Map(attacks.Norms(), attacks.Norm.String)

// settingRow returns a row of a table of settings. The table's owner applies the default.
func settingRow(s setting.Setting, to func(v any)) row {
	r := row{key: s.Name, value: of(s, to), def: s.DefaultText(), applied: true, doc: s.Doc}
	if s.Unit != "" {
		r.doc += ", in " + s.Unit
	}
	if s.Default == nil {
		r.def = ""
		if s.Rule != "" {
			r.doc += "; default: " + s.Rule
		}
	}
	return r
}

func parameterRows(s attacks.Spec, to map[string]any, form string) (rows []row) {
	for _, p := range s.Accepts() {
		if p.Name != attacks.SideName {
			rows = append(rows, settingRow(p.Setting, func(v any) { to[p.Name] = v }).in(form))
		}
	}
	return rows
}

// attackForm is a form of an attack: a kind, or one of AutoAttack's versions.
type attackForm struct {
	form
	spec   attacks.Spec
	listed bool // the config lists its components
}

// attackForms are the forms of all attacks except corruptions.
var attackForms = func() (all []attackForm) {
	for _, s := range attacks.Specs {
		kind := [2]string{"kind", s.Kind}
		if s.Versions == nil {
			f := form{name: s.Kind, when: [][2]string{kind}}
			if attacks.Free(s.Kind) {
				f.why = "it has no norm and no epsilon"
			}
			all = append(all, attackForm{form: f, spec: s})
		}
		for _, v := range s.Versions {
			f := form{name: s.Kind + " " + v.Name, when: [][2]string{kind, {"version", v.Name}}}
			if !v.Listed() {
				f.why = "it is fixed, version custom takes parameters"
			}
			all = append(all, attackForm{f, s, v.Listed()})
		}
	}
	return all
}()

// The forms in a norm: all, those with one epsilon or more, those that attack, AutoAttack's, and those of components.
var (
	bounded   = formsThat(func(attackForm) bool { return true })
	sized     = formsThat(func(f attackForm) bool { return !attacks.Brackets(f.spec.Kind) })
	attacking = formsThat(func(f attackForm) bool { return !attacks.Proves(f.spec.Kind) })
	versioned = formsThat(func(f attackForm) bool { return f.spec.Versions != nil })
	listing   = formsThat(func(f attackForm) bool { return f.listed })
)

// formsThat names the forms in a norm for which a condition holds.
func formsThat(holds func(f attackForm) bool) []string {
	return lists.Map(lists.Only(attackForms, func(f attackForm) bool { return !attacks.Free(f.spec.Kind) && holds(f) }),
		func(f attackForm) string { return f.name })
}

func attackObject(name string, a *Attack) object {
	if a.Name = name; a.Parameters == nil {
		a.Parameters = map[string]any{}
	}
	var versions []string
	for _, s := range attacks.Specs {
		versions = append(versions, lists.Map(s.Versions, func(v attacks.Version) string { return v.Name })...)
	}
	const auto = "only autoattack"
	free := lists.Only(append(attacks.Kinds(), attacks.CorruptionKind), attacks.Free)
	all := "all kinds but " + strings.Join(free[:len(free)-1], ", ") + " and " + free[len(free)-1]
	epsilons := list(&a.Epsilons, oneOrMore, func(v *float64) value { return decimal(v, setting.Positive) })
	norm := func(v any) { a.Norm, _ = attacks.ParseNorm(v.(string)) }
	o := object{check: a.check, also: normSchemas(), rows: []row{
		required("kind", choice(&a.Kind, append(attacks.Kinds(), attacks.CorruptionKind)), "which attack"),
		optional("version", choice(&a.Version, versions), versions[0], "AutoAttack's").inMany(auto, versioned),
		required("norm", of(setting.Setting{Type: setting.Choice, Choices: Norms}, norm),
			"norm of the perturbation").inMany(all, bounded),
		required("epsilon", epsilons, "bound of the perturbation, in pixel units of [0,1], in l0 a number of changed "+
			"values; a list makes a cell each").inMany("all of these but bracket", sized),
		optional("epsilon", epsilons, "", "where tables say how many images are proven and how many are left").in(
			attacks.BracketKind),
		row{key: "pixels", value: choice(&a.Pixels, attacks.PixelForms), def: attacks.PixelForms[0], applied: true,
			doc: "pixels of adversarial images: on the levels k/255 of stored images, or any"}.inMany(
			"all attacks in a norm", attacking),
		optional("target", target(&a.Target), "", "the class that breaks an image: its number, the `next` after the "+
			"label, or each image's own in the data set's `targets` (`file`); default: any wrong one").
			inMany("all attacks in a norm", attacking),
		optional("prove", boolean(&a.Prove), "false", "have bounds (α- and β-CROWN) decide images that the first "+
			"component leaves, where that is faster; verdicts stay the same").inMany(auto, versioned),
		required("sides", list(&a.Sides, oneOrMore, count),
			"sides of the square, in pixels; a list makes a cell each").in(attacks.PatchKind),
		required("components", list(&a.Components, span{least: 1}, componentValue),
			"in order, each a name or a mapping of kind and parameters").in(listing...),
	}}
	for _, f := range attackForms {
		if o.forms = append(o.forms, f.form); f.spec.Versions == nil || f.listed {
			o.rows = append(o.rows, parameterRows(f.spec, a.Parameters, f.name)...)
		}
	}
	o.forms = append(o.forms, form{attacks.CorruptionKind, [][2]string{{"kind", attacks.CorruptionKind}},
		"a corruption has no bound; its keys are kind, names and severities"})
	o.rows = append(o.rows, a.corruptionRows()...)
	return o
}

// target reads the class to reach, as [attacks.ParseAim] does.
func target(to *string) value {
	form := anyOf(schema{"enum": []string{attacks.NextClass, attacks.FileTarget}},
		schema{"type": "integer", "minimum": 0, "maximum": math.MaxInt16})
	return custom("a class's number from 0 up, "+attacks.NextClass+" or "+attacks.FileTarget, form, func(n *node) bool {
		*to = n.text
		_, err := attacks.ParseAim(n.text)
		return err == nil && n.text != ""
	}).at(to)
}

// normSchemas say in which norms a kind exists, that no linf distance exceeds 1, and that l0 counts values.
func normSchemas() (all []schema) {
	for _, s := range attacks.Specs {
		if attacks.Free(s.Kind) {
			continue
		}
		all = append(all, schema{
			"if":   schema{"properties": schema{"kind": schema{"const": s.Kind}}, "required": []string{"kind"}},
			"then": schema{"properties": schema{"norm": schema{"enum": s.In()}}},
		})
	}
	far := schema{"type": "number", "exclusiveMinimum": 1}
	part := schema{"type": "number", "not": schema{"multipleOf": 1}}
	epsilon := func(norm string, not schema) schema {
		return schema{
			"if":   schema{"properties": schema{"norm": schema{"const": norm}}, "required": []string{"norm"}},
			"then": schema{"properties": schema{"epsilon": schema{"not": not, "items": schema{"not": not}}}},
		}
	}
	return append(all, epsilon("linf", far), epsilon("l0", part))
}

const corruptionDoc = "the common corruptions of Hendrycks & Dietterich (2019): a cell for each corruption and severity"

// corruptionRows returns the keys of kind corruption. By default each stands for all values.
func (a *Attack) corruptionRows() []row {
	var names []string
	var severities []int
	all := lists.Map(lists.To(corruption.Severities), func(i int) string { return strconv.Itoa(i + 1) })
	fill := func(*decoder, *node, string) {
		a.Corruptions = nil
		for _, name := range names {
			for _, severity := range severities {
				a.Corruptions = append(a.Corruptions, attacks.Corruption{Name: name, Severity: severity})
			}
		}
	}
	name := func(v *string) value { return choice(v, corruption.Names()) }
	severity := func(v *int) value { return whole(v, setting.Interval{Min: 1, Max: corruption.Severities}) }
	return []row{
		optional("names", list(&names, oneOrMore, name).then(fill), "["+strings.Join(corruption.Names(), ", ")+"]",
			"which corruptions").in(attacks.CorruptionKind),
		optional("severities", list(&severities, oneOrMore, severity).then(fill), "["+strings.Join(all, ", ")+"]",
			"which severities").in(attacks.CorruptionKind),
	}
}

// componentValue returns an attack of AutoAttack's version custom: its name, or a mapping.
func componentValue(c *attacks.Component) value {
	var kinds []string
	rows := []row{{}} // the kind's row comes first
	if c.Parameters == nil {
		c.Parameters = map[string]any{}
	}
	for _, s := range attacks.Specs {
		if s.Component {
			kinds = append(kinds, s.Kind)
			rows = append(rows, parameterRows(s, c.Parameters, s.Kind)...)
		}
	}
	kind := choice(&c.Kind, kinds)
	rows[0] = required("kind", kind, "which attack")
	return either(kind.want, kind, object{forms: formsBy("kind", kinds), rows: rows}.value())
}

// check refuses shared parameters that no component has, and radii that cover every image.
func (a *Attack) check(d *decoder, n *node, where string) {
	if a.Corruptions == nil && attacks.Free(a.Kind) {
		a.Epsilons = []float64{1}
	}
	for _, e := range n.entries {
		_, given := a.Parameters[e.key]
		if given && a.Components != nil && !slices.ContainsFunc(a.Components,
			func(c attacks.Component) bool { return takes(c.Kind, e.key) }) {
			d.fail(e.pos, "%s is a parameter of none of the components", n.place(where, e.key))
		}
	}
	if s, err := attacks.Lookup(a.Kind); err == nil && n.get("norm") != nil {
		if err := s.CheckNorm(a.Norm); err != nil {
			d.fail(n.get("norm").pos, "%s: %v", n.place(where, "norm"), err)
		}
	}
	for _, v := range a.Epsilons {
		if a.Norm == attacks.L0 && v != math.Trunc(v) {
			d.fail(n.get("epsilon").pos, "%s is %s, but in l0 it is a number of changed values, a whole one",
				n.place(where, "epsilon"), number.Format(v))
		}
		withinReach(d, n, where, a.Norm, v)
	}
}

// withinReach checks that there are points of [0,1] at a mapping's epsilon in ℓ∞.
func withinReach(d *decoder, n *node, where string, norm attacks.Norm, epsilon float64) {
	if norm != attacks.Linf || epsilon <= 1 {
		return
	}
	note := ""
	if epsilon <= 255 {
		note = fmt.Sprintf("; did you mean %s/255?", number.Format(epsilon))
	}
	d.fail(n.get("epsilon").pos, "%s is %s, but in linf nothing is farther than 1, since pixels are in [0,1]%s",
		n.place(where, "epsilon"), number.Format(epsilon), note)
}

// Several reports whether the attack's cells have names of their own, NAME:fog:3 or NAME:4.
func (a *Attack) Several() bool { return a.Corruptions != nil || a.Sides != nil }

func takes(kind, parameter string) bool {
	s, err := attacks.Lookup(kind)
	return err == nil && slices.ContainsFunc(s.Parameters,
		func(p attacks.Parameter) bool { return p.Name == parameter })
}
