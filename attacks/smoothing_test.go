package attacks

import (
	"math"
	"strings"
	"testing"
)

// A radius that no vote reaches is refused before any sample is taken; 0.7996 is 0.25·Φ⁻¹(0.001^(1/10000)).
func TestSmoothingReachesNoFurther(t *testing.T) {
	t.Parallel()
	shape := Shape{C: 3, H: 32, W: 32}
	made := func(parameters given) Smoothing {
		spec, _ := Lookup(SmoothingKind)
		return spec.attack(common{name: SmoothingKind, Norm: L2}, parameters).(Smoothing)
	}
	for _, p := range []given{nil, {"stopping": true}, {"n": 100}, {"sigma": 1., "n": 1000, "alpha": 0.25}} {
		s := made(p)
		s.Epsilon = s.largest()
		if err := s.Check(10, shape); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
		s.Epsilon = math.Nextafter(s.Epsilon, 9)
		if err := s.Check(10, shape); err == nil || !strings.Contains(err.Error(), "largest radius") {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if got := made(nil).largest(); math.Abs(got-0.7996) > 5e-5 {
		t.Errorf("the default's largest radius is %v", got)
	}
	if got := made(given{"n": 9}).largest(); got != 0 {
		t.Errorf("9 samples certify %v", got)
	}
}

// A kind says how it proves without being made; attacks and unknown kinds prove nothing.
func TestProofOf(t *testing.T) {
	for kind, want := range map[string]bool{"smoothing": true, "bounds": false, BracketKind: false, "pgd": false,
		"none": false} {
		if got := ProofOf(kind); got.Smooths != want || got.Gaps != (kind == BracketKind) ||
			(got == Proof{}) != (kind == "pgd" || kind == "none") {
			t.Errorf("%s: %+v", kind, got)
		}
		if Brackets(kind) != (kind == BracketKind) || Minimises(kind) {
			t.Errorf("%s: brackets %v, minimises %v", kind, Brackets(kind), Minimises(kind))
		}
	}
	if !Minimises("fmn") {
		t.Error("fmn looks for the smallest perturbation")
	}
}
