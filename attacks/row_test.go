package attacks

import (
	"slices"
	"testing"

	"selfheal/internal/must"
)

// AutoAttack leaves Square out in ℓ2 and ℓ1 if the images are rows of features, and says so.
func TestRecipesOnRows(t *testing.T) {
	row := Shape{1, 1, 64}
	for _, c := range []struct {
		norm    Norm
		classes int
		shape   Shape
		name    string
		last    string
	}{
		{L2, 10, row, "autoattack-standard-few/1", "fab-t"},
		{L1, 2, row, "autoattack-standard-few/1", "fab-t"},
		{Linf, 10, row, "autoattack-standard/1", "square"},
		{L2, 10, Shape{1, 8, 8}, "autoattack-standard/1", "square"},
	} {
		r := must.Get(Setup{Kind: "autoattack", Version: "standard", Norm: c.norm}.Make(0.5, c.classes))(t).On(c.shape)
		last := r.Components[len(r.Components)-1].Name()
		if r.Name != c.name || last != c.last || (r.Fallback == "") != (c.name == "autoattack-standard/1") {
			t.Errorf("%s of %v: %s ends with %s, %q", c.norm, c.shape, r.Name, last, r.Fallback)
		}
		for _, m := range r.Methods() {
			must.Do(t, m.Check(c.classes, c.shape))
		}
	}
	alone := must.Get(Setup{Kind: "square", Norm: L2}.Make(0.5, 10))(t).On(row)
	must.Refuse(t, alone.Methods()[0].Check(10, row), "must be at least 5 pixels a side")
	turned := must.Get(Setup{Kind: "spatial", Norm: Linf}.Make(1, 10))(t)
	must.Refuse(t, turned.Methods()[0].Check(10, row), "these are rows of features")
	if got := WithoutGradients(); !slices.Equal(got, []string{"square", "hop-skip-jump", "rays"}) {
		t.Errorf("attacks without gradients: %q", got)
	}
}
