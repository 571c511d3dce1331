// Package bounds proves bounds on a network's outputs over a region of inputs: interval bounds (IBP; Gowal et al. 2018)
// and backward linear relaxation (CROWN; Zhang et al. 2018), with optimised lower slopes (α-CROWN; Xu et al. 2021) and,
// if the inputs are cut by the signs of ReLUs' values, with multipliers for the cuts (β-CROWN; Wang et al. 2021). [New]
// prepares a simplified network once. [Network.Rows] then bounds rows of its outputs over a [Region], [Network.Root]
// and [Root.Branch] do so by branch and bound, and [Network.Close] frees the memory. A bound that is returned holds for
// the network in float32; NaN and infinite values prove nothing.
//
// Bounds are computed as package grad computes gradients: one walk over the network appends standard ONNX operators, by
// one table of rules. The walk carries a linear lower bound A·z + c of some values from a tensor z to the network's
// input. Through an affine operator A passes as a cotangent does, by the gradient's rule. An operator that is not
// affine is a stage: there the bound takes a lower linear bound where A is positive and an upper one where A is
// negative. A stage's segment, between its input and the stages before it, is one affine map; its errors are charged to
// the stage.
//
// # Rounding
//
// The bounds hold for the network as it is run in float32, and are themselves computed in float32. Each affine operator
// y = f(x) whose coefficients' absolute values are |f| has the error
//
//	E = γ(m + k)·(|f|(X) + |f(0)|),  γ(n) = n·u/(1 − n·u),  u = 2⁻²⁴
//
// for |x| ≤ X. It has two parts. The network's y differs from f(x) by at most γ(m)·(|f|(X) + |f(0)|), where m counts
// the terms that are added up for a value (Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 3.1).
// Terms that are 0 throughout the region, as behind a ReLU, round nothing and do not count. A·f computed backwards,
// with k terms, differs from the exact product by at most γ(k)·|A|·|f|, which changes the bound by at most that times
// X.
//
// Errors enter the bound where they arise and are carried only through their segment, by |f|. With Ê the sum of a
// segment's errors, a bound is lowered by its slack, Σ |A|·Ê over the stages. The slack also covers the rounding of the
// segment's value at 0, which is its Ê for X = 0, of the sums that make the bound, and of the stages themselves.
// Operators that the runtime fuses round less often, not more.
package bounds

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// Unit is float32's unit roundoff.
const Unit = 1.0 / (1 << 24)

// Network is a network prepared for bounds; it makes its programs once.
type Network struct {
	graph  *onnx.Graph
	input  string
	unit   float64
	active map[string]bool // tensors that depend on the input
	path   []step          // steps that depend on the input, in the graph's order
	stages []*stage        // in the graph's order
	output target
	last   *program // from the output to its segment's ends
	free   *program // from the output to the input, with optimised slopes
	cut    *program // the same with multipliers of cuts; made when first needed
	ended  *program // as cut, without gradients
	cutter sync.Mutex
	// Workers is the number of runs that compute the stages' bounds at once; 0 means one.
	Workers int
	alone   bool // CROWN's intermediate bounds are computed for every value and not cut to the intervals
}

// step is a node of the path: affine, or a stage.
type step struct {
	*onnx.Node
	affine
	gamma float64 // error of an affine node, per unit of |f|(X) + |f(0)|
	adds  float64 // number of terms that it adds up
	other float64 // those of the terms that come from other operators
	stage *stage
}

// target is a tensor to bound: a stage's input, or the output.
type target struct {
	tensor  string
	segment *segment
	program *program // backwards to the network's input
	refined *program // with optimised slopes; made when first needed
}

// stage is an operator that is not affine.
type stage struct {
	target
	node       *onnx.Node
	index      int
	readers    int64    // readers of its input
	place      int      // index of its input among the node's inputs
	activation          // for an operator that works value by value
	pool       *maxPool // for a MaxPool
	product    *product // for a Mul of two tensors, which together are its input
}

func (s *stage) output() string { return s.node.Outputs[0] }

// joins reports whether the stage combines several values of its input.
func (s *stage) joins() bool { return s.pool != nil || s.product != nil }

// Check returns an [onnx.UnsupportedError] that names every node without bounds between the input and the first output
// of a simplified network, and nil if there is none.
func Check(g *onnx.Graph) error {
	_, err := prepare(g, Unit)
	return err
}

// Provable returns an error if nothing can be proved about the file that a network was opened from.
func Provable(g *onnx.Graph) error {
	switch {
	case g.Inexact:
		return errors.New("no bounds for a file that is computed otherwise than it is opened, as those with weights " +
			"in float64 or float16, dynamic quantisation or, between quantised tensors, float biases and those of " +
			"another scale than their sum's are")
	case g.Rounds && ort.Saturates():
		return errors.New("no bounds for a quantised file on a processor without VNNI, whose sums of products of " +
			"8-bit integers may saturate")
	case len(g.Inputs) > 1:
		return errors.New("no bounds for a network that draws at random")
	}
	return Check(g)
}

