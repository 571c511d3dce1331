package attacks_test

import (
	"slices"
	"testing"

	"selfheal/attacks"
	"selfheal/attacks/attacktest"
)

// TestKindTwice: a component that a recipe lists again draws other random numbers; the first
// draws what it draws alone.
func TestKindTwice(t *testing.T) {
	t.Parallel()
	o := attacktest.RandomMLP(attacks.Shape{C: 3, H: 6, W: 6}, 20, 10, 9)
	im := attacktest.Images(o, 1, 0.5, 10)[0]
	one := attacks.Component{Kind: "square", Parameters: given{"queries": 5}}
	custom := attacks.Setup{Kind: "autoattack", Version: "custom", Components: []attacks.Component{one, one, one}}
	alone := attacks.Setup{Kind: one.Kind, Parameters: one.Parameters}
	asked := func(a attacks.Attack) (points []float32) {
		for _, p := range passes(t, a, o, im) {
			points = append(points, p.X...)
		}
		return points
	}
	for _, n := range attacks.Norms() {
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
