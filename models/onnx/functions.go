package onnx

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	pb "selfheal/models/onnx/onnxpb"
)

// Bounds on the expansion of a file's functions: calls that each call twice would double it again and again.
const (
	maxFunctionDepth = 64
	maxFunctionNodes = 1 << 18
	maxFunctionBytes = 64 << 20 // of names
)

type placedNode struct {
	*pb.NodeProto
	origin *Origin
}

// inlineFunctions returns the model's nodes with each call of a model-local function replaced by the function's nodes.
// Attributes that refer to the call's get their values, and inner tensors get fresh names. PyTorch's newer exporter
// writes such functions. A function that calls itself is refused.
func inlineFunctions(m *pb.ModelProto) []placedNode {
	x := expansion{functions: map[string]*pb.FunctionProto{}, taken: map[string]bool{}}
	standard := operatorSet(m.OpsetImport, "")
	for _, f := range m.Functions {
		key := functionKey(f.GetDomain(), f.GetName(), f.GetOverload())
		Require(x.functions[key] == nil, "function %.80q is defined twice", f.GetName())
		x.functions[key] = f
		// A model that imports only its functions' domain takes the standard operators' version from them.
		if standard == 0 {
			if standard = operatorSet(f.OpsetImport, ""); standard != 0 {
				m.OpsetImport = append(m.OpsetImport, &pb.OperatorSetIdProto{Version: &standard})
			}
		}
	}
	if len(x.functions) > 0 {
		x.take(m.Graph)
	}
	for i, n := range m.Graph.Node {
		at(func() any {
			x.node(n, m.OpsetImport, Origin{Index: i}, nil)
			return nil
		}, "node %d (%.80q %.80q)", i, n.GetOpType(), n.GetName())
	}
	return x.nodes
}

func functionKey(domain, name, overload string) string {
	return standardDomain(domain) + "\x00" + name + "\x00" + overload
}

type expansion struct {
	functions map[string]*pb.FunctionProto
	taken     map[string]bool // names of tensors
	nodes     []placedNode
	inlined   int // nodes from functions so far
	bytes     int // bytes in the names made for them
	calls     int
}

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

// node appends n or its expansion. calling lists the functions being expanded.
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
	at.Function = cmp.Or(at.Function, f.GetName())
	x.calls++
	rename := x.bind(n, f, at)
	for _, inner := range f.Node {
		x.inlined++
		Require(x.inlined <= maxFunctionNodes && x.bytes <= maxFunctionBytes,
			"its functions expand to more than %d nodes", maxFunctionNodes)
		c := &pb.NodeProto{Name: inner.Name, OpType: inner.OpType, Domain: inner.Domain, Overload: inner.Overload,
			Attribute: bindAttributes(inner, n, f)}
		if n.GetName() != "" && inner.GetName() != "" {
			name := n.GetName() + "/" + inner.GetName()
			c.Name = proto.String(x.spend(name[max(0, len(name)-200):]))
		}
		c.Input = Each(inner.Input, rename)
		for i, a := range c.Attribute {
			if a.G != nil {
				c.Attribute[i] = proto.Clone(a).(*pb.AttributeProto)
				captures(c.Attribute[i].G, nil, rename)
			}
		}
		c.Output = Each(inner.Output, rename)
		x.node(c, f.OpsetImport, at, append(calling, key))
	}
}

func (x *expansion) spend(name string) string {
	x.bytes += len(name)
	return name
}

// bind returns a map from names inside a function to names at one call: inputs and outputs to the call's, all others to
// fresh names.
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
			// An input, or an output that was named before, is copied.
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
		values := slices.Concat(call.Attribute, f.AttributeProto)
		i := slices.IndexFunc(values, func(b *pb.AttributeProto) bool { return b.GetName() == ref })
		if i < 0 { // optional, and absent
			Require(slices.Contains(f.Attribute, ref), "function %.80q has no attribute %.80q", f.GetName(), ref)
			continue
		}
		v := values[i]
		r := v.GetRefAttrName()
		Require(r == "", "attribute %.80q of the call refers to %.80q outside of a function", ref, r)
		out = append(out, &pb.AttributeProto{Name: a.Name, Type: v.Type, F: v.F, I: v.I, S: v.S, T: v.T, G: v.G,
			Tp: v.Tp, Floats: v.Floats, Ints: v.Ints, Strings: v.Strings, Tensors: v.Tensors, Graphs: v.Graphs,
			SparseTensor: v.SparseTensor, SparseTensors: v.SparseTensors, TypeProtos: v.TypeProtos})
	}
	return out
}

// String returns the place in words: node 12, or node 12 (in function F).
func (o *Origin) String() string {
	s := fmt.Sprintf("node %d", o.Index)
	if o.Function != "" {
		s += " (in function " + strings.Trim(fmt.Sprintf("%.80q", o.Function), `"`) + ")"
	}
	return s
}
