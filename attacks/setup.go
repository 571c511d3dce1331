package attacks

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"selfheal/internal/lists"
	"selfheal/internal/number"
)

// Setup is an attack as a config describes it, for any epsilon and classifier.
type Setup struct {
	Kind    string // see [Kinds]
	Version string // AutoAttack's; "" is standard
	Norm    Norm
	// Parameters are the given values by name: any Go number, a bool, or text such as "10", "8/255", "true", "dlr". A
	// custom AutoAttack passes them to every component that has them.
	Parameters given
	Components []Component // a custom AutoAttack's, in order
	Pixels     string      // one of [PixelForms]; "" is float
	Target     string      // the class to reach, see [ParseAim]; "" is any wrong class
	// Precision is the precision of the classifier's passes during the attack, if it is not float32: "bf16". The
	// recipe's name includes it ("pgd/1+bf16").
	Precision string
}

// Component is one of the attacks of an AutoAttack. Its own parameters take precedence over shared ones.
type Component struct {
	Kind       string
	Parameters given

	needs Needs
}

// Description says how an attack is made, including defaults.
type Description struct {
	Kind, Version string
	Title         string // "PGD-40, 2 restarts"
	Recipe        string // "pgd/1"; a recipe that falls back for lack of classes ends in "-few" as well
	// Parameters are ints, float64s, bools and strings; a default that follows from epsilon is text. Nil for
	// AutoAttack, whose components hold them.
	Parameters given
	Components []Component
}

// plan is a setup with its parameters read.
type plan struct {
	spec    Spec
	version Version
	parts   []part // for a single attack only itself
}

// part is an attack with its parameters, except those whose default follows from epsilon.
type part struct {
	spec       Spec
	parameters given
	usual      given // defaults that differ from the table's
	needs      Needs
}

func (s Setup) plan() (plan, error) {
	spec, err := Lookup(s.Kind)
	if err != nil {
		return plan{}, err
	}
	p := plan{spec: spec}
	if none := spec.free || spec.proves; none && s.Stored() {
		return p, fmt.Errorf("%s has no pixels %s, only attacks in a norm have", s.Kind, s.Pixels)
	} else if none && s.Target != "" {
		return p, fmt.Errorf("%s has no target, only attacks in a norm have", s.Kind)
	}
	if spec.Versions == nil {
		if s.Version != "" || s.Components != nil {
			return p, fmt.Errorf("%s has no versions and no components; autoattack has", s.Kind)
		}
		one, err := spec.part(s.Norm, s.Parameters, nil)
		p.parts = []part{one}
		return p, err
	}
	if p.version, err = spec.version(s.Version); err != nil {
		return p, err
	}
	listed, shared := s.Components, slices.Sorted(maps.Keys(s.Parameters))
	switch custom := p.version.Listed(); {
	case custom && len(listed) == 0:
		return p, fmt.Errorf("%s: there are no components", p.name())
	case !custom && listed != nil:
		return p, fmt.Errorf("%s takes no components; version custom does", p.name())
	case !custom && len(shared) > 0:
		return p, fmt.Errorf("%s is fixed and takes no parameter %q; version custom does", p.name(), shared[0])
	case !custom:
		listed = p.version.components(s.Norm)
	}
	for i, c := range listed {
		one, err := s.component(c, p.version.Listed())
		if err != nil {
			return p, fmt.Errorf("%s, component %d: %w", p.name(), i+1, err)
		}
		one.needs = c.needs
		p.parts = append(p.parts, one)
	}
	for _, name := range shared {
		if !slices.ContainsFunc(p.parts, func(c part) bool { return c.spec.shares(name) }) {
			return p, fmt.Errorf("%s: no component has a parameter %q", p.name(), name)
		}
	}
	return p, nil
}

// component reads a component's own parameters and the shared ones that it has.
func (s Setup) component(c Component, custom bool) (part, error) {
	spec, err := Lookup(c.Kind)
	if err != nil {
		return part{}, err
	}
	if !spec.Component {
		return part{}, fmt.Errorf("%s is none of AutoAttack's", c.Kind)
	}
	own, usual := given{}, given(nil)
	for name, v := range s.Parameters {
		if spec.shares(name) {
			own[name] = v
		}
	}
	maps.Copy(own, c.Parameters)
	if custom {
		usual = spec.custom
	}
	return spec.part(s.Norm, own, usual)
}

// shares reports whether a custom AutoAttack may set this parameter for all its components at once.
func (s Spec) shares(name string) bool {
	return slices.ContainsFunc(s.Parameters, func(p Parameter) bool { return p.Name == name && p.shared() })
}

