package onnx

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	pb "selfheal/models/onnx/onnxpb"
)

// Decode reads an ONNX model as written, without changing its operators: see
// Simplify for that. Calls of model-local functions are replaced by the
// functions' nodes, and floating-point types of other widths by float32, with a
// notice. Element types beyond those of [Tensor] are errors, and so are
// weights that lie in other files: Load and ReadFS bring those in.
func Decode(data []byte) (*Graph, error) {
	m, err := parse(data)
	if err != nil {
		return nil, err
	}
	if IsSkeleton(m) {
		return nil, errSkeleton
	}
	return decode(m)
}

// decode is Decode of a parsed model. It drops the model's tensors one by one,
// so that no third copy of the weights is held.
func decode(m *pb.ModelProto) (*Graph, error) {
	g := &Graph{Name: m.Graph.GetName(), IR: m.GetIrVersion(), Consts: map[string]*Tensor{}, Shapes: map[string]Shape{},
		Meta: map[string]string{}}
	for _, p := range m.MetadataProps {
		g.Meta[p.GetKey()] = p.GetValue()
	}
	half := map[string]bool{} // initializers, of which a Cast makes float32
	for i, t := range m.Graph.Initializer {
		c, err := g.decodeTensor(t)
		if err != nil {
			return nil, fmt.Errorf("initializer %.80q: %w", t.GetName(), err)
		}
		if _, dup := g.Consts[t.GetName()]; dup {
			return nil, fmt.Errorf("initializer %.80q is defined twice", t.GetName())
		}
		g.Consts[t.GetName()] = c
		half[t.GetName()] = isHalf(DType(t.GetDataType()))
		m.Graph.Initializer[i] = nil
	}
	if len(m.Graph.SparseInitializer) > 0 {
		return nil, errors.New("holds sparse initializers, which are not supported")
	}
	if err := g.decodePorts(m); err != nil {
		return nil, err
	}
	for _, side := range [][]Value{g.Inputs, g.Outputs} {
		for i, v := range side {
			if isWide(v.DType) {
				g.noticeFloat(v.DType)
				g.Inexact = g.Inexact || isHalf(v.DType)
				side[i].DType = Float
			}
		}
	}
	nodes, err := inlineFunctions(m)
	if err != nil {
		return nil, err
	}
	if g.Opset = operatorSet(m.OpsetImport, ""); g.Opset == 0 {
		return nil, errors.New("names no version of the standard operator set")
	}
	for _, n := range nodes {
		node, err := g.decodeNode(n.NodeProto)
		if err != nil {
			return nil, fmt.Errorf("node %d (%.80q %.80q): %w", n.origin.Index, n.GetOpType(), n.GetName(), err)
		}
		node.Origin = n.origin
		computes := slices.ContainsFunc(node.Inputs, func(in string) bool { return half[in] })
		g.Inexact = g.Inexact || computes && node.Op != "Cast"
		g.Nodes = append(g.Nodes, node)
	}
	if err := g.checkNames(); err != nil {
		return nil, err
	}
	if err := g.sort(); err != nil {
		return nil, err
	}
	return g, g.Verify()
}

// maxName bounds the names of tensors and nodes, in bytes: they stand in messages.
const maxName = 1000

func (g *Graph) checkNames() error {
	names := slices.Collect(maps.Keys(g.Consts))
	for _, v := range slices.Concat(g.Inputs, g.Outputs) {
		names = append(names, v.Name)
	}
	for _, n := range g.Nodes {
		names = append(append(append(names, n.Name), n.Inputs...), n.Outputs...)
	}
	for _, name := range names {
		if len(name) > maxName {
			return fmt.Errorf("a name has %d bytes, more than %d: %.80q", len(name), maxName, name)
		}
	}
	return nil
}

// standardDomain writes the standard operator set's domain in one way.
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

