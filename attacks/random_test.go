package attacks

import (
	"math"
	"slices"
	"testing"
)

// TestKindTwice: a component that a recipe lists again draws other random numbers; the first
// draws what it draws alone.
func TestKindTwice(t *testing.T) {
	t.Parallel()
	o := randomMLP(Shape{C: 3, H: 6, W: 6}, 20, 10, 9)
	im := imagesNear(o, 1, 0.5, 10)[0]
	one := Component{Kind: "square", Parameters: given{"queries": 5}}
	custom := Setup{Kind: "autoattack", Version: "custom", Components: []Component{one, one, one}}
	alone := Setup{Kind: one.Kind, Parameters: one.Parameters}
	asked := func(a Attack) (points []float32) {
		for _, p := range passes(t, a, o, im) {
			points = append(points, p.x...)
		}
		return points
	}
	for _, n := range classic {
		custom.Norm, alone.Norm = n, n
		runs := recipe(t, custom, 1e-3, 10).Components
		single := asked(recipe(t, alone, 1e-3, 10).Components[0])
		for i, a := range runs {
			points := asked(a)
			if same := slices.Equal(points, single); same != (i == 0) {
				t.Errorf("%v, component %d: the points of the attack alone: %v", n, i+1, same)
			}
			if i > 0 && slices.Equal(points, asked(runs[3-i])) {
				t.Errorf("%v: components 2 and 3 ask about the same points", n)
			}
		}
	}
}

// Directions are uniform in the cube for ℓ∞ and Gaussian otherwise.
func TestDirection(t *testing.T) {
	t.Parallel()
	v := make([]float32, 200_000)
	for _, n := range classic {
		direction(n, generator(1, "direction", 0, 0, 0), v)
		mean, square, fourth, most := 0.0, 0.0, 0.0, 0.0
		for _, x := range v {
			e := float64(x)
			mean, square, fourth = mean+e, square+e*e, fourth+e*e*e*e
			most = max(most, math.Abs(e))
		}
		count := float64(len(v))
		wantSquare, wantFourth, least, limit := 1.0, 3.0, 4.0, 7.0
		if n == Linf {
			wantSquare, wantFourth, least, limit = 1./3, 1./5, 0.999, 1
		}
		if math.Abs(mean/count) > 0.01 || math.Abs(square/count/wantSquare-1) > 0.02 ||
			math.Abs(fourth/count/wantFourth-1) > 0.05 || most < least || most > limit {
			t.Errorf("%v: mean %v, of squares %v, of fourth powers %v, largest %v", n, mean/count, square/count,
				fourth/count, most)
		}
	}
}
