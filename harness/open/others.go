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
		left := mostOthersBytes
		for _, i := range plan.ByHash(s.IDs(), "others") {
			im, err := s.Read(i)
			if left -= 4 * len(im.Pixels); err != nil || left < 0 || len(all) == mostOthers {
				return all, err
			}
			all = append(all, im)
		}
		return all, nil
	})
	return func(im attacks.Image) (nearest [][]float32, err error) {
		type other struct {
			pixels []float32
			away   float64
		}
		var some []other
		images, err := all()
		aim, aims := recipe.Aim.Class(im, classes)
		for _, o := range images {
			if o.Label != im.Label && (!aims || o.Label == aim) {
				some = append(some, other{o.Pixels, recipe.Norm.Distance(o.Pixels, im.Pixels)})
			}
		}
		slices.SortStableFunc(some, func(a, b other) int { return cmp.Compare(a.away, b.away) })
		for _, o := range some[:min(nearestOthers, len(some))] {
			nearest = append(nearest, o.pixels)
		}
		return nearest, err
	}
}
