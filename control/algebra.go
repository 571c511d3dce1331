package control

// algebra is what the closed loop computes with. The loop is written once, in [solve]: with [numbers] it heals an
// image, with a [tape] it can be differentiated, with [symbols] it becomes an ONNX graph.
type algebra[V any] interface {
	// ask is the answer of stage t at z to a question; p is of an ascent's alone.
	ask(q question, t int, z V, p *V) (V, error)
	// sum is Σ weight·value, of at least one term.
	sum(terms ...term[V]) V
	// free says that nothing reads a value again. The zero value is none.
	free(v V)
}

// question is what the loop asks of a stage.
type question int

const (
	segment question = iota // F_t(z)
	embed                   // E_t(z)
	// ascent is ∇_z [p·F_t(z) − ½‖E_t(z) − z‖²]; the first term is left out where p is nil,
	// the second where stage t has no embedding.
	ascent
	questions // how many there are
)

// term is one summand of a linear combination.
type term[V any] struct {
	weight float32
	value  V
}

// look is told a controlled state z = x_t + u with E_t(z).
type look[V any] func(t int, e, z, u V)

// put replaces a value by Σ weight·value, of which it may be a term.
func put[V any](a algebra[V], to *V, terms ...term[V]) {
	v := a.sum(terms...)
	a.free(*to)
	*to = v
}

// path is a trajectory of the controlled network.
type path[V any] struct {
	x, z []V // states and controlled states, as far as they were computed
	u    []V // controls; only those of stages with an embedding mean anything
}

func newPath[V any](c *Controller) *path[V] {
	T := len(c.stages)
	return &path[V]{x: make([]V, T+1), z: make([]V, T), u: make([]V, T)}
}

// solve is the paper's Algorithm 1, with the controlled state z_t = x_t + u_t wherever the print mixes x_t and z_t:
// greedy start, then Outer sweeps of a forward pass that keeps every x_t and a backward pass that, from the last
// controlled stage to the first, ascends the Hamiltonian in u_t with x_t and p_{t+1} held and then moves the adjoint,
// p_t = ∇_x H(x_t, u_t, p_{t+1}), p_T = 0. Behind the last control p is 0, before the first nothing reads it and no
// state changes, so a sweep visits neither.
//
// With whole the path ends with the logits, x[T], otherwise with the last controlled state. The looks greedy, at the
// start, and final, if given, cost an embedding more at each controlled stage.
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

// sweeps makes the solver's sweeps, from the greedy start on; ended is told of each.
func (p *path[V]) sweeps(c *Controller, a algebra[V], ended func() error) error {
	for sweep := range c.Solver.sweeps() {
		if sweep > 0 { // the greedy start was a forward pass with the present controls
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

// forward runs x_{t+1} = F_t(x_t + u_t). With greedy it chooses u_t = E_t(x_t) − x_t on the way; otherwise it begins at
// the first controlled state, which the greedy pass has reached. Without whole it stops at the last controlled one.
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

// leave frees the states of a stage but for the image, which is the caller's.
func (p *path[V]) leave(c *Controller, a algebra[V], t int) {
	if c.stages[t].controlled() { // else z is x
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
	var adjoint *V // p_{t+1}, held; nil stands for 0
	weights := c.Solver.Method.Spec().ascent
	for t := c.last; t >= c.first; t-- {
		if c.stages[t].controlled() {
			var v V // the momentum
			for i := range c.Solver.steps() {
				g, err := a.ask(ascent, t, p.z[t], adjoint)
				if err != nil {
					return err
				}
				momentum, rate := weights(c.Solver, i)
				// ∇_u H = ∇_z H − c·u
				terms := []term[V]{{1, g}, {-float32(c.Solver.Regularization), p.u[t]}}
				if i > 0 {
					terms = append([]term[V]{{float32(momentum), v}}, terms...)
				}
				put(a, &v, terms...)
				a.free(g)
				put(a, &p.u[t], term[V]{1, p.u[t]}, term[V]{float32(rate), v})
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
