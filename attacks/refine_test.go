package attacks

import (
	"math"
	"slices"
	"strings"
	"testing"

	"selfheal/internal/must"
)

// Refining takes the place of the last steps: those before are the same as without it. It never takes a point farther
// away and costs the passes that it says. On a linear model what is left is the least on its line, to the last halving.
// In ℓ0 it is misclassified no more where another value is put back, but for values that stood in the way of one that
// was put back later.
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
			p := given{"steps": 15 + passes/2, "refine": refine}
			r := recipe(t, Setup{Kind: c.kind, Norm: c.norm, Parameters: p}, far, o.classes)
			return trial{r.Components[0], c.norm, far, false}
		}
		run := func(refine int, im Image) (Result, [][]float32) {
			res, watched := with(refine).watched(t, &o.classifier, im, 1)
			return res, watched.points(true)
		}
		nearer, found, spare, changed := 0, 0, 0, 0
		for _, im := range imagesNear(o, 30, 0.3, 9) {
			plain, steps := run(0, im)
			fine, first := run(passes, im)
			if !slices.EqualFunc(first, steps[:15], slices.Equal) || len(first) != fine.Backward {
				t.Errorf("%s %s, image %d: other steps than without refining", c.kind, c.norm, im.ID)
			}
			before := math.Inf(1)
			for _, x := range first {
				if o.beyondRounding(x, im.Label) {
					before = min(before, c.norm.Distance(x, im.Pixels))
				}
			}
			if math.IsInf(before, 1) {
				if fine.Forward != fine.Backward || fine.Adversarial != nil {
					t.Errorf("%s %s, image %d: refined what was not found", c.kind, c.norm, im.ID)
				}
				continue
			}
			found++
			if fine.Distance > before || c.norm != L0 && fine.Forward+fine.Backward != 2*plain.Backward {
				t.Errorf("%s %s, image %d: distance %v of %v by %d passes of %d", c.kind, c.norm, im.ID, fine.Distance,
					before, fine.Forward, plain.Forward)
			}
			if fine.Distance < before {
				nearer++
			}
			x := make([]float32, len(im.Pixels))
			if c.norm != L0 {
				halving := 1.01 * math.Ldexp(before/fine.Distance, -passes)
				for i, v := range im.Pixels {
					x[i] = v + float32(1-halving)*(fine.Adversarial[i]-v)
				}
				if o.beyondRounding(x, im.Label) {
					t.Errorf("%s %s, image %d: %v less is misclassified too", c.kind, c.norm, im.ID, halving)
				}
				continue
			}
			for i, v := range im.Pixels {
				if copy(x, fine.Adversarial); x[i] != v {
					changed++
					if x[i] = v; o.beyondRounding(x, im.Label) {
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

func TestRefineLeavesAStep(t *testing.T) {
	t.Parallel()
	for refine, want := range map[int]string{26: "", 27: "ddn: at least 2 steps are needed, the first of them at the " +
		"clean image; refine 27 leaves 1 of 15"} {
		_, err := Setup{Kind: "ddn", Norm: L2, Parameters: given{"steps": 15, "refine": refine}}.Make(1, 10)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("refine %d: %v, want %q", refine, err, want)
		}
	}
}

// In ℓ0 values go to the end of [0,1] on their side, then back to the clean image's, those that changed least first,
// by halves: of two values that would do, the one that changed more stays.
func TestPutBack(t *testing.T) {
	t.Parallel()
	const n = 8
	clean := slices.Repeat([]float32{0.5}, n)
	point := []float32{0.9, 0.55, 0.2, 0.52, 0.4, 0.75, 0.5, 0.51} // the seventh did not change
	for _, c := range []struct {
		wrong func(changed []bool) bool
		left  []float32
		asked int
	}{
		{func(c []bool) bool { return c[2] || c[4] }, []float32{.5, .5, 0, .5, .5, .5, .5, .5}, 7},
		{func(c []bool) bool { return c[0] && c[3] }, []float32{1, .5, .5, 1, .5, .5, .5, .5}, 10},
		{func(c []bool) bool { return c[0] }, []float32{1, .5, .5, .5, .5, .5, .5, .5}, 5},
	} {
		asked := 0
		o := &classifier{shape: Shape{1, 1, n}, classes: 2,
			logits: func(x []float32) ([]float64, func(cotangent, out []float32)) {
				asked++
				changed := make([]bool, n)
				for i, v := range x {
					changed[i] = v != clean[i]
				}
				if c.wrong(changed) {
					return []float64{0, 1}, nil
				}
				return []float64{1, 0}, nil
			}}
		r := newNearest(common{Norm: L0, Epsilon: 1e-9}, o, Image{Pixels: clean}, Options{})
		must.Get(r.wrong(t.Context(), point))(t)
		r.meet(point, true)
		asked = 0
		must.Do(t, r.refine(t.Context(), 100))
		if !slices.Equal(r.adv, c.left) || asked != c.asked {
			t.Errorf("%v is left by %d questions, want %v by %d", r.adv, asked, c.left, c.asked)
		}
	}
}
