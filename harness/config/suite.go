package config

import (
	"slices"

	"selfheal/harness/cell"
	"selfheal/harness/result"
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
	Mode            string   // one of [result.Modes]: the attacker's knowledge of the controls
	SaveAdversarial bool
	VerdictOnly     bool
	Solver          *SolverStudy // may be nil
	Published       *Published   // numbers to show beside the suite's own; may be nil
	Pairs           [][]string   // pairs of its models, to compare on the same images
}

// Attacker names the mode of the suite's results, one of [result.Modes].
func (s *Suite) Attacker() string { return result.AttackerOf(s.Mode, len(s.Controls) > 0) }

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
		optional("mode", choice(&s.Mode, result.ModeNames()[1:]), result.Oblivious, "what the attacker knows"),
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
		for _, pair := range s.Pairs {
			for _, model := range pair {
				if !slices.Contains(s.Models, model) {
					d.fail(n.pos, "suites.%s.pairs: %s is not one of the suite's models", suite, model)
				}
			}
		}
		if s.Mode != result.Transfer {
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
