package attacks

import (
	"testing"
)

// TestQuickPasses: an image that is far from being broken costs at most a fortieth of standard's passes.
func TestQuickPasses(t *testing.T) {
	for _, n := range classic {
		standard := 0
		for _, c := range recipe(t, autoattack("standard", n), 0.1, 10).Components {
			f, b := c.Passes(10)
			standard += f + b
		}
		r := recipe(t, autoattack("quick", n), 1e-6, 10)
		o := newLinear(Shape{C: 3, H: 6, W: 6}, 10, 1, unlimited)
		im := imagesNear(o, 1, 0.5, 2)[0]
		for _, c := range r.Components {
			if res := perturb(t, c, o, im, 3); res.Adversarial != nil {
				t.Errorf("%v: %s breaks an image that is far", n, c.Name())
			}
		}
		if f, b := o.passes(); 40*(f+b) > standard {
			t.Errorf("%v: quick makes %d passes, standard %d", n, f+b, standard)
		}
	}
}

// TestGiveUp: a run that may give up is the beginning of the one that may not, so that it breaks no other images and
// these by the same pass. It makes half the passes where the image stays unbroken, and loses few.
func TestGiveUp(t *testing.T) {
	o := randomMLP(Shape{C: 3, H: 6, W: 6}, 20, 10, 9)
	images := imagesNear(o, 40, 0.5, 10)
	for n, epsilon := range map[Norm]float64{Linf: .004, L2: .03, L1: .25} {
		for _, kind := range []string{"apgd-ce", "apgd-dlr", "apgd-t"} {
			settings := given{"steps": 50, "restarts": 1}
			whole := component(kind, n, epsilon, settings)
			settings["give_up"] = true
			short := component(kind, n, epsilon, settings)
			broken, lost, kept, passes := 0, 0, 0, 0
			for _, im := range images {
				a, b := perturb(t, whole, o, im, 1), perturb(t, short, o, im, 1)
				switch {
				case a.Adversarial == nil && b.Adversarial == nil:
					kept++
					passes += b.Forward
				case b.Adversarial == nil:
					lost++
				case a.Adversarial == nil || kind != "apgd-t" && a.FirstForward != b.FirstForward:
					t.Errorf("%v %s, image %d: broken by pass %d, without giving up %d", n, kind, im.ID,
						b.FirstForward, a.FirstForward)
				default:
					broken++
				}
			}
			f, _ := whole.Passes(o.classes)
			if broken < 5 || lost > broken/5 || kept < 5 || passes > kept*f/2 {
				t.Errorf("%v %s: %d broken, %d lost, %d kept, for %d passes of %d each", n, kind, broken, lost, kept,
					passes, f)
			}
		}
	}
}

// TestGiveUpPasses: where nothing is gained a run ends after the window in which it is looked for; at large radii
// with the first of them. A second run follows only where the first came near.
func TestGiveUpPasses(t *testing.T) {
	for _, c := range []struct {
		norm     Norm
		settings given
		gap      float32 // after the first point, where it is -1
		want     int
	}{
		{Linf, given{}, -1, 1 + 11},
		{L2, given{}, -1, 1 + 11},
		{L1, given{}, -1, 1 + 6},
		{L1, given{"large_radii": true}, -1, 1 + 6},
		{L1, given{"large_radii": true}, .5, 1 + 6}, // a rise of 1.5 at 3ε is expected to be one of .97 at ε
		{L1, given{"large_radii": true}, .6, 1 + 10 + 1 + 10 + 1 + 30},
		{Linf, given{"restarts": 3}, -.3, 1 + 11},
		{Linf, given{"restarts": 3}, -.1, 3 * (1 + 11)},
		{L1, given{"restarts": 3, "large_radii": true}, -1, 1 + 6},
	} {
		o := &scripted{shape: Shape{C: 1, H: 1, W: 2}}
		o.answer = func(call int, e *Evaluation) {
			e.Gradient = []float32{1, 1}
			if e.Loss = c.gap; call%12 == 0 { // the first of a run in ℓ∞
				e.Loss = -1
			}
		}
		settings := given{"steps": 50, "loss": "margin", "give_up": true, "restarts": 1}
		for name, v := range c.settings {
			settings[name] = v
		}
		perturb(t, component("apgd-dlr", c.norm, 0.1, settings), o, grey(2), 1)
		if o.calls != c.want {
			t.Errorf("%v, %v, gap %v: %d gradients, want %d", c.norm, c.settings, c.gap, o.calls, c.want)
		}
	}
}
