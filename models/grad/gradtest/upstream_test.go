package gradtest_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"selfheal/internal/must"
)

// wild are numbers, some of which JSON holds as strings: "inf", "-inf", "nan".
type wild []float32

func (w *wild) UnmarshalJSON(text []byte) error {
	var values []any
	if err := json.Unmarshal(text, &values); err != nil {
		return err
	}
	for _, v := range values {
		f, ok := v.(float64)
		if !ok {
			var err error
			if f, err = strconv.ParseFloat(v.(string), 64); err != nil {
				return err
			}
		}
		*w = append(*w, float32(f))
	}
	return nil
}

func finite(v float32) bool { return v-v == 0 }

// sampled reports whether a golden reads images between pixels, where PyTorch adds weights up in another order.
func sampled(g *Golden) bool { return strings.HasPrefix(g.Name, "gridsample") }

// firmly returns the error of finite values like [worst], and +Inf if a value is not finite but PyTorch's is.
func firmly(got, want []float32) float64 {
	scale, e := 1.0, 0.0
	for _, v := range want {
		if finite(v) {
			scale = max(scale, math.Abs(float64(v)))
		}
	}
	for i, v := range want {
		if d := math.Abs(float64(got[i])-float64(v)) / scale; finite(v) && !(d <= e) {
			if e = d; !finite(got[i]) {
				return math.Inf(1)
			}
		}
	}
	return e
}

// An infinite or NaN cotangent ends where a network is flat, in gradients and Hessian-vector products: they equal
// PyTorch's wherever that is finite. If PyTorch's is infinite, so is ours; if it is NaN, because its masks multiply,
// ours may be finite.
func TestUpstream(t *testing.T) {
	var all map[string]struct{ W, DX, H wild }
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("testdata/upstream/upstream.json"))(t), &all))
	pool, flat := newPool(t, 1), 0
	each(t, func(t *testing.T, g *Golden) {
		if g.Head != "" {
			return
		}
		of, ok := all[g.Name]
		if !ok {
			t.Fatal("no golden: run scripts/goldens/gradients.py")
		}
		p := compile(t, pool, derived(t, g))
		for i := range g.Items() {
			x, w, want := g.Item(g.X, i), g.Item(of.W, i), g.Item(of.DX, i)
			got := p.mustRun(t, x, w)[1]
			if e := firmly(got, want); !(e <= 3e-6) {
				t.Errorf("item %d: off by %.2g\n  w  %v\n got %v\nwant %v", i, e, w, got, want)
			}
			for j, v := range want {
				if !finite(v) && v == v && got[j] != v && !sampled(g) {
					t.Errorf("item %d: the gradient is %v where PyTorch has %v", i, got, want)
					break
				}
			}
			if !slices.ContainsFunc(want, func(v float32) bool { return !finite(v) }) {
				flat++
			}
		}
		if g.Kink || strings.HasPrefix(g.Name, "reduceprod") { // PyTorch differentiates a product in another form
			return
		}
		p = compile(t, pool, second(t, g))
		for i := range g.Items() {
			out := p.mustRun(t, g.Item(g.X, i), g.Item(of.W, i), make([]float32, p.out[0]), g.Item(g.V, i))
			want := g.Item(of.H, i)
			if e := firmly(out[2], want); !(e <= 1e-5) {
				t.Errorf("item %d: the Hessian-vector product is off by %.2g\n got %v\nwant %v", i, e, out[2], want)
			}
		}
	})
	if flat < 60 {
		t.Errorf("only %d items have a finite gradient", flat)
	}
}
