package onnx

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	pb "selfheal/models/onnx/onnxpb"
)

// Bounds of what a file's functions may expand to: calls that each call twice
// would double it again and again.
const (
	maxFunctionDepth = 64
	maxFunctionNodes = 1 << 18
	maxFunctionBytes = 64 << 20 // of names
)

// placedNode is a node of a file and where it stands there.
type placedNode struct {
	*pb.NodeProto
	origin *Origin
}

// inlineFunctions returns the model's nodes with each call of a model-local
// function replaced by the function's nodes: attributes that refer to the
// call's take their values, inner tensors get names of their own. PyTorch's
// newer exporter writes such functions. A function that calls itself is an error.
func inlineFunctions(m *pb.ModelProto) ([]placedNode, error) {
	x := expansion{functions: map[string]*pb.FunctionProto{}, taken: map[string]bool{}}
	for _, f := range m.Functions {
		key := functionKey(f.GetDomain(), f.GetName(), f.GetOverload())
		if x.functions[key] != nil {
			return nil, fmt.Errorf("function %s is defined twice", clip(f.GetName()))
		}
		x.functions[key] = f
	}
	// A model that imports only its functions' domain takes the standard operators' version from them.
	if operatorSet(m.OpsetImport, "") == 0 {
		for _, f := range m.Functions {
			if v := operatorSet(f.OpsetImport, ""); v != 0 {
				m.OpsetImport = append(m.OpsetImport, &pb.OperatorSetIdProto{Domain: proto.String(""),
					Version: proto.Int64(v)})
				break
			}
		}
	}
	if len(x.functions) > 0 {
		x.take(m.Graph)
	}
	for i, n := range m.Graph.Node {
		if err := x.expand(n, m.OpsetImport, i); err != nil {
			return nil, fmt.Errorf("node %d (%s %s): %w", i, clip(n.GetOpType()), clip(n.GetName()), err)
		}
	}
	return x.nodes, nil
}

func functionKey(domain, name, overload string) string {
	return standardDomain(domain) + "\x00" + name + "\x00" + overload
}

// expansion is the state of inlineFunctions.
type expansion struct {
	functions map[string]*pb.FunctionProto
	taken     map[string]bool // names of tensors
	nodes     []placedNode
	inlined   int // nodes that came out of functions
	bytes     int // and the names made for them
	calls     int
}

// take records every name of the graph's own tensors.
func (x *expansion) take(g *pb.GraphProto) {
	for _, t := range g.Initializer {
		x.taken[t.GetName()] = true
	}
	for _, v := range g.Input {
		x.taken[v.GetName()] = true
	}
	for _, n := range g.Node {
		for _, name := range slices.Concat(n.Input, n.Output) {
			x.taken[name] = true
		}
	}
}

// expand appends the model's node i, or what it expands to.
func (x *expansion) expand(n *pb.NodeProto, imports []*pb.OperatorSetIdProto, i int) (err error) {
	defer Refused(&err)
	x.node(n, imports, Origin{Index: i}, nil)
	return nil
}

// node appends n, or what it expands to. calling lists the functions being expanded.
func (x *expansion) node(n *pb.NodeProto, imports []*pb.OperatorSetIdProto, at Origin, calling []string) {
	key := functionKey(n.GetDomain(), n.GetOpType(), n.GetOverload())
	f := x.functions[key]
	if f == nil {
		at.Opset = operatorSet(imports, standardDomain(n.GetDomain()))
		x.nodes = append(x.nodes, placedNode{n, &at})
		return
	}
	Require(!slices.Contains(calling, key), "function %.80q calls itself", f.GetName())
	Require(len(calling) < maxFunctionDepth, "its functions call each other more than %d deep", maxFunctionDepth)
	Require(len(n.Input) <= len(f.Input) && len(n.Output) <= len(f.Output),
		"function %.80q takes %d inputs and gives %d outputs, the call has %d and %d", f.GetName(),
		len(f.Input), len(f.Output), len(n.Input), len(n.Output))
	if at.Function == "" {
		at.Function = f.GetName()
	}
	x.calls++
	rename := x.bind(n, f, at)
	for _, inner := range f.Node {
		x.inlined++
		Require(x.inlined <= maxFunctionNodes && x.bytes <= maxFunctionBytes,
			"its functions expand to more than %d nodes", maxFunctionNodes)
		c := &pb.NodeProto{Name: inner.Name, OpType: inner.OpType, Domain: inner.Domain, Overload: inner.Overload,
			Attribute: bindAttributes(inner, n, f)}
		if n.GetName() != "" && inner.GetName() != "" {
			c.Name = proto.String(x.spend(clipName(n.GetName() + "/" + inner.GetName())))
		}
		for _, in := range inner.Input {
			c.Input = append(c.Input, rename(in))
		}
		for _, out := range inner.Output {
			c.Output = append(c.Output, rename(out))
		}
		x.node(c, f.OpsetImport, at, append(calling, key))
	}
}

