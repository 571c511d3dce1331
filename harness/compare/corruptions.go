package compare

import "selfheal/harness/stats"

// Sign is the exact sign test on the images that two entries have in common, of the corruptions that both have: of an
// image says only which of the two is right under more of them.
type Sign struct {
	Corruptions int `json:"corruptions"` // columns
	Shared      int `json:"shared"`      // images
	MoreA       int `json:"more_a"`      // of them, that A is right on under more corruptions than B
	MoreB       int `json:"more_b"`      // that B is right on under more corruptions than A
	// Difference is A's mean accuracy over the shared images and the corruptions, less that of B, in [−1, 1].
	Difference float64 `json:"difference"`
	Chance
}

func (c Column) corrupted() bool { return c.Variant != "" }

// sign tests two entries; nil where they have no image or no corruption in common. Known are counts that were made
// for other pairs.
func (g *Group) sign(a, b int, known map[string][]int) *Sign {
	columns := g.common(a, b, Column.corrupted)
	if len(columns) == 0 {
		return nil
	}
	t := &Sign{Corruptions: len(columns)}
	of := func(entry int) []int {
		key := string(encoded(append([]int{entry}, columns...)))
		if known[key] == nil {
			known[key] = g.counts(entry, columns)
		}
		return known[key]
	}
	mine, theirs := of(a), of(b)
	for i, x := range mine {
		y := theirs[i]
		if x < 0 || y < 0 {
			continue
		}
		t.Shared++
		t.Difference += float64(x - y)
		switch {
		case x > y:
			t.MoreA++
		case x < y:
			t.MoreB++
		}
	}
	if t.Shared == 0 {
		return nil
	}
	t.Difference /= float64(t.Shared * len(columns))
	_, t.P = stats.McNemar(t.MoreA, t.MoreB) // the same binomial as of verdicts
	return t
}

// counts are, of each of the group's images, the columns under which an entry is right; −1 where it lacks the image.
func (g *Group) counts(entry int, columns []int) []int {
	e := &g.Entries[entry]
	all := make([]int, g.Images)
	for i := range all {
		all[i] = -1
	}
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
