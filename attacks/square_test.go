package attacks

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSquareSchedule(t *testing.T) {
	a := component("square", Linf, 0.1, nil).(square)
	for _, c := range []struct {
		query int
		parts float64
	}{{0, 1}, {10, 1}, {11, 2}, {50, 2}, {51, 4}, {200, 4}, {201, 8},
		{501, 16}, {1001, 32}, {2001, 64}, {4001, 128}, {4999, 128}, {6001, 256}, {8001, 512}} {
		if got := a.share(c.query); got != 0.8/c.parts {
			t.Errorf("query %d: share %v, want 0.8/%v", c.query, got, c.parts)
		}
	}
	a.RescaleSchedule = true
	if got := a.share(4500); got != 0.8/512 {
		t.Errorf("rescaled, query 4500: share %v", got)
	}
}

func TestSquareSides(t *testing.T) {
	cifar := Shape{C: 3, H: 32, W: 32}
	sides := func(n Norm, s Shape) (out []int) {
		a := component("square", n, 0.1, nil).(square)
		for i := range 5000 {
			out = append(out, a.side(i, s))
		}
		return slices.Compact(out)
	}
	if got, want := sides(Linf, cifar), []int{29, 20, 14, 10, 7, 5, 4, 3}; !slices.Equal(got, want) {
		t.Errorf("ℓ∞ sides %v, want %v", got, want)
	}
	if got, want := sides(L2, cifar), []int{29, 21, 15, 11, 7, 5, 3}; !slices.Equal(got, want) {
		t.Errorf("ℓ2 sides %v, want %v", got, want)
	}
	for _, s := range sides(L1, Shape{C: 1, H: 40, W: 6}) {
		if s > 6 {
			t.Errorf("side %d exceeds the image", s)
		}
	}
}

// TestSquareImages: any shape from 5×5 (ℓ∞: 1×1) on works, also where the grid of tiles does not fit evenly.
func TestSquareImages(t *testing.T) {
	for _, s := range []Shape{{C: 1, H: 1, W: 1}, {C: 2, H: 1, W: 9}, {C: 1, H: 5, W: 5},
		{C: 1, H: 9, W: 14}, {C: 3, H: 24, W: 7}} {
		o := randomMLP(s, 6, 3, 1)
		im := imagesNear(o, 1, 0.5, 2)[0]
		for _, n := range classic {
			a := component("square", n, 1e-3, given{"queries": 100})
			if err := a.Check(3, s); err != nil {
				if n == Linf || min(s.H, s.W) >= 5 {
					t.Error(err)
				}
				continue
			}
			if _, err := a.Perturb(t.Context(), o, im, Options{Seed: 1}); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestSquareTies: an equal margin is no improvement, except at 0, where the label still wins the tie and the search
// goes on from every new point. No point is asked about twice in a row.
func TestSquareTies(t *testing.T) {
	for _, n := range classic {
		for _, z := range [][]float32{{2, 1}, {1, 1}} {
			o := &spy{Oracle: &scripted{shape: Shape{C: 1, H: 6, W: 6}, logits: z}}
			a := component("square", n, 0.1, given{"queries": 20})
			best, s, won := searched(t, a, o, grey(36), rand.NewPCG(1, 1))
			asked := o.points(false)
			if res := s.res; won || res.Iterations != 20 || res.Forward != len(asked) ||
				n != Linf && res.Forward != 21 {
				t.Fatalf("%v %v: won %v after %d queries, %d passes", n, z, won, res.Iterations, res.Forward)
			}
			want := asked[0]
			if z[0] == z[1] {
				want = asked[len(asked)-1]
			}
			for i, p := range asked[1:] {
				if known := asked[0]; z[0] != z[1] && slices.Equal(p, known) ||
					z[0] == z[1] && slices.Equal(p, asked[i]) {
					t.Errorf("%v %v: pass %d is made twice", n, z, i+1)
				}
			}
			if !slices.Equal(best, want) {
				t.Errorf("%v %v: the best point is not the expected one", n, z)
			}
		}
	}
}