// prepare sorts the network's nodes into affine ones and stages.
func prepare(g *onnx.Graph, unit float64) (*Network, error) {
	n := &Network{graph: g.Clone(), input: g.Inputs[0].Name, output: target{tensor: g.Outputs[0].Name}, unit: unit}
	n.graph.Outputs = n.graph.Outputs[:1]
	n.graph.Prune()
	special := map[*onnx.Node]*stage{}
	if err := cmp.Or(n.steps(special), n.wraps(special)); err != nil {
		return nil, err
	}
	fold(n.graph)
	n.multiplied(special)
	n.relay(special)
	var nodes, missing []*onnx.Node
	nodes, n.active = n.graph.Reached(n.input)
	readers := map[string]int64{} // by tensor; the cotangents from all readers are added up
	for _, node := range nodes {
		for _, in := range node.Inputs {
			readers[in]++
		}
	}
	absorbed := map[string]bool{} // gates that belong to a function of their product
	for node, s := range special {
		for _, in := range node.Inputs {
			absorbed[in] = absorbed[in] || s.product == nil && in != s.tensor && readers[in] == 1
		}
	}
	nodes = slices.DeleteFunc(nodes, func(node *onnx.Node) bool { return absorbed[node.Outputs[0]] })
	for _, node := range nodes {
		most := int64(1)
		for _, in := range node.Inputs {
			if n.active[in] {
				most = max(most, readers[in])
			}
		}
		s, ok := special[node]
		if !ok {
			if row, affine := affineOf(n.graph, node, n.active); affine {
				n.path = append(n.path, n.affine(row, node, most))
				continue
			}
			s, ok = newStage(n.graph, node)
		}
		// A dimension may be a multiple of the batch: several windows of an image.
		if y := n.graph.Shapes[node.Outputs[0]]; !ok || len(y) == 0 || y[0] != onnx.Batch {
			missing = append(missing, node)
		}
		s.node, s.index, s.readers = node, len(n.stages), most
		n.stages, n.path = append(n.stages, s), append(n.path, step{Node: node, stage: s})
	}
	return n, onnx.Unsupported("no bounds for", missing)
}

// affine returns the step of an affine node; readers is the number of readers of its input.
func (n *Network) affine(row affine, node *onnx.Node, readers int64) step {
	forward, backward, repeats := int64(1), int64(1), int64(1)
	if row.terms != nil {
		forward, backward = row.terms(n.graph, node)
	} else {
		repeats = repeated(n.graph, node, n.active)
	}
	s := step{Node: node, affine: row}
	if s.exact = row.exact && readers*repeats == 1; !s.exact { // eight more for the rounding of folded constants
		other := max(backward, repeats) + readers + 8
		s.gamma, s.adds, s.other = gamma(n.unit, forward+other), float64(forward+other), float64(other)
	}
	return s
}

// newStage returns the stage of a node by itself; ok is false if the node has no bounds.
func newStage(g *onnx.Graph, node *onnx.Node) (s *stage, ok bool) {
	s = &stage{target: target{tensor: node.Inputs[0]}}
	switch known := activations[node.Op]; {
	case known != nil:
		s.activation, ok = known(g, node)
	case slices.Contains(maxPools, node.Op):
		s.pool, ok = newMaxPool(g, node)
	}
	return s, ok
}

// gamma returns γ(n).
func gamma(unit float64, n int64) float64 { return float64(n) * unit / (1 - float64(n)*unit) }

// New prepares a simplified network. unit is the unit roundoff that the slack covers: [Unit], or 0 for exact
// arithmetic.
func New(g *onnx.Graph, unit float64) (n *Network, err error) {
	if n, err = prepare(g, unit); err != nil {
		return nil, err
	}
	if err = n.open(); err != nil {
		n.Close()
		return nil, fmt.Errorf("bounds of %s: %w", g.Name, err)
	}
	return n, nil
}

func (n *Network) open() (err error) {
	for _, t := range n.targets() {
		if t.segment, err = n.newSegment(t.tensor); err == nil {
			t.program, err = n.backward(t.tensor, []string{n.input}, nothingFree)
		}
		if err != nil {
			return err
		}
	}
	if n.last, err = n.backward(n.output.tensor, n.output.segment.ends, nothingFree); err == nil {
		n.free, err = n.backward(n.output.tensor, []string{n.input}, slopesFree)
	}
	return err
}

// targets returns the stages' inputs and the output.
func (n *Network) targets() (all []*target) {
	for _, s := range n.stages {
		all = append(all, &s.target)
	}
	return append(all, &n.output)
}

// Close frees the runtime's memory.
func (n *Network) Close() {
	for _, t := range n.targets() {
		t.segment.close()
		t.program.close()
		t.refined.close()
	}
	n.last.close()
	n.free.close()
	n.cut.close()
	n.ended.close()
}

// Classes returns the number of values of the output.
func (n *Network) Classes() int { return n.size(n.output.tensor) }

