package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"regexp"
	"sort"

	"google.golang.org/protobuf/proto"

	pb "selfheal/models/onnx/onnxpb"
)

// Decode reads an ONNX model as written, without changing its operators:
// see Simplify for that. Subgraphs (If, Loop), weights in other files and
// element types other than float32, integers and booleans are errors.
func Decode(data []byte) (*Graph, error) {
	var m pb.ModelProto
	if err := proto.Unmarshal(data, &m); err != nil {
		return nil, errors.New("not an ONNX model (its protobuf can't be read)")
	}
	if m.Graph == nil {
		return nil, errors.New("not an ONNX model (it holds no graph)")
	}
	g := &Graph{Name: m.Graph.GetName(), IR: m.GetIrVersion(), Consts: map[string]*Tensor{}, Shapes: map[string]Shape{}, Meta: map[string]string{}}
	for _, o := range m.OpsetImport {
		if o.GetDomain() == "" || o.GetDomain() == "ai.onnx" {
			g.Opset = o.GetVersion()
		}
	}
	if g.Opset == 0 {
		return nil, errors.New("names no version of the standard operator set")
	}
	if len(m.Functions) > 0 {
		return nil, fmt.Errorf("holds model-local functions (%q); export it with inlined functions", m.Functions[0].GetName())
	}
	for _, p := range m.MetadataProps {
		g.Meta[p.GetKey()] = p.GetValue()
	}
	for _, t := range m.Graph.Initializer {
		c, err := decodeTensor(t)
		if err != nil {
			return nil, fmt.Errorf("initializer %q: %w", t.GetName(), err)
		}
		if _, dup := g.Consts[t.GetName()]; dup {
			return nil, fmt.Errorf("initializer %q is defined twice", t.GetName())
		}
		g.Consts[t.GetName()] = c
	}
	if len(m.Graph.SparseInitializer) > 0 {
		return nil, errors.New("holds sparse initializers, which are not supported")
	}
	for _, v := range m.Graph.Input {
		if _, isConst := g.Consts[v.GetName()]; isConst {
			continue // IR < 4 lists initializers among the inputs
		}
		val, err := decodeValue(v)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", v.GetName(), err)
		}
		g.Inputs = append(g.Inputs, val)
	}
	for _, v := range m.Graph.Output {
		val, err := decodeValue(v)
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", v.GetName(), err)
		}
		g.Outputs = append(g.Outputs, val)
	}
	for i, n := range m.Graph.Node {
		node, err := decodeNode(n)
		if err != nil {
			return nil, fmt.Errorf("node %d (%q %q): %w", i, n.GetOpType(), n.GetName(), err)
		}
		g.Nodes = append(g.Nodes, node)
	}
	if err := g.sort(); err != nil {
		return nil, err
	}
	return g, g.Verify()
}

