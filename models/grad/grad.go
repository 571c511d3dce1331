// Package grad derives gradients of ONNX graphs as more ONNX operators: reverse-mode differentiation with one walk over
// the graph and one table of rules. [Check] says whether a simplified network has a gradient; [Loss], [Losses] and
// [VJP] make the graphs that attacks and the controller run; [Backward] appends a sweep to any graph. The package emits
// standard operators only, and a rule emits only operators that have rules themselves, so that a gradient can be
// differentiated again.
package grad

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"selfheal/models/onnx"
)

// Context is the state of a walk that rules work with: the builder that they emit nodes to, and the tensors that need a
// gradient.
type Context struct {
	*onnx.Builder
	active map[string]bool
	wrt    []string // tensors to differentiate by
	rules  Rules

	writers map[string]*onnx.Node // of the graph's first indexed nodes, see producer
	indexed int
}

// needs reports whether node n's i-th input depends on the tensors to differentiate by.
func (c *Context) needs(n *onnx.Node, i int) bool { return c.active[n.Input(i)] }

// by returns the gradients by a node's first inputs, computing those that are needed.
func (c *Context) by(n *onnx.Node, gradients ...func() string) []string {
	gx := make([]string, len(n.Inputs))
	for i, gradient := range gradients {
		if c.needs(n, i) {
			gx[i] = gradient()
		}
	}
	return gx
}

// A Rule emits the vector-Jacobian product of one node: from the cotangents gy of its outputs ("" for an output without
// one) it returns the cotangents of its inputs, "" if not needed. A cotangent may have the shape that its input was
// broadcast to; the walk then sums it down. Or it may have size 1 in dimensions along which it is constant; the walk
// then repeats it. A rule refuses a node that it can't pass: see [onnx.Refuse].
type Rule func(c *Context, n *onnx.Node, gy []string) []string

// Rules returns a node's rule, nil if it has none; ends says that no cotangent passes to the node's inputs.
type Rules func(n *onnx.Node) (rule Rule, ends bool)

// Differentiation returns the gradient's rule of a node.
func Differentiation(n *onnx.Node) (rule Rule, ends bool) {
	return ruleOf(n.Op), onnx.TraitsOf(n.Op).Discrete()
}

// Backward appends to b's graph the nodes of a reverse-mode sweep. seeds maps tensors to their cotangents, of the same
// shape; the result maps each tensor in wrt to Σ (∂seeded/∂it)ᵀ·cotangent, of its own shape. A tensor of wrt that
// the seeded ones do not depend on is an error. So are operators on the way without a rule; the error names them all. A
// constant in wrt is an error too: rules derive other constants from it, and a second sweep would not see that they
// depend on it.
func Backward(b *onnx.Builder, seeds map[string]string, wrt []string) (map[string]string, error) {
	return BackwardBy(b, Differentiation, seeds, wrt)
}

// BackwardBy is [Backward] with other rules than the gradient's. For a network of affine operators the result is the
// gradient if the affine operators have the gradient's rules.
func BackwardBy(b *onnx.Builder, rules Rules, seeds map[string]string, wrt []string) (map[string]string, error) {
	if err := b.Err(); err != nil {
		return nil, err
	}
	c := &Context{Builder: b, wrt: wrt, rules: rules, writers: map[string]*onnx.Node{}}
	for _, w := range wrt {
		if _, ok := b.G.Consts[w]; ok {
			return nil, fmt.Errorf("%q is a constant; a gradient is taken of inputs and what is computed from them", w)
		}
	}
	path, active := b.G.Reached(wrt...) // nodes that carry a dependence on wrt
	c.active = active
	parts := map[string][]string{} // cotangents of each tensor, not added up yet
	for t, s := range seeds {
		if !slices.Equal(b.Shape(t), b.Shape(s)) {
			return nil, fmt.Errorf("cotangent of %q has shape %v, not %v", t, b.Shape(s), b.Shape(t))
		}
		parts[t] = append(parts[t], s)
	}
	if err := c.unsupported(path, parts); err != nil {
		return nil, err
	}
	var cut []*onnx.Node // nodes that get a cotangent and pass none
	for _, n := range slices.Backward(path) {
		gy := make([]string, len(n.Outputs))
		for i, o := range n.Outputs {
			gy[i] = c.sum(parts, o)
		}
		rule, ends := rules(n)
		if strings.Join(gy, "") == "" {
			continue
		}
		passed := false
		if !ends {
			var err error
			if passed, err = c.pass(rule, n, gy, parts); err != nil {
				return nil, fmt.Errorf("gradient of node %s: %w", n, err)
			}
		}
		if !passed {
			cut = append(cut, n)
		}
	}
	slices.Reverse(cut)
	out := map[string]string{}
	for _, w := range wrt {
		g := c.sum(parts, w)
		if g == "" {
			return nil, IndependentError{w, onnx.Unsupported("operators whose derivative is 0", cut)}
		}
		out[w] = g
	}
	return out, c.Err()
}

