package config

import "selfheal/internal/setting"

// maxSeeds is how many seeds a run takes at most.
const maxSeeds = 1000

// seeds reads the attacks' seeds, their number or a list, into Seed and OtherSeeds. It comes
// after the config's seed.
func (c *Config) seeds() value {
	count, all := 0, []uint64(nil)
	number := whole(&count, setting.Interval{Min: 1, Max: maxSeeds}).then(func(*decoder, *node, string) {
		for i := 1; i < count; i++ {
			c.OtherSeeds = append(c.OtherSeeds, c.Seed+uint64(i))
		}
	})
	listed := list(&all, span{least: 1, most: maxSeeds, once: true}, seed).then(func(*decoder, *node, string) {
		if len(all) > 0 {
			c.Seed, c.OtherSeeds = all[0], all[1:]
		}
	})
	return either("how many seeds there are, from 1 to 1000, or a list of them", number, listed)
}
