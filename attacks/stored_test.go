package attacks

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"selfheal/internal/must"
)

// 8-bit images lie on levels and in the ball, and are misclassified; an attack for the verdict alone breaks the same
// ones. The search regains some images that rounding lost, so that more stay broken than by rounding alone.
func TestStored(t *testing.T) {
	t.Parallel()
	o := randomMLP(shape, 20, 5, 9)
	images := imagesNear(o, 18, 0.5, 10)
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
			kept(t, o, im, res, c.norm, c.epsilon)
		}
		t.Logf("%s %v %.3g: %d broken, %d rounded stay, %d in float; %d regained, %d lost", c.kind, c.norm, c.epsilon,
			broken, rounded, loose, regained, lost)
		if broken+lost != loose || broken < rounded {
			t.Errorf("%v: %d broken and %d lost of %d; rounding alone leaves %d", c, broken, lost, loose, rounded)
		}
	}
}

// kept checks a stored image that counts: saved as bytes and read again it is the same, bit for bit; it is
// misclassified and lies within epsilon of the clean image by the judge's measure.
func kept(t *testing.T, o *classifier, im Image, res Result, n Norm, epsilon float64) {
	t.Helper()
	read := make([]float32, len(im.Pixels))
	for i, v := range res.Adversarial {
		read[i] = float32(uint8(math.Round(255*float64(v)))) / 255
		if read[i] != v {
			t.Fatalf("image %d: value %d is %v, the clean one %v; as a byte it is %v", im.ID, i, v, im.Pixels[i],
				read[i])
		}
	}
	d := n.Distance(read, im.Pixels)
	if !(d <= epsilon*(1+1e-5)) || !o.misclassified(read, im.Label) {
		t.Errorf("image %d: at %v, %.3g above epsilon; misclassified %v", im.ID, d, d-epsilon,
			o.misclassified(read, im.Label))
	}
	if res.Distance != 0 && res.Distance != d {
		t.Errorf("image %d: found at %v, it lies at %v", im.ID, res.Distance, d)
	}
}

// An attack on 8-bit pixels leaves only levels, even in values that it does not change, and even if the clean image's
// values are not levels. An image that has no levels within epsilon counts as robust and costs no pass.
func TestStoredBesideLevels(t *testing.T) {
	t.Parallel()
	o := randomMLP(shape, 20, 5, 9)
	by := map[string]func(rng *rand.Rand, k float64) float32{
		"a unit in the last place": func(_ *rand.Rand, k float64) float32 { return float32(k) * float32(1/255.) },
		"1e-3 of a level": func(rng *rand.Rand, k float64) float32 {
			return float32((k + 1e-3*(2*rng.Float64()-1)) / 255)
		},
		"half a level": func(rng *rand.Rand, k float64) float32 { return float32((k + rng.Float64() - 0.5) / 255) },
	}
	all, broken := map[string]int{}, map[string]int{}
	for name, beside := range by {
		for i, row := range conforming {
			for _, norm := range Norms() {
				if must.Get(Lookup(row.Kind))(t).CheckNorm(norm) != nil ||
					row.Norms != nil && !slices.Contains(row.Norms, norm) {
					continue
				}
				epsilon := [...]float64{8. / 255, 0.2, 1.2, 6}[norm]
				setup := Setup{Kind: row.Kind, Norm: norm, Parameters: row.Parameters, Pixels: "8bit"}
				attack := recipe(t, setup, epsilon, 5).Components[0]
				most, back := attack.Passes(5)
				rng := rand.New(rand.NewPCG(uint64(i), uint64(norm)))
				for _, im := range imagesNear(o, 4, 0.5, 10) {
					storable := true
					for i, v := range im.Pixels {
						k := min(max(math.Round(255*float64(v)), 1), 254)
						if im.Pixels[i] = float32(k) / 255; norm != L0 || i < 3 || im.ID == 3 && i < 9 {
							im.Pixels[i] = beside(rng, k)
						}
					}
					if norm == L0 {
						off := 0
						for _, v := range im.Pixels {
							if v != float32(math.Round(255*float64(v)))/255 {
								off++
							}
						}
						storable = off <= int(epsilon)
					}
					logits := make([]float32, 5)
					o.answer(im.Pixels, logits)
					im.Label = Argmax(logits)
					f0, b0 := o.passes()
					res := must.Get(attack.Perturb(context.Background(), o, im, Options{Seed: 1}))(t)
					f, b := o.passes()
					if f -= f0; f != res.Forward || b-b0 != res.Backward || f > most || b-b0 > back {
						t.Errorf("%s, %s %v, image %d: %d and %d passes, made %d and %d of %d and %d", name, row.Kind,
							norm, im.ID, res.Forward, res.Backward, f, b-b0, most, back)
					}
					if !storable && (res.Adversarial != nil || f > 0 || res.Rounded != Lost) {
						t.Errorf("%s, %s %v: an image without levels within epsilon: %+v", name, row.Kind, norm, res)
					}
					key := fmt.Sprint(row.Kind, norm)
					if all[key]++; res.Adversarial != nil {
						broken[key]++
						kept(t, o, im, res, norm, epsilon)
					}
				}
			}
		}
	}
	for key, n := range all {
		if t.Logf("%s: %d of %d broken", key, broken[key], n); broken[key] == 0 {
			t.Errorf("%s breaks none of %d", key, n)
		}
	}
}

