package attacks

import (
	"math"
	"testing"
)

// Refining never takes a point farther away and costs the passes that it says. On a linear model what is left is the
// least on its line, to the last halving. In ℓ0 it is misclassified no more where another value is put back, but for
// values that stood in the way of one that was put back later.
func TestRefine(t *testing.T) {
	t.Parallel()
	o := newLinear(Shape{C: 3, H: 8, W: 8}, 4, 5, unlimited)
	for _, c := range []struct {
		kind string
		norm Norm
	}{{"ddn", L2}, {"fmn", Linf}, {"fmn", L2}, {"fmn", L1}, {"fmn", L0}, {"pdpgd", Linf}, {"pdpgd", L2}, {"pdpgd", L1},
		{"sigma-zero", L0}} {
		passes := 12
		if c.norm == L0 {
			passes = 400 // more than there are values
		}
		far := reachOf(c.norm, make([]float32, o.shape.Size()))
		with := func(refine int) trial {
			p := given{"steps": 15, "refine": refine}
			r := recipe(t, Setup{Kind: c.kind, Norm: c.norm, Parameters: p}, far, o.classes)
			return trial{r.Components[0], c.norm, far, false}
		}
		nearer, found, spare, changed := 0, 0, 0, 0
		for _, im := range imagesNear(o, 30, 0.3, 9) {
			plain, fine := with(0).perturb(t, &o.classifier, im, 1), with(passes).perturb(t, &o.classifier, im, 1)
			if plain.Adversarial == nil {
				if fine.Forward != plain.Forward || fine.Adversarial != nil {
					t.Errorf("%s %s, image %d: refined what was not found", c.kind, c.norm, im.ID)
				}
				continue
			}
			found++
			if fine.Distance > plain.Distance || fine.Backward != plain.Backward ||
				c.norm != L0 && fine.Forward != plain.Forward+passes {
				t.Errorf("%s %s, image %d: distance %v of %v by %d passes of %d", c.kind, c.norm, im.ID, fine.Distance,
					plain.Distance, fine.Forward, plain.Forward)
			}
			if fine.Distance < plain.Distance {
				nearer++
			}
			x := make([]float32, len(im.Pixels))
			if c.norm != L0 {
				halving := 1.01 * math.Ldexp(plain.Distance/fine.Distance, -passes)
				for i, v := range im.Pixels {
					x[i] = v + float32(1-halving)*(fine.Adversarial[i]-v)
				}
				if o.misclassified(x, im.Label) {
					t.Errorf("%s %s, image %d: %v less is misclassified too", c.kind, c.norm, im.ID, halving)
				}
				continue
			}
			for i, v := range im.Pixels {
				if copy(x, fine.Adversarial); x[i] != v {
					changed++
					if x[i] = v; o.misclassified(x, im.Label) {
						spare++
					}
				}
			}
		}
		if found < 15 || nearer < 3 || c.norm != L0 && nearer < found/3 || 20*spare > changed {
			t.Errorf("%s %s: %d of 30 found, %d nearer; %d of %d values spare", c.kind, c.norm, found, nearer, spare,
				changed)
		}
	}
}
