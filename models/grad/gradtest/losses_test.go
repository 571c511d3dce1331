package gradtest_test

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/grad"
	"selfheal/models/onnx"
)

// One graph for all losses gives the same bits as the graph of each, for images with different losses in one batch.
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

// A class whose logit is −∞ takes no part: losses and gradients equal the network's without it. If too few classes are
// left for DLR, they equal its numerator's.
func TestMaskedClasses(t *testing.T) {
	never := float32(math.Inf(-1))
	pool := newPool(t, 1)
	x, masked := []float32{3, 1, 2, -1, 0.5}, []float32{never, 0, 0, 0, 0, 0, never}
	for _, c := range []struct {
		classes int // number of classes left
		of      map[string]string
	}{{5, nil}, {3, map[string]string{"dlr-targeted": "logit-difference"}},
		{2, map[string]string{"dlr-targeted": "logit-difference", "dlr": "margin"}}} {
		loss := func(name string, mask []float32, first int) [][]float32 {
			b := &onnx.Builder{G: onnx.NewGraph(name)}
			in := b.Input("x", onnx.Shape{onnx.Batch, int64(len(mask))})
			b.Output("y", b.Op("Add", in, b.Const(onnx.FloatVector(mask))))
			given := [][]float32{make([]float32, len(mask)), make([]float32, len(mask)), make([]float32, len(mask))}
			copy(given[0][first:], x[:c.classes])
			given[1][first], given[2][first+1] = 1, 1
			if !grad.Heads[name].Targeted {
				given = given[:2]
			}
			return compile(t, pool, must.Get(grad.Loss(b.G, name))(t)).mustRun(t, given...)
		}
		for name := range grad.Heads {
			mask := slices.Clone(masked)
			for j := c.classes + 1; j < len(mask); j++ {
				mask[j] = never
			}
			plain := cmp.Or(c.of[name], name)
			got, want := loss(name, mask, 1), loss(plain, make([]float32, c.classes), 0)
			gradient := slices.Concat([]float32{0}, want[2], make([]float32, 6-c.classes))
			if !(worst(got[1], want[1]) <= 1e-6) || !(worst(got[2], gradient) <= 1e-6) {
				t.Errorf("%s of %d classes and masked ones is %v, %v; %s without them %v, %v", name, c.classes, got[1],
					got[2], plain, want[1], want[2])
			}
		}
	}
}
