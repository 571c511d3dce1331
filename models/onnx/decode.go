package onnx

import (
	"maps"
	"regexp"
	"slices"

	"selfheal/internal/memory"
	pb "selfheal/models/onnx/onnxpb"
)

// Decode reads an ONNX model as written, without changing its operators: see Simplify for that. It replaces calls of
// model-local functions by the functions' nodes, nodes that depend on no input by their results, and floating-point
// types of other widths by float32, with a notice. It returns errors for element types beyond those of [Tensor] and for
// weights in other files: Load and ReadFS read those.
func Decode(data []byte) (*Graph, error) { return decode(data, false) }

// DecodeSkeleton is Decode for a skeleton. Constants without data in it have no values.
func DecodeSkeleton(data []byte) (*Graph, error) { return decode(data, true) }

// NoticeNamed ends the notice of a network's names of classes, which changes no number.
const NoticeNamed = ": label 0 is the first"

func decode(data []byte, skeleton bool) (_ *Graph, err error) {
	defer Refused(&err)
	m := Sure(parse(data))
	g := &Graph{Name: m.Graph.GetName(), IR: m.GetIrVersion(), Consts: map[string]*Tensor{}, Shapes: map[string]Shape{},
		Meta: map[string]string{}}
	for _, p := range m.MetadataProps {
		g.Meta[p.GetKey()] = p.GetValue()
	}
	if names := g.Meta[classesKey]; names != "" {
		g.Notice("its classes are called " + names + NoticeNamed)
	}
	Require(skeleton || g.Meta[skeletonKey] != "1", "is a skeleton: a graph without its weights, which serves tests; "+
		"export the network itself to get a model")
	Require(!skeleton || g.Meta[skeletonKey] == "1", "is not a skeleton: its metadata has no %s", skeletonKey)
	d := &decoder{g, skeleton}
	Must(memory.Room(heldBytes(m.Graph.Initializer)))
	half := map[string]bool{} // initializers that a Cast turns into float32
	for _, t := range m.Graph.Initializer {
		name := t.GetName()
		c := at(func() *Tensor { return d.tensor(t) }, "initializer %.80q", name)
		_, dup := g.Consts[name]
		Require(!dup, "initializer %.80q is defined twice", name)
		g.Consts[name], half[name] = c, isHalf(DType(t.GetDataType()))
	}
	Require(len(m.Graph.SparseInitializer) == 0, "holds sparse initializers, which are not supported")
	ports(g, m)
	for _, side := range [][]Value{g.Inputs, g.Outputs} {
		for i, v := range side {
			side[i].DType = d.asFloat(v.DType, true)
		}
	}
	nodes := inlineFunctions(m)
	if g.Opset = operatorSet(m.OpsetImport, ""); g.Opset == 0 && operatorSet(m.OpsetImport, Classical) > 0 {
		g.Opset = Opset // it has no standard operators
	}
	Require(g.Opset != 0, "names no version of the standard operator set")
	protos := map[*Node]*pb.NodeProto{}
	for _, n := range nodes {
		node := at(func() *Node { return d.node(n.NodeProto) }, "node %d (%.80q %.80q)", n.origin.Index, n.GetOpType(),
			n.GetName())
		node.Origin, protos[node] = n.origin, n.NodeProto
		computes := slices.ContainsFunc(node.Inputs, func(in string) bool { return half[in] })
		g.Inexact = g.Inexact || computes && node.Op != "Cast"
		g.Nodes = append(g.Nodes, node)
	}
	checkNames(g)
	sortNodes(g)
	if skeleton {
		delete(g.Meta, skeletonKey)
		return g, nil
	}
	d.constants(m, protos)
	return g, g.Verify()
}

// skeletonKey is the metadata entry, with value "1", of a skeleton: an ONNX file
// whose float32 initializers of skeletonLeast values and more have dimensions but no data. It shows an
// exporter's graph of a network in a few kilobytes.
const (
	skeletonKey   = "selfheal.skeleton"
	skeletonLeast = 17
)

// decoder turns parts of a file into parts of a graph. It refuses invalid ones.
type decoder struct {
	g        *Graph
	skeleton bool
}

// maxName bounds the names of tensors and nodes, in bytes: they stand in messages.
const maxName = 1000

func checkNames(g *Graph) {
	names := slices.Collect(maps.Keys(g.Consts))
	names = append(names, Each(slices.Concat(g.Inputs, g.Outputs), func(v Value) string { return v.Name })...)
	for _, n := range g.Nodes {
		names = append(append(append(names, n.Name), n.Inputs...), n.Outputs...)
	}
	for _, name := range names {
		if len(name) > maxName {
			Refuse("a name has %d bytes, more than %d: %.80q", len(name), maxName, name)
		}
	}
}

func standardDomain(domain string) string {
	if domain == "ai.onnx" {
		return ""
	}
	return domain
}

// operatorSet returns the version of a domain that a model or a function imports, or 0.
func operatorSet(imports []*pb.OperatorSetIdProto, domain string) int64 {
	version := int64(0)
	for _, o := range imports {
		if standardDomain(o.GetDomain()) == domain {
			version = o.GetVersion()
		}
	}
	return version
}

