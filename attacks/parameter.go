package attacks

import (
	"reflect"
	"slices"
	"strings"

	"selfheal/internal/lists"
	"selfheal/internal/setting"
)

// Parameter is a parameter of an attack. Its value lies in the struct's field of the same name: p_init in PInit. Only
// the loss lies elsewhere, in common.
type Parameter struct {
	setting.Setting
	Norms []Norm // the norms in which it has a meaning; nil: all
	late  bool   // there are results without it: at its default it is not described
}

// later marks a parameter that was added after results had been written, so that runs go on as they began.
func (p Parameter) later() Parameter {
	p.late = true
	return p
}

// shared reports whether a custom AutoAttack may set the parameter for all its components at once. It may not set a
// choice, because each kind has its own words.
func (p Parameter) shared() bool { return p.Type != setting.Choice }

// only limits a parameter to some norms.
func (p Parameter) only(norms ...Norm) Parameter {
	p.Norms = norms
	return p
}

// hasUse reports whether the parameter has a meaning in a norm.
func (p Parameter) hasUse(n Norm) bool { return p.Norms == nil || slices.Contains(p.Norms, n) }

// field returns the field of an attack's struct that holds the parameter.
func (p Parameter) field(attack reflect.Value) reflect.Value {
	words := strings.ReplaceAll(p.Name, "_", "")
	return attack.FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, words) })
}

func whole(name string, byDefault int, doc string) Parameter {
	return Parameter{Setting: setting.Setting{Name: name, Type: setting.Whole, Within: setting.Count,
		Default: byDefault, Doc: doc}}
}

func decimal(name string, byDefault float64, within setting.Interval, doc string) Parameter {
	return Parameter{Setting: setting.Setting{Name: name, Type: setting.Number, Within: within, Default: byDefault,
		Doc: doc}}
}

// stepSize declares a length whose default follows from epsilon by a rule; the field is then 0.
func stepSize(rule, doc string) Parameter {
	return Parameter{Setting: setting.Setting{Name: "step_size", Type: setting.Number, Within: setting.Positive,
		Rule: rule, Doc: doc}}
}

func flag(name, doc string) Parameter {
	return Parameter{Setting: setting.Setting{Name: name, Type: setting.Flag, Default: false, Doc: doc}}
}

// choice declares a parameter that is one of the words, by default the first.
func choice(name, doc string, words ...string) Parameter {
	return Parameter{Setting: setting.Setting{Name: name, Type: setting.Choice, Choices: words, Default: words[0],
		Doc: doc}}
}

const lossName = "loss"

// climbed declares the loss that an attack maximises, by default the first.
func climbed(allowed ...Loss) Parameter {
	return choice(lossName, "the loss that is climbed", lists.Map(allowed, Loss.String)...)
}

// without returns the table without one parameter.
func without(name string, table []Parameter) []Parameter {
	return slices.DeleteFunc(slices.Clone(table), func(p Parameter) bool { return p.Name == name })
}
