package attacks

import (
	"fmt"

	"selfheal/internal/setting"
)

// Bracket tells of each image the largest radius at which bounds prove that it is classified right, and the smallest at
// which an attack breaks it. It is made by whoever runs it, until the budget is spent.
type Bracket struct {
	common
	Budget setting.Seconds // of work, times the number of images
}

// BracketKind is the kind of [Bracket] in a config.
const BracketKind = "bracket"

// Proof holds of the network that is judged; nothing in it is random.
func (b Bracket) Proof() Proof {
	return Proof{Exact: true, Brackets: true, Cost: fmt.Sprintf("%v for each image and defense", b.Budget)}
}

// Passes are none that anybody counts: time bounds them.
func (Bracket) Passes(int) (forward, backward int) { return 0, 0 }

// Rung is a step of a bracket: an attack that looks for the smallest norm, or bounds at one radius after another.
type Rung struct {
	Attack Setup   // of kind "" for bounds
	Method string  // of bounds
	Width  float64 // of what the search leaves between two radii, as a share of the larger one
	Cheap  bool    // every image goes through it before any goes on
	// Rise is how far above what is proven the search asks next, as a share of that, at most; 0: in the middle.
	Rise float64
}

// Rungs are those of a norm, in the order in which an image goes through them.
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

// Widest is the distance of the black image and the white one.
func (n Norm) Widest(s Shape) float64 { return n.widest(s) }
