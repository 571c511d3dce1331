package control

import "selfheal/internal/number"

// counting is an [algebra] that computes no values: it counts the questions to each stage.
type counting []calls

type calls [questions]int64

type nothing struct{}

func (n counting) ask(q question, t int, _ nothing, _ *nothing) (_ nothing, _ error) {
	n[t][q]++
	return
}

func (counting) sum(...term[nothing]) (_ nothing) { return }

func (counting) free(nothing) {}

// count counts the questions of [solve] without answering them. It counts for one and for two sweeps, each with one
// and with two steps a layer, and extrapolates: each further sweep or step adds as much as the second.
func (c *Controller) count(whole bool) counting {
	counted := func(sweeps, steps int) counting {
		few, n := *c, make(counting, len(c.stages))
		few.Solver.Outer, few.Solver.Inner = sweeps, steps
		if _, err := solve(&few, n, nothing{}, whole, nil, nil); err != nil {
			panic(err) // counting never fails
		}
		return n
	}
	n := counted(1, 1)
	if !c.Solver.Iterates() {
		return n
	}
	sweeps, steps := int64(c.Solver.sweeps()), int64(c.Solver.steps())
	two, longer := counted(2, 1), counted(1, 2)
	for t, one := range n {
		for q, asked := range one {
			sweep, step := two[t][q]-asked, longer[t][q]-asked
			n[t][q] = number.Sum(asked-sweep, number.Product(sweeps, number.Sum(sweep, number.Product(steps-1, step))))
		}
	}
	return n
}

// flops returns the operations of all counted calls, for the network as given.
func (n counting) flops(c *Controller) int64 {
	var sum int64
	for t, s := range c.stages {
		sum = number.Sum(sum, s.passes.flops(n[t]))
	}
	return sum
}

// Passes returns the cost of a controlled pass in plain forward passes, by FLOPs. It leaves out the objectives that
// [Controller.Run] also computes.
func (c *Controller) Passes() float64 {
	return float64(c.count(true).flops(c)) / float64(c.net.FLOPs())
}

// TapeValues estimates how many float32 values a gradient through an iterating solver keeps for an image.
func (c *Controller) TapeValues() int64 {
	var sum int64
	for t, n := range c.count(false) {
		// E_t(x), u and z; ∇H, momentum, u and z; F_t(z) and its cotangent.
		size, next := int64(c.stages[t].size), int64(c.stages[t].next)
		sum = number.Sum(sum, number.Product(3*size, n[embed]), number.Product(4*size, n[ascent]),
			number.Product(2*next, n[segment]))
	}
	return sum
}
