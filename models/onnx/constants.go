package onnx

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "selfheal/models/onnx/onnxpb"
)

// The runtime computes once everything that does not depend on a network's input. When the file is decoded, one run
// computes all nodes on constants, in the file's own types and operator set. Nodes that work on sizes come later, one
// by one, because only a graph with shapes knows sizes (see [Graph.Compute]).

// Evaluate runs a model on the runtime and returns the named outputs. Package ort sets it. The model has one float32
// input of shape [1], which nothing reads. memory bounds the bytes that the run may take. The error is an [ErrBound] if
// memory or time did not suffice, or if the runtime crashed.
var Evaluate func(model []byte, outputs []string, memory int64) ([]Raw, error)

// Raw is a tensor as the runtime returns it: its values in order, little-endian.
type Raw struct {
	DType DType
	Shape Shape
	Data  []byte
}

// ErrBound says that constants cannot be computed.
var ErrBound = errors.New("takes more memory or time than a network's constants may, or ends the runtime")

// MaxFold bounds how many values are computed from constants, in addition to as many as the constants hold.
const MaxFold = 1 << 24

var (
	// drawing matches the operators that give other numbers from run to run, even with a seed.
	drawing = regexp.MustCompile(`^(Random.*|Bernoulli|Multinomial|Dropout)$`)
	// onLevels matches the operators on quantised values, which package simplify reads.
	onLevels = regexp.MustCompile(`(?i)quantize|^Q(Linear|Gemm)|Integer|NBits`)
)

// Computable reports whether a node's values can be known before the network runs, if its inputs' are.
func (n *Node) Computable() bool { return !n.runs(drawing) && !onLevels.MatchString(n.Op) }

// runs reports whether the node or one of its subgraphs has an operator that the pattern matches.
func (n *Node) runs(op *regexp.Regexp) bool {
	return op.MatchString(n.Op) ||
		slices.ContainsFunc(n.subgraphs(), func(s *Subgraph) bool { return has(s.graph, op) })
}

func has(g *pb.GraphProto, op *regexp.Regexp) bool {
	return slices.ContainsFunc(g.Node, func(n *pb.NodeProto) bool {
		return op.MatchString(n.GetOpType()) || slices.ContainsFunc(n.Attribute, func(a *pb.AttributeProto) bool {
			return a.G != nil && has(a.G, op) || slices.ContainsFunc(a.Graphs, func(g *pb.GraphProto) bool {
				return has(g, op)
			})
		})
	})
}

// constants computes the nodes that depend on no input, in one run, and adds the results that other nodes read to the
// graph's constants. If the runtime cannot compute them, the graph stays as it is.
func (d *decoder) constants(m *pb.ModelProto, protos map[*Node]*pb.NodeProto) {
	known, work := map[string]bool{"": true}, map[*Node]bool{}
	for name := range d.g.Consts {
		known[name] = true
	}
	var fixed []*Node // these nodes, and those that only pass constants on
	for _, n := range d.g.Nodes {
		handsOn := n.Domain == "" && (n.Op == "Constant" || n.Op == "Identity")
		if !n.Computable() || n.Origin.Opset != operatorSet(m.OpsetImport, n.Domain) ||
			slices.ContainsFunc(n.Inputs, func(in string) bool { return !known[in] }) {
			continue
		}
		for _, o := range n.Outputs {
			known[o] = true
		}
		fixed, work[n] = append(fixed, n), !handsOn
	}
	made := map[string]bool{}
	for _, n := range fixed {
		for _, o := range n.Outputs {
			made[o] = work[n]
		}
	}
	var wanted []string
	need := map[string]bool{}
	want := func(name string) {
		if made[name] && name != "" && !need[name] {
			wanted, need[name] = append(wanted, name), true
		}
	}
	kept := slices.DeleteFunc(slices.Clone(d.g.Nodes), func(n *Node) bool { return work[n] })
	for _, n := range kept {
		for _, in := range n.Inputs {
			want(in)
		}
	}
	for _, out := range d.g.Outputs {
		want(out.Name)
	}
	if len(wanted) == 0 {
		return
	}
	p := &program{ModelProto: &pb.ModelProto{IrVersion: proto.Int64(max(irVersion, m.GetIrVersion())),
		OpsetImport: m.OpsetImport, Functions: m.Functions, Graph: &pb.GraphProto{}}}
	for _, n := range slices.Backward(fixed) {
		if slices.ContainsFunc(n.Outputs, func(o string) bool { return need[o] }) {
			for _, in := range n.Inputs {
				need[in] = true
			}
			p.Graph.Node = append(p.Graph.Node, protos[n])
		}
	}
	slices.Reverse(p.Graph.Node)
	for _, t := range m.Graph.Initializer {
		if need[t.GetName()] {
			p.Graph.Initializer = append(p.Graph.Initializer, t)
		}
	}
	values, err := p.run(d, wanted)
	if err != nil { // simplification asks node by node, and learns which one failed
		return
	}
	for i, name := range wanted {
		d.g.Consts[name] = values[i]
	}
	d.g.Nodes = kept
}

