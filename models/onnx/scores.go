package onnx

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	pb "selfheal/models/onnx/onnxpb"
)

// Classical is the domain of scikit-learn's and tree ensembles' operators.
const Classical = "ai.onnx.ml"

// classesKey is the metadata entry with the names of a model's classes, if they are not 0, 1, 2, …
const classesKey = "selfheal.classes"

const textType = pb.TensorProto_STRING

// scores returns a model all of whose outputs are tensors of numbers: a ZipMap, which makes a dictionary of an item's
// scores, gives way to the scores themselves, and an output of texts is dropped if there is another. The nodes that
// serve these alone are dropped too; the operators that compute the scores stay. It also notes the classes' names. A
// model without any of these comes back as it is. numbered reports whether the classes are 0, 1, 2, …
func scores(data []byte) (edited []byte, numbered bool) {
	if !bytes.Contains(data, []byte(Classical)) { // spares a large model's parsing
		return data, true
	}
	m, err := parse(data)
	if err != nil || operatorSet(m.OpsetImport, Classical) == 0 {
		return data, true // Decode says what is wrong
	}
	g, made := m.Graph, map[string]*pb.NodeProto{}
	named := ""
	for _, n := range g.Node {
		for _, o := range n.Output {
			made[o] = n
		}
		if names := classLabels(n); named == "" && names != nil {
			named = strings.Join(names, ", ")
		}
	}
	var outputs []*pb.ValueInfoProto
	for _, o := range g.Output {
		switch n := made[o.GetName()]; {
		case n.GetOpType() == "ZipMap" && n.GetDomain() == Classical && len(n.Input) == 1:
			outputs = append(outputs, pb.Value(n.Input[0], int32(Float), "N", Batch, labelled(n)))
		case o.GetType().GetTensorType().GetElemType() != int32(textType):
			outputs = append(outputs, o)
		}
	}
	same := func(a, b *pb.ValueInfoProto) bool { return a == b }
	if len(outputs) == 0 || named == "" && slices.EqualFunc(outputs, g.Output, same) {
		return data, true
	}
	g.Output = outputs
	prune(g)
	if named != "" {
		m.MetadataProps = append(m.MetadataProps, &pb.StringStringEntryProto{Key: proto.String(classesKey),
			Value: proto.String(named)})
	}
	return marshal(m), named == ""
}

// EndingAt returns a model whose only output is a tensor that one of its nodes gives, without what that does not need.
// The tensor is of float32 unless the model says otherwise. ok is false if no node gives it.
func EndingAt(data []byte, name string) (edited []byte, ok bool) {
	m, err := parse(data)
	if err != nil || !slices.ContainsFunc(m.Graph.Node, func(n *pb.NodeProto) bool {
		return slices.Contains(n.Output, name)
	}) {
		return data, false
	}
	g, out := m.Graph, pb.Value(name, int32(Float), "")
	out.Type.GetTensorType().Shape = nil // unknown
	for _, v := range g.ValueInfo {
		if v.GetName() == name {
			out = v
		}
	}
	g.Output = []*pb.ValueInfoProto{out}
	prune(g)
	return marshal(m), true
}

// prune drops nodes and initializers that no output needs.
func prune(g *pb.GraphProto) {
	need := map[string]bool{}
	for _, o := range g.Output {
		need[o.GetName()] = true
	}
	var kept []*pb.NodeProto
	for _, n := range slices.Backward(g.Node) {
		if !slices.ContainsFunc(n.Output, func(o string) bool { return need[o] }) {
			continue
		}
		for _, in := range n.Input {
			need[in] = true
		}
		for _, a := range n.Attribute {
			if a.G != nil {
				captures(a.G, nil, func(name string) string { need[name] = true; return name })
			}
		}
		kept = append(kept, n)
	}
	slices.Reverse(kept)
	g.Node = kept
	g.Initializer = slices.DeleteFunc(g.Initializer, func(t *pb.TensorProto) bool { return !need[t.GetName()] })
}

func attributeOf(n *pb.NodeProto, name string) *pb.AttributeProto {
	i := slices.IndexFunc(n.Attribute, func(a *pb.AttributeProto) bool { return a.GetName() == name })
	if i < 0 {
		return nil
	}
	return n.Attribute[i]
}

// intLabels are the attributes with the classes' numbers.
var intLabels = []string{"classlabels_int64s", "classlabels_ints"}

// labelled returns how many classes a node lists, Batch for none.
func labelled(n *pb.NodeProto) int64 {
	for _, name := range append([]string{"classlabels_strings"}, intLabels...) {
		a := attributeOf(n, name)
		if count := max(len(a.GetStrings()), len(a.GetInts())); count > 0 {
			return int64(count)
		}
	}
	return Batch
}

// classLabels returns the names of the classes that a node lists; nil if they are 0, 1, 2, … or it lists none.
func classLabels(n *pb.NodeProto) (names []string) {
	if n.GetDomain() != Classical {
		return nil
	}
	for _, v := range attributeOf(n, "classlabels_strings").GetStrings() {
		names = append(names, fmt.Sprintf("%.40q", v))
	}
	for _, name := range intLabels {
		ints := attributeOf(n, name).GetInts()
		if slices.Equal(ints, Range(0, len(ints))) {
			continue
		}
		names = Each(ints, func(v int64) string { return fmt.Sprint(v) })
	}
	if len(names) > 2*mostPlaces {
		names = append(names[:2*mostPlaces], "…")
	}
	return names
}
