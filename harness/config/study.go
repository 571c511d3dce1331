package config

import (
	"fmt"
	"slices"
	"strings"
)

// SolverStudy asks for a study of a suite's solvers: how far, at what cost and how surely
// they lower the control problem's objective.
type SolverStudy struct {
	Images   int      // the first of the suite's data set; default 20
	Models   []string // of the suite; default all of them
	Controls []string // whose solver is msa or pmp; default the suite's such
	// Attack makes the images that are studied beside the clean ones, at its one epsilon;
	// "" for none.
	Attack string
	// What follows is tried one after the other, everything else being the control's own.
	Regularization []float64
	Outer          []int
	Inner          []int // msa only
	LearningRate   []float64
	Momentum       []float64

	n     *node // until the config is checked
	where string
}

// defaultStudyImages suffices to tell solvers apart; a study of thousands costs days.
const defaultStudyImages = 20

// DefaultSolver returns the solver of a control that says nothing about it.
func DefaultSolver() Solver {
	d := decoder{}
	return d.solver(&node{kind: mapNode}, "")
}

// study decodes a suite's solver study. What it takes from other parts of the config
// [decoder.studies] fills in.
func (d *decoder) study(n *node, where string) *SolverStudy {
	s := &SolverStudy{Images: defaultStudyImages, n: n, where: where}
	names := func(to *[]string, what, section string) setter {
		return func(n *node, where string) {
			d.words(to, what, 1)(n, where)
			d.refer(n, where, section)
		}
	}
	d.object(n, where,
		optional("images", d.integer(&s.Images, 1)),
		optional("models", names(&s.Models, "the name of a model", "models")),
		optional("controls", names(&s.Controls, "the name of a control", "controls")),
		optional("attack", func(n *node, where string) {
			d.str(&s.Attack, "the name of an attack")(n, where)
			d.refer(n, where, "attacks")
		}),
		optional("regularization", d.values(&s.Regularization, notNegative)),
		optional("outer", d.counts(&s.Outer)),
		optional("inner", d.counts(&s.Inner)),
		optional("learning_rate", d.values(&s.LearningRate, positive)),
		optional("momentum", d.values(&s.Momentum, belowOne)),
	)
	return s
}

// values decodes a list of numbers, each at most once.
func (d *decoder) values(to *[]float64, want span) setter {
	return func(n *node, where string) {
		d.numbers(to, want, 1)(n, where)
		once(d, n, where, *to)
	}
}

// counts decodes a list of whole numbers from 1 up, each at most once.
func (d *decoder) counts(to *[]int) setter {
	return func(n *node, where string) {
		d.list(1, true, func(n *node, where string) {
			v := 0
			if d.integer(&v, 1)(n, where); v > 0 {
				*to = append(*to, v)
			}
		})(n, where)
		once(d, n, where, *to)
	}
}

// once refuses a list in which a value stands twice.
func once[T comparable](d *decoder, n *node, where string, list []T) {
	for i, v := range list {
		if slices.Contains(list[:i], v) {
			d.fail(n.pos, "%s: %v is listed twice", where, v)
			return
		}
	}
}

// studies completes the suites' solver studies, once all of the config is known.
func (d *decoder) studies(c *Config) {
	for i := range c.Suites {
		if s := c.Suites[i].Solver; s != nil {
			d.complete(s, c, &c.Suites[i])
			s.n = nil
		}
	}
}

func (d *decoder) complete(s *SolverStudy, c *Config, suite *Suite) {
	if s.Models == nil {
		s.Models = suite.Models
	}
	for i, name := range s.Models {
		if !slices.Contains(suite.Models, name) {
			d.fail(s.n.get("models").items[i].pos, "%s.models[%d]: %s is none of the suite's models (%s)", s.where, i, quote(name), strings.Join(suite.Models, ", "))
		}
	}
	d.studied(s, c, suite)
	switch {
	case s.Attack == None:
		d.fail(s.n.get("attack").pos, "%s.attack: clean images are always studied; name an attack or leave it out", s.where)
	case s.Attack != "" && len(c.Attack(s.Attack).Epsilons) != 1:
		d.fail(s.n.get("attack").pos, "%s.attack: %s has %d epsilons, a study takes one", s.where, s.Attack, len(c.Attack(s.Attack).Epsilons))
	}
}

// studied finds the controls of a study.
func (d *decoder) studied(s *SolverStudy, c *Config, suite *Suite) {
	iterates := func(name string) bool {
		control := c.Control(name)
		return control != nil && control.Solver.Method != Greedy
	}
	given := s.n.get("controls")
	if given == nil {
		for _, name := range suite.Controls {
			if iterates(name) {
				s.Controls = append(s.Controls, name)
			}
		}
		if s.Controls == nil {
			d.fail(s.n.pos, "%s finds nothing to study: no control of the suite has the method %s; name some with controls", s.where, kindList([]string{MSA, PMP}))
			return
		}
	}
	for i, name := range s.Controls {
		if given != nil && !iterates(name) {
			d.fail(given.items[i].pos, "%s.controls[%d]: %s solves nothing; a study is of controls with the method %s", s.where, i, name, kindList([]string{MSA, PMP}))
		}
	}
	if inner := s.n.get("inner"); inner != nil && !slices.ContainsFunc(s.Controls, func(name string) bool {
		control := c.Control(name)
		return control != nil && control.Solver.Method == MSA
	}) {
		d.fail(inner.pos, "%s can't be given where no control has the method %s: %s", join(s.where, "inner"), MSA, noUse[PMP].reason)
	}
}

// hash is what a study means for [Config.Hash].
func (s *SolverStudy) hash() string {
	return fmt.Sprintf("%d %q %q %q %v %v %v %v %v", s.Images, s.Models, s.Controls, s.Attack, s.Regularization, s.Outer, s.Inner, s.LearningRate, s.Momentum)
}