// part reads the given parameters and adds defaults: the usual ones first, then the table's.
func (s Spec) part(n Norm, set, usual given) (part, error) {
	if err := s.CheckNorm(n); err != nil {
		return part{}, err
	}
	known := lists.Map(s.Parameters, func(p Parameter) string { return p.Name })
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !slices.Contains(known, name) {
			return part{}, fmt.Errorf("%s: unknown parameter %q (allowed: %s)", s.Kind, name, strings.Join(known, ", "))
		}
	}
	all := given{}
	for _, p := range s.Parameters {
		if v := cmp.Or(usual[p.Name], p.Default); v != nil {
			all[p.Name] = v
		}
		if v, ok := set[p.Name]; ok {
			read, err := p.Read(v)
			if err != nil {
				return part{}, fmt.Errorf("%s: %s %w", s.Kind, p.Name, err)
			}
			all[p.Name] = read
		}
	}
	return part{spec: s, parameters: all, usual: usual}, nil
}

// attack makes the attack from parameters that have been read. Missing ones get the table's defaults.
func (s Spec) attack(c common, parameters given) Method {
	start := s.start(c)
	made := reflect.New(reflect.TypeOf(start)).Elem()
	made.Set(reflect.ValueOf(start))
	for _, p := range s.Parameters {
		if v := cmp.Or(parameters[p.Name], p.Default); v != nil && p.Name != lossName {
			p.field(made).Set(reflect.ValueOf(v))
		}
	}
	return made.Interface().(Method)
}

// loss returns the loss that the parameters name.
func (s Spec) loss(parameters given) Loss {
	if name, ok := parameters[lossName].(string); ok {
		return lossNamed(name)
	}
	return s.climbs
}

// checkUse returns an error for a parameter that is set but has no meaning in the norm.
func (c part) checkUse(name string, n Norm) error {
	for _, p := range c.spec.Parameters {
		if !p.hasUse(n) && c.parameters[p.Name] != p.Default {
			return fmt.Errorf("%s: %s exists only in %s, not %s", name, p.Name, p.Norms[0], n)
		}
	}
	return nil
}

// Stored reports whether only images on 8-bit levels count.
func (s Setup) Stored() bool { return s.Pixels == PixelForms[1] }

// Spans reports whether one run at the largest epsilon gives the result at every smaller one: a point is a success at
// each epsilon that it lies within.
func (s Setup) Spans() bool {
	spec, err := Lookup(s.Kind)
	return err == nil && spec.spans && !s.Stored()
}

// name returns the recipe's name without its version: "autoattack-standard".
func (p plan) name() string {
	if p.version.Name == "" {
		return p.spec.Kind
	}
	return p.spec.Kind + "-" + p.version.Name
}

// revision returns the recipe's version.
func (p plan) revision() int { return max(p.spec.Revision, p.version.Revision) }

// recipe returns a name with its version.
func (s Setup) recipe(name string, p plan) string {
	made := fmt.Sprintf("%s/%d", name, p.revision())
	if s.Precision != "" && !p.spec.proves { // a certificate's judge has it
		made += "+" + s.Precision
	}
	if s.Stored() {
		made += "+" + s.Pixels
	}
	if s.Target != "" {
		made += "+target-" + s.Target
	}
	return made
}

