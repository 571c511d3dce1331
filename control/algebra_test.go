package control

import (
	"errors"
	"testing"

	"selfheal/models/onnx"
)

// holding is an [algebra] whose values record whether they were freed.
type holding struct {
	held, most int
	err        error
}

type value struct{ freed bool }

func (h *holding) made() *value {
	h.held++
	h.most = max(h.most, h.held)
	return &value{}
}

func (h *holding) read(v *value) {
	if v.freed {
		h.err = errors.New("a value is read that was freed")
	}
}

func (h *holding) ask(_ question, _ int, z *value, p **value) (*value, error) {
	h.read(z)
	if p != nil {
		h.read(*p)
	}
	return h.made(), h.err
}

func (h *holding) sum(terms ...term[*value]) *value {
	for _, t := range terms {
		h.read(t.value)
	}
	return h.made()
}

func (h *holding) free(v *value) {
	switch {
	case v == nil:
	case v.freed:
		h.err = errors.New("a value is freed twice")
	default:
		v.freed = true
		h.held--
	}
}

// A solver keeps the states that its sweeps read again and no others, so a network's depth after the controls costs
// no memory. It frees no state that is read again.
func TestSolversFreeTheirStates(t *testing.T) {
	for _, s := range []Solver{{Method: Greedy}, {Method: MSA, Outer: 2, Inner: 3}, {Method: PMP, Outer: 2}} {
		for _, c := range []struct{ first, last, depth, most int }{
			{0, 0, 1, 5}, {0, 0, 40, 5}, {3, 3, 40, 6}, {2, 4, 40, 12},
		} {
			k := &Controller{Solver: s, first: c.first, last: c.last}
			for i := range c.depth {
				one := &stage{last: i == c.last}
				if i == c.first || i == c.last {
					one.plain.embedding = &onnx.Graph{}
				}
				k.stages = append(k.stages, one)
			}
			h, image := &holding{}, &value{}
			p, err := solve(k, h, image, true, nil, nil)
			if err == nil {
				err = h.err
			}
			if err != nil || image.freed || p.x[c.depth].freed {
				t.Errorf("%v at %d to %d of %d: %v, image freed %t, logits freed %t", s.Method, c.first, c.last,
					c.depth, err, image.freed, p.x[c.depth].freed)
			}
			if h.most > c.most {
				t.Errorf("%v at %d to %d of %d: holds %d values", s.Method, c.first, c.last, c.depth, h.most)
			}
		}
	}
}
