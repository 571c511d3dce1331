package certify_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"selfheal/harness/certify"
)

// simulated returns a classifier under noise that answers class 0 with a known probability, else class 1.
func simulated(p float64, rng *rand.Rand) func(from, n int, answers []int) error {
	return func(_, n int, answers []int) error {
		k := int(distuv.Binomial{N: float64(n), P: p, Src: rng}.Rand())
		answers[0] += k
		answers[1] += n - k
		return nil
	}
}

// At most alpha of many certificates exceed the classifier's true radius, with all samples and with early ends. Early
// ends change no verdict and save samples.
func TestCoverage(t *testing.T) {
	t.Parallel()
	const repeats, sigma = 3000, 0.25
	radii := []float64{0.25, 0.5}
	for _, alpha := range []float64{0.001, 0.05} {
		for i, p := range []float64{0.55, 0.75, 0.9, 0.98, 0.999} {
			if testing.Short() && i%2 == 1 {
				continue
			}
			whole := certify.Smoothing{Sigma: sigma, N0: 100, N: 1000, Alpha: alpha}
			early := whole
			early.Radii = radii
			for _, s := range []certify.Smoothing{whole, early} {
				rng := rand.New(rand.NewPCG(uint64(i), uint64(1e6*alpha)))
				wrong, samples, proven := 0, 0, [2]int{}
				for range repeats {
					v, err := s.Certify(0, simulated(p, rng), 2)
					if err != nil {
						t.Fatal(err)
					}
					radius := s.Radius(v, 0)
					if radius > sigma*distuv.UnitNormal.Quantile(p) {
						wrong++
					}
					for k, r := range radii {
						if radius >= r {
							proven[k]++
						}
					}
					samples += v.Samples
				}
				allowed := repeats*alpha + 3*math.Sqrt(repeats*alpha*(1-alpha))
				if float64(wrong) > allowed {
					t.Errorf("p %v, alpha %v, radii %v: %d of %d certificates claim too much", p, alpha, s.Radii,
						wrong, repeats)
				}
				t.Logf("p %v, alpha %v, radii %v: %d claim too much, %d and %d proven, %d samples each", p, alpha,
					s.Radii, wrong, proven[0], proven[1], samples/repeats)
				if s.Radii == nil && samples != repeats*(s.N0+s.N) || s.Radii != nil && samples > repeats*(s.N0+s.N) {
					t.Errorf("p %v, radii %v: %d samples", p, s.Radii, samples)
				}
			}
		}
	}
}

// counted gives fixed answers and records what it was asked for.
type counted struct{ asked [][2]int }

func (c *counted) answering(counts ...[]int) func(from, n int, answers []int) error {
	return func(from, n int, answers []int) error {
		k := min(len(c.asked), len(counts)-1)
		c.asked = append(c.asked, [2]int{from, n})
		for class, n := range counts[k] {
			answers[class] += n
		}
		return nil
	}
}

// Radii equal the authors' formula (scipy 1.17, statsmodels 0.15: proportion_confint(k, n, alpha=2·0.001,
// method="beta")[0], σ·norm.ppf). A class that is not the label has no radius.
func TestKnown(t *testing.T) {
	t.Parallel()
	s := certify.Smoothing{Sigma: 0.25, N0: 100, N: 10_000, Alpha: 0.001}
	for _, c := range []struct {
		k      int
		radius float64
	}{{10_000, 0.7996443786845846}, {9_900, 0.5531049162755474}, {7_000, 0.12089469178214644}, {5_100, 0}} {
		var asked counted
		v, err := s.Certify(2, asked.answering([]int{10, 20, 70}, []int{10_000 - c.k, 0, c.k}), 3)
		if err != nil || v.Class != 2 || v.Samples != 10_100 {
			t.Errorf("%d: %+v, %v", c.k, v, err)
		}
		if got := s.Radius(v, 2); math.Abs(got-c.radius) > 1e-9 {
			t.Errorf("%d: radius %v, not %v", c.k, got, c.radius)
		}
		if got := s.Radius(v, 1); got != 0 {
			t.Errorf("%d: another label has the radius %v", c.k, got)
		}
	}
}

// If radii are to be decided, sampling ends at once for a smoothed classifier that is wrong or has no answer, and
// after a few chunks for a sure one. All ask for samples in a row.
func TestEnds(t *testing.T) {
	t.Parallel()
	s := certify.Smoothing{Sigma: 0.25, N0: 100, N: 10_000, Alpha: 0.001, Radii: []float64{0.25}}
	for _, c := range []struct {
		first, chunk  []int
		class, chunks int
	}{
		{[]int{0, 100}, nil, 1, 0}, {[]int{0, 0}, nil, -1, 0}, {[]int{100, 0}, []int{100, 0}, 0, 1},
		{[]int{60, 40}, []int{60, 40}, 0, 1}, {[]int{85, 15}, []int{84, 16}, 0, 100},
	} {
		var asked counted
		v, err := s.Certify(0, asked.answering(c.first, c.chunk), 2)
		if err != nil || v.Class != c.class || v.Samples != 100*(1+c.chunks) || len(asked.asked) != 1+c.chunks {
			t.Errorf("%v: %+v after %v, %v", c.first, v, asked.asked, err)
		}
		at := 0
		for _, a := range asked.asked {
			if a[0] != at {
				t.Errorf("%v: asked for %v", c.first, asked.asked)
			}
			at += a[1]
		}
	}
}