// Compute runs a node whose inputs are all constants of the graph, and adds its outputs to the constants. The node has
// the form of its own version of the operator set.
func (g *Graph) Compute(n *Node) (err error) {
	defer Refused(&err)
	version := g.Opset
	if n.Origin != nil {
		version = n.Origin.Opset
	}
	p := &program{ModelProto: &pb.ModelProto{IrVersion: proto.Int64(irVersion), Graph: &pb.GraphProto{},
		OpsetImport: []*pb.OperatorSetIdProto{{Domain: proto.String(n.Domain), Version: proto.Int64(version)}}}}
	if n.Domain != "" { // for the nodes that are appended
		p.OpsetImport = append(p.OpsetImport,
			&pb.OperatorSetIdProto{Domain: proto.String(""), Version: proto.Int64(Opset)})
	}
	formal, as := n.bindings()
	given := map[string]bool{"": true}
	for i, name := range n.Inputs {
		t := g.Consts[name]
		if i >= len(formal) { // an input of a subgraph, under its name there
			name = as[i-len(formal)]
		}
		if given[name] {
			continue
		}
		given[name] = true
		Require(int64(t.Len()) == t.Shape.Items(), "its input %q has no values", name)
		head := tensorHead(t)
		head.Name, head.RawData = &name, appendRaw([]byte{}, t)
		p.Graph.Initializer = append(p.Graph.Initializer, head)
	}
	own := n.Clone()
	own.Inputs = formal
	p.Graph.Node = []*pb.NodeProto{encodeNode(own)}
	wanted := slices.DeleteFunc(slices.Clone(n.Outputs), func(o string) bool { return o == "" })
	values := Sure(p.run(&decoder{g, false}, wanted))
	for i, name := range wanted {
		g.Consts[name], g.Shapes[name] = values[i], values[i].Shape
	}
	return nil
}

// program is a model of constants alone.
type program struct{ *pb.ModelProto }

// run returns the named tensors, which nodes of the program write, converted as if read from a file.
func (p *program) run(d *decoder, wanted []string) (values []*Tensor, err error) {
	defer Refused(&err)
	if Evaluate == nil {
		return nil, errors.New("no runtime is there to compute it")
	}
	values, room := make([]*Tensor, len(wanted)), int64(MaxFold)
	for _, t := range p.Graph.Initializer {
		room += Shape(t.Dims).Items()
	}
	p.apart()
	p.Graph.Name = proto.String("constants")
	p.Graph.Input = []*pb.ValueInfoProto{encodeValue(Value{Name: "selfheal/run", DType: Float, Shape: Shape{1}})}
	// The bindings return no tensor of rank 0.
	axis := Value{Name: "selfheal/axis", DType: Int64, Shape: Shape{1}}
	head := tensorHead(IntTensor(0))
	head.Name, head.RawData = &axis.Name, appendRaw(nil, IntTensor(0))
	p.Graph.Initializer = append(p.Graph.Initializer, head)
	names := make([]string, len(wanted))
	for i, name := range wanted {
		names[i] = fmt.Sprintf("selfheal/constant/%d", i)
		n := &Node{Op: "Unsqueeze", Inputs: []string{name, axis.Name}, Outputs: names[i : i+1]}
		if operatorSet(p.OpsetImport, "") < 13 {
			n.Inputs, n.Attrs = n.Inputs[:1], Attrs{"axes": []int64{0}}
		}
		p.Graph.Node = append(p.Graph.Node, encodeNode(n))
		p.Graph.Output = append(p.Graph.Output, &pb.ValueInfoProto{Name: &names[i]})
	}
	raw := Sure(Evaluate(marshal(p.ModelProto), names, 8*room))
	for i, r := range raw {
		room -= r.Shape.Items()
		if room < 0 {
			Refuse("gives more than %d values: %w", MaxFold, ErrBound)
		}
		values[i] = at(func() *Tensor {
			return d.tensor(&pb.TensorProto{Dims: r.Shape[1:], DataType: proto.Int32(int32(r.DType)), RawData: r.Data})
		}, "constant %.80q", wanted[i])
		Require(!slices.ContainsFunc(values[i].Floats, func(v float32) bool { return v != v }), "gives NaN")
	}
	return values, nil
}

