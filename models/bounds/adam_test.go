package bounds

import (
	"math"
	"testing"
)

// Adam's direction is PyTorch's: after gradients of 2, −1 and 4 it has moved a number by these.
func TestAdamStep(t *testing.T) {
	a, decay1, decay2 := newAdam(2), 1.0, 1.0
	for i, g := range []float32{2, -1, 4} {
		decay1, decay2 = decay1*beta1, decay2*beta2
		want := []float64{1, 0.26633704, 0.65811160}[i]
		if got := a.step(1, g, decay1, decay2); math.Abs(got-want) > 1e-6 {
			t.Errorf("step %d: %.8f, PyTorch has %v", i+1, got, want)
		}
	}
}
