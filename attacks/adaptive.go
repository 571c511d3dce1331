package attacks

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"

	"selfheal/internal/lists"
)

// The gradients that an attack may follow in place of an oracle's own ([Other.Along]).
const (
	Slopes   = "slopes"   // backward pass differentiable approximation, for operators whose derivative vanishes
	Detached = "detached" // of a controlled network, with the controls held constant
	Bare     = "bare"     // of the network without its control
	Nearby   = "nearby"   // the mean over points nearby; every oracle has it
)

// Gradients lists them. The name of a component that follows one ends in it.
var Gradients = []string{Slopes, Detached, Bare, Nearby}

// Other is an oracle with other gradients than its own.
type Other interface {
	// Along returns an oracle of the same answers that follows another gradient, or nil if it has none of that name.
	Along(gradient string) (Oracle, error)
}

// Needs says which gradient an attack follows, and when it runs.
type Needs struct {
	Gradient string // in place of the oracle's own, see [Other]; "" is its own
	Signs    bool   // it runs only where something hides the gradient
}

// Plain returns the recipe without the components that need signs.
func (r Recipe) Plain() Recipe {
	r.Components = lists.Only(r.Components, func(a Attack) bool { return !a.Needs().Signs })
	return r
}

// Usual returns the components that run where nothing hides the gradient, on a network with or without control.
func (r Recipe) Usual(controlled bool) Recipe {
	r = r.Plain()
	r.Components = lists.Only(r.Components, func(a Attack) bool { return controlled || !a.Needs().Special() })
	return r
}

// Special reports whether not every oracle has the gradient.
func (n Needs) Special() bool { return n.Gradient != "" && n.Gradient != Nearby }

// Along returns the oracle that follows another gradient of o, or nil if o has none of that name.
func Along(o Oracle, gradient string) (Oracle, error) {
	if other, ok := o.(Other); ok {
		return other.Along(gradient)
	}
	return nil, nil
}

// adaptive returns the components of version adaptive: standard's, then what breaks defences that hide their gradients.
// The first further ones run on every network, the rest only where there are signs that something hides the gradient,
// which the caller looks for:
//
//	the margin, the logits' differences and    logits of any scale, and runs that DLR leads astray
//	the probabilities' margin, also from the
//	nearest images of other classes
//	gradients detached from the control        controls whose own gradient misleads, and transferred images
//	signs: slopes                              rounding, signs, tables, saturation (Athalye et al. 2018)
//	signs: the mean gradient nearby            losses that jump, and networks that draw at random
//	signs: Square, four times as long          networks without any gradient
//	signs: RayS in ℓ∞, HopSkipJump in ℓ2       scores that say nothing but the class
func adaptive(n Norm) []Component {
	radii := func(p given) given {
		if n == L1 {
			p["large_radii"] = true
		}
		return p
	}
	margin := func(restarts int) given { return radii(given{"loss": "margin", "restarts": restarts}) }
	difference := func(targets int) given {
		return radii(given{"loss": "logit-difference", "targets": targets, "order": byDistance})
	}
	all := append(standard(n),
		Component{Kind: "apgd-dlr", Parameters: margin(1)},
		Component{Kind: "apgd-dlr", Parameters: radii(given{"loss": "margin", "restarts": 2, "from_others": true})},
		Component{Kind: "apgd-t", Parameters: difference(5)},
		Component{Kind: "apgd-dlr", Parameters: radii(given{"loss": "probability-margin"})},
		Component{Kind: "apgd-ce", Parameters: radii(given{}), needs: Needs{Gradient: Detached}},
		Component{Kind: "apgd-dlr", Parameters: margin(1), needs: Needs{Gradient: Detached}},
		Component{Kind: "apgd-dlr", Parameters: margin(1), needs: Needs{Gradient: Bare}},
		Component{Kind: "apgd-ce", Parameters: radii(given{"restarts": 2}), needs: Needs{Slopes, true}},
		Component{Kind: "apgd-dlr", Parameters: margin(5), needs: Needs{Slopes, true}},
		Component{Kind: "apgd-t", Parameters: difference(9), needs: Needs{Slopes, true}},
		Component{Kind: "apgd-ce", Parameters: radii(given{"restarts": 2}), needs: Needs{Nearby, true}},
		Component{Kind: "apgd-dlr", Parameters: margin(3), needs: Needs{Nearby, true}},
		Component{Kind: "square", Parameters: given{"queries": 20000}, needs: Needs{Signs: true}})
	switch n {
	case Linf:
		all = append(all, Component{Kind: "rays", needs: Needs{Signs: true}})
	case L2:
		all = append(all, Component{Kind: "hop-skip-jump", needs: Needs{Signs: true}})
	}
	return all
}

// sideways is an attack with needs.
type sideways struct {
	Attack
	needs   Needs
	norm    Norm
	epsilon float64
}

func (a sideways) Needs() Needs { return a.needs }

// Name ends in the gradient, if that is not the oracle's own.
func (a sideways) Name() string {
	if a.needs.Gradient == "" {
		return a.Attack.Name()
	}
	return a.Attack.Name() + "-" + a.needs.Gradient
}

// Passes multiplies the gradients where they are means.
func (a sideways) Passes(classes int) (forward, backward int) {
	forward, backward = a.Attack.Passes(classes)
	if a.needs.Gradient == Nearby {
		forward, backward = forward+(nearbyDraws-1)*backward, nearbyDraws*backward
	}
	return forward, backward
}

// Perturb does nothing if the oracle lacks the gradient.
func (a sideways) Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error) {
	how.Seed = generator(how.Seed, a.needs.Gradient, 0, 0, 0).Uint64()
	switch a.needs.Gradient {
	case "":
	case Nearby:
		o = &averaged{o, a.norm, a.epsilon / 2, how.Seed}
	default:
		var err error
		if o, err = Along(o, a.needs.Gradient); o == nil || err != nil {
			return Result{FirstSuccess: -1, FirstForward: -1}, err
		}
	}
	res, err := a.Attack.Perturb(ctx, o, im, how)
	if a.needs.Gradient == Nearby { // each gradient was a mean
		more := (nearbyDraws - 1) * res.Backward
		if res.FirstForward >= 0 {
			res.FirstForward += min(more, (nearbyDraws-1)*res.FirstForward)
		}
		res.Forward, res.Backward = res.Forward+more, res.Backward+more
	}
	return res, err
}

const nearbyDraws = 20

// averaged is an oracle whose gradient is the mean over a point and random points around it. Their draw depends on the
// point, so that an attack that is resumed sees the same.
type averaged struct {
	Oracle
	norm   Norm
	radius float64
	seed   uint64
}

func (o *averaged) Gradient(ctx context.Context, x []float32, loss Loss, label, target int, e *Evaluation) error {
	if err := o.Oracle.Gradient(ctx, x, loss, label, target, e); err != nil {
		return err
	}
	sum := fnv.New64a()
	_ = binary.Write(sum, binary.LittleEndian, x) // a hash gives no error
	rng := rand.New(rand.NewPCG(o.seed, sum.Sum64()))
	var one Evaluation
	beside := make([]float32, len(x))
	for range nearbyDraws - 1 {
		randomStart(o.norm, x, o.radius*rng.Float64(), rng, beside)
		if err := o.Oracle.Gradient(ctx, beside, loss, label, target, &one); err != nil {
			return err
		}
		for i, g := range one.Gradient {
			e.Gradient[i] += g
		}
	}
	for i := range e.Gradient {
		e.Gradient[i] /= nearbyDraws
	}
	return nil
}