// apart gives every BatchNormalization in training form its own mean and variance: the runtime writes the new ones into
// the memory of the old, which other nodes may read.
func (p *program) apart() {
	var nodes []*pb.NodeProto
	for _, n := range p.Graph.Node {
		if n.GetOpType() == "BatchNormalization" && len(n.Input) == 5 {
			n = proto.Clone(n).(*pb.NodeProto)
			for i := 3; i < 5; i++ {
				own := fmt.Sprintf("selfheal/apart/%d", len(nodes))
				nodes = append(nodes, encodeNode(&Node{Op: "Concat", Attrs: Attrs{"axis": 0},
					Inputs: []string{n.Input[i]}, Outputs: []string{own}}))
				n.Input[i] = own
			}
		}
		nodes = append(nodes, n)
	}
	p.Graph.Node = nodes
}

// Subgraph is a graph that a node runs, such as a branch of an If, as in the file. The tensors that it reads from
// outside are inputs of the node, after the node's own.
type Subgraph struct {
	graph    *pb.GraphProto
	captured []string // those tensors, by their names inside
}

func newSubgraph(g *pb.GraphProto) *Subgraph {
	s := &Subgraph{graph: g}
	captures(g, nil, func(name string) string {
		if !slices.Contains(s.captured, name) {
			s.captured = append(s.captured, name)
		}
		return name
	})
	return s
}

// captures renames, by rename, the tensors that a graph and those inside it read from outside.
func captures(g *pb.GraphProto, outer []map[string]bool, rename func(string) string) {
	own := map[string]bool{"": true}
	scopes := append(slices.Clone(outer), own)
	read := func(names []string) {
		for i, name := range names {
			if !slices.ContainsFunc(scopes, func(s map[string]bool) bool { return s[name] }) {
				names[i] = rename(name)
			}
		}
	}
	for _, v := range g.Input {
		own[v.GetName()] = true
	}
	for _, t := range g.Initializer {
		own[t.GetName()] = true
	}
	for _, n := range g.Node {
		read(n.Input)
		for _, a := range n.Attribute {
			for _, inner := range append(slices.Clone(a.Graphs), a.G) {
				if inner != nil {
					captures(inner, scopes, rename)
				}
			}
		}
		for _, o := range n.Output {
			own[o] = true
		}
	}
	for _, v := range g.Output {
		names := []string{v.GetName()}
		read(names)
		v.Name = &names[0]
	}
}

// subgraphs returns the node's subgraphs, ordered by the names of their attributes.
func (n *Node) subgraphs() (all []*Subgraph) {
	for _, name := range sortedKeys(n.Attrs) {
		if s, ok := n.Attrs[name].(*Subgraph); ok {
			all = append(all, s)
		}
	}
	return all
}

// bindings splits the node's inputs into its own and those of its subgraphs, the latter by their names inside.
func (n *Node) bindings() (formal, captured []string) {
	for _, s := range n.subgraphs() {
		captured = append(captured, s.captured...)
	}
	return n.Inputs[:len(n.Inputs)-len(captured)], captured
}

// Branch returns the nodes and results of the subgraph in an attribute of the node, and adds its constants to the
// graph's. The subgraph may have no inputs. Its tensors get fresh names.
func (g *Graph) Branch(n *Node, attribute string) (nodes []*Node, results []string, err error) {
	defer Refused(&err)
	s, ok := n.Attrs[attribute].(*Subgraph)
	Require(ok && len(s.graph.Input) == 0, "has no %s without inputs", attribute)
	formal, captured := n.bindings()
	names := map[string]string{"": ""}
	for i, name := range captured {
		names[name] = n.Inputs[len(formal)+i]
	}
	made := func(name string) {
		if name != "" {
			names[name] = g.Take(n.Outputs[0] + "/" + name)
		}
	}
	call := func(name string) string {
		to, ok := names[name]
		Require(ok, "%s reads %.80q, which nothing before it writes", attribute, name)
		return to
	}
	d := &decoder{g, false}
	for _, t := range s.graph.Initializer {
		made(t.GetName())
		c := at(func() *Tensor { return d.tensor(t) }, "initializer %.80q", t.GetName())
		g.Consts[names[t.GetName()]], g.Shapes[names[t.GetName()]] = c, c.Shape
	}
	for _, p := range s.graph.Node {
		node := at(func() *Node { return d.node(p) }, "node %.80q", p.GetName())
		node.Inputs = Each(node.Inputs, call)
		for _, o := range node.Outputs {
			made(o)
		}
		node.Outputs, node.Origin = Each(node.Outputs, call), n.Origin
		nodes = append(nodes, node)
	}
	return nodes, Each(s.graph.Output, func(v *pb.ValueInfoProto) string { return call(v.GetName()) }), nil
}
