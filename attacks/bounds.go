package attacks

import "fmt"

// Bounds is a certificate by bounds of the logits over the ball of Epsilon in Norm, cut to [0,1]: whatever lies in it
// is classified right. It is proven by whoever runs it.
type Bounds struct {
	Norm    Norm
	Epsilon float64
	Method  BoundMethod
}

// BoundMethod is how the logits are bounded.
type BoundMethod int

// The methods: α-CROWN (Xu et al. 2021), CROWN (Zhang et al. 2018), interval bounds (Gowal et al. 2018).
const (
	AlphaCROWN BoundMethod = iota
	CROWN
	IBP
)

// String is the name in configs.
func (m BoundMethod) String() string {
	if words := []string{"alpha-crown", "crown", "ibp"}; m >= 0 && int(m) < len(words) {
		return words[m]
	}
	return fmt.Sprintf("BoundMethod(%d)", int(m))
}

// BoundsKind is the kind of [Bounds] in a config.
const BoundsKind = "bounds"

// Name is "bounds".
func (Bounds) Name() string { return BoundsKind }

// Check reports what no certificate can do with.
func (b Bounds) Check(classes int, shape Shape) error {
	return check(b, b.Norm, b.Epsilon, CrossEntropy, classes, shape, boundsParameters)
}

// Passes are none: bounds are no passes of the network.
func (Bounds) Passes(int) (forward, backward int) { return 0, 0 }
