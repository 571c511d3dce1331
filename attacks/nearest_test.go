package attacks

import (
	"slices"
	"testing"
)

// Attacks that look for the smallest norm end where the margin is beyond rounding; where no point's is, one within
// rounding counts.
func TestNearestIsBeyondRounding(t *testing.T) {
	t.Parallel()
	for _, s := range Specs {
		if !s.minimises || s.labels {
			continue
		}
		norm, p := L2, given{}
		if !slices.Contains(s.In(), L2) {
			norm = s.In()[0]
		}
		if slices.ContainsFunc(s.Parameters, func(p Parameter) bool { return p.Name == "refine" }) {
			p = given{"refine": 20, "steps": 60}
		}
		t.Run(s.Kind, func(t *testing.T) {
			t.Parallel()
			plain := newLinear(shape, 5, 3, 1)
			faint := newLinear(shape, 5, 3, 1)
			for j, row := range faint.weights {
				for i := range row {
					row[i] *= 1e-7
				}
				faint.bias[j] *= 1e-7
			}
			found := 0
			for _, im := range imagesNear(plain, 6, 0.1, 4) {
				far := 0.9 * reachOf(norm, make([]float32, shape.Size()))
				if norm == L0 {
					far = float64(int(far))
				}
				for of, o := range map[string]*linear{"plain": plain, "faint": faint} {
					r := recipe(t, Setup{Kind: s.Kind, Norm: norm, Parameters: p}, far, o.classes)
					res := trial{r.Components[0], norm, far, false}.perturb(t, &o.classifier, im, 1)
					if res.Adversarial == nil {
						if of == "plain" {
							t.Errorf("image %d stands at %v", im.ID, far)
						}
						continue
					}
					found++
					z := make([]float32, o.classes)
					o.answer(res.Adversarial, z)
					if within := WithinRounding(z, im.Label); Right(z, im.Label) || within != (of == "faint") {
						t.Errorf("image %d, %s: margin %v ends the attack", im.ID, of, LogitMargin(z, im.Label))
					}
				}
			}
			if found < 6 {
				t.Errorf("%d of 12 images are broken", found)
			}
		})
	}
}

// Attacks count starts, and starts without a direction; lengths below 1e-11 are a direction.
func TestBlindStarts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind   string
		p      given
		scale  float64
		starts int
		blind  bool
	}{
		{"pgd", given{"restarts": 3, "steps": 4}, 0, 3, true},
		{"pgd", given{"restarts": 3, "steps": 4}, 1e-20, 3, false},
		{"pgd", given{"restarts": 3, "steps": 4}, 1e-40, 3, true},
		{"apgd-t", given{"targets": 3, "steps": 5, "loss": "logit-difference"}, 0, 3, true},
		{"fab-t", given{"targets": 2, "steps": 4, "restarts": 2}, 0, 4, true},
		{"mi-fgsm", given{"steps": 4}, 0, 1, true},
		{"ddn", given{"steps": 4}, 0, 1, true},
	} {
		o := newLinear(shape, 5, 3, 1)
		z := o.logits
		o.logits = func(x []float32) ([]float64, func(cotangent, out []float32)) {
			answer, pull := z(slices.Repeat([]float32{0.5}, len(x))) // the answer to every image
			return answer, func(cotangent, out []float32) {
				pull(cotangent, out)
				for i, v := range out {
					out[i] = float32(float64(v) * c.scale)
				}
			}
		}
		im := imagesNear(o, 1, 0.1, 4)[0]
		r := recipe(t, Setup{Kind: c.kind, Norm: L2, Parameters: c.p}, 0.1, o.classes)
		res := trial{r.Components[0], L2, 0.1, false}.perturb(t, &o.classifier, im, 1)
		if want := map[bool]int{true: c.starts}[c.blind]; res.Starts != c.starts || res.Blind != want {
			t.Errorf("%s, gradients times %g: %d of %d starts blind, want %d of %d", c.kind, c.scale, res.Blind,
				res.Starts, want, c.starts)
		}
	}
}

// The nearest point counts, at epsilon itself too; one within rounding counts where no other is within epsilon.
func TestMeet(t *testing.T) {
	t.Parallel()
	const sure, unsure = -1, -1e-6 // lead of the label
	type met struct {
		at   float32
		lead float32
	}
	for _, c := range []struct {
		alone   bool
		points  []met
		want    float64 // distance found; 0 for none
		success int     // the point of the first success, from 1 on; −1 for none
	}{
		{true, []met{{0.75, sure}, {0.25, sure}, {0.5, sure}}, 0.25, 2},
		{true, []met{{0.75, sure}, {0.5, sure}}, 0.5, 2},
		{true, []met{{0.75, sure}, {0.625, sure}}, 0.625, -1},
		{true, []met{{0.375, unsure}, {0.125, unsure}, {0.25, unsure}, {0.75, sure}}, 0.125, 2},
		{true, []met{{0.125, unsure}, {0.5, sure}}, 0.5, 2},
		{true, []met{{0.5, unsure}}, 0.5, 1},
		{true, []met{{0.625, unsure}}, 0, -1},
		{false, []met{{0.375, unsure}, {0.5, sure}}, 0.375, 1},
		{true, []met{{0.25, 1}}, 0, -1},
	} {
		half := common{Norm: Linf, Epsilon: 0.5, alone: c.alone}
		r := newNearest(half, &scripted{}, Image{Pixels: []float32{0}}, Options{})
		for _, p := range c.points {
			r.res.Forward++
			r.eval.Logits = []float32{p.lead, 0}
			if r.meet([]float32{p.at}, p.lead < 0) {
				t.Errorf("%+v: ends without being asked for the verdict alone", c)
			}
		}
		res := r.result()
		if res.Distance != c.want || res.FirstForward != c.success || (res.Adversarial != nil) != (c.success > 0) ||
			c.success > 0 && float64(res.Adversarial[0]) != c.want {
			t.Errorf("%+v: %+v", c, res)
		}
	}
}
