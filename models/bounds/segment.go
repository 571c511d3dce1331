package bounds

import (
	"fmt"
	"slices"

	"selfheal/models/ort"
)

// segment is the affine map between a target and the stages before it.
type segment struct {
	ends   []string  // tensors it is computed from: the input, or stages' outputs
	atZero []float32 // its value where they are 0, and the rounding of that
	wrong  []float32
	// session computes from the ends' lower and upper bounds those of the target, its Ê and its middle; nil for an end.
	session *ort.Session
	// sharp is set if intervals of a box are exact: at most one operator adds values up, and none joins two tensors.
	sharp bool
	own   bool // each value comes from one value of the input
	moved bool // the target's values are copies of stages' outputs
}

func (s *segment) close() {
	if s != nil && s.session != nil {
		s.session.Close()
	}
}

// newSegment makes a tensor's segment.
func (n *Network) newSegment(tensor string) (*segment, error) {
	s, mixing := &segment{sharp: true}, 0
	need := map[string]bool{tensor: true}
	var steps []step
	for _, step := range slices.Backward(n.path) {
		switch {
		case !slices.ContainsFunc(step.Outputs, func(o string) bool { return need[o] }):
		case step.stage != nil:
			s.ends = append(s.ends, step.stage.output())
		default:
			steps = append(steps, step)
			if step.terms != nil {
				mixing++
			}
			joined := 0
			for _, in := range step.Inputs {
				if n.active[in] {
					need[in] = true
					joined++
				}
			}
			s.sharp = s.sharp && joined == 1
		}
	}
	s.moved = !need[n.input] && !slices.ContainsFunc(steps, func(s step) bool { return !s.exact })
	if need[n.input] {
		s.ends = append(s.ends, n.input)
	}
	s.own = s.sharp && mixing == 0 && len(s.ends) == 1 && s.ends[0] == n.input
	s.atZero = make([]float32, n.size(tensor))
	if len(steps) == 0 {
		return s, nil
	}
	slices.Reverse(steps)
	s.sharp = s.sharp && mixing <= 1
	var err error
	if s.session, err = n.intervals(s, steps, tensor); err != nil {
		return s, err
	}
	var zeros []ort.Tensor
	for _, end := range s.ends {
		zero := ort.Tensor{Shape: n.one(end), Data: make([]float32, n.size(end))}
		zeros = append(zeros, zero, zero)
	}
	out, err := s.session.Run(zeros)
	if err == nil {
		s.wrong, s.atZero = out[2].Data, out[3].Data
	}
	return s, err
}

// with returns a node's inputs, replacing by of those that depend on the network's input.
func (n *Network) with(step step, of func(tensor string) string) []string {
	in := slices.Clone(step.Inputs)
	for i, name := range in {
		if n.active[name] {
			in[i] = of(name)
		}
	}
	return in
}

// interval describes a tensor: its values lie within radius of centre, and the value computed from the ends differs
// from the exact one by at most wrong, Ê; "" stands for 0.
type interval struct{ centre, radius, wrong string }

// intervals makes the program of a segment.
func (n *Network) intervals(s *segment, steps []step, tensor string) (*ort.Session, error) {
	b := n.within("interval/")
	known := map[string]interval{}
	times := func(t string, by float64) string { return b.Op("Mul", t, b.Float(float32(by))) }
	for i, end := range s.ends {
		shape := n.graph.Shapes[end]
		lower, upper := b.Input(fmt.Sprint("lower ", i), shape), b.Input(fmt.Sprint("upper ", i), shape)
		known[end] = interval{
			times(b.Op("Add", lower, upper), 0.5),
			b.Op("Add", times(b.Op("Sub", upper, lower), 0.5), // 0.5 times, with the rounding here
				times(b.Op("Max", b.Op("Abs", lower), b.Op("Abs", upper)), 4*n.unit)),
			"",
		}
	}
	for _, step := range steps {
		sized := func(how sizes, of func(iv interval) string) []string {
			in := n.with(step, func(t string) string { return of(known[t]) })
			how.Builder = b
			return how.write(step.affine, step.Node, in, n.active)
		}
		radius := sized(sizes{}, func(iv interval) string { return iv.radius })
		centre := b.Multi(step.Op, step.Attrs, len(step.Outputs),
			n.with(step, func(t string) string { return known[t].centre })...)
		wrong := make([]string, len(step.Outputs))
		if slices.ContainsFunc(step.Inputs, func(t string) bool { return known[t].wrong != "" }) {
			wrong = slices.Clone(sized(sizes{}, func(iv interval) string {
				if iv.wrong == "" {
					return times(iv.radius, 0)
				}
				return iv.wrong
			}))
		}
		if !step.exact {
			largest := func(iv interval) string { return b.Op("Add", b.Op("Abs", iv.centre), iv.radius) }
			own := sized(sizes{added: true}, largest)[0]
			if each := slackFactor * step.gamma; step.weighs {
				live := sized(sizes{count: true}, func(iv interval) string {
					if iv.wrong != "" {
						return b.Op("Sign", b.Op("Add", largest(iv), iv.wrong))
					}
					return b.Op("Sign", largest(iv))
				})
				each /= step.adds
				own = b.Op("Mul", own, b.Op("Add", times(live[0], each), b.Float(float32(step.other*each))))
			} else {
				own = times(own, each)
			}
			if wrong[0] != "" {
				own = b.Op("Add", own, wrong[0])
			}
			wrong[0] = own
		}
		for i, o := range step.Outputs {
			known[o] = interval{centre[i], radius[i], wrong[i]}
		}
	}
	iv := known[tensor]
	if iv.wrong == "" {
		iv.wrong = times(iv.radius, 0)
	}
	// Centre and radius are rounded like the values, and so are their sums.
	radius := b.Op("Add", iv.radius, times(iv.wrong, 4))
	b.Output("lower", b.Op("Sub", iv.centre, radius))
	b.Output("upper", b.Op("Add", iv.centre, radius))
	b.Output("wrong", iv.wrong)
	b.Output("centre", iv.centre)
	return open("intervals of "+tensor, b)
}
