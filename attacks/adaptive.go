package attacks

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
)

// The gradients that an attack may follow in place of an oracle's own ([Other.Along]).
const (
	Slopes   = "slopes"   // backward pass differentiable approximation, for operators that have no derivative
	Detached = "detached" // of a controlled network, with the controls held constant
	Bare     = "bare"     // of the network without its control
	Nearby   = "nearby"   // the mean over points nearby; every oracle has it
)

// Other is an oracle with other gradients than its own.
type Other interface {
	// Along returns an oracle of the same answers that follows another gradient, or nil if it has none of that name.
	Along(gradient string) (Oracle, error)
}

// Needs says what the k-th component needs: another gradient than the oracle's own, and signs that something hides
// that.
func (r Recipe) Needs(k int) (gradient string, signs bool) {
	if r.Gradients == nil { // it has a single attack
		return "", false
	}
	return r.Gradients[k], k >= r.Always
}

// Plain returns the recipe without the components that need signs.
func (r Recipe) Plain() Recipe {
	if r.Gradients != nil {
		r.Components = r.Components[:r.Always]
	}
	return r
}

// Special reports whether not every oracle has a gradient.
func Special(gradient string) bool { return gradient != "" && gradient != Nearby }

// Along returns the oracle that follows another gradient of o, or nil if o has none of that name.
func Along(o Oracle, gradient string) (Oracle, error) {
	if other, ok := o.(Other); ok {
		return other.Along(gradient)
	}
	return nil, nil
}

// adaptive returns the components of version adaptive: standard's, then what breaks defences that hide their gradients.
// The first further ones run on every network, the rest only where standard misses planted perturbations (signs):
//
//	the margin, and the logits' differences    logits of any scale, and runs that DLR leads astray
//	gradients detached from the control        controls whose own gradient misleads, and transferred images
//	signs: slopes                              rounding, signs, thresholds, saturation (Athalye et al. 2018)
//	signs: the mean gradient nearby            losses that jump, and networks that draw at random
//	signs: Square, four times as long          networks without any gradient
func adaptive(n Norm) []Component {
	radii := func(p given) given {
		if n == L1 {
			p["large_radii"] = true
		}
		return p
	}
	margin := func(restarts int) given { return radii(given{"loss": "margin", "restarts": restarts}) }
	difference := func(targets int) given { return radii(given{"loss": "logit-difference", "targets": targets}) }
	return append(standard(n),
		Component{Kind: "apgd-dlr", Parameters: margin(2)},
		Component{Kind: "apgd-t", Parameters: difference(5)},
		Component{Kind: "apgd-ce", Parameters: radii(given{}), gradient: Detached},
		Component{Kind: "apgd-dlr", Parameters: margin(1), gradient: Detached},
		Component{Kind: "apgd-dlr", Parameters: margin(1), gradient: Bare},
		Component{Kind: "apgd-ce", Parameters: radii(given{"restarts": 2}), gradient: Slopes, signs: true},
		Component{Kind: "apgd-dlr", Parameters: margin(5), gradient: Slopes, signs: true},
		Component{Kind: "apgd-t", Parameters: difference(9), gradient: Slopes, signs: true},
		Component{Kind: "apgd-ce", Parameters: radii(given{"restarts": 2}), gradient: Nearby, signs: true},
		Component{Kind: "apgd-dlr", Parameters: margin(3), gradient: Nearby, signs: true},
		Component{Kind: "square", Parameters: given{"queries": 20000}, signs: true})
}

// sideways is an attack that follows another gradient than the oracle's own.
type sideways struct {
	Attack
	gradient string
	norm     Norm
	epsilon  float64
}

func (a sideways) Name() string { return a.Attack.Name() + "-" + a.gradient }

// Passes multiplies the gradients where they are means.
func (a sideways) Passes(classes int) (forward, backward int) {
	forward, backward = a.Attack.Passes(classes)
	if a.gradient == Nearby {
		forward, backward = forward+(nearbyDraws-1)*backward, nearbyDraws*backward
	}
	return forward, backward
}

// Perturb does nothing if the oracle lacks the gradient.
func (a sideways) Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error) {
	how.Seed = generator(how.Seed, a.gradient, 0, 0, 0).Uint64()
	if a.gradient == Nearby {
		return a.Attack.Perturb(ctx, &averaged{o, a.norm, a.epsilon / 2, how.Seed}, im, how)
	}
	by, err := Along(o, a.gradient)
	if by == nil || err != nil {
		return Result{FirstSuccess: -1, FirstForward: -1}, err
	}
	return a.Attack.Perturb(ctx, by, im, how)
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
	var bits [4]byte
	for _, v := range x {
		binary.LittleEndian.PutUint32(bits[:], math.Float32bits(v))
		sum.Write(bits[:])
	}
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
