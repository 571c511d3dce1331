package certify

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"selfheal/attacks"
	"selfheal/harness/open"
	"selfheal/models/bounds"
)

// corners is how many corners of a region the file is asked about, beside its centre.
const corners = 16

// hold holds a proof against the file as it lies, or against the controlled network as it runs: at the centre and at
// corners of the ball the answer is the label. A proof that does not stand this is an error.
func (p *Prover) hold(ctx context.Context, who open.Classifier, region bounds.Region, im attacks.Image) error {
	file, err := p.Original(ctx)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(uint64(im.ID), uint64(im.Label)))
	for k := range 1 + corners {
		x := im.Pixels
		if k > 0 {
			x = corner(region, rng)
		}
		var z []float64
		if who.Loop == nil {
			if z, err = file.Answer(x); err != nil {
				return err
			}
		} else {
			answer, err := who.Logits(ctx, x)
			if err != nil {
				return err
			}
			for _, v := range answer {
				z = append(z, float64(v))
			}
		}
		for class, v := range z {
			if class != im.Label && !(z[im.Label] > v) {
				return fmt.Errorf("image %d is proven, and %s as it lies answers class %d at a corner of its ball: "+
					"one of them is wrong", im.ID, who, class)
			}
		}
	}
	return nil
}

// corner is a random corner of a region: of its box, or, for a ball, of one within it, as far as the box goes.
func corner(r bounds.Region, rng *rand.Rand) []float32 {
	x := make([]float32, len(r.Lower))
	move := func(i int, by float64) float64 {
		if rng.IntN(2) == 0 {
			by = -by
		}
		was := x[i]
		x[i] = min(max(float32(float64(was)+by), r.Lower[i]), r.Upper[i])
		return math.Abs(float64(x[i]) - float64(was))
	}
	within := r.Epsilon * (1 - 1e-6) // of what rounding adds
	copy(x, r.Centre)
	switch {
	case r.Centre == nil:
		for i := range x {
			if x[i] = r.Lower[i]; rng.IntN(2) == 0 {
				x[i] = r.Upper[i]
			}
		}
	case r.P == 1: // one value after the other, until all is spent
		for _, i := range rng.Perm(len(x)) {
			if within -= move(i, within); within <= 0 {
				break
			}
		}
	default:
		for i := range x {
			move(i, within/math.Sqrt(float64(len(x))))
		}
	}
	return x
}