// operatorName matches the names of operators that messages may quote.
var operatorName = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,100}$`)

func (d *decoder) node(n *pb.NodeProto) *Node {
	domain := standardDomain(n.GetDomain())
	Require(operatorName.MatchString(n.GetOpType()) && operatorName.MatchString("x"+domain),
		"%.60q of domain %.60q is not an operator's name", n.GetOpType(), domain)
	node := &Node{Name: n.GetName(), Op: n.GetOpType(), Domain: domain, Inputs: slices.Clone(n.Input),
		Outputs: slices.Clone(n.Output), Attrs: Attrs{}}
	for _, a := range n.Attribute {
		node.Attrs[a.GetName()] = at(func() any { return d.attribute(a) }, "attribute %.80q", a.GetName())
	}
	for _, s := range node.subgraphs() {
		node.Inputs = append(node.Inputs, s.captured...)
	}
	if to := DType(node.Int("to", 0)); node.Op == "Cast" && domain == "" && wideNames[to] != "" {
		node.Set("to", int64(d.asFloat(to, true)))
	}
	return node
}

func (d *decoder) attribute(a *pb.AttributeProto) any {
	switch a.GetType() {
	case pb.AttributeProto_INT:
		notReserved(a.GetI())
		return a.GetI()
	case pb.AttributeProto_FLOAT:
		return a.GetF()
	case pb.AttributeProto_STRING:
		return string(a.GetS())
	case pb.AttributeProto_INTS:
		notReserved(a.Ints...)
		return append([]int64{}, a.Ints...)
	case pb.AttributeProto_FLOATS:
		return append([]float32{}, a.Floats...)
	case pb.AttributeProto_STRINGS:
		return Each(a.Strings, func(s []byte) string { return string(s) })
	case pb.AttributeProto_TENSOR:
		d.g.Inexact = d.g.Inexact || isHalf(DType(a.GetT().GetDataType()))
		return d.tensor(a.GetT())
	case pb.AttributeProto_GRAPH:
		Require(a.G != nil, "has no value")
		return newSubgraph(a.G)
	case pb.AttributeProto_UNDEFINED:
		Refuse("type %s is not supported", a.GetType())
	}
	return unread{}
}

// Ports reads a model's inputs and outputs alone, with the element types that the file gives them.
func Ports(data []byte) (inputs, outputs []Value, err error) {
	defer Refused(&err)
	m := Sure(parse(data))
	g := &Graph{Consts: map[string]*Tensor{}}
	for _, t := range m.Graph.Initializer {
		g.Consts[t.GetName()] = nil
	}
	ports(g, m)
	return g.Inputs, g.Outputs, nil
}

func ports(g *Graph, m *pb.ModelProto) {
	for _, v := range m.Graph.Input {
		if _, constant := g.Consts[v.GetName()]; !constant { // IR < 4 lists initializers among the inputs
			g.Inputs = append(g.Inputs, at(func() Value { return port(v) }, "input %.80q", v.GetName()))
		}
	}
	for _, v := range m.Graph.Output {
		g.Outputs = append(g.Outputs, at(func() Value { return port(v) }, "output %.80q", v.GetName()))
	}
}

func port(v *pb.ValueInfoProto) Value {
	tt := v.GetType().GetTensorType()
	Require(tt != nil, "is not a tensor")
	out := Value{Name: v.GetName(), DType: DType(tt.GetElemType())}
	dims := tt.GetShape().GetDim()
	if tt.Shape != nil {
		out.Shape = Shape{} // a missing shape is unknown, not that of a scalar
	}
	Require(len(dims) <= maxRank, "has %d dimensions, more than %d", len(dims), maxRank)
	for i, d := range dims {
		n := Batch
		// Some exporters write 0 or -1 for an open batch.
		if _, fixed := d.Value.(*pb.TensorShapeProto_Dimension_DimValue); fixed && (i > 0 || d.GetDimValue() > 0) {
			n = d.GetDimValue()
			Require(n >= 0, "dimension %d is %d", i, n)
		}
		out.Shape = append(out.Shape, n)
	}
	return out
}

// sortNodes puts the nodes in topological order, keeping the file's order where it
// already is one; a cycle or a tensor that nothing writes is an error.
func sortNodes(g *Graph) {
	ready := map[string]bool{"": true}
	for _, in := range g.Inputs {
		ready[in.Name] = true
	}
	for name := range g.Consts {
		ready[name] = true
	}
	waits, readers := make([]int, len(g.Nodes)), map[string][]int{}
	var queue []int // nodes whose inputs are ready, in the file's order
	for i, n := range g.Nodes {
		for _, in := range n.Inputs {
			if !ready[in] {
				waits[i]++
				readers[in] = append(readers[in], i)
			}
		}
		if waits[i] == 0 {
			queue = append(queue, i)
		}
	}
	sorted := make([]*Node, 0, len(g.Nodes))
	for len(queue) > 0 {
		n := g.Nodes[queue[0]]
		queue, sorted = queue[1:], append(sorted, n)
		for _, o := range n.Outputs {
			if ready[o] {
				continue
			}
			ready[o] = true
			for _, i := range readers[o] {
				if waits[i]--; waits[i] == 0 {
					at, _ := slices.BinarySearch(queue, i)
					queue = slices.Insert(queue, at, i)
				}
			}
		}
	}
	for i, n := range g.Nodes {
		for _, in := range n.Inputs {
			if waits[i] > 0 && !ready[in] {
				Refuse("node %s reads %q, which nothing before it writes", n, in)
			}
		}
	}
	g.Nodes = sorted
}