// size returns the number of values in an item of a tensor.
func (n *Network) size(tensor string) int { return int(n.graph.Shapes[tensor].Items()) }

// one returns a tensor's shape for a single item.
func (n *Network) one(tensor string) onnx.Shape {
	return onnx.Each(n.graph.Shapes[tensor], func(d int64) int64 { return max(d, -d) })
}

// within returns a builder on a copy of the network's graph that has no inputs and outputs yet.
func (n *Network) within(prefix string) *onnx.Builder {
	g := n.graph.Clone()
	g.Inputs, g.Outputs = nil, nil
	return &onnx.Builder{G: g, Prefix: prefix}
}

// open makes a session from a builder's graph.
func open(name string, b *onnx.Builder) (*ort.Session, error) {
	g, err := b.Done()
	if err != nil {
		return nil, err
	}
	g.Name = name
	return ort.OpenGraph(g)
}

// insert lets a builder append nodes in front of the node at index at.
func insert(g *onnx.Graph, at int, prefix string, build func(b *onnx.Builder) string) string {
	rest := slices.Clone(g.Nodes[at:])
	g.Nodes = g.Nodes[:at:at]
	tensor := build(&onnx.Builder{G: g, Prefix: prefix + "/"})
	g.Nodes = append(g.Nodes, rest...)
	return tensor
}

// multiplied makes stages of the nodes that multiply two tensors which both depend on the network's input.
func (n *Network) multiplied(stages map[*onnx.Node]*stage) {
	_, active := n.graph.Reached(n.input)
	for _, node := range slices.Clone(n.graph.Nodes) {
		if node.Op != "Mul" || !active[node.Inputs[0]] || !active[node.Inputs[1]] {
			continue
		}
		if x, f, ok := gated(n.graph, node); ok {
			stages[node] = &stage{target: target{tensor: x}, activation: f, place: slices.Index(node.Inputs, x)}
		} else if p, joined := newProduct(n.graph, slices.Index(n.graph.Nodes, node)); p != nil {
			stages[node] = &stage{target: target{tensor: joined}, product: p}
		}
	}
}

// relay puts an Identity, which becomes a stage, behind each matrix product that affine operators read. The error of a
// product of thousands of terms is then charged there, with the coefficients at that place. Carried further by their
// absolute values, it would grow much larger in a projection's second product.
func (n *Network) relay(stages map[*onnx.Node]*stage) {
	_, active := n.graph.Reached(n.input)
	for _, node := range slices.Clone(n.graph.Nodes) {
		y := node.Outputs[0]
		if !active[y] || node.Op != "MatMul" && node.Op != "Gemm" || n.graph.IsOutput(y) {
			continue
		}
		read := slices.ContainsFunc(n.graph.Consumers()[y], func(reader *onnx.Node) bool {
			_, affine := affineOf(n.graph, reader, active)
			return affine
		})
		if row, ok := affineOf(n.graph, node, active); !ok || !read {
			continue
		} else if forward, backward := row.terms(n.graph, node); max(forward, backward) < manyTerms {
			continue
		}
		at := slices.Index(n.graph.Nodes, node) + 1
		z := insert(n.graph, at, y, func(b *onnx.Builder) string { return b.Op("Identity", y) })
		n.graph.Replace(y, z)
		relay := n.graph.Nodes[at]
		relay.Inputs[0], active[z] = y, true
		stages[relay] = &stage{target: target{tensor: y}, activation: relayed}
	}
}

// manyTerms is the number of terms from which a product's error is charged where it arises.
const manyTerms = 256

// relayed is the identity as a stage.
var relayed = activation{
	f:     func(x float64) float64 { return x },
	bends: func(l, u float64) bool { return l < u },
	lines: func(l, u float64) (lower, upper line) { return line{a: 1}, line{a: 1} },
}

// repeated bounds how many values of a node's output copy one value of an input.
func repeated(g *onnx.Graph, n *onnx.Node, active map[string]bool) int64 {
	y, most := int64(0), int64(1)
	for _, o := range n.Outputs {
		y += g.Shapes[o].Items()
	}
	switch {
	case n.Op == "Gather" || n.Op == "Pad" && n.Str("mode", "constant") != "constant":
		return y
	case n.Op == "Concat":
		return 1
	}
	for _, in := range n.Inputs {
		if active[in] {
			most = max(most, y/max(g.Shapes[in].Items(), 1))
		}
	}
	return most
}

// fold transposes constant matrices once. The gradients in unrolled solvers contain such transposes.
func fold(g *onnx.Graph) {
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *onnx.Node) bool {
		c := g.Consts[n.Input(0)]
		if n.Op != "Transpose" || c == nil || len(c.Shape) != 2 || c.Floats == nil ||
			!slices.Equal(n.Ints("perm", []int64{1, 0}), []int64{1, 0}) {
			return false
		}
		g.Consts[n.Outputs[0]] = c.Transposed()
		return true
	})
}
