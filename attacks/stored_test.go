package attacks

import (
	"context"
	"fmt"
	"math"
	"testing"

	"selfheal/internal/must"
)

// Images of 8 bits lie on levels, in the ball, and are misclassified; for the verdict alone the same are broken. Where
// rounding undoes the success some are mended, and more stay broken than by rounding alone.
func TestStored(t *testing.T) {
	t.Parallel()
	o := randomMLP(shape, 20, 5, 9)
	images := imagesNear(o, 30, 0.5, 10)
	for _, im := range images {
		for i, v := range im.Pixels {
			im.Pixels[i] = float32(math.Round(255*float64(v))) / 255
		}
	}
	logits := make([]float32, 5)
	for _, c := range []struct {
		kind    string
		norm    Norm
		epsilon float64
	}{
		{"pgd", Linf, 2.5 / 255}, {"pgd", L2, 0.05}, {"pgd", L1, 0.3}, {"apgd-ce", L1, 0.2}, {"fmn", L2, 0.05},
		{"fmn", L0, 3}, {"fab-t", Linf, 1.5 / 255}, {"square", Linf, 3.0 / 255}, {"rays", Linf, 4.5 / 255},
	} {
		free := recipe(t, Setup{Kind: c.kind, Norm: c.norm}, c.epsilon, 5).Components[0]
		attack := recipe(t, Setup{Kind: c.kind, Norm: c.norm, Pixels: "8bit"}, c.epsilon, 5).Components[0]
		most, back := attack.Passes(5)
		broken, rounded, loose, regained, lost := 0, 0, 0, 0, 0
		for _, im := range images {
			o.answer(im.Pixels, logits)
			if im.Label = Argmax(logits); !Right(logits, im.Label) {
				continue
			}
			f0, b0 := o.passes()
			res := must.Get(attack.Perturb(context.Background(), o, im, Options{Seed: 1}))(t)
			if f, b := o.passes(); f-f0 != res.Forward || b-b0 != res.Backward || res.Forward > most ||
				res.Backward > back {
				t.Errorf("%v: %d and %d passes, made %d and %d", c, res.Forward, res.Backward, f-f0, b-b0)
			}
			verdict := must.Get(attack.Perturb(context.Background(), o, im, Options{Seed: 1, VerdictOnly: true}))(t)
			if (res.Adversarial == nil) != (verdict.Adversarial == nil) {
				t.Errorf("%v, image %d: broken %v, for the verdict alone %v", c, im.ID, res.Adversarial != nil,
					verdict.Adversarial != nil)
			}
			x := must.Get(free.Perturb(context.Background(), o, im, Options{Seed: 1}))(t).Adversarial
			if x != nil {
				loose++
				for i, v := range x {
					x[i] = float32(math.Round(255*float64(v))) / 255
				}
				if c.norm.Distance(x, im.Pixels) <= c.epsilon && o.misclassified(x, im.Label) {
					rounded++
				}
			}
			switch res.Rounded {
			case Regained:
				regained++
			case Lost:
				lost++
			}
			if res.Adversarial == nil {
				continue
			}
			broken++
			for i, v := range res.Adversarial {
				if v != float32(math.Round(255*float64(v)))/255 {
					t.Fatalf("%v, image %d: value %d is %v, on no level", c, im.ID, i, v)
				}
			}
			if d := c.norm.Distance(res.Adversarial, im.Pixels); d > c.epsilon*(1+1e-5) ||
				!o.misclassified(res.Adversarial, im.Label) {
				t.Errorf("%v, image %d: at %v, misclassified %v", c, im.ID, d,
					o.misclassified(res.Adversarial, im.Label))
			}
		}
		t.Logf("%s %v %.3g: %d broken, %d rounded stay, %d in float; %d regained, %d lost", c.kind, c.norm, c.epsilon,
			broken, rounded, loose, regained, lost)
		if broken+lost != loose || broken < rounded {
			t.Errorf("%v: %d broken and %d lost of %d; rounding alone leaves %d", c, broken, lost, loose, rounded)
		}
	}
}

// Images whose values lie beside the levels, by little or by much, keep those that an attack on 8 bits leaves: what it
// changes lies on levels, and the rest is the clean image's to the bit.
func TestStoredBesideLevels(t *testing.T) {
	t.Parallel()
	o := randomMLP(shape, 20, 5, 9)
	by := map[string]func(v float32) float32{
		"a unit in the last place": func(v float32) float32 {
			return float32(math.Round(255*float64(v))) * float32(1/255.)
		},
		"0.4 levels": func(v float32) float32 { return float32(math.Floor(254*float64(v))+0.4) / 255 },
	}
	for name, beside := range by {
		for _, c := range []struct {
			kind    string
			norm    Norm
			epsilon float64
		}{{"fmn", L0, 4}, {"pgd", Linf, 0.3 / 255}, {"pgd", Linf, 2.5 / 255}, {"pgd", L2, 0.1}, {"pgd", L1, 0.3}} {
			t.Run(fmt.Sprintf("%s, %s %v", name, c.kind, c.norm), func(t *testing.T) {
				attack := recipe(t, Setup{Kind: c.kind, Norm: c.norm, Pixels: "8bit"}, c.epsilon, 5).Components[0]
				broken := 0
				for _, im := range imagesNear(o, 30, 0.5, 10) {
					for i, v := range im.Pixels {
						im.Pixels[i] = beside(v)
					}
					logits := make([]float32, 5)
					o.answer(im.Pixels, logits)
					im.Label = Argmax(logits)
					res := must.Get(attack.Perturb(context.Background(), o, im, Options{Seed: 1}))(t)
					if res.Adversarial == nil {
						continue
					}
					broken++
					for i, v := range res.Adversarial {
						if v != im.Pixels[i] && v != float32(math.Round(255*float64(v)))/255 {
							t.Fatalf("image %d: value %d is changed to %v, on no level", im.ID, i, v)
						}
					}
					d := c.norm.Distance(res.Adversarial, im.Pixels)
					if d > c.epsilon*(1+1e-5) || !o.misclassified(res.Adversarial, im.Label) {
						t.Errorf("image %d: at %v, misclassified %v", im.ID, d,
							o.misclassified(res.Adversarial, im.Label))
					}
					if res.Distance != 0 && res.Distance != d {
						t.Errorf("image %d: found at %v, it lies at %v", im.ID, res.Distance, d)
					}
				}
				if t.Logf("%d broken", broken); broken == 0 && c.epsilon > 0.5/255 {
					t.Error("no image is broken")
				}
			})
		}
	}
}
