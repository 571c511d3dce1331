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
}

// newComparison is nil for a suite that names no published numbers.
func newComparison(cfg *config.Config, s *config.Suite) *comparison {
	p := cfg.PublishedNumbers(s)
	if p == nil {
		return nil
	}
	return &comparison{source: p.Source, left: p.Cells, total: len(p.Cells)}
}

// defenses lists those that a job scores under an attack, none first, and marks as
// extra those whose cells have no published number. It strikes off the numbers of the others.
func (c *comparison) defenses(j Job, attack string, epsilon float64) string {
	names := append([]string{config.None}, j.Suite.Controls...)
	for k := 0; c != nil && k < len(names); k++ {
		c.cells++
		i := slices.IndexFunc(c.left, func(p result.PublishedCell) bool {
			return p.Model == j.Model.Name && p.Defense == names[k] && p.Attack == attack &&
				(p.Epsilon == nil || *p.Epsilon == epsilon)
		})
		if i < 0 {
			names[k] += " (extra)"
		} else {
			c.left = slices.Delete(c.left, i, i+1)
		}
	}
	return strings.Join(names, ", ")
}

// String says how many cells there are, and which published numbers have none.
func (c *comparison) String() string {
	of, found := c.source, c.total-len(c.left)
	if of == "config" {
		of = "the config"
	}
	text := fmt.Sprintf("%d cells, %d of the %d numbers of %s, %d extra", c.cells, found, c.total, of, c.cells-found)
	before := "; not run: "
	for _, p := range c.left {
		text += before + p.Model + " / " + p.Defense + " / " + p.Attack
		before = ", "
	}
	return text
}