// In an ℓ∞ ball of less than half a level, values between the levels have none: the image counts as robust. Values on a
// level have it.
func TestUnstorable(t *testing.T) {
	t.Parallel()
	for clean, want := range map[float32]bool{100.25 / 255: true, 100.35 / 255: false, 100. / 255: true} {
		if got := newGrid(Linf, 0.3/255, []float32{0, clean, 1}).fits(); got != want {
			t.Errorf("%v levels, epsilon 0.3 levels: storable %v", 255*clean, got)
		}
	}
}

// Attacks that see classes alone ask no more than their queries, those about rounded points included, and break the
// same images for the verdict alone.
func TestStoredQueries(t *testing.T) {
	t.Parallel()
	o := randomMLP(shape, 20, 5, 9)
	for _, pixels := range PixelForms {
		for kind, norms := range map[string][]Norm{"rays": {Linf}, "hop-skip-jump": {Linf, L2}} {
			for _, norm := range norms {
				for _, queries := range []int{1, 2, 3, 7, 150, 900} {
					epsilon := [...]float64{4.5 / 255, 0.15}[norm]
					setup := Setup{Kind: kind, Norm: norm, Pixels: pixels, Parameters: given{"queries": queries}}
					attack := recipe(t, setup, epsilon, 5).Components[0]
					if f, b := attack.Passes(5); f != queries || b != 0 {
						t.Errorf("%s, %s, %d queries: promises %d and %d passes", pixels, kind, queries, f, b)
					}
					found, nearer := 0, 0
					for _, im := range imagesNear(o, 18, 0.5, 10) {
						before, _ := o.passes()
						res := must.Get(attack.Perturb(context.Background(), o, im, Options{Seed: 1}))(t)
						after, _ := o.passes()
						if after-before > queries || res.Forward != after-before {
							t.Errorf("%s, %s: %d passes for %d queries, %d counted", pixels, kind, after-before,
								queries, res.Forward)
						}
						how := Options{Seed: 1, VerdictOnly: true}
						verdict := must.Get(attack.Perturb(context.Background(), o, im, how))(t)
						if res.FirstSuccess != verdict.FirstSuccess || res.FirstForward != verdict.FirstForward ||
							(res.Adversarial == nil) != (verdict.Adversarial == nil) {
							t.Errorf("%s, %s, image %d: %v at %d, for the verdict alone %v at %d", pixels, kind, im.ID,
								res.Adversarial != nil, res.FirstSuccess, verdict.Adversarial != nil,
								verdict.FirstSuccess)
						}
						if b := res.Adversarial != nil; b && verdict.Distance > res.Distance {
							nearer++
						} else if b && verdict.Distance < res.Distance {
							t.Errorf("%s, %s, image %d: %v away, for the verdict alone %v", pixels, kind, im.ID,
								res.Distance, verdict.Distance)
						}
						for _, r := range []Result{res, verdict} {
							if b := r.Adversarial != nil; b != (r.FirstSuccess >= 0) || b != (r.FirstForward > 0) ||
								b && r.Rounded == Lost || b && r.Distance != norm.Distance(r.Adversarial, im.Pixels) {
								t.Errorf("%s, %s, image %d: %+v", pixels, kind, im.ID, r)
							}
							if found++; r.Adversarial == nil {
								found--
							} else if pixels == PixelForms[1] {
								kept(t, o, im, r, norm, epsilon)
							}
						}
					}
					if queries == 900 && (found == 0 || nearer == 0) {
						t.Errorf("%s, %s breaks %d images, %d nearer than at first", pixels, kind, found, nearer)
					}
				}
			}
		}
	}
}
