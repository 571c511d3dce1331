package control

// algebra is the arithmetic of the closed loop. [solve] writes the loop once: [numbers] heals an image with it, a
// [tape] also differentiates it, and [symbols] writes it as an ONNX graph.
type algebra[V any] interface {
	// ask answers a question to stage t at z. Only an ascent uses p.
	ask(q question, t int, z V, p *V) (V, error)
	// sum returns Σ weight·value of one term or more.
	sum(terms ...term[V]) V
	// free is called once for a value that nobody reads again. It ignores the zero value.
	free(v V)
}

// question is one of the computations that a stage offers.
type question int

const (
	segment question = iota // F_t(z)
	embed                   // E_t(z)
	// ascent is ∇_z [p·F_t(z) − ½‖E_t(z) − z‖²]. The first term is left out for a nil p, the second for a stage
	// without embedding.
	ascent
	questions // the number of questions
)

type term[V any] struct {
	weight float32
	value  V
}

// look is called with a controlled state z = x_t + u and E_t(z).
type look[V any] func(t int, e, z, u V)

// put replaces a value by Σ weight·value. The value itself may be a term.
func put[V any](a algebra[V], to *V, terms ...term[V]) {
	v := a.sum(terms...)
	a.free(*to)
	*to = v
}

// path is a trajectory of the controlled network.
type path[V any] struct {
	x, z []V // states and controlled states computed so far
	u    []V // controls; only those of stages with an embedding mean anything
}

func newPath[V any](c *Controller) *path[V] {
	T := len(c.stages)
	return &path[V]{x: make([]V, T+1), z: make([]V, T), u: make([]V, T)}
}

// solve returns the paper's Algorithm 1, with the controlled state z_t = x_t + u_t wherever the print mixes x_t and
// z_t. After a greedy start it makes Outer sweeps. A sweep has a forward pass that keeps every x_t, and a backward
// pass from the last controlled stage to the first. The backward pass ascends the Hamiltonian in u_t with x_t and
// p_{t+1} held, and then moves the adjoint: p_t = ∇_x H(x_t, u_t, p_{t+1}), p_T = 0. A sweep leaves out the stages
// after the last control, where p is 0, and those before the first control, where no state changes and p is not read.
//
// If whole is set, the path ends with the logits, x[T]; otherwise it ends with the last controlled state. solve calls
// greedy at the start and final at the end, unless they are nil. Each of them costs one more embedding at each
// controlled stage.
func solve[V any](c *Controller, a algebra[V], image V, whole bool, greedy, final look[V]) (*path[V], error) {
	p := newPath[V](c)
	p.x[0] = image
	iterates := c.Solver.Iterates()
	if err := p.forward(c, a, true, whole && !iterates, greedy); err != nil || !iterates {
		return p, err
	}
	if err := p.sweeps(c, a, func() error { return nil }); err != nil {
		return p, err
	}
	return p, p.forward(c, a, false, whole, final)
}

// sweeps makes the solver's sweeps after the greedy start and calls ended after each.
func (p *path[V]) sweeps(c *Controller, a algebra[V], ended func() error) error {
	for sweep := range c.Solver.sweeps() {
		if sweep > 0 { // the greedy start was already a forward pass with these controls
			if err := p.forward(c, a, false, false, nil); err != nil {
				return err
			}
		}
		if err := p.backward(c, a); err != nil {
			return err
		}
		if err := ended(); err != nil {
			return err
		}
	}
	return nil
}

// forward runs x_{t+1} = F_t(x_t + u_t). If greedy is set, it also chooses u_t = E_t(x_t) − x_t; otherwise it begins
// at the first controlled state, which the greedy pass has computed. Unless whole is set, it stops at the last
// controlled state.
func (p *path[V]) forward(c *Controller, a algebra[V], greedy, whole bool, see look[V]) error {
	from := c.first
	if greedy {
		from = 0
	}
	for t := from; t < len(c.stages); t++ {
		if !c.stages[t].controlled() {
			p.z[t] = p.x[t]
		} else {
			if greedy {
				e, err := a.ask(embed, t, p.x[t], nil)
				if err != nil {
					return err
				}
				put(a, &p.u[t], term[V]{1, e}, term[V]{-1, p.x[t]})
				a.free(e)
			}
			put(a, &p.z[t], term[V]{1, p.x[t]}, term[V]{1, p.u[t]})
			if see != nil {
				e, err := a.ask(embed, t, p.z[t], nil)
				if err != nil {
					return err
				}
				see(t, e, p.z[t], p.u[t])
				a.free(e)
			}
		}
		if t == c.last && !whole {
			return nil
		}
		next, err := a.ask(segment, t, p.z[t], nil)
		if err != nil {
			return err
		}
		a.free(p.x[t+1])
		p.x[t+1] = next
		if whole || t < c.first { // no sweep comes here again
			p.leave(c, a, t)
		}
	}
	return nil
}

// leave frees the states of stage t. The image stays, because the caller owns it.
func (p *path[V]) leave(c *Controller, a algebra[V], t int) {
	if c.stages[t].controlled() { // without a control z is x
		a.free(p.z[t])
	}
	if t > 0 {
		a.free(p.x[t])
	}
	var none V
	p.x[t], p.z[t] = none, none
}

// backward makes one sweep of adjoints and ascents.
func (p *path[V]) backward(c *Controller, a algebra[V]) error {
	var held V
	var adjoint *V // p_{t+1}; nil stands for 0
	for t := c.last; t >= c.first; t-- {
		if c.stages[t].controlled() {
			var v V // the momentum
			for i := range c.Solver.steps() {
				g, err := a.ask(ascent, t, p.z[t], adjoint)
				if err != nil {
					return err
				}
				// Ascent with momentum (Polyak 1964): v ← momentum·v + ∇_u H, u ← u + rate·v, ∇_u H = ∇_z H − c·u
				terms := []term[V]{{1, g}, {-float32(c.Solver.Regularization), p.u[t]}}
				if i > 0 {
					terms = append([]term[V]{{float32(c.Solver.Momentum), v}}, terms...)
				}
				put(a, &v, terms...)
				a.free(g)
				put(a, &p.u[t], term[V]{1, p.u[t]}, term[V]{float32(c.Solver.LearningRate), v})
				put(a, &p.z[t], term[V]{1, p.x[t]}, term[V]{1, p.u[t]})
			}
			a.free(v)
		}
		if t == c.first {
			break
		}
		g, err := a.ask(ascent, t, p.z[t], adjoint) // p_t, at the new z_t
		if err != nil {
			return err
		}
		a.free(held)
		held, adjoint = g, &held
		p.leave(c, a, t)
	}
	a.free(held)
	return nil
}
