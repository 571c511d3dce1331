package compare

import (
	"slices"

	"selfheal/harness/stats"
)

// Sign is the exact sign test on the images and corruptions that two entries have in common. For each image it counts
// only which entry is right under more of the corruptions.
type Sign struct {
	Corruptions int `json:"corruptions"` // number of columns
	Shared      int `json:"shared"`      // number of images
	MoreA       int `json:"more_a"`      // images that A gets right under more corruptions than B
	MoreB       int `json:"more_b"`      // images that B gets right under more corruptions than A
	// Difference is A's mean accuracy over the shared images and corruptions minus B's, in [−1, 1].
	Difference float64 `json:"difference"`
	Chance
}

func (c Column) corrupted() bool { return c.Variant != "" }

// sign tests two entries by their counts over so many corruptions. It returns nil if they have no image in common.
func sign(a, b []int, corruptions int, family *stats.Family) *Sign {
	t := &Sign{Corruptions: corruptions}
	var p stats.Paired
	for i, x := range a {
		if y := b[i]; x >= 0 && y >= 0 {
			p.Add(y - x)
			t.Difference += float64(x - y)
		}
	}
	if p.N == 0 {
		return nil
	}
	t.Shared, t.MoreA, t.MoreB = p.N, p.Lost, p.Won
	t.Difference /= float64(p.N * corruptions)
	t.test(p, family, func(float64) {}) // the binomial test that verdicts have
	return t
}

// counts returns, for each of the group's images, the number of columns under which an entry is right, or −1 if it
// lacks the image.
func (g *Group) counts(entry int, columns []int) []int {
	e, all := &g.Entries[entry], slices.Repeat([]int{-1}, g.Images)
	for i, k := range e.set.index {
		all[k] = 0
		for _, c := range columns {
			if e.Cells[c].verdicts[i] == '1' {
				all[k]++
			}
		}
	}
	return all
}
