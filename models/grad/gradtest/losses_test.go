package gradtest_test

import (
	"maps"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/grad"
	"selfheal/models/onnx"
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

// A network of too few classes is refused for a loss that needs more.
func TestLossesFit(t *testing.T) {
	b := &onnx.Builder{G: onnx.NewGraph("three")}
	x := b.Input("x", onnx.Shape{onnx.Batch, 3})
	b.Output("y", b.Op("Tanh", x))
	if grad.Fits("dlr-targeted", b.G) == nil || grad.Fits("dlr", b.G) != nil {
		t.Error("three classes are enough for dlr, not for dlr-targeted")
	}
	if _, err := grad.Losses(b.G, []string{"ce", "dlr-targeted"}); err == nil {
		t.Error("three classes were accepted for dlr-targeted")
	}
	if _, err := grad.Losses(b.G, []string{"ce", "dlr", "margin"}); err != nil {
		t.Error(err)
	}
}
