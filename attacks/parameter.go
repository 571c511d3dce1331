package attacks

import (
	"reflect"
	"slices"
	"strings"

	"selfheal/internal/lists"
	"selfheal/internal/setting"
)

// Parameter is a parameter of an attack, which keeps it in the field of the same name: p_init in PInit. Only the loss
// is kept elsewhere, in common.
type Parameter struct {
	setting.Setting
	Norms []Norm // the norms in which it means something; nil: all
}

// shared reports whether a custom AutoAttack may set the parameter for all its components
// at once. A choice can't be: each kind has words of its own.
func (p Parameter) shared() bool { return p.Type != setting.Choice }

// only limits a parameter to norms.
func (p Parameter) only(norms ...Norm) Parameter {
	p.Norms = norms
	return p
}

// hasUse reports whether the parameter means something in a norm.
func (p Parameter) hasUse(n Norm) bool { return p.Norms == nil || slices.Contains(p.Norms, n) }

// field is the one that holds the parameter in an attack's struct.
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

// stepSize is a length whose default follows from epsilon by a rule. A field that is 0 stands for it.
func stepSize(rule, doc string) Parameter {
	return Parameter{Setting: setting.Setting{Name: "step_size", Type: setting.Number, Within: setting.Positive,
		Rule: rule, Doc: doc}}
}

func flag(name, doc string) Parameter {
	return Parameter{Setting: setting.Setting{Name: name, Type: setting.Flag, Default: false, Doc: doc}}
}

// choice is one of the words, by default the first.
func choice(name, doc string, words ...string) Parameter {
	return Parameter{Setting: setting.Setting{Name: name, Type: setting.Choice, Choices: words, Default: words[0],
		Doc: doc}}
}

const lossName = "loss"

// climbed is the loss that an attack climbs, by default the first.
func climbed(allowed ...Loss) Parameter {
	return choice(lossName, "the loss that is climbed", lists.Map(allowed, Loss.String)...)
}

// without leaves a parameter out.
func without(name string, table []Parameter) []Parameter {
	return slices.DeleteFunc(slices.Clone(table), func(p Parameter) bool { return p.Name == name })
}
