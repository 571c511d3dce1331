package onnx

import "slices"

// kernels are the operators that Encode writes in another form, because ONNX
// Runtime's kernels for them are slow, or because the last values of a tensor, which
// do not fill a vector register, are computed by other code than the rest: an
// item's result would depend on its place in the batch. (On 1.2 million values ONNX
// Runtime 1.31 needs 2.4 ms for Elu, 15 ms for Softplus and 0.4 ms for each
// pass that stands for them here.) Graphs keep the operators, whose gradients
// take few passes.
var kernels = map[string]func(b *Builder, n *Node) string{
	"Elu": func(b *Builder, n *Node) string {
		return b.exponentialUnit(n.Inputs[0], 1, n.Float("alpha", 1), 1)
	},
	"Selu": func(b *Builder, n *Node) string {
		gamma := n.Float("gamma", 1.05070102214813232421875)
		return b.exponentialUnit(n.Inputs[0], gamma, gamma*n.Float("alpha", 1.67326319217681884765625), 1)
	},
	"Celu": func(b *Builder, n *Node) string {
		alpha := n.Float("alpha", 1)
		return b.exponentialUnit(n.Inputs[0], 1, alpha, 1/alpha)
	},
	"Mish": func(b *Builder, n *Node) string { // x·m/(m+2), m = e(e+2), e = eˣ; above 20 the factor is 1
		e := b.Op("Exp", b.Op("Clip", n.Inputs[0], "", b.Float(20)))
		m := b.Op("Mul", e, b.Op("Add", e, b.Float(2)))
		return b.Op("Mul", n.Inputs[0], b.Op("Div", m, b.Op("Add", m, b.Float(2))))
	},
	"Softplus": func(b *Builder, n *Node) string { // max(x, 0) + ln(1 + e^−|x|)
		rest := b.Op("Exp", b.Op("Neg", b.Op("Abs", n.Inputs[0])))
		return b.Op("Add", b.Op("Relu", n.Inputs[0]), b.filled("Log", b.Op("Add", rest, b.Float(1))))
	},
	"Log": func(b *Builder, n *Node) string { return b.filled("Log", n.Inputs[0]) },
	"Sin": func(b *Builder, n *Node) string { return b.filled("Sin", n.Inputs[0]) },
	"Cos": func(b *Builder, n *Node) string { return b.filled("Cos", n.Inputs[0]) },
}

// exponentialUnit appends above·x for x > 0 and below·(e^(x·rate) − 1) else.
func (b *Builder) exponentialUnit(x string, above, below, rate float32) string {
	scaled := func(t string, by float32) string {
		if by == 1 {
			return t
		}
		return b.Op("Mul", t, b.Float(by))
	}
	low := b.Op("Exp", scaled(b.Op("Clip", x, "", b.Float(0)), rate))
	low = b.Op("Sub", scaled(low, below), b.Float(below))
	return b.Op("Add", scaled(b.Op("Relu", x), above), low)
}

// register is the largest number of floats that a vector register holds.
const register = 16

// filled appends an elementwise operator such that every item fills whole
// registers: with ones behind its values, which are cut off again.
func (b *Builder) filled(op, x string) string {
	shape := b.Shape(x)
	at, items := slices.IndexFunc(shape, func(d int64) bool { return d < 0 }), shape.Items()
	rest := (register - items%register) % register
	if at < 0 || at == 0 && rest == 0 {
		return b.Op(op, x)
	}
	perm, back := []int64{int64(at)}, make([]int64, len(shape))
	front := Shape{shape[at]}
	for i, d := range shape {
		if i != at {
			back[i] = int64(len(perm))
			perm, front = append(perm, int64(i)), append(front, d)
		}
	}
	if at > 0 {
		x = b.OpWith("Transpose", Attrs{"perm": perm}, x)
	}
	x = b.Op("Pad", b.Reshape(x, Shape{Batch, items}), b.Ints(0, 0, 0, rest), b.Float(1))
	x = b.Op("Slice", b.Op(op, x), b.Ints(0), b.Ints(items), b.Ints(1))
	x = b.Reshape(x, front)
	if at > 0 {
		x = b.OpWith("Transpose", Attrs{"perm": back}, x)
	}
	return x
}

// forRuntime returns the graph with the operators in kernels written in their
// other form; the graph itself where it has none.
func (g *Graph) forRuntime() (*Graph, error) {
	special := func(n *Node) bool {
		return n.Domain == "" && kernels[n.Op] != nil && g.Shapes[n.Input(0)].HasBatch()
	}
	if !slices.ContainsFunc(g.Nodes, special) {
		return g, nil
	}
	c := g.Clone()
	nodes := c.Nodes
	c.Nodes = nil
	b := &Builder{G: c}
	for _, n := range nodes {
		if !special(n) {
			c.Nodes = append(c.Nodes, n)
			continue
		}
		b.Prefix = n.Outputs[0] + "/"
		t := kernels[n.Op](b, n)
		if b.err != nil {
			return nil, b.err
		}
		last := c.Nodes[len(c.Nodes)-1]
		last.Outputs[0] = n.Outputs[0]
		delete(c.Shapes, t)
	}
	return c, c.Verify()
}
