package attacks

import (
	"fmt"

	"selfheal/internal/setting"
)

// Bracket finds for each image the largest radius at which bounds prove that it is classified right, and the smallest
// at which an attack breaks it. Its caller does the work, until the budget is spent.
type Bracket struct {
	common
	Budget setting.Seconds // of work, times the number of images
}

// BracketKind is the kind of [Bracket] in a config.
const BracketKind = "bracket"

// Proof returns an exact proof without random numbers.
func (b Bracket) Proof() Proof {
	return Proof{Exact: true, Gaps: true, Cost: fmt.Sprintf("%v for each image and defense", b.Budget)}
}

// Passes returns 0: a bracket is limited by time, not by passes.
func (Bracket) Passes(int) (forward, backward int) { return 0, 0 }

// Rung is a step of a bracket: an attack that minimises the norm, or bounds at one radius after another.
type Rung struct {
	Attack Setup   // of kind "" for bounds
	Method string  // how bounds are computed
	Width  float64 // largest gap that the search leaves between two radii, as a fraction of the larger one
	Cheap  bool    // every image is tried with it before any goes on
	// Rise limits the next radius to this fraction above the largest proved one; 0: the middle.
	Rise float64
}

// Rungs returns the steps for the bracket's norm, in the order in which an image goes through them.
func (b Bracket) Rungs() []Rung {
	attack := func(kind string, parameters given) Rung {
		return Rung{Attack: Setup{Kind: kind, Norm: b.Norm, Parameters: parameters}}
	}
	first := attack("fmn", given{"steps": 100})
	first.Cheap = true
	all := []Rung{
		first,
		{Method: "crown", Width: 0.1, Cheap: true},
		{Method: "alpha-crown", Width: 0.05, Cheap: true},
		attack("bisection", given{"targets": 3}),
		{Method: "alpha-crown", Width: 0.01},
		attack("fab-t", nil),
		attack("bisection", given{"restarts": 3}),
		{Method: "alpha-crown", Width: 0.001},
		attack("pdpgd", nil),
		attack("fmn", nil),
	}
	if b.Norm == L2 {
		all = append(all, attack("ddn", nil))
	}
	return append(all, Rung{Method: "beta-crown", Width: 0.02, Rise: 0.1})
}
