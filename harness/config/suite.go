package config

import (
	"slices"

	"selfheal/attacks"
	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/lists"
)

// Suite is a set of cells: its models, undefended and with each of its controls, on clean images and under each of
// its attacks.
type Suite struct {
	Name            string
	Title           string
	Dataset         string
	Models          []string
	Controls        []string // without "none"
	Attacks         []string // without "none"
	Mode            string   // one of [result.Modes]: what the attacker knows of the controls; "" if there are several
	Modes           []string // several, in the order of [result.Modes]; else nil
	SaveAdversarial bool
	VerdictOnly     bool
	Solver          *SolverStudy // may be nil
	Published       *Published   // numbers to show beside the suite's own; may be nil
	Pairs           [][]string   // pairs of its models, to compare on the same images
}

// Attackers names the modes of the suite's results, in the order of [result.Modes]. The undefended network, clean
// images and certificates do not depend on the mode; they stand under the first.
func (s *Suite) Attackers() []string {
	if s.Modes != nil && len(s.Controls) > 0 {
		return s.Modes
	}
	return []string{result.AttackerOf(s.Mode, len(s.Controls) > 0)}
}

// Transfers reports whether each network of the suite gets the images made on the others.
func (s *Suite) Transfers() bool { return s.Mode == result.Transfer }

// defaultModes are the modes of a suite that names none. An oblivious accuracy alone would flatter a control.
var defaultModes = []string{result.Oblivious, result.WhiteboxThrough}

func (c *Config) suiteObject(suite string, s *Suite) object {
	s.Name = suite
	without := func(to *[]string, what, section string) value {
		return names(to, what, section, 0).then(func(*decoder, *node, string) {
			*to = slices.DeleteFunc(*to, func(name string) bool { return name == cell.None })
		})
	}
	return object{rows: []row{
		required("dataset", name(&s.Dataset, "a data set", "datasets"), "images to score"),
		required("models", names(&s.Models, "a model", "models", 1), "its networks"),
		optional("controls", without(&s.Controls, "a control", "controls"), "",
			"each network is scored undefended and under each control"),
		required("attacks", without(&s.Attacks, "an attack", "attacks"), "attacks, in addition to none"),
		optional("mode", choice(&s.Mode, result.ModeNames()[1:]), "", "what the attacker knows; default: two `modes`"),
		optional("modes", list(&s.Modes, span{least: 1, most: 3, once: true}, func(m *string) value {
			return choice(m, result.ModeNames()[1:4])
		}), "", "several modes, each with its cells for every control; default: oblivious and whitebox-through"),
		optional("title", text(&s.Title, "text"), "", "for the reports").notHashed(),
		optional("save_adversarial", boolean(&s.SaveAdversarial), "", "as above; default: the config's"),
		optional("verdict_only", boolean(&s.VerdictOnly), "false",
			"attacks end at an image's first success even where `save_adversarial` keeps the images"),
		optional("solver", s.study(), "", "a study of the controls' solvers"),
		optional("pairs", list(&s.Pairs, span{}, func(pair *[]string) value {
			return list(pair, span{least: 2, most: 2, once: true}, func(v *string) value {
				return name(v, "a model", "models")
			})
		}), "", "pairs of its models to compare on the same images, a network and its int8 form: `[[net, net-int8]]`").
			notHashed(),
		optional("published", s.published(), "",
			// it refers to the controls
			"numbers to show beside ours: the paper's, or one's own in per cent").notHashed(),
	}, check: func(d *decoder, n *node, _ string) {
		if n.get("save_adversarial") == nil {
			s.SaveAdversarial = c.SaveAdversarial
		}
		one, several := n.get("mode") != nil, n.get("modes") != nil
		switch {
		case one && several:
			d.fail(n.pos, "suites.%s names both mode and modes", suite)
		case one:
			s.Modes = []string{s.Mode}
		case !several && len(s.Controls) == 0:
			s.Modes = []string{result.Oblivious}
		case !several:
			s.Modes = defaultModes
		}
		s.Modes = lists.Only(result.ModeNames(), func(m string) bool { return slices.Contains(s.Modes, m) })
		if s.Mode = ""; len(s.Modes) == 1 || len(s.Controls) == 0 {
			s.Mode, s.Modes = s.Modes[0], nil
		}
		for _, pair := range s.Pairs {
			for _, model := range pair {
				if !slices.Contains(s.Models, model) {
					d.fail(n.pos, "suites.%s.pairs: %s is not one of the suite's models", suite, model)
				}
			}
		}
		data := c.Dataset(s.Dataset)
		for _, name := range s.Attacks {
			a := c.Attack(name)
			if a != nil && a.Target == attacks.FileTarget && data != nil && data.Targets == "" {
				d.fail(n.pos, "suites.%s: %s aims at each image's own class, but data set %s has no targets", suite,
					name, s.Dataset)
			}
		}
		if !s.Transfers() {
			return
		}
		if len(s.Models) < 2 {
			d.fail(n.pos, "suites.%s: mode transfer gives the images made on each model to the others; name two "+
				"models or more", suite)
		}
		if s.Published != nil {
			d.fail(n.pos, "suites.%s: published numbers are of networks attacked themselves, not of mode transfer",
				suite)
		}
	}}
}
