package table

import (
	"selfheal/reports/words"
)

// UnionTable gives the accuracy of each row under all attacks of the suite together, in any mode.
func (s Suite) UnionTable() Table {
	t := Table{Anchor: s.Slug, Lead: 2, Label: "union", plain: len(s.Controls) == 0,
		Caption: "Accuracy in % under all attacks together, with the 95 % Wilson interval" + s.OfFirstSeed(),
		Head:    []string{"Model", defenseHead, "Accuracy", "95 % interval", "Attacks"}}
	for _, u := range s.File.Unions() {
		if u.Suite == s.Name && !s.Quoted { // of published numbers no verdicts are known
			c := u.Judged
			t.add(u.Model, words.DefenseName(u.Defense), words.Accuracy(&c), words.Interval(&c), len(u.Attacks))
		}
	}
	if len(t.Rows) > 0 {
		t.note("", "An image stands if it stands under each attack, at each ε and whatever the attacker knows.")
	}
	return t.marked()
}