// Make returns the attack's recipe at an epsilon, in pixel units of [0,1], for a classifier with this many classes. For
// a parameter that is unknown, of another type or outside its range it returns an error of one line that says what is
// allowed.
//
// [Attack.Check] says whether a single attack, and the images' shape, suit the classifier. AutoAttack's components are
// fitted to the classes: targets are cut to classes − 1, and a loss that needs more classes gives way to its numerator,
// which [Recipe.Fallback] and the name ("autoattack-standard-few/1") tell. The logit difference replaces targeted DLR
// below 4 classes, the margin replaces DLR below 3. Auto-PGD's steps do not depend on a loss's scale.
func (s Setup) Make(epsilon float64, classes int) (Recipe, error) {
	p, err := s.plan()
	if err != nil {
		return Recipe{}, err
	}
	aim, err := ParseAim(s.Target)
	if err != nil {
		return Recipe{}, err
	}
	name, enough, several := p.name(), math.MaxInt32, p.spec.Versions != nil
	if several {
		enough = classes
	}
	r := Recipe{Norm: s.Norm, Epsilon: epsilon, Minimises: p.spec.minimises, Stored: s.Stored(),
		Free: p.spec.free, Labels: p.spec.labels, Aim: aim}
	fallback, placed := []string(nil), map[string]int{} // number of components so far by name
	for _, c := range p.parts {
		has := common{c.spec.Kind, s.Norm, epsilon, c.spec.loss(c.parameters), !several && !c.spec.labels,
			s.Stored()}
		a := c.spec.attack(has, c.parameters)
		if l := has.Loss; several && l.fitted(classes) != l {
			has.Loss = l.fitted(classes)
			fallback = append(fallback, fmt.Sprintf("%s climbs %s instead of %s, which needs %d", a.Name(), has.Loss, l,
				l.MinClasses()))
			a = c.spec.attack(has, c.parameters)
		}
		err := cmp.Or(a.Check(enough, AnyShape), c.checkUse(a.Name(), s.Norm))
		if err != nil && several {
			err = fmt.Errorf("%s: %w", name, err)
		}
		if err != nil {
			return Recipe{}, err
		}
		if of, ok := a.(interface{ limit() Limit }); ok {
			r.Limit = of.limit()
		}
		attack, ok := a.(Attack)
		if !ok {
			r.Certificate = a.(Certificate)
			continue
		}
		if c.needs != (Needs{}) {
			attack = sideways{attack, c.needs, s.Norm, epsilon}
		}
		if place := placed[attack.Name()]; place > 0 {
			attack = again{attack, place}
		}
		placed[attack.Name()]++
		if s.Stored() && !c.spec.labels {
			attack = stored{attack, s.Norm, epsilon}
		}
		if aim.Targeted() {
			attack = aimed{attack, aim}
		}
		r.Components = append(r.Components, attack)
	}
	if fallback != nil {
		name += "-few"
		r.Fallback = fmt.Sprintf("the model has only %d classes: %s", classes, strings.Join(fallback, "; "))
	}
	r.Name = s.recipe(name, p)
	return r, nil
}

// Describe says how the attack is made, before it is fitted to a number of classes.
func (s Setup) Describe() (Description, error) {
	p, err := s.plan()
	if err != nil {
		return Description{}, err
	}
	d := Description{Kind: s.Kind, Version: p.version.Name, Recipe: s.recipe(p.name(), p)}
	if p.spec.Versions == nil {
		one := p.parts[0]
		d.Title, d.Parameters = one.title(s.Norm)+s.towards(), one.described(s.Norm)
		return d, nil
	}
	var titles []string
	for _, c := range p.parts {
		d.Components = append(d.Components, Component{Kind: c.spec.Kind, Parameters: c.described(s.Norm)})
		titles = append(titles, c.title(s.Norm))
	}
	d.Title = p.version.Name
	if p.version.Listed() {
		d.Title += ": " + strings.Join(titles, "; ")
	}
	d.Title = fmt.Sprintf("%s (%s)", p.spec.Title, d.Title) + s.towards()
	return d, nil
}

// towards returns the words about a target in a title; "" for any wrong class.
func (s Setup) towards() string {
	switch s.Target {
	case "":
		return ""
	case NextClass:
		return ", towards the next class"
	case FileTarget:
		return ", towards each image's given class"
	}
	return ", towards class " + s.Target
}

// described returns all parameters that have a meaning in a norm.
func (c part) described(n Norm) given {
	all := given{}
	for _, p := range c.spec.Parameters {
		v, ok := c.parameters[p.Name]
		if !ok {
			v = p.Rule
		}
		if p.hasUse(n) && !(p.late && v == p.Default) {
			all[p.Name] = v
		}
	}
	if c.needs.Gradient != "" {
		all["gradient"] = c.needs.Gradient
	}
	if c.needs.Signs {
		all["signs"] = true
	}
	return all
}

// title returns the attack's title with the settings that readers expect and those that differ from the default:
// "PGD-40, 2 restarts".
func (c part) title(n Norm) string {
	title := cmp.Or(c.spec.heading, c.spec.Title)
	for _, p := range c.spec.Parameters {
		v, given := c.parameters[p.Name]
		switch expected := "{" + p.Name + "}"; {
		case strings.Contains(title, expected):
			title = strings.Replace(title, expected, fmt.Sprint(v), 1)
		case given && v != cmp.Or(c.usual[p.Name], p.Default) && p.hasUse(n):
			title += ", " + worded(p.Name, v)
		}
	}
	return title
}

// worded writes a value with its parameter's name: "2 restarts", "large radii", "loss margin".
func worded(name string, v any) string {
	words := strings.ReplaceAll(name, "_", " ")
	switch v := v.(type) {
	case int:
		if one, plural := strings.CutSuffix(words, "s"); plural && v == 1 {
			return "1 " + one
		} else if plural {
			return fmt.Sprintf("%d %s", v, words)
		}
	case float64:
		return words + " " + number.Format(v)
	case bool:
		if v {
			return words
		}
	}
	return fmt.Sprintf("%s %v", words, v)
}
