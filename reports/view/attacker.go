package view

import (
	"selfheal/harness/result"
	"selfheal/reports/words"
)

// Made says how the suite's adversarial images were made, where that is known.
func (s *Suite) Made() string {
	if m := s.Attacker(); m.Made != "" {
		return "adversarial images " + m.Made
	}
	return ""
}

// Attacker is what a suite's numbers are of; of a mode that is not known it has the name only.
func (s *Suite) Attacker() result.Mode {
	return result.AttackerOf(words.Clean(s.Mode), len(s.Controls) > 0)
}

// Caption says in a suite's caption which attacker its numbers are of.
func (s *Suite) Caption(what string) string { return what + "; attacker: " + s.Attacker().Name }

// Knows says in words what a suite's attacker knows; "" for a mode that is not known.
func (s *Suite) Knows() string {
	if s.Quoted { // a table of a paper is not the place to explain it again
		return ""
	}
	return s.Attacker().Knows
}
