package bounds

import "context"

// refineSteps are those of the optimisation of the stages' bounds.
const refineSteps = 8

// patience is how many parts are examined before the stages' inputs are bounded more tightly, which takes about as
// long as twice as many on ResNet-2B and saves nine tenths of those that are to come; 0: that is not to be had.
func (r *Root) patience() int {
	bending := 0
	if p := r.proof; len(p.free.free) > 0 {
		for _, known := range p.known {
			if known.own != nil {
				bending += len(known.own.bending)
			}
		}
	}
	return bending / 2
}

// refine bounds the stages' inputs again, by slopes that are optimised for each value that bends, as those of the
// output are (Xu et al. 2021, "Fast and Complete").
func (r *Root) refine(ctx context.Context) (*Root, error) {
	p := *r.proof
	p.whole, p.refining = p.part(nil).inner, true
	refined, err := p.root(ctx)
	if err != nil {
		return nil, err
	}
	return refined, nil
}

// refine tightens the bounds of a stage's values that bend by free slopes.
func (p *proof) refine(ctx context.Context, s *stage, r *relaxation) error {
	if s.joins() {
		return nil
	}
	var sides []side
	for j, l := range r.lower {
		if s.bends(float64(l), float64(r.upper[j])) {
			sides = append(sides, side{j, 1}, side{j, -1})
		}
	}
	if len(sides) == 0 {
		return nil
	}
	prog, err := p.refiner(s)
	if err != nil || len(prog.free) == 0 {
		return err
	}
	return p.chunks(ctx, prog, r, sides, func(ctx context.Context, rows []float32) ([]Bound, error) {
		one := *p
		one.wrong, one.seeds = r.wrong, rows
		return one.optimise(ctx, &s.target, prog, refineSteps, nil)
	})
}

// refiner makes the program of a stage's input with free slopes once.
func (n *Network) refiner(s *stage) (_ *program, err error) {
	n.cutter.Lock()
	defer n.cutter.Unlock()
	if s.refined == nil {
		s.refined, err = n.backward(s.tensor, []string{n.input}, slopesFree)
	}
	return s.refined, err
}
