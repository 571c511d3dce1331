// Package bounds proves what a network's outputs can be over a region of inputs: interval bounds (IBP; Gowal et al.
// 2018) and backward linear relaxation (CROWN; Zhang et al. 2018), with the lower slopes optimised (α-CROWN; Xu et al.
// 2021) and, where the inputs are cut by the signs of ReLUs' values, multipliers of these (β-CROWN; Wang et al. 2021).
//
// Bounds are computed as package grad computes gradients: one walk over the network appends standard ONNX operators, by
// one table of rules. A linear lower bound A·z + c of some values is carried from a tensor z to the network's input.
// Through an affine operator A goes as a cotangent does, by the gradient's rule; at a stage, an operator that is not
// affine, it takes a lower linear bound where A is positive and an upper one where A is negative. A stage's segment,
// between its input and the stages before it, is one affine map: the stage is charged with what it adds.
//
// # Rounding
//
// The bounds hold for the network as it is run in float32, and are themselves computed in float32. Each affine operator
// y = f(x) whose coefficients' absolute values are |f| has the error
//
//	E = γ(m + k)·(|f|(X) + |f(0)|),  γ(n) = n·u/(1 − n·u),  u = 2⁻²⁴
//
// for |x| ≤ X: the network's y differs from f(x) by at most γ(m) of that, where m are the terms that are added up for
// a value (Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 3.1) but for those that are 0
// throughout the region, as behind a ReLU, which round nothing; and A·f computed backwards, with k terms, differs from
// the exact product by at most γ(k)·|A|·|f|, which changes the bound by at most that times X. Errors enter the bound
// where they are made and are carried through a segment alone, by |f|: with Ê the sum of a segment's, a bound is
// lowered by Σ |A|·Ê over the stages, its slack; also by what computing the segment's value at 0 rounds, which is its Ê
// for X = 0, by what the sums that the bound is made of round, and by the stages' own rounding. Operators that the
// runtime fuses round less often, not more.
package bounds

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// Unit is float32's unit roundoff.
const Unit = 1.0 / (1 << 24)

// Network is a network prepared for bounds: its programs are made once.
type Network struct {
	graph  *onnx.Graph
	input  string
	unit   float64
	active map[string]bool // tensors that depend on the input
	path   []step          // what depends on the input, in the graph's order
	stages []*stage        // in the graph's order
	output target
	last   *program // from the output to its segment's ends
	free   *program // from the output to the input, with free slopes
	cut    *program // and with multipliers of cuts, once it is needed
	ended  *program // as cut, without gradients
	cutter sync.Mutex
	// Workers is how many runs compute the stages' bounds at once; 0 is one.
	Workers int
	alone   bool // CROWN's intermediate bounds are for every value and not cut to their intervals, as elsewhere
}

// step is a node of the path: affine, or a stage.
type step struct {
	*onnx.Node
	affine
	gamma float64 // of an affine node's error, per unit of |f|(X) + |f(0)|
	adds  float64 // of so many terms
	other float64 // of them, those that are not of the operator
	stage *stage
}

// target is a tensor that is bounded: a stage's input, or the output.
type target struct {
	tensor  string
	segment *segment
	program *program // backwards to the network's input
	refined *program // with free slopes, once it is needed
}

// stage is an operator that is not affine.
type stage struct {
	target
	node       *onnx.Node
	index      int
	readers    int64    // of its input
	place      int      // of its input among the node's
	activation          // of an operator that works value by value
	pool       *maxPool // of a MaxPool
	product    *product // of a Mul of two tensors, which are its input
}

func (s *stage) output() string { return s.node.Outputs[0] }

// joins reports whether values of the stage's input are taken together.
func (s *stage) joins() bool { return s.pool != nil || s.product != nil }

// Check returns an [onnx.UnsupportedError] that names every node between the input and the first output of a simplified
// network that there are no bounds for, nil where there is none.
func Check(g *onnx.Graph) error {
	_, err := prepare(g, Unit)
	return err
}

// Provable reports why nothing can be proven about the file that a network was opened from; nil where bounds hold.
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

