package control

// counting is the [algebra] that computes nothing: it counts what each stage is asked.
type counting []calls

type calls [questions]int64

type nothing struct{}

func (n counting) ask(q question, t int, _ nothing, _ *nothing) (_ nothing, _ error) {
	n[t][q]++
	return
}

func (counting) sum(...term[nothing]) (_ nothing) { return }

func (counting) free(nothing) {}

// count is what [solve] asks, seen by nobody.
func (c *Controller) count(whole bool) counting {
	n := make(counting, len(c.stages))
	if _, err := solve(c, n, nothing{}, whole, nil, nil); err != nil {
		panic(err) // counting never fails
	}
	return n
}

// flops are those of the calls, of the network as given.
func (n counting) flops(c *Controller) int64 {
	var sum int64
	for t, s := range c.stages {
		sum += s.passes.flops(n[t])
	}
	return sum
}

// Passes is the cost of a controlled pass in units of a plain forward pass, by FLOPs, without the costs that
// [Controller.Run] sums up.
func (c *Controller) Passes() float64 {
	return float64(c.count(true).flops(c)) / float64(c.net.FLOPs())
}

// TapeValues is about how many values a gradient through an iterating solver keeps for an image.
func (c *Controller) TapeValues() int64 {
	var sum int64
	for t, n := range c.count(false) {
		// E_t(x), u and z; ∇H, momentum, u and z; F_t(z) and its cotangent.
		sum += int64(c.stages[t].size)*(3*n[embed]+4*n[ascent]) + 2*int64(c.stages[t].next)*n[segment]
	}
	return sum
}
