package attacks

import "selfheal/internal/setting"

// Bounds is a certificate from bounds on the logits over the ball of radius Epsilon in Norm, cut to [0,1]: every image
// in it is classified right. Its caller computes the proof.
type Bounds struct {
	common
	// Method is beta-crown (Wang et al. 2021), alpha-crown (Xu et al. 2021), crown (Zhang et al. 2018) or ibp (Gowal et
	// al. 2018).
	Method string
	Budget setting.Seconds // time for an image with beta-crown; 0: [BranchBudget]
}

// BranchBudget is the default time for bounding an image with beta-crown.
const BranchBudget = setting.Seconds(30)

// BoundsKind is the kind of [Bounds] in a config.
const BoundsKind = "bounds"

// Proof returns an exact proof without random numbers.
func (Bounds) Proof() Proof { return Proof{Exact: true, Cost: "no passes, bounds for each defense"} }

// Passes returns 0: computing bounds makes no passes of the network.
func (Bounds) Passes(int) (forward, backward int) { return 0, 0 }
