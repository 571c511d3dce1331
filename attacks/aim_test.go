package attacks

import (
	"math"
	"testing"

	"selfheal/internal/must"
)

// Every attack that takes a target finds only images of that class, in its ball, and finds all here; where the label is
// the target there is nothing to find. No distance is less than the exact one to the boundary with any other class.
func TestAimed(t *testing.T) {
	o := newLinear(Shape{C: 3, H: 6, W: 6}, 5, 3, unlimited)
	images := imagesNear(o, 3, .02, 10)
	for _, kind := range Kinds() {
		if Free(kind) || Proves(kind) {
			continue
		}
		for _, n := range []Norm{Linf, L2, L1, L0} {
			spec := must.Get(Lookup(kind))(t)
			epsilon := map[Norm]float64{Linf: .06, L2: .5, L1: 5, L0: 25}[n]
			if spec.CheckNorm(n) != nil {
				continue
			}
			for _, text := range []string{NextClass, "2"} {
				s := Setup{Kind: kind, Norm: n, Target: text}
				r := must.Get(s.Make(epsilon, 5))(t)
				for _, im := range images {
					target, aimed := r.Aim.Class(im, 5)
					for _, a := range r.Components {
						o.forward.Store(0)
						o.backward.Store(0)
						res := perturb(t, a, o, im, 1)
						forward, backward := o.passes()
						if f, b := a.Passes(5); forward > f || backward > b {
							t.Errorf("%s %v: %d and %d passes, of %d and %d", a.Name(), n, forward, backward, f, b)
						}
						if !aimed || res.Adversarial == nil {
							if aimed || res.Adversarial != nil || res.Forward > 0 {
								t.Errorf("%s %v, image %d of class %d, target %s: %v in %d passes", a.Name(), n, im.ID,
									im.Label, text, res.Adversarial != nil, res.Forward)
							}
							continue
						}
						z := make([]float32, 5)
						o.answer(res.Adversarial, z)
						away := n.Distance(res.Adversarial, im.Pixels)
						least := o.between(n, im.Pixels, im.Label, target)
						if Argmax(z) != target || away > epsilon*(1+1e-5) || away < least*(1-1e-4) {
							t.Errorf("%s %v, image %d: class %d instead of %d, distance %v of at least %v", a.Name(), n,
								im.ID, Argmax(z), target, away, least)
						}
					}
				}
			}
		}
	}
}

// A pair says whether the target has the largest of all logits. NaN never reaches it.
func TestVersus(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		z       []float32
		target  int
		reached bool
	}{
		{[]float32{1, 3, 2}, 1, true}, {[]float32{1, 3, 2}, 2, false}, {[]float32{1, nan, 2}, 2, false},
		{[]float32{nan, 1, 2}, 2, false}, {[]float32{1, 2, nan}, 2, false}, {[]float32{2, 2, 1}, 1, false},
	} {
		pair := Versus(c.z, c.target)
		if Right(pair[:], 0) == c.reached {
			t.Errorf("%v, target %d: %v", c.z, c.target, pair)
		}
	}
}

// A target that no network can have is refused.
func TestParseAim(t *testing.T) {
	for _, text := range []string{"-1", "1.5", "nextt", " ", "99999"} {
		must.Refuse(t, must.Err(ParseAim(text)), "target must be")
	}
	s := Setup{Kind: "pgd", Norm: Linf, Target: "7"}
	r := must.Get(s.Make(.1, 5))(t)
	must.Refuse(t, r.Components[0].Check(5, AnyShape), "target 7 is no class of a model of 5, from 0 to 4")
	for kind, norm := range map[string]Norm{"smoothing": L2, "bounds": Linf} {
		s := Setup{Kind: kind, Norm: norm, Target: "1"}
		must.Refuse(t, must.Err(s.Make(.1, 5)), "has no target")
	}
	if class, ok := (Aim{targeted: true, next: true}).Class(Image{Label: 4}, 5); class != 0 || !ok {
		t.Errorf("after the last class: %d, %v", class, ok)
	}
}
