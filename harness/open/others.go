package open

import (
	"cmp"
	"slices"
	"sync"

	"selfheal/attacks"
	"selfheal/harness/plan"
)

// Limits of the images that attacks start at: of a set so many are compared, of these many bytes at most, and the
// nearest are given.
const (
	mostOthers      = 256
	mostOthersBytes = 64 << 20
	nearestOthers   = 8
)

// Others returns a function that lists the images of a set that lie nearest to one in a recipe's norm and have another
// class, or the class that the recipe aims at, for [attacks.Options]. They are chosen from some images of the whole
// set, by a hash, so that shards choose the same.
func (s Images) Others(recipe attacks.Recipe, classes int) func(im attacks.Image) ([][]float32, error) {
	all := sync.OnceValues(func() (all []attacks.Image, err error) {
		ids := make([]int, s.Len())
		for i := range ids {
			ids[i] = s.ID(i)
		}
		left := mostOthersBytes
		for _, i := range plan.ByHash(ids, "others") {
			im, err := s.Read(i)
			if left -= 4 * len(im.Pixels); err != nil || left < 0 || len(all) == mostOthers {
				return all, err
			}
			all = append(all, im)
		}
		return all, nil
	})
	return func(im attacks.Image) (nearest [][]float32, err error) {
		some, err := all()
		aim, aims := recipe.Aim.Class(im, classes)
		some = slices.DeleteFunc(slices.Clone(some), func(o attacks.Image) bool {
			return o.Label == im.Label || aims && o.Label != aim
		})
		slices.SortStableFunc(some, func(a, b attacks.Image) int {
			return cmp.Compare(recipe.Norm.Distance(a.Pixels, im.Pixels), recipe.Norm.Distance(b.Pixels, im.Pixels))
		})
		for _, o := range some[:min(nearestOthers, len(some))] {
			nearest = append(nearest, o.Pixels)
		}
		return nearest, err
	}
}
