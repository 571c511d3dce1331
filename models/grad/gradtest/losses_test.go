package gradtest_test

import (
	"maps"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/grad"
)

// One graph for all losses gives what the graph of each gives, bit for bit, for
// images of different losses in one batch.
func TestLosses(t *testing.T) {
	pool := newPool(t, 1)
	heads := slices.Sorted(maps.Keys(grad.Heads))
	seen := 0
	each(t, func(t *testing.T, g *Golden) {
		if g.Head == "" {
			return
		}
		seen++
		all, own := compile(t, pool, must.Get(grad.Losses(g.Net, heads))(t)), compile(t, pool, derived(t, g))
		for i := range g.Items() {
			in := inputs(g, i)
			if len(in) == 1 { // no target
				in = append(in, make([]float32, len(in[0])))
			}
			choice := make([]float32, len(heads))
			choice[slices.Index(heads, g.Head)] = 1
			got := all.mustRun(t, g.Item(g.X, i), in[0], in[1], choice)
			want := own.mustRun(t, append([][]float32{g.Item(g.X, i)}, inputs(g, i)...)...)
			for k := range want {
				if !slices.Equal(got[k], want[k]) {
					t.Errorf("item %d, output %d: %v, alone %v", i, k, got[k], want[k])
				}
			}
		}
	})
	if seen < len(heads) {
		t.Errorf("only %d of %d losses were tried", seen, len(heads))
	}
}
