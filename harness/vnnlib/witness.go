package vnnlib

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"selfheal/models/ort"
)

// The points of each box about which the file is asked before the answer is unsat: the centre, corners and random
// points.
const (
	corners  = 16
	points   = 1 + corners + 1000
	fewest   = 32
	together = 16 // of the opened network
)

// ask checks a proof against the file. On none of the points may the file fulfil the property, and its outputs must
// be the opened network's. It returns an error otherwise, as the proof is about another network.
func (q *question) ask(ctx context.Context, seed uint64) error {
	boxes := slices.DeleteFunc(slices.Clone(q.of.boxes), func(b *box) bool { return b.apart >= 0 })
	if len(boxes) == 0 {
		return nil // there is no float32 input to ask about
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	total := max(points, len(boxes))
	for first := 0; first < total && (first < fewest || ctx.Err() == nil); first += together {
		n := min(together, total-first)
		xs := make([]float32, 0, n*q.of.inputs)
		for k := range n {
			xs = append(xs, boxes[(first+k)%len(boxes)].point((first+k)/len(boxes), rng)...)
		}
		opened, _, err := q.run(xs, make([]float32, n*q.of.outputs))
		if err != nil {
			return err
		}
		for k := range n {
			x := xs[k*q.of.inputs : (k+1)*q.of.inputs]
			y, err := q.file.Run(x)
			switch {
			case err == nil && q.net.Rounds:
				err = q.bounds.Hold(context.WithoutCancel(ctx), x, y)
			case err == nil:
				err = ort.Agree(y, opened[k*q.of.outputs:(k+1)*q.of.outputs])
			}
			if err != nil {
				return fmt.Errorf("%w: there is no answer", err)
			}
			at := func(i int) float64 { return y[i] }
			if slices.ContainsFunc(boxes[(first+k)%len(boxes)].cases, func(c conjunction) bool { return c.holds(at) }) {
				return errors.New("the property was proven, and the file violates it: there is no answer")
			}
		}
	}
	return nil
}

// point returns the box's centre, one of its corners, or a random point.
func (b *box) point(which int, rng *rand.Rand) []float32 {
	x := make([]float32, len(b.low))
	for i := range x {
		switch at := rng.Float64(); {
		case which == 0:
			x[i] = b.between(i, 0.5)
		case which > corners:
			x[i] = b.between(i, at)
		case at < 0.5:
			x[i] = b.low[i]
		default:
			x[i] = b.high[i]
		}
	}
	return x
}
