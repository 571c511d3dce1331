package harness

import (
	"fmt"
	"slices"
	"strings"

	"selfheal/harness/config"
	"selfheal/harness/result"
)

// comparison tells which cells of a suite have a published number. A nil one compares
// with nothing.
type comparison struct {
	source string
	left   []result.PublishedCell // published, no cell seen for it yet
	total  int                    // published numbers
	cells  int                    // seen
	extra  int                    // of them without a published number
}

// newComparison is nil for a suite that names no published numbers.
func newComparison(cfg *config.Config, s *config.Suite) *comparison {
	p := cfg.PublishedNumbers(s)
	if p == nil {
		return nil
	}
	return &comparison{source: p.Source, left: p.Cells, total: len(p.Cells)}
}

// take reports whether a cell has a published number, which it strikes off.
func (c *comparison) take(model, defense, attack string, epsilon float64) bool {
	c.cells++
	for i, p := range c.left {
		same := p.Model == model && p.Defense == defense && p.Attack == attack
		if same && (p.Epsilon == nil || *p.Epsilon == epsilon) {
			c.left = slices.Delete(c.left, i, i+1)
			return true
		}
	}
	c.extra++
	return false
}

// defenses lists those that a job scores under an attack, none first, and marks as
// extra those whose cells have no published number.
func (c *comparison) defenses(j Job, attack string, epsilon float64) string {
	names := append([]string{config.None}, j.Suite.Controls...)
	if c != nil {
		for i, name := range names {
			if !c.take(j.Model.Name, name, attack, epsilon) {
				names[i] += " (extra)"
			}
		}
	}
	return strings.Join(names, ", ")
}

// String says how many cells there are, and which published numbers have none.
func (c *comparison) String() string {
	of := c.source
	if of == "config" {
		of = "the config"
	}
	text := fmt.Sprintf("%d cells, %d of the %d numbers of %s, %d extra", c.cells, c.total-len(c.left), c.total, of,
		c.extra)
	for i, p := range c.left {
		text += map[bool]string{true: "; not run: ",
			false: ", "}[i == 0] + p.Model + " / " + p.Defense + " / " + p.Attack
	}
	return text
}
