package bounds

import (
	"math"
	"testing"
)

// Cut is where cuts have brought much; of places where nothing was cut, at the costlier one; and what is not finite
// teaches nothing.
func TestGains(t *testing.T) {
	g := &gains{of: map[place]*gain{}}
	at := func(value int, loss float64) candidate { return candidate{place{0, value, 0}, loss} }
	if best := g.best([]candidate{at(0, 1), at(1, 2)}); best.value != 1 {
		t.Errorf("nothing is known: value %d", best.value)
	}
	halves := func(at candidate, lack float64) (both []*domain) {
		for _, above := range []bool{true, false} {
			both = append(both, &domain{cuts: []cut{{at.place, above}}, cost: at.loss, lacked: 1, lacks: lack})
		}
		return both
	}
	g.learn(halves(at(1, 2), 1))           // it brings nothing
	g.learn(halves(at(0, 1), 0.5))         // and this half of what it costs
	g.learn(halves(at(2, 9), math.Inf(1))) // this is not known
	if best := g.best([]candidate{at(0, 1), at(1, 2), at(3, 1)}); best.value != 0 {
		t.Errorf("value %d is cut, not the one that brought much", best.value)
	}
	// A sixth of what relaxation costs was gained: 1/6 · 5 is more than (1 + 1/6) / 3.
	if best := g.best([]candidate{at(0, 1), at(2, 5), at(1, 5)}); best.value != 2 {
		t.Errorf("value %d is cut, not the costliest of which nothing is known", best.value)
	}
}

// A domain keeps the costliest places, in order.
func TestConsider(t *testing.T) {
	d := new(domain)
	for i := range 40 {
		d.consider(candidate{place{0, i, 0}, float64(i * 7 % 40)})
	}
	if len(d.worst) != mostWorst {
		t.Fatalf("%d places", len(d.worst))
	}
	for i, at := range d.worst {
		if at.loss != float64(39-i) {
			t.Errorf("place %d costs %g", i, at.loss)
		}
	}
}