// operatorName is what the messages that name operators rely on.
var operatorName = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,100}$`)

func (g *Graph) decodeNode(n *pb.NodeProto) (*Node, error) {
	domain := standardDomain(n.GetDomain())
	if !operatorName.MatchString(n.GetOpType()) || !operatorName.MatchString("x"+domain) {
		return nil, fmt.Errorf("%.60q of domain %.60q is not an operator's name", n.GetOpType(), domain)
	}
	node := &Node{Name: n.GetName(), Op: n.GetOpType(), Domain: domain, Inputs: n.Input, Outputs: n.Output,
		Attrs: Attrs{}}
	for _, a := range n.Attribute {
		attr, err := g.decodeAttr(a)
		if err != nil {
			return nil, fmt.Errorf("attribute %.80q: %w", a.GetName(), err)
		}
		node.Attrs[a.GetName()] = attr
	}
	if to := DType(node.Int("to", 0)); node.Op == "Cast" && domain == "" && isWide(to) {
		g.noticeFloat(to)
		g.Inexact = g.Inexact || isHalf(to)
		node.Set("to", int64(Float))
	}
	return node, nil
}

func (g *Graph) decodeAttr(a *pb.AttributeProto) (any, error) {
	switch a.GetType() {
	case pb.AttributeProto_INT:
		return a.GetI(), notReserved(a.GetI())
	case pb.AttributeProto_FLOAT:
		return a.GetF(), nil
	case pb.AttributeProto_STRING:
		return string(a.GetS()), nil
	case pb.AttributeProto_INTS:
		return append([]int64{}, a.Ints...), notReserved(a.Ints...)
	case pb.AttributeProto_FLOATS:
		return append([]float32{}, a.Floats...), nil
	case pb.AttributeProto_TENSOR:
		g.Inexact = g.Inexact || isHalf(DType(a.GetT().GetDataType()))
		return g.decodeTensor(a.GetT())
	case pb.AttributeProto_GRAPH, pb.AttributeProto_GRAPHS:
		return subgraph, nil
	case pb.AttributeProto_UNDEFINED:
		return nil, fmt.Errorf("type %s is not supported", a.GetType())
	}
	return unread, nil
}

// Ports reads a model's inputs and outputs alone, with the element types that the file gives them.
func Ports(data []byte) (inputs, outputs []Value, err error) {
	m, err := parse(data)
	if err != nil {
		return nil, nil, err
	}
	g := &Graph{Consts: map[string]*Tensor{}}
	for _, t := range m.Graph.Initializer {
		g.Consts[t.GetName()] = nil
	}
	err = g.decodePorts(m)
	return g.Inputs, g.Outputs, err
}

func (g *Graph) decodePorts(m *pb.ModelProto) error {
	for _, side := range []struct {
		what   string
		listed []*pb.ValueInfoProto
		to     *[]Value
	}{{"input", m.Graph.Input, &g.Inputs}, {"output", m.Graph.Output, &g.Outputs}} {
		for _, v := range side.listed {
			if _, isConst := g.Consts[v.GetName()]; isConst && side.what == "input" {
				continue // IR < 4 lists initializers among the inputs
			}
			value, err := g.decodeValue(v)
			if err != nil {
				return fmt.Errorf("%s %.80q: %w", side.what, v.GetName(), err)
			}
			*side.to = append(*side.to, value)
		}
	}
	return nil
}

func (g *Graph) decodeValue(v *pb.ValueInfoProto) (Value, error) {
	tt := v.GetType().GetTensorType()
	if tt == nil {
		return Value{}, errors.New("is not a tensor")
	}
	out := Value{Name: v.GetName(), DType: DType(tt.GetElemType())}
	if rank := len(tt.GetShape().GetDim()); rank > maxRank {
		return Value{}, fmt.Errorf("has %d dimensions, more than %d", rank, maxRank)
	}
	for i, d := range tt.GetShape().GetDim() {
		n := Batch
		// Some exporters write 0 or -1 for an open batch.
		if _, fixed := d.Value.(*pb.TensorShapeProto_Dimension_DimValue); fixed && (i > 0 || d.GetDimValue() > 0) {
			if n = d.GetDimValue(); n < 0 {
				return Value{}, fmt.Errorf("dimension %d is %d", i, n)
			}
		}
		out.Shape = append(out.Shape, n)
	}
	return out, nil
}

// sort puts the nodes in topological order, keeping the file's order where it
// already is one; a cycle or a tensor that nothing writes is an error.
func (g *Graph) sort() error {
	ready := map[string]bool{"": true}
	for _, in := range g.Inputs {
		ready[in.Name] = true
	}
	for name := range g.Consts {
		ready[name] = true
	}
	waits, readers := make([]int, len(g.Nodes)), map[string][]int{}
	var queue []int // of nodes whose inputs are ready, in the file's order
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
				return fmt.Errorf("node %s reads %q, which nothing before it writes", n, in)
			}
		}
	}
	g.Nodes = sorted
	return nil
}

// SkeletonKey is the metadata entry, with value "1", of a skeleton: an ONNX file
// whose large float32 initializers have dimensions but no data. It shows an
// exporter's graph of a network in a few kilobytes.
const SkeletonKey = "selfheal.skeleton"

var errSkeleton = errors.New("is a skeleton: a graph without its weights, which serves tests; export the network " +
	"itself to get a model")

// IsSkeleton reports whether a file says that it is one.
func IsSkeleton(m *pb.ModelProto) bool {
	return slices.ContainsFunc(m.MetadataProps, func(p *pb.StringStringEntryProto) bool {
		return p.GetKey() == SkeletonKey && p.GetValue() == "1"
	})
}
