package config

import (
	"cmp"
	"slices"
	"strings"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/cell"
)

// SolverStudy measures how far a suite's solvers lower the control problem's objective, and at what cost.
type SolverStudy struct {
	Images   int      // the first of the suite's data set; default 20
	Models   []string // of the suite; default all of them
	Controls []string // controls whose solver is msa or pmp; default all such of the suite
	// Attack makes the images that are studied beside the clean ones, at its only epsilon; "" for none.
	Attack string
	// The values below are tried one after the other; all other settings are the control's own.
	Regularization []float64
	Outer          []int
	Inner          []int // msa only
	LearningRate   []float64
	Momentum       []float64
}

// defaultStudyImages suffices to tell solvers apart; a study of thousands costs days.
const defaultStudyImages = "20"

// study reads a suite's solver study. Other parts of the config complete it later.
func (suite *Suite) study() value {
	s := cmp.Or(suite.Solver, &SolverStudy{})
	return s.object().value().then(func(d *decoder, n *node, where string) {
		suite.Solver = s
		d.later = append(d.later, func(c *Config) { s.complete(d, n, where, c, suite.Name) })
	})
}

func (s *SolverStudy) object() object {
	return object{rows: []row{
		optional("images", count(&s.Images), defaultStudyImages,
			"number of images, the data set's first"),
		optional("models", names(&s.Models, "a model", "models", 1), "", "models of the suite; default: all of them"),
		optional("controls", names(&s.Controls, "a control", "controls", 1), "",
			"controls whose method makes sweeps; default: all of the suite"),
		optional("attack", name(&s.Attack, "an attack", "attacks"), "",
			"with one epsilon: its images of the undefended network are studied too, whatever the mode"),
		tried(&s.Regularization, "regularization"), tried(&s.Outer, "outer"), tried(&s.Inner, "inner"),
		tried(&s.LearningRate, "learning_rate"), tried(&s.Momentum, "momentum"),
	}}
}

// tried returns the row for the values of a solver's setting.
func tried[T any](to *[]T, name string) row {
	i := slices.IndexFunc(control.Settings, func(s control.Setting) bool { return s.Name == name })
	s := control.Settings[i].Setting
	doc := "values of " + s.Doc
	return optional(name, list(to, oneOrMore, func(v *T) value { return scalar(s, v) }),
		"", doc)
}

// complete fills in the missing parts of a study from its suite, and checks it against the suite.
func (s *SolverStudy) complete(d *decoder, n *node, where string, c *Config, name string) {
	suite := c.Suite(name)
	if s.Models == nil {
		s.Models = suite.Models
	}
	for i, name := range s.Models {
		if !slices.Contains(suite.Models, name) {
			d.fail(n.get("models").items[i].pos, "%s.models[%d]: %s is none of the suite's models (%s)",
				where, i, quote(name), strings.Join(suite.Models, ", "))
		}
	}
	switch {
	case s.Attack == cell.None:
		d.fail(n.get("attack").pos, "%s.attack: clean images are always studied; name an attack or leave it out", where)
	case s.Attack != "" && attacks.Free(c.Attack(s.Attack).Kind):
		d.fail(n.get("attack").pos, "%s.attack: %s is of kind %s, a study takes an attack with one epsilon", where,
			s.Attack, c.Attack(s.Attack).Kind)
	case s.Attack != "" && attacks.Proves(c.Attack(s.Attack).Kind):
		d.fail(n.get("attack").pos, "%s.attack: %s is a certificate, a study takes an attack", where, s.Attack)
	case s.Attack != "" && len(c.Attack(s.Attack).Epsilons) != 1:
		d.fail(n.get("attack").pos, "%s.attack: %s has %d epsilons, a study takes one", where, s.Attack,
			len(c.Attack(s.Attack).Epsilons))
	}
	takes := func(name, setting string) bool {
		control := c.Control(name)
		return control != nil && control.Solver.Method.Spec().Takes(setting)
	}
	for i, name := range s.Controls {
		if !takes(name, "outer") {
			d.fail(n.get("controls").items[i].pos, "%s.controls[%d]: %s makes no sweeps, so there is nothing to study",
				where, i, name)
		}
	}
	if s.Controls == nil {
		sweepless := func(name string) bool { return !takes(name, "outer") }
		s.Controls = slices.DeleteFunc(slices.Clone(suite.Controls), sweepless)
	}
	if len(s.Controls) == 0 {
		d.fail(n.pos, "%s finds nothing to study: no control of the suite has a method that makes sweeps; "+
			"name some with controls", where)
	} else if inner := n.get("inner"); inner != nil && !slices.ContainsFunc(s.Controls,
		func(name string) bool { return takes(name, "inner") }) {
		d.fail(inner.pos, "%s can't be given where no control's method has inner steps", join(where, "inner"))
	}
}
