package control

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math/rand/v2"

	"selfheal/attacks"
	"selfheal/internal/lists"
	"selfheal/models/onnx/simplify"
)

// voting lets the answers of a network that draws random numbers depend on the image and the seed alone. The random
// numbers are inputs, keyed by the image's values and by how often it was asked.
type voting struct {
	draws []simplify.Draw
	votes int
	seed  uint64
}

// averaged bounds the passes whose mean is a gradient or an attack's logits (expectation over transformation, Athalye
// et al. 2018); fewer votes allow fewer. AutoAttack's version rand has as many.
const averaged = 20

// QuestionPasses returns how many passes an attack's question takes, for a network with so many votes; 0 stands for a
// network without votes.
func QuestionPasses(votes int) int { return max(1, min(votes, averaged)) }

// newVoting makes the inputs of a graph's random numbers.
func (n *Network) newVoting(o NetworkOptions) (err error) {
	if o.Votes == 0 {
		return nil
	}
	n.voting = voting{votes: o.Votes, seed: o.Seed}
	if n.voting.draws, err = simplify.Draws(n.Graph); err == nil && len(n.voting.draws) == 0 {
		err = errors.New("votes are for networks that draw at random, and this one does not")
	}
	return err
}

// Votes returns how many passes decide an answer of a network that draws random numbers, or 0 for others.
func (n *Network) Votes() int { return n.voting.votes }

// The streams of random numbers of an image. An attack knows how a network draws, but not the judge's numbers.
const (
	judged = iota
	attacked
)

// each asks times times about an image, with other random numbers each time.
func (v voting) each(x []float32, stream uint64, times int, ask func(further [][]float32) error) error {
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, x) // a hash gives no error
	further := lists.Map(v.draws, func(d simplify.Draw) []float32 { return make([]float32, d.Size) })
	for k := range times {
		rng := rand.New(rand.NewPCG(v.seed^h.Sum64(), stream<<32|uint64(k)))
		for i, d := range v.draws {
			for j := range further[i] {
				if d.Normal {
					further[i][j] = float32(rng.NormFloat64())
				} else {
					further[i][j] = rng.Float32()
				}
			}
		}
		if err := ask(further); err != nil {
			return err
		}
	}
	return nil
}

// Answer writes the answer to judge: the logits or, of a network that draws random numbers, the fraction of the votes
// for each class.
func (n *Network) Answer(ctx context.Context, x, out []float32) error {
	if n.votes == 0 {
		return n.Logits(ctx, x, out)
	}
	clear(out)
	z := make([]float32, n.classes)
	return n.each(x, judged, n.votes, func(further [][]float32) error {
		err := n.pass(ctx, z, append([][]float32{x}, further...)...)
		if class := attacks.Argmax(z); attacks.Right(z, class) { // NaN is no vote
			out[class] += 1 / float32(n.votes)
		}
		return err
	})
}

// mean writes the mean logits of times passes.
func (n *Network) mean(ctx context.Context, x, out []float32, times int) error {
	clear(out)
	z := make([]float32, n.classes)
	return n.each(x, attacked, times, func(further [][]float32) error {
		err := n.pass(ctx, z, append([][]float32{x}, further...)...)
		for i, v := range z {
			out[i] += v / float32(times)
		}
		return err
	})
}

// averagedBy has the gradients of a network that draws random numbers: the mean of others over its draws.
type averagedBy struct {
	n  *Network
	by *losses
}

func (m averagedBy) gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation, _ ...[]float32) error {
	n := m.n
	e.Logits, e.Gradient, e.Loss = sized(e.Logits, n.classes), sized(e.Gradient, len(x)), 0
	clear(e.Logits)
	clear(e.Gradient)
	var one attacks.Evaluation
	times := QuestionPasses(n.votes)
	share := 1 / float32(times)
	return n.each(x, attacked, times, func(further [][]float32) error {
		err := m.by.gradient(ctx, x, loss, label, target, &one, further...)
		if err != nil {
			return err
		}
		e.Loss += share * one.Loss
		for i, v := range one.Logits {
			e.Logits[i] += share * v
		}
		for i, v := range one.Gradient {
			e.Gradient[i] += share * v
		}
		return nil
	})
}
