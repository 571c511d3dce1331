package attacks_test

import (
	"math"
	"strings"
	"testing"

	"selfheal/attacks"
)

// A radius that no vote reaches is refused before any sample is taken; 0.7996 is 0.25·Φ⁻¹(0.001^(1/10000)).
func TestSmoothingReachesNoFurther(t *testing.T) {
	t.Parallel()
	shape := attacks.Shape{C: 3, H: 32, W: 32}
	for _, s := range []attacks.Smoothing{{}, {Stopping: true}, {N: 100}, {Sigma: 1, N: 1000, Alpha: 0.25}} {
		s.Epsilon = s.Largest()
		if err := s.Check(10, shape); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
		s.Epsilon = math.Nextafter(s.Epsilon, 9)
		if err := s.Check(10, shape); err == nil || !strings.Contains(err.Error(), "largest radius") {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if got := (attacks.Smoothing{}).Largest(); math.Abs(got-0.7996) > 5e-5 {
		t.Errorf("the default's largest radius is %v", got)
	}
	if got := (attacks.Smoothing{N: 9}).Largest(); got != 0 {
		t.Errorf("9 samples certify %v", got)
	}
}
