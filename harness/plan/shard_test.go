package plan_test

import (
	"testing"

	"selfheal/harness/plan"
)

// Shards have the same number of images, to one, and an image's shard does not depend on the order of the set.
func TestDeal(t *testing.T) {
	t.Parallel()
	ids := make([]int, 1003)
	back := make([]int, len(ids))
	for i := range ids {
		ids[i], back[len(ids)-1-i] = 3*i, 3*i
	}
	for _, n := range []int{1, 2, 7, 32, 2000} {
		owner, other, count := plan.Deal(ids, n), plan.Deal(back, n), make([]int, n+1)
		for i, shard := range owner {
			count[shard]++
			if other[len(ids)-1-i] != shard {
				t.Fatalf("%d shards: image %d is shard %d's, and in another order %d's", n, ids[i], shard,
					other[len(ids)-1-i])
			}
		}
		for shard, c := range count[1:] {
			if c != len(ids)/n && c != len(ids)/n+1 {
				t.Errorf("shard %d of %d has %d images", shard+1, n, c)
			}
		}
	}
}
