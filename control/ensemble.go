package control

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"

	"selfheal/attacks"
	"selfheal/models/heads"
	"selfheal/models/onnx"
)

// NewEnsemble makes one classifier of several, which answer together by one of [heads.Joined]. Its logits are the
// logarithms of the mean probabilities, or the mean logits, or, by votes, how many members choose a class, and half its
// mean probability. Votes are flat, and attacks follow the gradient of the mean's logarithm instead. Each member
// answers as it does alone. The ensemble closes its members.
func NewEnsemble(name string, members []*Network, by string) (*Network, error) {
	first := members[0]
	g := onnx.NewGraph(name)
	b := &onnx.Builder{G: g}
	image := b.Input("image", first.Graph.Inputs[0].Shape)
	var all []string
	hash := sha256.New()
	fmt.Fprintf(hash, "%s of", by)
	for i, m := range members {
		switch {
		case m.shape != first.shape || m.classes != first.classes:
			return nil, fmt.Errorf("member %s takes %v and gives %d classes, %s takes %v and gives %d", m.Name, m.shape,
				m.classes, first.Name, first.shape, first.classes)
		case m.Opaque() || m.Graph.Levels || m.Graph.Steps || m.Labels || m.votes > 0:
			return nil, fmt.Errorf("member %s is no network with one answer of logits for each image of floats", m.Name)
		}
		b.Prefix = fmt.Sprintf("m%d/", i)
		all = append(all, b.Call(m.Graph, image))
		g.Inexact, g.Rounds = g.Inexact || m.Graph.Inexact, g.Rounds || m.Graph.Rounds
		for _, notice := range m.Graph.Notices {
			g.Notice(m.Name + ": " + notice)
		}
		fmt.Fprintf(hash, " %s", m.ID)
	}
	b.Prefix = ""
	b.Output("logits", joined(b, all, by))
	g, err := b.Done()
	if err != nil {
		return nil, err
	}
	e := &Network{Name: name, Graph: g, pool: first.pool, direct: true, shape: first.shape, classes: first.classes,
		ID: fmt.Sprintf("%x", hash.Sum(nil)), fast: g, Ensemble: true,
		Stepped: by == heads.Vote}
	for _, m := range members {
		e.Parameters += m.Parameters
	}
	e.losses = newLosses(e, g, g)
	return e, e.AnsweredBy(&ensemble{members: members, by: by, classes: e.classes})
}

// joined appends the logits of an ensemble with such members' logits.
func joined(b *onnx.Builder, all []string, by string) string {
	sum := func(terms []string) string {
		s := terms[0]
		for _, t := range terms[1:] {
			s = b.Op("Add", s, t)
		}
		return s
	}
	share := b.Float(1 / float32(len(all)))
	if by == heads.Logits {
		return b.Op("Mul", sum(all), share)
	}
	logs := onnx.Each(all, func(z string) string { return b.OpWith("LogSoftmax", onnx.Attrs{"axis": int64(1)}, z) })
	most := logs[0]
	for _, l := range logs[1:] {
		most = b.Op("Max", most, l)
	}
	shares := onnx.Each(logs, func(l string) string { return b.Op("Exp", b.Op("Sub", l, most)) })
	mean := b.Op("Add", most, b.Op("Log", b.Op("Mul", sum(shares), share)))
	if by == heads.Mean {
		return mean
	}
	votes := onnx.Each(all, func(z string) string {
		largest := b.OpWith("ReduceMax", onnx.Attrs{"keepdims": int64(1)}, z, b.Ints(1))
		return b.Op("Where", b.Op("GreaterOrEqual", z, largest), b.Float(1), b.Float(0))
	})
	return heads.Steps(b, b.Op("Add", sum(votes), b.Op("Mul", b.Op("Exp", mean), b.Float(0.5))), mean)
}

// ensemble is the [File] of an ensemble: each member answers by its own.
type ensemble struct {
	members []*Network
	by      string
	classes int
}

func (e *ensemble) Close() {
	for _, m := range e.members {
		m.Close()
	}
}

// Logits implements [File].
func (e *ensemble) Logits(ctx context.Context, x, out []float32) error {
	z, sum, votes := make([]float32, e.classes), make([]float64, e.classes), make([]float64, e.classes)
	for _, m := range e.members {
		if err := m.Logits(ctx, x, z); err != nil {
			return err
		}
		top := attacks.Argmax(z)
		votes[top]++
		total := 0.0
		for _, v := range z {
			total += math.Exp(float64(v) - float64(z[top]))
		}
		for i, v := range z {
			if e.by == heads.Logits {
				sum[i] += float64(v)
			} else {
				sum[i] += math.Exp(float64(v)-float64(z[top])) / total
			}
		}
	}
	for i, v := range sum {
		switch v /= float64(len(e.members)); e.by {
		case heads.Logits:
			out[i] = float32(v)
		case heads.Mean:
			out[i] = float32(math.Log(max(v, LeastProbability)))
		default:
			out[i] = float32(votes[i] + v/2)
		}
	}
	return nil
}
