package attacks

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestCotangent compares every loss's gradient with a central difference along a random direction.
func TestCotangent(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, l := range Losses() {
		for range 200 {
			n := l.MinClasses() + rng.IntN(8)
			z, plus, minus := make([]float32, n), make([]float32, n), make([]float32, n)
			direction := make([]float64, n)
			for j := range z {
				// A grid that float32 holds exactly, with no two logits close.
				z[j] = float32(rng.IntN(64)) + float32(j)/64
				direction[j] = float64(rng.IntN(9)-4) / 4096
				plus[j], minus[j] = z[j]+float32(direction[j]), z[j]-float32(direction[j])
			}
			label := rng.IntN(n)
			target := (label + 1 + rng.IntN(n-1)) % n
			grad := make([]float32, n)
			l.Cotangent(z, label, target, grad)
			want, size := 0.0, 0.0
			for j, g := range grad {
				want += float64(g) * direction[j]
				size += math.Abs(float64(g) * direction[j])
			}
			got := (l.Value(plus, label, target) - l.Value(minus, label, target)) / 2
			// Values are quotients of float32s for DLR, hence the absolute term.
			if math.Abs(got-want) > 1e-3*size+1e-7*(1+math.Abs(l.Value(z, label, target))) {
				t.Errorf("%v at %v, label %d, target %d: slope %v, gradient gives %v", l, z, label, target, got, want)
			}
		}
	}
}

// TestLossTies pins the conventions at equal logits to PyTorch's.
func TestLossTies(t *testing.T) {
	grad := make([]float32, 4)
	Margin.Cotangent([]float32{0, 2, 2, 1}, 0, -1, grad)
	if grad[1] != 1 || grad[2] != 0 {
		t.Errorf("margin follows %v, want the lower of two equal classes", grad)
	}
	DLR.Cotangent([]float32{0, 2, 2, 1}, 3, -1, grad)
	// Sorted ascending and stable: 0, 3, 1, 2. The first is class 2, the third class 3.
	if grad[1] != 0 {
		t.Errorf("DLR follows %v, want nothing on class 1", grad)
	}
	// All equal: finite numbers.
	for _, l := range Losses() {
		l.Cotangent([]float32{1, 1, 1, 1}, 0, 1, grad)
		for _, g := range grad {
			if math.IsNaN(float64(g)) || math.IsInf(float64(g), 0) {
				t.Errorf("%v at equal logits: %v", l, grad)
			}
		}
	}
	// Large logits neither overflow nor lose the loss.
	if got := CrossEntropy.Value([]float32{1000, 0}, 1, -1); got != 1000 {
		t.Errorf("cross-entropy %v, want 1000", got)
	}
}

// TestDLRPlateau: where the label ranks third DLR is constant, and its gradient is exactly 0, not noise with a sign.
func TestDLRPlateau(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for range 100 {
		z := []float32{3 + rng.Float32(), 2 + rng.Float32(), 1 + rng.Float32(), rng.Float32()}
		grad := make([]float32, 4)
		DLR.Cotangent(z, 2, -1, grad)
		for _, g := range grad {
			if g != 0 {
				t.Fatalf("gradient %v at %v", grad, z)
			}
		}
	}
}

// A class of −∞, which a network masks, never wins: losses and gradients are finite, a margin takes it as the lowest
// float32, and where a DLR loss would need it the numerator is left.
func TestMaskedClasses(t *testing.T) {
	inf := float32(math.Inf(1))
	z := []float32{3, 1, -inf, 2, -inf}
	want := map[Loss]struct {
		value    float64
		gradient []float32
	}{
		CrossEntropy:         {math.Log(1 + math.Exp(-1) + math.Exp(-2)), nil},
		TargetedCrossEntropy: {-2 - math.Log(1+math.Exp(-1)+math.Exp(-2)), nil},
		LogitDifference:      {-2, []float32{-1, 1, 0, 0, 0}},
		Margin:               {-1, []float32{-1, 0, 0, 1, 0}},
		ProbabilityMargin:    {(math.Exp(2) - math.Exp(3)) / (math.Exp(1) + math.Exp(2) + math.Exp(3)), nil},
		DLR:                  {-0.5, nil},
		TargetedDLR:          {-2, []float32{-1, 1, 0, 0, 0}}, // the fourth logit is −∞
	}
	for _, l := range Losses() {
		if got := l.Value(z, 0, 1); !(math.Abs(got-want[l].value) < 1e-6) {
			t.Errorf("%v is %v, want %v", l, got, want[l].value)
		}
		g := make([]float32, len(z))
		l.Cotangent(z, 0, 1, g)
		for j, v := range g {
			known := want[l].gradient
			if !(v >= -1e3 && v <= 1e3) || z[j] == -inf && v != 0 || known != nil && v != known[j] {
				t.Errorf("%v has the gradient %v, want %v", l, g, want[l].gradient)
				break
			}
		}
	}
	two := []float32{-inf, 1, 3, -inf}
	if got := DLR.Value(two, 2, -1); got != -2 {
		t.Errorf("DLR of two classes is %v, want their difference", got)
	}
	for _, c := range []struct {
		z    []float32
		want float64
	}{{z, 1}, {[]float32{2, -inf}, 2 + math.MaxFloat32}, {[]float32{-inf, 2}, -2 - math.MaxFloat32},
		{[]float32{-inf, -inf}, math.NaN()}, {[]float32{inf, 1}, math.NaN()}, {[]float32{1, inf}, math.NaN()}} {
		if got := LogitMargin(c.z, 0); got != c.want && !(got != got && c.want != c.want) {
			t.Errorf("the margin of %v is %v, want %v", c.z, got, c.want)
		}
	}
}

func TestRight(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		z     []float32
		label int
		want  bool
	}{
		{[]float32{1, 2}, 1, true},
		{[]float32{2, 1}, 1, false},
		{[]float32{2, 2}, 0, true}, // argmax takes the lower class
		{[]float32{2, 2}, 1, false},
		{[]float32{nan, 1}, 1, false},
		{[]float32{nan, 1}, 0, false},
		{[]float32{1, nan, 0}, 0, false},
	} {
		if got := Right(c.z, c.label); got != c.want {
			t.Errorf("%v label %d: %v", c.z, c.label, got)
		}
	}
}
