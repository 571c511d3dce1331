package onnx

import (
	"fmt"
	"maps"
	"slices"
)

// Builder appends nodes to a graph and tracks their shapes. The first error sticks: later calls do nothing, and Err
// returns it, so that code can build nested expressions.
type Builder struct {
	G      *Graph
	Prefix string // of the names of new tensors
	err    error
}

// NewGraph returns an empty graph for a Builder.
func NewGraph(name string) *Graph {
	return &Graph{Name: name, Opset: Opset, IR: irVersion, Consts: map[string]*Tensor{}, Shapes: map[string]Shape{},
		Meta: map[string]string{}}
}

// Err returns the first error that a call met.
func (b *Builder) Err() error { return b.err }

// Fail records an error unless there is one already.
func (b *Builder) Fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// Rewrite goes through a graph's nodes and changes it in place. If instead returns true, it has appended a replacement
// for the node, which is dropped. Rewrite ends at the builder's first error.
func (g *Graph) Rewrite(instead func(b *Builder, n *Node) bool) error {
	nodes := g.Nodes
	g.Nodes = nil
	b := &Builder{G: g}
	for _, n := range nodes {
		if !instead(b, n) {
			g.Nodes = append(g.Nodes, n)
		}
		if b.err != nil {
			return b.err
		}
	}
	return nil
}

// Input adds a float graph input.
func (b *Builder) Input(name string, shape Shape) string {
	name = b.G.Fresh(name)
	b.G.Inputs = append(b.G.Inputs, Value{Name: name, DType: Float, Shape: shape})
	b.G.Shapes[name] = shape
	return name
}

// Output makes tensor a graph output called name.
func (b *Builder) Output(name, tensor string) {
	if b.G.Fresh(name) != name {
		b.Fail(fmt.Errorf("output name %q is taken", name))
	}
	if b.Named(name, "Identity", tensor); b.err == nil {
		b.G.Outputs = append(b.G.Outputs, Value{Name: name, DType: Float, Shape: b.G.Shapes[name]})
	}
}

// Shape returns the shape of a tensor.
func (b *Builder) Shape(tensor string) Shape { return b.G.Shapes[tensor] }

// Const returns the name of a new constant; Float makes it of a number, Ints of an int64 vector.
func (b *Builder) Const(t *Tensor) string { return b.G.AddConst(b.Prefix+"const", t) }
func (b *Builder) Float(v float32) string { return b.Const(Scalar(v)) }
func (b *Builder) Ints(v ...int64) string { return b.Const(IntTensor(v...)) }

// Op appends an operator and returns its first output; OpWith gives it attributes.
func (b *Builder) Op(op string, inputs ...string) string { return b.OpWith(op, nil, inputs...) }
func (b *Builder) OpWith(op string, attrs Attrs, inputs ...string) string {
	return b.Multi(op, attrs, 1, inputs...)[0]
}

// Named appends an operator whose output gets exactly this name.
func (b *Builder) Named(output, op string, inputs ...string) {
	b.Append(&Node{Op: op, Inputs: inputs, Outputs: []string{output}})
}

// Multi appends an operator with several outputs.
func (b *Builder) Multi(op string, attrs Attrs, outputs int, inputs ...string) []string {
	n := &Node{Op: op, Inputs: slices.Clone(inputs), Attrs: maps.Clone(attrs)}
	for range outputs {
		n.Outputs = append(n.Outputs, b.G.Take(b.Prefix+op))
	}
	b.Append(n)
	return n.Outputs
}

// Append appends a node whose outputs are named.
func (b *Builder) Append(n *Node) {
	if b.err == nil {
		b.err = b.G.InferNode(n)
	}
	if b.err == nil {
		b.G.Nodes = append(b.G.Nodes, n)
	}
}

// Inline copies g's nodes into the graph under construction, with g's inputs bound to tensors that exist there, and
// returns the tensors that hold g's outputs. It keeps names that are free and numbers the others. Both graphs must have
// been written for the same operator set or one that Simplify accepts.
func (b *Builder) Inline(g *Graph, bind map[string]string) map[string]string {
	rename := map[string]string{"": ""}
	b.G.Opset = max(b.G.Opset, g.Opset)
	for _, in := range g.Inputs {
		to, ok := bind[in.Name]
		if !ok {
			b.Fail(fmt.Errorf("input %q is not bound", in.Name))
			return nil
		}
		if !slices.Equal(b.Shape(to), in.Shape) {
			b.Fail(fmt.Errorf("input %q has shape %v, %q has %v", in.Name, in.Shape, to, b.Shape(to)))
			return nil
		}
		rename[in.Name] = to
	}
	for _, name := range sortedKeys(g.Consts) {
		rename[name] = b.G.AddConst(b.Prefix+name, g.Consts[name])
	}
	for _, n := range g.Nodes {
		c := n.Clone()
		for i, in := range c.Inputs {
			c.Inputs[i] = rename[in]
		}
		for i, out := range c.Outputs {
			if out != "" {
				rename[out] = b.G.Fresh(b.Prefix + out)
				c.Outputs[i] = rename[out]
			}
		}
		b.Append(c)
	}
	out := map[string]string{}
	for _, o := range g.Outputs {
		out[o.Name] = rename[o.Name]
	}
	return out
}

