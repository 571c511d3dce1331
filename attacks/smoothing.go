package attacks

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Smoothing is a certificate by randomised smoothing (Cohen, Rosenfeld & Kolter 2019): no change within Epsilon in ℓ2
// alters the answer that the classifier gives most often under Gaussian noise. Its caller computes the proof.
type Smoothing struct {
	common
	Sigma    float64 // deviation of the noise, in pixel units of [0,1]; noisy images are not clipped to [0,1]
	N0, N    int     // samples that choose the class, and samples that bound its probability
	Alpha    float64 // probability that an image's certificate is wrong
	Stopping bool    // an image's samples end as soon as every epsilon is decided
}

// SmoothingKind is the kind of [Smoothing] in a config.
const SmoothingKind = "smoothing"

// Proof returns a proof by samples; the seed keys their noise.
func (s Smoothing) Proof() Proof {
	cost := "%s forward for each defense"
	if s.Stopping {
		cost = "at most " + cost
	}
	return Proof{Random: true, Spans: true, Smooths: true, Samples: s.N0, Cost: cost}
}

// Check also returns an error for an epsilon that can't be certified.
func (s Smoothing) Check(classes int, shape Shape) error {
	if err := s.common.Check(classes, shape); err != nil {
		return err
	}
	if most := s.largest(); s.Epsilon > most {
		return fmt.Errorf("smoothing: epsilon %v is beyond %.4g, the largest radius that its sigma, n and alpha can "+
			"certify", s.Epsilon, most)
	}
	return nil
}

// largest returns the radius that is certified if all n samples agree: σ·Φ⁻¹(α^(1/n)), with half of alpha if sampling
// may end early.
func (s Smoothing) largest() float64 {
	if s.Stopping {
		s.Alpha /= 2
	}
	return max(0, s.Sigma*distuv.UnitNormal.Quantile(math.Pow(s.Alpha, 1/float64(s.N)))) // few samples certify nothing
}

// Passes returns n0 + n forward passes, the most that a certificate takes if it may end early.
func (s Smoothing) Passes(int) (forward, backward int) {
	return s.N0 + s.N, 0
}