// pass adds the cotangents from a node's rule to those of its inputs, and reports whether there are any.
func (c *Context) pass(rule Rule, n *onnx.Node, gy []string, parts map[string][]string) (passed bool, err error) {
	defer func() { err = cmp.Or(c.Err(), err) }()
	defer onnx.Refused(&err)
	for i, g := range rule(c, n, gy) {
		if g == "" || !c.needs(n, i) || c.Err() != nil {
			continue
		}
		x := n.Inputs[i]
		g = c.repeat(c.unbroadcast(g, c.Shape(x)), x)
		onnx.Require(slices.Equal(c.Shape(g), c.Shape(x)), "has shape %v for an input of %v", c.Shape(g), c.Shape(x))
		parts[x], passed = append(parts[x], g), true
	}
	return passed, nil
}

// IndependentError says that a gradient is 0 for all values: the result does not depend on Tensor, or only through
// operators whose derivative is 0, which the error names.
type IndependentError struct {
	Tensor string
	cut    error // names the operators; nil if there are none
}

// Error names the tensor.
func (e IndependentError) Error() string {
	if e.cut == nil {
		return fmt.Sprintf("the result does not depend on %q", e.Tensor)
	}
	return fmt.Sprintf("the result depends on %q only through %v", e.Tensor, e.cut)
}

// sum adds up a tensor's cotangents and leaves one; "" if there is none.
func (c *Context) sum(parts map[string][]string, tensor string) string {
	total := c.total(parts[tensor]...)
	if total != "" {
		parts[tensor] = []string{total}
	}
	return total
}

// total adds up tensors; any of them may be "".
func (c *Context) total(terms ...string) (sum string) {
	for _, t := range terms {
		switch {
		case sum == "":
			sum = t
		case t != "":
			sum = c.Op("Add", sum, t)
		}
	}
	return sum
}

// unbroadcast sums a cotangent over the axes along which its tensor was repeated.
func (c *Context) unbroadcast(g string, to onnx.Shape) string {
	from := c.Shape(g)
	if slices.Equal(from, to) || len(from) < len(to) {
		return g
	}
	lead := len(from) - len(to)
	var axes []int64
	for i := range from {
		if i < lead || (to[i-lead] == 1 && from[i] != 1) {
			axes = append(axes, int64(i))
		}
	}
	if len(axes) == 0 {
		return g
	}
	g = c.Sum(g, axes)
	if lead > 0 {
		g = c.Op("Squeeze", g, c.Ints(onnx.Range(0, lead)...))
	}
	return g
}

// repeat gives a cotangent with size 1 in some dimensions the shape of its tensor.
func (c *Context) repeat(g, of string) string {
	to := c.Shape(of)
	if full, err := onnx.Broadcast(c.Shape(g), to); err != nil || !slices.Equal(full, to) ||
		slices.Equal(c.Shape(g), to) {
		return g
	}
	if !to.HasBatch() || c.Shape(g).HasBatch() {
		sizes := slices.Clone(to)
		for i, d := range sizes {
			if d < 0 {
				sizes[i] = 1 // unchanged
			}
		}
		return c.Op("Expand", g, c.Ints(sizes...))
	}
	return c.Op("Add", c.zerosLike(of), g)
}

// producer returns the node that writes a tensor, or nil; it reads each node once.
func (c *Context) producer(tensor string) *onnx.Node {
	for ; c.indexed < len(c.G.Nodes); c.indexed++ {
		n := c.G.Nodes[c.indexed]
		for _, o := range n.Outputs {
			c.writers[o] = n
		}
	}
	return c.writers[tensor]
}

// output returns a node's i-th output, adding it if the network does not ask for it.
func (c *Context) output(n *onnx.Node, i int) string {
	for len(n.Outputs) <= i {
		n.Outputs = append(n.Outputs, "")
	}
	if n.Outputs[i] == "" {
		n.Outputs[i] = c.G.Take(c.Prefix + n.Op)
		c.Fail(c.G.InferNode(n))
	}
	return n.Outputs[i]
}

// HasRule reports whether an operator has a gradient rule.
func HasRule(op string) bool { return ruleOf(op) != nil }

// unsupported returns an [onnx.UnsupportedError] about the nodes of the path without a rule that the seeds depend on.
func (c *Context) unsupported(path []*onnx.Node, seeds map[string][]string) error {
	reached := map[string]bool{}
	for t := range seeds {
		reached[t] = true
	}
	var missing []*onnx.Node
	for _, n := range slices.Backward(path) {
		meets := slices.ContainsFunc(n.Outputs, func(o string) bool { return reached[o] })
		rule, ends := c.rules(n)
		if !meets || ends {
			continue
		}
		if rule == nil {
			missing = append(missing, n)
		}
		for _, in := range n.Inputs {
			if c.active[in] {
				reached[in] = true
			}
		}
	}
	slices.Reverse(missing)
	return onnx.Unsupported("no gradient rule for", missing)
}

// Check returns an [onnx.UnsupportedError] that names every node without a gradient rule between the input and the
// first output of a simplified network, and nil if there is none. It is quick: it derives nothing.
func Check(net *onnx.Graph) error {
	path, active := net.Reached(net.Inputs[0].Name)
	c := &Context{active: active, rules: Differentiation}
	return c.unsupported(path, map[string][]string{net.Outputs[0].Name: nil})
}
