package config

import (
	"slices"
	"strconv"
)

// maxSeeds is how many seeds a run takes at most.
const maxSeeds = 1000

// seeds reads the attacks' seeds, their number or a list, into Seed and OtherSeeds. It
// comes after the config's seed.
func (d *decoder) seeds(c *Config, given bool) setter {
	return func(n *node, where string) {
		if n.kind == listNode {
			var list []uint64
			d.list(1, false, func(n *node, where string) {
				var s uint64
				before := len(d.errs)
				if d.seed(&s)(n, where); len(d.errs) > before {
					return
				}
				if slices.Contains(list, s) {
					d.fail(n.pos, "%s: seed %d is listed twice", where, s)
				}
				list = append(list, s)
			})(n, where)
			switch {
			case given:
				d.fail(n.pos, "%s: a list of seeds stands for seed too; give one of the two, or how many seeds there are", where)
			case len(list) > maxSeeds:
				d.fail(n.pos, "%s lists %d seeds, more than %d", where, len(list), maxSeeds)
			case len(list) > 0:
				c.Seed, c.OtherSeeds = list[0], list[1:]
			}
			return
		}
		count, err := strconv.Atoi(n.text)
		if n.kind != scalarNode || n.quoted || !wholeNumber.MatchString(n.text) || err != nil || count < 1 || count > maxSeeds {
			d.fail(n.pos, "%s must be how many seeds there are, from 1 to %d, or a list of them, not %s", where, maxSeeds, n.describe())
			return
		}
		for i := 1; i < count; i++ {
			c.OtherSeeds = append(c.OtherSeeds, c.Seed+uint64(i))
		}
	}
}