// prepare sorts the network's nodes.
func prepare(g *onnx.Graph, unit float64) (*Network, error) {
	n := &Network{graph: g.Clone(), input: g.Inputs[0].Name, output: target{tensor: g.Outputs[0].Name}, unit: unit}
	n.graph.Outputs = n.graph.Outputs[:1]
	n.graph.Prune()
	special, err := n.steps()
	if err != nil {
		return nil, err
	}
	wraps, err := n.wraps()
	if err != nil {
		return nil, err
	}
	fold(n.graph)
	maps.Copy(special, wraps)
	maps.Copy(special, n.multiplied())
	n.relay(special)
	var nodes, missing []*onnx.Node
	nodes, n.active = n.graph.Reached(n.input)
	readers := map[string]int64{} // of tensors: what they give to a cotangent is added up
	for _, node := range nodes {
		for _, in := range node.Inputs {
			readers[in]++
		}
	}
	absorbed := map[string]bool{} // gates that are part of a function
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
		// Several windows of an image may stand for images.
		if y := n.graph.Shapes[node.Outputs[0]]; !ok || len(y) == 0 || y[0] != onnx.Batch {
			missing = append(missing, node)
		}
		s.node, s.index, s.readers = node, len(n.stages), most
		n.stages, n.path = append(n.stages, s), append(n.path, step{Node: node, stage: s})
	}
	return n, onnx.Unsupported("no bounds for", missing)
}

// affine is the step of an affine node, of whose inputs one has so many readers.
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

// newStage is the stage of a node by itself, or false where there are no bounds for it.
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

// gamma is γ(n).
func gamma(unit float64, n int64) float64 { return float64(n) * unit / (1 - float64(n)*unit) }

// New prepares a simplified network. Unit is the unit roundoff that slack is for: [Unit], or 0 for exact arithmetic.
func New(g *onnx.Graph, unit float64) (n *Network, err error) {
	if n, err = prepare(g, unit); err != nil {
		return nil, err
	}
	if err := n.open(); err != nil {
		n.Close()
		return nil, fmt.Errorf("bounds of %s: %w", g.Name, err)
	}
	return n, nil
}

// open makes the programs.
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

// targets are the stages' inputs and the output.
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

// Classes is the number of the output's values.
func (n *Network) Classes() int { return n.size(n.output.tensor) }

// size is the number of values of a tensor's item.
func (n *Network) size(tensor string) int { return int(n.graph.Shapes[tensor].Items()) }

// one is a tensor's shape for a single item.
func (n *Network) one(tensor string) onnx.Shape {
	return onnx.Each(n.graph.Shapes[tensor], func(d int64) int64 { return max(d, -d) })
}

// within is a builder on a copy of the network's graph, whose inputs and outputs are still to be named.
func (n *Network) within(prefix string) *onnx.Builder {
	g := n.graph.Clone()
	g.Inputs, g.Outputs = nil, nil
	return &onnx.Builder{G: g, Prefix: prefix}
}

// open makes a session of what has been built.
func open(name string, b *onnx.Builder) (*ort.Session, error) {
	g, err := b.Done()
	if err != nil {
		return nil, err
	}
	g.Name = name
	return ort.OpenGraph(g)
}

// insert has a builder append to a graph in front of the node at a place.
func insert(g *onnx.Graph, at int, prefix string, build func(b *onnx.Builder) string) string {
	rest := slices.Clone(g.Nodes[at:])
	g.Nodes = g.Nodes[:at:at]
	tensor := build(&onnx.Builder{G: g, Prefix: prefix + "/"})
	g.Nodes = append(g.Nodes, rest...)
	return tensor
}

// multiplied gives the stages of nodes that multiply two tensors which depend on the network's input.
func (n *Network) multiplied() map[*onnx.Node]*stage {
	stages := map[*onnx.Node]*stage{}
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
	return stages
}

// relay puts an Identity, which becomes a stage, behind each matrix product that affine operators read. The error of a
// product of thousands of terms is then charged there with the coefficients that it has, instead of being carried on by
// their absolute values, which in a projection's second product are much larger.
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

// manyTerms is from how many terms on a product's error is charged where it is made.
const manyTerms = 256

// relayed is the identity as a stage.
var relayed = activation{
	f:     func(x float64) float64 { return x },
	bends: func(l, u float64) bool { return l < u },
	lines: func(l, u float64) (lower, upper line) { return line{a: 1}, line{a: 1} },
}

// repeated bounds how many values of a node's output are one value of an input.
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

// fold transposes constant matrices now: gradients, which unrolled solvers are made of, have them.
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
