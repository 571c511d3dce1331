package attacks

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestNorm(t *testing.T) {
	a, b := []float32{0, 1, 0.5}, []float32{0.25, 1, 0}
	for n, want := range map[Norm]float64{Linf: 0.5, L2: math.Sqrt(0.3125), L1: 0.75} {
		if got := n.Distance(a, b); got != want {
			t.Errorf("%v: %v, want %v", n, got, want)
		}
		text, err := n.MarshalText()
		var back Norm
		if err != nil || back.UnmarshalText(text) != nil || back != n {
			t.Errorf("%v does not survive as text: %q, %v", n, text, err)
		}
		if n.Dual().Dual() != n {
			t.Errorf("%v is not its dual's dual", n)
		}
	}
	if err := new(Norm).UnmarshalText([]byte("Linf")); err == nil {
		t.Error("no error for an unknown norm")
	}
}

// TestBox: no end of the ℓ∞ ball lies outside it, even for an epsilon of the size of a rounding error.
func TestBox(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	x := make([]float32, 2000)
	for i := range x {
		x[i] = float32(rng.IntN(256)) / 255
	}
	for _, eps := range []float64{8. / 255, 1e-3, 1e-7, 1e-9} {
		lo, hi := box(Linf, x, eps)
		for i, v := range x {
			if float64(v)-float64(lo[i]) > eps || float64(hi[i])-float64(v) > eps || lo[i] < 0 || hi[i] > 1 ||
				lo[i] > v || hi[i] < v {
				t.Fatalf("epsilon %v around %v: [%v, %v]", eps, v, lo[i], hi[i])
			}
		}
	}
}

// TestLargestEpsilon: no attack takes an epsilon whose ball holds every image.
func TestLargestEpsilon(t *testing.T) {
	t.Parallel()
	shape := Shape{C: 3, H: 6, W: 8}
	for _, spec := range Specs {
		for _, n := range classic {
			if spec.CheckNorm(n) != nil {
				continue
			}
			most := []float64{1, 12, 144}[n]
			for _, epsilon := range []float64{most, 1.001 * most, 1e8} {
				setup := Setup{Kind: spec.Kind, Norm: n}
				if spec.Kind == "smoothing" { // whose radii end at 3 sigmas
					setup.Parameters = map[string]any{"sigma": epsilon}
				}
				for _, a := range recipe(t, setup, epsilon, 10).Methods() {
					err := a.Check(10, shape)
					if epsilon == most {
						if err != nil {
							t.Errorf("%s, %v: epsilon %v: %v", spec.Kind, n, epsilon, err)
						}
						continue
					}
					wants := []string{a.Name(), fmt.Sprintf("%.6g", epsilon), n.String(), fmt.Sprint(most)}
					for _, want := range wants {
						if err == nil || !strings.Contains(err.Error(), want) {
							t.Errorf("%s, %v: epsilon %v: %v, want %s", spec.Kind, n, epsilon, err, want)
						}
					}
				}
			}
		}
	}
}

func TestCheckNorm(t *testing.T) {
	t.Parallel()
	s := Spec{Kind: "dive", Norms: []Norm{L2, Linf}}
	if err := s.CheckNorm(L2); err != nil {
		t.Error(err)
	}
	if err := s.CheckNorm(L1); err == nil || err.Error() != "dive exists only in l2 and linf, not in l1" {
		t.Error(err)
	}
}

// TestGenerator: every part of the key matters, and nothing else.
func TestGenerator(t *testing.T) {
	draw := func(seed uint64, c string, restart, target, image int) uint64 {
		return generator(seed, c, restart, target, image).Uint64()
	}
	seen := map[uint64]bool{}
	for _, v := range []uint64{draw(0, "a", 0, 0, 0), draw(1, "a", 0, 0, 0), draw(0, "b", 0, 0, 0),
		draw(0, "a", 1, 0, 0), draw(0, "a", 0, 1, 0), draw(0, "a", 0, 0, 1)} {
		if seen[v] {
			t.Error("two keys give the same numbers")
		}
		seen[v] = true
	}
	if first, again := draw(5, "square", 1, 2, 3), draw(5, "square", 1, 2, 3); first != again {
		t.Error("a key gives two streams")
	}
}

// TestConfineRoundsInwards: every value comes to the exact point's or, by a unit in the last place, nearer.
func TestConfineRoundsInwards(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2))
	x, adv := make([]float32, 500), make([]float32, 500)
	for i := range x {
		x[i], adv[i] = rng.Float32(), rng.Float32()
	}
	d := L2.Distance(x, adv)
	got := slices.Clone(adv)
	confine(L2, x, got, 0.7*d)
	for i, v := range x {
		exact := float64(v) + 0.7*(float64(adv[i])-float64(v))
		if off := (float64(got[i]) - exact) * math.Copysign(1, exact-float64(v)); off > 1e-15 || off < -1.2e-7 {
			t.Errorf("value %d: %v, exactly %v, of %v", i, got[i], exact, v)
		}
	}
}

func TestPixels(t *testing.T) {
	s := Shape{C: 2, H: 2, W: 3}
	a := []float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	b := slices.Clone(a)
	for _, c := range []struct{ at, pixels int }{{1, 1}, {7, 1}, {11, 2}, {0, 3}, {5, 3}, {9, 4}} {
		if b[c.at] = 99; Pixels(a, b, s) != c.pixels {
			t.Errorf("value %d changed too: %d pixels, want %d", c.at, Pixels(a, b, s), c.pixels)
		}
	}
}

func TestEnclosing(t *testing.T) {
	for n, want := range map[Norm]float64{Linf: 0.25 * 12, L2: 0.25, L1: 0.25, L0: 0.5} {
		if got := n.Enclosing(0.25, 144); got != want {
			t.Errorf("%v: %v, want %v", n, got, want)
		}
	}
}

// TestReach: the farther end of [0,1] from every value.
func TestReach(t *testing.T) {
	x := []float32{0.25, 1, 0, 0.5}
	for n, want := range map[Norm]float64{Linf: 1, L2: math.Sqrt(0.5625 + 2 + 0.25), L1: 3.25, L0: 4} {
		if got := reachOf(n, x); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v: %v, want %v", n, got, want)
		}
	}
}

// TestKeepLargest: as many values as asked for stay, of equal ones the first.
func TestKeepLargest(t *testing.T) {
	v := []float32{3, -1, 2, -2, 0.5, 2}
	for k, want := range [][]float32{{0, 0, 0, 0, 0, 0}, {3, 0, 0, 0, 0, 0}, {3, 0, 2, 0, 0, 0}, {3, 0, 2, -2, 0, 0},
		{3, 0, 2, -2, 0, 2}, {3, -1, 2, -2, 0, 2}, v, v} {
		got := slices.Clone(v)
		if keepLargest(got, k); !slices.Equal(got, want) {
			t.Errorf("%d of %v: %v, want %v", k, v, got, want)
		}
	}
}
