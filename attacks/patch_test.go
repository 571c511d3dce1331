package attacks

import (
	"math"
	"testing"

	"selfheal/internal/must"
)

// best returns the largest gap to another class that a square of a side can open on a linear model: its pixels go to 0
// or 1.
func (l *linear) best(im Image, side int) float64 {
	z, most := affine(l.weights, l.bias, im.Pixels), math.Inf(-1)
	for j := range z {
		if j == im.Label {
			continue
		}
		gain := make([]float64, len(im.Pixels))
		for i, v := range im.Pixels {
			w := l.weights[j][i] - l.weights[im.Label][i]
			gain[i] = max(w*(1-float64(v)), -w*float64(v))
		}
		for row := 0; row+side <= l.shape.H; row++ {
			for col := 0; col+side <= l.shape.W; col++ {
				sum := z[j] - z[im.Label]
				p := patchRun{patch: patch{Sides: side}, shape: l.shape}
				p.each(row, col, func(at int) { sum += gain[at] })
				most = max(most, sum)
			}
		}
	}
	return most
}

// On a linear model the best square is known: no image is broken that none breaks, and most that some square breaks.
func TestPatchOnLinearModels(t *testing.T) {
	t.Parallel()
	shape := Shape{C: 3, H: 12, W: 10}
	o := newLinear(shape, 3, 7, unlimited)
	breakable, broke := 0, 0
	for _, side := range []int{1, 2} {
		r := recipe(t, Setup{Kind: PatchKind, Parameters: given{SideName: side, "restarts": 5, "stride": 1}}, 1, 3)
		if r.Limit != within(side) || !r.Free {
			t.Errorf("%+v", r)
		}
		a := trial{r.Components[0], Linf, 1, false}
		for _, im := range imagesNear(o, 40, 0.3, 8) {
			res, best := a.perturb(t, &o.classifier, im, 1), o.best(im, side)
			if res.Adversarial != nil {
				if broke++; best < 0 || extent(im.Pixels, res.Adversarial, shape) > side {
					t.Errorf("side %d, image %d: broken within %d, the best square leaves %v", side, im.ID,
						extent(im.Pixels, res.Adversarial, shape), best)
				}
			}
			if best > 0.05 {
				breakable++
			}
		}
	}
	if breakable < 20 || breakable > 78 || float64(broke) < 0.9*float64(breakable) {
		t.Errorf("broke %d of %d breakable images", broke, breakable)
	}
}

func TestPatchConforms(t *testing.T) {
	t.Parallel()
	o := randomMLP(shape, 20, 4, 9)
	images := imagesNear(o, 8, 0.5, 10)
	made := func(verdictOnly bool) trial {
		set := Setup{Kind: PatchKind, Parameters: given{SideName: 2, "steps": 30, "restarts": 2, "loss": "margin"}}
		return trial{recipe(t, set, 1, 4).Components[0], Linf, 1, verdictOnly}
	}
	full, verdict := made(false), made(true)
	checkStops(t, full.checkRuns(t, o, images), verdict.checkRuns(t, o, images))
	checkSeeds(t, full, o, images, false)
	checkCancel(t, verdict, o, images[0])
	s := must.Get(Lookup(PatchKind))(t)
	big := s.attack(common{name: PatchKind, Epsilon: 1}, given{SideName: 6})
	if err := big.Check(4, shape); err == nil {
		t.Error("a square of 6 pixels fits into 5")
	}
}

func TestExtent(t *testing.T) {
	t.Parallel()
	s := Shape{C: 2, H: 4, W: 6}
	for _, c := range []struct {
		at   []int // values that differ
		want int
	}{{nil, 0}, {[]int{7}, 1}, {[]int{7, 24 + 7}, 1}, {[]int{0, 5}, 6}, {[]int{0, 24 + 18}, 4}, {[]int{8, 15}, 2}} {
		a, b := make([]float32, 48), make([]float32, 48)
		for _, i := range c.at {
			b[i] = 1
		}
		if got := extent(a, b, s); got != c.want {
			t.Errorf("%v: %d, not %d", c.at, got, c.want)
		}
	}
}