// operatorName is what the messages that name operators rely on.
var operatorName = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,100}$`)

func decodeNode(n *pb.NodeProto) (*Node, error) {
	domain := n.GetDomain()
	if domain == "ai.onnx" {
		domain = ""
	}
	if !operatorName.MatchString(n.GetOpType()) || !operatorName.MatchString("x"+domain) {
		return nil, fmt.Errorf("%.60q of domain %.60q is not an operator's name", n.GetOpType(), domain)
	}
	node := &Node{Name: n.GetName(), Op: n.GetOpType(), Domain: domain, Inputs: n.Input, Outputs: n.Output, Attrs: map[string]Attr{}}
	for _, a := range n.Attribute {
		attr, err := decodeAttr(a)
		if err != nil {
			return nil, fmt.Errorf("attribute %q: %w", a.GetName(), err)
		}
		node.Attrs[a.GetName()] = attr
	}
	return node, nil
}

func decodeAttr(a *pb.AttributeProto) (Attr, error) {
	switch a.GetType() {
	case pb.AttributeProto_INT:
		v := a.GetI()
		return Attr{Int: &v}, nil
	case pb.AttributeProto_FLOAT:
		v := a.GetF()
		return Attr{Float: &v}, nil
	case pb.AttributeProto_STRING:
		v := string(a.GetS())
		return Attr{Str: &v}, nil
	case pb.AttributeProto_INTS:
		return Attr{Ints: append([]int64{}, a.Ints...)}, nil
	case pb.AttributeProto_FLOATS:
		return Attr{Floats: append([]float32{}, a.Floats...)}, nil
	case pb.AttributeProto_STRINGS:
		out := Attr{Strs: []string{}}
		for _, s := range a.Strings {
			out.Strs = append(out.Strs, string(s))
		}
		return out, nil
	case pb.AttributeProto_TENSOR:
		t, err := decodeTensor(a.GetT())
		return Attr{Tensor: t}, err
	case pb.AttributeProto_GRAPH, pb.AttributeProto_GRAPHS:
		return Attr{}, errors.New("holds a subgraph; only feed-forward graphs are supported")
	default:
		return Attr{}, fmt.Errorf("type %s is not supported", a.GetType())
	}
}

func decodeValue(v *pb.ValueInfoProto) (Value, error) {
	tt := v.GetType().GetTensorType()
	if tt == nil {
		return Value{}, errors.New("is not a tensor")
	}
	out := Value{Name: v.GetName(), DType: DType(tt.GetElemType())}
	for i, d := range tt.GetShape().GetDim() {
		switch d.Value.(type) {
		case *pb.TensorShapeProto_Dimension_DimValue:
			n := d.GetDimValue()
			if n < 0 && i != 0 {
				return Value{}, fmt.Errorf("dimension %d is %d", i, n)
			}
			if n <= 0 && i == 0 {
				n = Batch // some exporters write 0 or -1 for an open batch
			}
			out.Shape = append(out.Shape, n)
		default:
			out.Shape = append(out.Shape, Batch)
		}
	}
	return out, nil
}

// decodeTensor copies a TensorProto, checking that its data is as long as its shape says.
func decodeTensor(t *pb.TensorProto) (*Tensor, error) {
	if t == nil {
		return nil, errors.New("has no value")
	}
	if t.GetDataLocation() == pb.TensorProto_EXTERNAL {
		return nil, errors.New("its data lies in another file; export the model with its weights inside")
	}
	out := &Tensor{DType: DType(t.GetDataType()), Shape: append(Shape{}, t.Dims...)}
	n := int64(1)
	for _, d := range t.Dims {
		if d < 0 || (d > 0 && n > math.MaxInt32/d) {
			return nil, fmt.Errorf("shape %v is not possible", t.Dims)
		}
		n *= d
	}
	raw := t.RawData
	width := map[DType]int{Float: 4, Int64: 8, Int32: 4, Uint8: 1, Int8: 1, Bool: 1}[out.DType]
	if width == 0 {
		return nil, fmt.Errorf("element type %s is not supported (float32, integers and booleans are)", pb.TensorProto_DataType(out.DType))
	}
	if raw != nil && int64(len(raw)) != n*int64(width) {
		return nil, fmt.Errorf("shape %v needs %d bytes, the file holds %d", t.Dims, n*int64(width), len(raw))
	}
	var have int
	switch {
	case out.DType == Float && raw != nil:
		out.Floats = make([]float32, n)
		for i := range out.Floats {
			out.Floats[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
		have = len(out.Floats)
	case out.DType == Float:
		out.Floats = append([]float32{}, t.FloatData...)
		have = len(out.Floats)
	case raw != nil:
		out.Ints = make([]int64, n)
		for i := range out.Ints {
			switch out.DType {
			case Int64:
				out.Ints[i] = int64(binary.LittleEndian.Uint64(raw[8*i:]))
			case Int32:
				out.Ints[i] = int64(int32(binary.LittleEndian.Uint32(raw[4*i:])))
			case Int8:
				out.Ints[i] = int64(int8(raw[i]))
			default:
				out.Ints[i] = int64(raw[i])
			}
		}
		have = len(out.Ints)
	case out.DType == Int64:
		out.Ints = append([]int64{}, t.Int64Data...)
		have = len(out.Ints)
	default:
		for _, v := range t.Int32Data {
			out.Ints = append(out.Ints, int64(v))
		}
		have = len(out.Ints)
	}
	if int64(have) != n {
		return nil, fmt.Errorf("shape %v needs %d values, the file holds %d", t.Dims, n, have)
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
	consumers := g.Consumers()
	missing := make(map[*Node]int, len(g.Nodes))
	index := make(map[*Node]int, len(g.Nodes))
	var queue []int
	for i, n := range g.Nodes {
		index[n] = i
		seen := map[string]bool{}
		for _, in := range n.Inputs {
			if !ready[in] && !seen[in] {
				seen[in] = true
				missing[n]++
			}
		}
		if missing[n] == 0 {
			queue = append(queue, i)
		}
	}
	sorted := make([]*Node, 0, len(g.Nodes))
	for len(queue) > 0 {
		n := g.Nodes[queue[0]]
		queue = queue[1:]
		sorted = append(sorted, n)
		for _, o := range n.Outputs {
			if o == "" || ready[o] {
				continue
			}
			ready[o] = true
			for _, c := range consumers[o] {
				if missing[c]--; missing[c] == 0 {
					at := sort.SearchInts(queue, index[c])
					queue = append(queue, 0)
					copy(queue[at+1:], queue[at:])
					queue[at] = index[c]
				}
			}
		}
	}
	if len(sorted) < len(g.Nodes) {
		for _, n := range g.Nodes {
			if missing[n] > 0 {
				for _, in := range n.Inputs {
					if !ready[in] {
						return fmt.Errorf("node %s reads %q, which nothing before it writes", n.Label(), in)
					}
				}
			}
		}
	}
	g.Nodes = sorted
	return nil
}
