package attacks

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Square's start in ℓ2 fills the middle of the image by tiles of η, upright or turned, with a sign for each channel. It
// is epsilon long.
func TestSquareStart(t *testing.T) {
	s := Shape{C: 2, H: 17, W: 16}
	a := component("square", L2, 0.3, given{"queries": 10}).(square)
	x := make([]float32, s.Size())
	for i := range x {
		x[i] = 0.5
	}
	run := newSearch(a, randomMLP(s, 8, 4, 3), Image{Pixels: x}, Options{})
	run.rng = rand.New(rand.NewPCG(1, 2))
	run.bumps.start(run)
	const side, top, left, tiles = 3, 1, 0, 5 * 5
	eta, turned, signs := run.bumps.eta(side), 0, map[float64]int{}
	at := func(c, i, j int) float64 { return float64(run.tried[(c*s.H+i)*s.W+j]) - 0.5 }
	unit := 0.3 / math.Sqrt(float64(s.C*tiles)) // the length of a tile
	for tile := range tiles {
		i0, j0 := top+tile/5*side, left+tile%5*side
		for c := range s.C {
			found := false
			for _, sign := range []float64{1, -1} {
				for _, turn := range []bool{false, true} {
					worst := 0.0
					for i := range side {
						for j := range side {
							want := sign * unit * float64(eta[i*side+j])
							got := at(c, i0+i, j0+j)
							if turn {
								got = at(c, i0+j, j0+i)
							}
							worst = max(worst, math.Abs(got-want))
						}
					}
					if worst < 1e-6 {
						found = true
						signs[sign]++
						if turn {
							turned++
						}
					}
				}
			}
			if !found {
				t.Errorf("the tile at %d, %d of channel %d is no η", i0, j0, c)
			}
		}
	}
	if turned == 0 || turned == 2*tiles || len(signs) != 2 {
		t.Errorf("of %d tiles %d are turned, the signs are %v", 2*tiles, turned, signs)
	}
	for c := range s.C {
		for k := range 16 {
			if at(c, 0, k) != 0 || at(c, 16, k) != 0 || at(c, k, 15) != 0 {
				t.Fatal("the edge is not left alone")
			}
		}
	}
	if got := L2.Distance(x, run.tried); math.Abs(got-0.3) > 1e-6 {
		t.Errorf("it is %v long", got)
	}
}
