package attacks

import "selfheal/internal/setting"

// Bounds is a certificate by bounds of the logits over the ball of Epsilon in Norm, cut to [0,1]: whatever lies in it
// is classified right. It is proven by whoever runs it.
type Bounds struct {
	common
	// Method is beta-crown (Wang et al. 2021), alpha-crown (Xu et al. 2021), crown (Zhang et al. 2018) or ibp (Gowal et
	// al. 2018).
	Method string
	Budget setting.Seconds // of an image by beta-crown; 0: [BranchBudget]
}

// BranchBudget is how long an image is bounded by beta-crown where nothing else is said.
const BranchBudget = setting.Seconds(30)

// BoundsKind is the kind of [Bounds] in a config.
const BoundsKind = "bounds"

// Proof holds of the network that is judged; nothing in it is random.
func (Bounds) Proof() Proof { return Proof{Exact: true, Cost: "no passes, bounds for each defense"} }

// Passes are none: bounds are no passes of the network.
func (Bounds) Passes(int) (forward, backward int) { return 0, 0 }
