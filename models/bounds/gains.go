package bounds

import (
	"math"
	"slices"
	"sync"

	"selfheal/internal/number"
)

// mostWorst is how many places a domain may be cut at.
const mostWorst = 12

// costly is a place with what relaxation costs the bounds there.
type costly struct {
	place
	loss float64
}

// consider takes a place among the domain's worst if it is one of them.
func (d *domain) consider(at costly) {
	if len(d.worst) == mostWorst && !(at.loss > d.worst[mostWorst-1].loss) {
		return
	}
	i := len(d.worst)
	for i > 0 && at.loss > d.worst[i-1].loss {
		i--
	}
	d.worst = slices.Insert(d.worst, i, at)
	d.worst = d.worst[:min(len(d.worst), mostWorst)]
}

// gain is what the halves of cuts at a place have brought.
type gain struct{ sum, halves float64 }

// gains are what the cuts of a tree have brought so far at each place, as mixed-integer programming's pseudocosts are
// (Achterberg et al. 2005, "Branching Rules Revisited"). Several goroutines use them.
type gains struct {
	mu         sync.Mutex
	of         map[place]*gain
	sum, costs float64 // of all
}

// best is the place of some where a cut is expected to bring most, both halves together: what it has brought there,
// and, as if a half more had been cut, that share of what relaxation costs there that cuts have brought elsewhere. On
// ResNet-2B that takes a third to a half of the cuts that the costliest places do, and the sum of both halves fewer
// than the worse one or their product.
func (g *gains) best(of []costly) (best costly) {
	g.mu.Lock()
	defer g.mu.Unlock()
	share := 1.0
	if g.costs > 0 {
		share = g.sum / g.costs
	}
	most := math.Inf(-1)
	for _, at := range of {
		expected := share * at.loss
		if known := g.of[at.place]; known != nil {
			expected = (known.sum + expected) / (known.halves + 1)
		}
		if expected > most {
			best, most = at, expected
		}
	}
	return best
}

// learn takes what cuts have brought.
func (g *gains) learn(halves []*domain) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, half := range halves {
		brought := half.lacked - half.lacks
		if !number.Finite(brought) {
			continue
		}
		brought = max(brought, 0)
		at := half.cuts[len(half.cuts)-1].place
		known := g.of[at]
		if known == nil {
			known = new(gain)
			g.of[at] = known
		}
		known.sum, known.halves = known.sum+brought, known.halves+1
		g.sum, g.costs = g.sum+brought, g.costs+half.cost
	}
}