// Call is [Builder.CallAll] for a graph with one output.
func (b *Builder) Call(g *Graph, inputs ...string) string { return b.CallAll(g, inputs...)[0] }

// CallAll is [Builder.Inline] with inputs and outputs in their order.
func (b *Builder) CallAll(g *Graph, inputs ...string) []string {
	bind := map[string]string{}
	for i, in := range inputs {
		bind[g.Inputs[i].Name] = in
	}
	of := b.Inline(g, bind)
	return Each(g.Outputs, func(o Value) string { return of[o.Name] })
}

// Done returns the graph, verified and without the nodes that its outputs do not need, or the first error.
func (b *Builder) Done() (*Graph, error) {
	if b.err != nil {
		return nil, b.err
	}
	b.G.Prune()
	return b.G, b.G.Verify()
}

// Reshape appends a Reshape of t to shape, unless t has that shape; the batch is inferred.
func (b *Builder) Reshape(t string, shape Shape) string {
	if slices.Equal(b.Shape(t), shape) {
		return t
	}
	return b.Op("Reshape", t, b.Ints(Each(shape, func(d int64) int64 { return max(d, -1) })...))
}

// Transpose appends a Transpose of t, unless the axes stay in their order.
func (b *Builder) Transpose(t string, perm ...int64) string {
	if slices.IsSorted(perm) {
		return t
	}
	return b.OpWith("Transpose", Attrs{"perm": perm}, t)
}

// Mean appends the mean of t along axes, which stay as dimensions of 1. It is a GlobalAveragePool over the axes,
// transposed to the end. ONNX Runtime's ReduceSum and ReduceMean round differently depending on an item's place in the
// batch (their vectorised loops start at aligned addresses); this pool does not.
func (b *Builder) Mean(t string, axes []int64) string {
	x := b.Shape(t)
	at, err := Axes(axes, len(x))
	if err != nil {
		b.Fail(err)
		return t
	}
	lead := x.BatchAxis()
	if slices.Contains(at, lead) {
		b.Fail(fmt.Errorf("can't take the mean of %v along axes %v: it must keep the batch", x, axes))
		return t
	}
	if lead < 0 { // without a batch, rounding can't depend on places in it
		count := x.Items()
		for i, d := range x {
			if !slices.Contains(at, i) {
				count /= d
			}
		}
		return b.Op("Mul", b.OpWith("ReduceSum", Attrs{"keepdims": 1}, t, b.Ints(axes...)), b.Float(1/float32(count)))
	}
	perm, order, result, rows := []int64{int64(lead)}, []int64{}, []int64{}, int64(1)
	for i, d := range x {
		switch {
		case slices.Contains(at, i):
			order = append(order, int64(i))
			result = append(result, 1)
		case i == lead:
			result = append(result, -1) // infer
		default:
			perm, rows, result = append(perm, int64(i)), rows*d, append(result, d)
		}
	}
	kept := len(perm)
	perm = append(perm, order...)
	if kept == 2 && len(x) > 2 && slices.IsSorted(perm) {
		return b.Op("GlobalAveragePool", t)
	}
	t = b.Op("GlobalAveragePool", b.Op("Reshape", b.Transpose(t, perm...), b.Ints(0, rows, -x.Items()/rows/x[lead])))
	if lead == 0 {
		return b.Op("Reshape", t, b.Ints(result...))
	}
	transposed := Each(perm, func(p int64) int64 { return result[p] })
	return b.Transpose(b.Op("Reshape", t, b.Ints(transposed...)), Inverse(perm)...)
}

// Sum appends the sum of t along axes, which stay as dimensions of 1; see [Builder.Mean]. A sum over the batch, as in
// gradients with respect to parameters, is a ReduceSum; so is the sum of a tensor without a batch.
func (b *Builder) Sum(t string, axes []int64) string {
	x := b.Shape(t)
	if at, err := Axes(axes, len(x)); err == nil {
		if lead := x.BatchAxis(); lead < 0 || slices.Contains(at, lead) {
			return b.OpWith("ReduceSum", Attrs{"keepdims": 1}, t, b.Ints(axes...))
		}
	}
	mean := b.Mean(t, axes)
	if b.err != nil {
		return t
	}
	return b.Op("Mul", mean, b.Float(float32(x.Items()/b.Shape(mean).Items())))
}
