package attacks

import (
	"fmt"
	"slices"

	"selfheal/internal/setting"
)

// Parameter is a parameter of an attack: its description, and where the attack keeps it.
type Parameter struct {
	setting.Setting
	Norms []Norm // the norms in which it means something; nil: all

	get       func(Method) any         // an int, float64, bool or string
	set       func(Method, any) Method // of such a value
	isZero    func(Method) bool        // whether the attack's field is
	byDefault func(Method) any         // where Default is nil: what follows from the parameters before it
	// fit cuts a value to what so many classes allow, for AutoAttack's versions. replaced says in
	// words what had to give way, if it is worth telling. Nil where classes don't matter.
	fit func(v any, classes int) (fitted any, replaced string)
}

// Shared reports whether a custom AutoAttack may set the parameter for all its components
// at once. A choice can't be: each kind has words of its own.
func (p Parameter) Shared() bool { return p.Type != setting.Choice }

// only limits a parameter to norms.
func (p Parameter) only(norms ...Norm) Parameter {
	p.Norms = norms
	return p
}

// hasUse reports whether the parameter means something in a norm.
func (p Parameter) hasUse(n Norm) bool { return p.Norms == nil || slices.Contains(p.Norms, n) }

// valueByDefault is what an attack has where nothing is given.
func (p Parameter) valueByDefault(a Method) any {
	if p.Default != nil {
		return p.Default
	}
	return p.byDefault(a)
}

// bind makes a parameter of a setting and the field that holds it.
func bind[A Method, V comparable](s setting.Setting, field func(*A) *V) Parameter {
	return Parameter{Setting: s,
		get: func(a Method) any {
			own := a.(A)
			return *field(&own)
		},
		set: func(a Method, v any) Method {
			own := a.(A)
			*field(&own) = v.(V)
			return own
		},
		isZero: func(a Method) bool {
			own := a.(A)
			return *field(&own) == *new(V)
		},
	}
}

func whole[A Method](name string, byDefault int, doc string, field func(*A) *int) Parameter {
	s := setting.Setting{Name: name, Type: setting.Whole, Within: setting.Count, Default: byDefault, Doc: doc}
	return bind(s, field)
}

func decimal[A Method](name string, byDefault float64, within setting.Interval, doc string,
	field func(*A) *float64) Parameter {
	return bind(setting.Setting{Name: name, Type: setting.Number, Within: within, Default: byDefault, Doc: doc}, field)
}

func flag[A Method](name, doc string, field func(*A) *bool) Parameter {
	return bind(setting.Setting{Name: name, Type: setting.Flag, Default: false, Doc: doc}, field)
}

// choice is one of the values allowed, given by its name; by default the first.
func choice[A Method, T interface {
	comparable
	fmt.Stringer
}](name, doc string, field func(*A) *T, allowed ...T) Parameter {
	words := names(allowed, T.String)
	value := bind(setting.Setting{Name: name, Type: setting.Choice, Choices: words, Default: words[0], Doc: doc}, field)
	get, set := value.get, value.set
	value.get = func(a Method) any { return get(a).(T).String() }
	value.set = func(a Method, v any) Method { return set(a, allowed[slices.Index(words, v.(string))]) }
	return value
}

// climbed is the loss that an attack climbs. Where there are too few classes for it, AutoAttack's
// versions climb its numerator.
func climbed[A Method](field func(*A) *Loss, allowed ...Loss) Parameter {
	p := choice("loss", "the loss that is climbed", field, allowed...)
	p.fit = func(v any, classes int) (any, string) {
		given := allowed[slices.Index(p.Choices, v.(string))]
		fitted := given.fitted(classes)
		if fitted == given {
			return v, ""
		}
		why := fmt.Sprintf("climbs %s instead of %s, which needs %d", fitted, given, given.MinClasses())
		return fitted.String(), why
	}
	return p
}

// aimedAt is how many wrong classes an attack aims at, one after another.
func aimedAt[A Method](field func(*A) *int) Parameter {
	p := whole("targets", 9, "wrong classes aimed at, highest logit first; at most as many as there are", field)
	p.fit = func(v any, classes int) (any, string) { return min(v.(int), classes-1), "" }
	return p
}

// following replaces a fixed default by one that follows from epsilon, the norm and the
// parameters before it; rule says how.
func (p Parameter) following(rule string, byDefault func(Method) any) Parameter {
	p.Default, p.Rule, p.byDefault = nil, rule, byDefault
	return p
}

// without leaves a parameter out.
func without(name string, table []Parameter) []Parameter {
	return slices.DeleteFunc(slices.Clone(table), func(p Parameter) bool { return p.Name == name })
}

// withDefaults gives parameters that are left zero their defaults.
func withDefaults[A Method](a A, table []Parameter) A {
	var filled Method = a
	for _, p := range table {
		if p.isZero(filled) {
			filled = p.set(filled, p.valueByDefault(filled))
		}
	}
	return filled.(A)
}

// check reports what no attack can do with, the first parameter outside its range, and one that is
// set though it means nothing in the norm.
func check[A Method](a A, norm Norm, eps float64, loss Loss, classes int, shape Shape, table []Parameter) error {
	switch name := a.Name(); {
	case !norm.known():
		return fmt.Errorf("%s: no such norm: %d", name, int(norm))
	case loss < CrossEntropy || loss > Margin:
		return fmt.Errorf("%s: no such loss: %d", name, int(loss))
	case !(eps > 0 && eps < 1e9):
		return fmt.Errorf("%s: epsilon must be positive and finite, not %v", name, eps)
	case shape.C < 1 || shape.H < 1 || shape.W < 1:
		return fmt.Errorf("%s: images of %dx%dx%d have no pixels", name, shape.C, shape.H, shape.W)
	case shape != AnyShape && eps > norm.widest(shape):
		return fmt.Errorf("%s: epsilon %.6g is too large: images of %dx%dx%d are at most %.6g apart in %s",
			name, eps, shape.C, shape.H, shape.W, norm.widest(shape), norm)
	case classes < loss.MinClasses():
		return fmt.Errorf("%s: the %s loss needs at least %d classes, the model has %d",
			name, loss, loss.MinClasses(), classes)
	}
	full := withDefaults(a, table)
	for _, p := range table {
		v := p.get(full)
		if _, err := p.Read(v); err != nil {
			return fmt.Errorf("%s: %s %w", a.Name(), p.Name, err)
		}
		if !p.hasUse(norm) && v != p.valueByDefault(full) {
			return fmt.Errorf("%s: %s exists only in %s, not %s", a.Name(), p.Name, p.Norms[0], norm)
		}
	}
	return nil
}
