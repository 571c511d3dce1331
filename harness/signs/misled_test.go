package signs

import (
	"context"
	"slices"
	"testing"

	"selfheal/attacks"
	"selfheal/internal/must"
)

// sum is a network of 16 pixels whose second class leads by their sum less 9. Its gradient has the first pixels alone,
// its slopes all of them.
type sum struct{ seen int }

func (sum) Shape() attacks.Shape { return attacks.Shape{C: 1, H: 4, W: 4} }

func (sum) Classes() int { return 2 }

func (sum) Logits(_ context.Context, x, out []float32) error {
	out[0], out[1] = 9, 0
	for _, v := range x {
		out[1] += v
	}
	return nil
}

func (o sum) Gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation) error {
	e.Logits, e.Gradient = make([]float32, 2), make([]float32, 16)
	for i := range o.seen {
		e.Gradient[i] = float32(1 - 2*label)
	}
	err := o.Logits(ctx, x, e.Logits)
	e.Loss = float32(loss.Value(e.Logits, label, target))
	return err
}

func (o sum) Along(gradient string) (attacks.Oracle, error) {
	if gradient != attacks.Slopes {
		return nil, nil
	}
	return sum{16}, nil
}

// Slopes find the pixels that a gradient leaves out, in each norm, and no fault with a whole one.
func TestFollow(t *testing.T) {
	grey := slices.Repeat([]float32{0.5}, 16)
	for _, n := range []attacks.Norm{attacks.Linf, attacks.L2, attacks.L1} {
		for seen, want := range map[int]Misled{
			0: {Right: true, Zero: true, Ratio: 1}, 4: {Right: true, Short: n != attacks.L1, Ratio: 1},
			16: {Right: true, Ratio: 1},
		} {
			got := must.Get(Follow(t.Context(), sum{seen}, attacks.Image{Pixels: grey}, n, 0.1, 0.01))(t)
			if got.Ratio = float64(int(100*got.Ratio+0.5)) / 100; got != want {
				t.Errorf("%v, %d pixels: %+v, want %+v", n, seen, got, want)
			}
		}
	}
	wrong := must.Get(Follow(t.Context(), sum{4}, attacks.Image{Pixels: grey, Label: 1}, attacks.Linf, 0.1, 0.01))(t)
	if (wrong != Misled{Ratio: 1}) {
		t.Errorf("of an image that is wrong: %+v", wrong)
	}
}

// A gradient misleads where it is missing, or slopes lead further, at a quarter of the images that are right, or where
// the median change along it is another.
func TestMisleads(t *testing.T) {
	fine := Misled{Right: true, Ratio: 1.1}
	with := func(n int, odd ...Misled) []Misled { return append(slices.Repeat([]Misled{fine}, n), odd...) }
	zero, short, off := Misled{Right: true, Zero: true, Ratio: 1}, Misled{Right: true, Short: true, Ratio: 1},
		Misled{Right: true, Ratio: 1.3}
	for name, c := range map[string]struct {
		all  []Misled
		want bool
	}{
		"none":              {nil, false},
		"fine":              {with(16), false},
		"one without":       {with(4, zero), false},
		"a quarter without": {with(3, zero), true},
		"a quarter short":   {with(6, short, short), true},
		"all wrong":         {[]Misled{{}, {Zero: true}}, false},
		"few off":           {slices.Repeat([]Misled{off}, 7), false},
		"all off":           {slices.Repeat([]Misled{off}, 8), true},
		"half fine":         {with(8, slices.Repeat([]Misled{off}, 6)...), false},
	} {
		if got := Misleads(c.all); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
