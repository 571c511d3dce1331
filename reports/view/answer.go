package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"selfheal/harness/cell"
	"selfheal/harness/result"
	"selfheal/internal/lists"
	"selfheal/reports/words"
)

// Answers returns the lines that a run ends with. For each suite they give the lowest accuracy of its first model,
// alone, and under each control and mode, such as "robust accuracy 41.0 %
// [34.4, 47.9] under AutoAttack standard, ℓ∞ 8/255, 200 images".
func (v *Report) Answers() (lines []string) {
	models := 0
	for _, s := range v.Suites {
		models = max(models, len(s.Models))
	}
	for _, s := range v.Suites {
		for _, one := range s.Series(s.Models[0]) {
			said := s.answer(one, models > 1)
			if said != "" && len(v.Suites) > 1 {
				said = words.Clean(s.Name) + ": " + said
			}
			if said != "" {
				lines = append(lines, strings.ReplaceAll(said, words.Nbsp, " "))
			}
		}
	}
	return lines
}

// answer returns a line's lowest accuracy in words, "" if nothing is measured.
func (s *Suite) answer(line Series, named bool) string {
	kind, c, col := "clean", line.Cells[0], s.Columns[0]
	if low, at := s.Lowest(line.Cells); low != nil {
		kind, c, col = s.Kind(at), low, at
	} else if by := lists.Find(s.Certified(nil), func(by *Apart) bool { return by.last(line) != nil }); by != nil {
		kind, c, col = "certified", (*by).last(line), (*by).Columns[0]
		col.AttackTitle = (*by).Of.Title
	}
	if c == nil {
		return ""
	}
	said := map[string]string{"clean": "clean", "attacked": "robust", "certified": "certified",
		"corrupted": "mean"}[kind] + " accuracy " + words.If(c.GradientFailures > 0, "at most ") +
		strings.TrimPrefix(Scored(c), words.AtMost) + " %"
	if interval := words.Interval(c); interval != "" && s.Seeds == 1 {
		said += " " + interval
	}
	said += words.If(named, " of "+words.Clean(line.Model))
	said += words.If(line.Defense != cell.None, " with "+words.DefenseName(s.Side(line.Defense).Control))
	if kind != "clean" {
		said += words.If(kind == "certified", " by ") + words.If(kind != "certified", " under ") + s.attackNamed(col)
	}
	said += words.If(col.Source != "", " made on "+words.Clean(col.Source))
	if c.Norm != nil && c.Epsilon != 0 {
		said += ", " + words.NormName(*c.Norm) + " " + c.Epsilon.String()
	}
	said += ", " + words.Plural(c.N, "image")
	if line.Defense != cell.None && kind == "attacked" {
		m := s.AttackerOf(line.Defense).Name
		alone := m == result.Oblivious && !slices.Contains(s.Modes, result.WhiteboxThrough)
		said += ", " + m + words.If(alone, ", which bounds no attacker who knows the control")
	}
	if c.GradientFailures > 0 {
		said += fmt.Sprintf(": gradients failed on %d of %s", c.GradientFailures,
			words.Plural(c.Correct, "standing image"))
	}
	if p := c.Planted; c.Missed() {
		said += fmt.Sprintf(": finds %d of %d planted perturbations, so the number is not to be trusted", p.Found, p.N)
	}
	return said
}

// attackNamed returns a column's attack in full: "AutoAttack standard", "PGD-40, 2 restarts".
func (s *Suite) attackNamed(col words.Column) string {
	title := cmp.Or(col.AttackTitle, col.Attack)
	if a := s.File.Made(col.Attack); a.Version != "" { // the components stand in brackets
		title, _, _ = strings.Cut(title, " (")
		title += " " + a.Version
	}
	return words.Clean(title)
}

// last returns the cell of a certificate's largest epsilon, nil if there is none.
func (by *Apart) last(line Series) (c *result.Cell) {
	if by.Proof.Gaps { // its cells hold the verdicts on clean images
		return nil
	}
	for _, col := range by.Columns {
		c = cmp.Or(by.Cell(line.Model, line.Defense, col), c)
	}
	return c
}
