package bounds

import "context"

// refineSteps is the number of steps that optimise the stages' bounds.
const refineSteps = 8

// patience returns the number of parts examined before the stages' inputs are bounded more tightly. On ResNet-2B
// tightening takes longer than these parts and saves most of the parts to come.
func (r *Root) patience() int {
	bending := 0
	for _, known := range r.proof.known {
		if known.own != nil {
			bending += len(known.own.bending)
		}
	}
	return bending / 2
}

// refine bounds the stages' inputs again, with slopes optimised for each value that bends, as for the output (Xu et al.
// 2021, "Fast and Complete"), and stores the linear bounds of these values.
func (r *Root) refine(ctx context.Context) (*Root, error) {
	p := *r.proof
	p.whole, p.refining, p.room = p.part(nil).inner, true, mostForms
	refined, err := p.root(ctx)
	if err != nil {
		return nil, err
	}
	return refined, nil
}

// refine tightens the bounds of a stage's values that bend, by optimised slopes.
func (p *proof) refine(ctx context.Context, s *stage, r *relaxation) error {
	if s.joins() {
		return nil
	}
	sides := s.sides(r)
	if len(sides) == 0 {
		return nil
	}
	prog, err := p.refiner(s)
	if err != nil || len(prog.free) == 0 {
		return err
	}
	return p.chunks(ctx, prog, r, sides, func(sides []side, rows []float32) ([]Bound, error) {
		one := *p
		one.wrong, one.seeds = r.wrong, rows
		found, err := one.optimise(ctx, &s.target, prog, refineSteps, nil)
		if err == nil {
			p.keep(r, sides, found, one.coefficients)
		}
		return found, err
	})
}

// refiner makes the program of a stage's input with optimised slopes once.
func (n *Network) refiner(s *stage) (_ *program, err error) {
	n.cutter.Lock()
	defer n.cutter.Unlock()
	if s.refined == nil {
		s.refined, err = n.backward(s.tensor, []string{n.input}, slopesFree)
	}
	return s.refined, err
}

// sides returns the sides of a stage's values that bend.
func (s *stage) sides(r *relaxation) (sides []side) {
	for j, l := range r.lower {
		if s.bends(float64(l), float64(r.upper[j])) {
			sides = append(sides, side{j, 1}, side{j, -1})
		}
	}
	return sides
}