// clipName bounds the names of nodes in functions in functions.
func clipName(s string) string { return s[max(0, len(s)-200):] }

func (x *expansion) spend(s string) string {
	x.bytes += len(s)
	return s
}

// bind maps the names inside a function to those outside of one call: inputs to the call's, outputs
// to the call's, everything else to new names.
func (x *expansion) bind(n *pb.NodeProto, f *pb.FunctionProto, at Origin) func(string) string {
	names := map[string]string{"": ""}
	inputs := map[string]bool{}
	for i, in := range f.Input {
		Require(!inputs[in], "function %.80q names its input %.80q twice", f.GetName(), in)
		inputs[in], names[in] = true, ""
		if i < len(n.Input) {
			names[in] = n.Input[i]
		}
	}
	for i, out := range f.Output {
		if i >= len(n.Output) || n.Output[i] == "" {
			continue
		}
		if outer, bound := names[out]; bound {
			// An input, or an output that was named before: copied.
			at.Opset = operatorSet(f.OpsetImport, "")
			x.nodes = append(x.nodes, placedNode{&pb.NodeProto{OpType: proto.String("Identity"), Input: []string{outer},
				Output: []string{n.Output[i]}}, &at})
			continue
		}
		names[out] = n.Output[i]
	}
	call := x.calls
	return func(name string) string {
		if to, ok := names[name]; ok {
			return to
		}
		to := fmt.Sprintf("%s@%d", name, call)
		for x.taken[to] {
			to += "'"
		}
		x.taken[to] = true
		names[name] = x.spend(to)
		return to
	}
}

// bindAttributes resolves references to the call's attributes and to the function's defaults.
func bindAttributes(inner, call *pb.NodeProto, f *pb.FunctionProto) (out []*pb.AttributeProto) {
	for _, a := range inner.Attribute {
		ref := a.GetRefAttrName()
		if ref == "" {
			out = append(out, a)
			continue
		}
		named := func(b *pb.AttributeProto) bool { return b.GetName() == ref }
		value := call.Attribute
		i := slices.IndexFunc(value, named)
		if i < 0 {
			value = f.AttributeProto
			i = slices.IndexFunc(value, named)
		}
		if i < 0 { // optional, and not given
			Require(slices.Contains(f.Attribute, ref), "function %.80q has no attribute %.80q", f.GetName(), ref)
			continue
		}
		v := value[i]
		b := &pb.AttributeProto{Name: a.Name, Type: v.Type, F: v.F, I: v.I, S: v.S, T: v.T, G: v.G, Tp: v.Tp,
			Floats: v.Floats, Ints: v.Ints, Strings: v.Strings, Tensors: v.Tensors, Graphs: v.Graphs,
			SparseTensor: v.SparseTensor, SparseTensors: v.SparseTensors, TypeProtos: v.TypeProtos}
		r := v.GetRefAttrName()
		Require(r == "", "attribute %.80q of the call refers to %.80q outside of a function", ref, r)
		out = append(out, b)
	}
	return out
}

// String tells the place in words: node 12, or node 12 (in function F).
func (o *Origin) String() string {
	s := fmt.Sprintf("node %d", o.Index)
	if o.Function != "" {
		s += " (in function " + strings.Trim(clip(o.Function), `"`) + ")"
	}
	return s
}
