package simplify_test

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"
	"testing"
	"testing/fstest"

	"google.golang.org/protobuf/proto"

	"selfheal/internal/must"
	"selfheal/models/grad"
	"selfheal/models/onnx"
	pb "selfheal/models/onnx/onnxpb"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
	"selfheal/models/optimize"
	"selfheal/models/split"
)

// passes gives a model file, and the weights beside it, to everything that a network goes through before it runs:
// reading, simplifying, preprocessing, cutting, faster forms, gradients and losses. Each may refuse it.
func passes(t *testing.T, data, weights []byte) {
	var file *onnx.File
	var g *onnx.Graph
	if must.Survive(t, func() (err error) {
		folder := fstest.MapFS{"m.onnx": {Data: data}, "w.bin": {Data: weights}}
		if file, err = onnx.ReadFS(folder, "m.onnx"); err == nil {
			g, err = simplify.Open(file.Data, simplify.Options{})
		}
		return err
	}) != nil {
		return
	}
	written(t, g)
	for what, pass := range map[string]func(g *onnx.Graph) ([]*onnx.Graph, error){
		"preprocess": func(g *onnx.Graph) ([]*onnx.Graph, error) {
			half := simplify.Options{Mean: []float32{0.5}, Std: []float32{0.25}}
			return []*onnx.Graph{g}, simplify.Preprocess(g, half)
		},
		"boundaries": func(g *onnx.Graph) ([]*onnx.Graph, error) { return split.At(g, split.Boundaries(g)) },
		"cuts":       func(g *onnx.Graph) ([]*onnx.Graph, error) { return split.At(g, split.Cuts(g)) },
		"optimize":   one(optimize.Graph),
		"gradient":   one(grad.VJP),
		"unrounded": func(g *onnx.Graph) ([]*onnx.Graph, error) {
			made, err := simplify.Unrounded(g)
			if made == nil {
				return nil, err
			}
			return []*onnx.Graph{made}, err
		},
		"losses": one(func(g *onnx.Graph) (*onnx.Graph, error) {
			return grad.Losses(g, slices.Sorted(maps.Keys(grad.Heads)))
		}),
		"faster gradient": one(func(g *onnx.Graph) (*onnx.Graph, error) {
			faster, err := optimize.Graph(g)
			if err != nil {
				return nil, err
			}
			return grad.VJP(faster)
		}),
	} {
		t.Log(what) // for a failure's sake
		var made []*onnx.Graph
		if must.Survive(t, func() (err error) {
			made, err = pass(g.Clone())
			return err
		}) == nil {
			for _, m := range made {
				written(t, m)
			}
		}
	}
}

// one makes a pass of what gives one graph.
func one(pass func(g *onnx.Graph) (*onnx.Graph, error)) func(g *onnx.Graph) ([]*onnx.Graph, error) {
	return func(g *onnx.Graph) ([]*onnx.Graph, error) {
		made, err := pass(g)
		return []*onnx.Graph{made}, err
	}
}

// written asserts that a graph which was accepted can be written, and is the same when it is read again.
func written(t testing.TB, g *onnx.Graph) {
	t.Helper()
	must.Do(t, must.Survive(t, func() error {
		g.FLOPs()
		data, err := g.Encode()
		if err != nil {
			return err
		}
		again, err := onnx.Decode(data)
		if err != nil {
			return err
		}
		again.Shapes = map[string]onnx.Shape{}
		for _, v := range again.Inputs {
			again.Shapes[v.Name] = v.Shape
		}
		for name, t := range again.Consts {
			again.Shapes[name] = t.Shape
		}
		for _, n := range again.Nodes {
			if err == nil {
				err = again.InferNode(n)
			}
		}
		for name, s := range g.Shapes {
			if err == nil && !slices.Equal(s, again.Shapes[name]) {
				err = errors.New(name + " has another shape")
			}
		}
		return err
	}))
}

// hostile are integers that a file may hold in the place of others.
var hostile = []int64{0, -1, 2, 3, 1 << 20, 1 << 31, 1 << 62, math.MaxInt64, math.MinInt64}

// edited changes a model as a list of bytes says, so that a fuzzer reaches what is behind the protobuf. Bytes that
// are no model stay as they are.
func edited(data, edits []byte) []byte {
	var m pb.ModelProto
	if len(edits) == 0 || proto.Unmarshal(data, &m) != nil || m.Graph == nil || len(m.Graph.Node) == 0 ||
		len(m.Graph.Input) == 0 || len(m.Graph.Output) == 0 || len(m.OpsetImport) == 0 {
		return data
	}
	next := func(n int) int { // the next byte as one of n choices
		if len(edits) == 0 || n == 0 {
			return 0
		}
		b := int(edits[0])
		edits = edits[1:]
		return b % n
	}
	g, names, operators := m.Graph, []string{""}, onnx.Operators()
	for _, v := range slices.Concat(g.Input, g.Output) {
		names = append(names, v.GetName())
	}
	for _, c := range g.Initializer {
		names = append(names, c.GetName())
	}
	for _, n := range g.Node {
		names = append(names, n.Output...)
	}
	change := func(list []string) {
		if len(list) > 0 {
			list[next(len(list))] = names[next(len(names))]
		}
	}
	number := func(list []int64) {
		if len(list) > 0 {
			list[next(len(list))] = hostile[next(len(hostile))]
		}
	}
	for len(edits) > 0 {
		at := next(len(g.Node))
		n := g.Node[at]
		switch next(11) {
		case 0:
			change(n.Input)
		case 1:
			change(n.Output)
		case 2:
			n.OpType = &operators[next(len(operators))]
		case 3:
			n.Input = append(n.Input, names[next(len(names))])
		case 4:
			n.Input = n.Input[:next(len(n.Input)+1)]
		case 5:
			g.Node = slices.Insert(g.Node, next(len(g.Node)), proto.CloneOf(n))
		case 6:
			if len(n.Attribute) > 0 {
				a := n.Attribute[next(len(n.Attribute))]
				a.I = &hostile[next(len(hostile))]
				number(a.Ints)
			}
		case 7:
			g.Output[0].Name = &names[next(len(names))]
		case 8:
			m.OpsetImport[0].Version = proto.Int64(int64(next(30)))
		case 9:
			if len(g.Initializer) > 0 {
				c := g.Initializer[next(len(g.Initializer))]
				if number(c.Dims); c.GetDataType() == int32(onnx.Int64) && len(c.RawData) >= 8 {
					binary.LittleEndian.PutUint64(c.RawData, uint64(hostile[next(len(hostile))]))
				}
			}
		case 10:
			for _, d := range g.Input[0].GetType().GetTensorType().GetShape().GetDim() {
				d.Value = &pb.TensorShapeProto_Dimension_DimValue{DimValue: int64(next(256))}
			}
		}
	}
	if out, err := proto.Marshal(&m); err == nil {
		return out
	}
	return data
}

func FuzzOpen(f *testing.F) {
	seed := func(data []byte) { f.Add(data, make([]byte, 16), []byte(nil)) }
	for _, data := range small(f) {
		seed(data)
	}
	seed(file(13, 2, 3, 4).Node("Shape x → s; i=0,; Gather s i → n; Concat n i → t axis=0").
		Node("Reshape x t → y").Bytes(2, 12))
	seed(file(11, 2, 1, 2, 2).Node("s=2,1,4,6; Resize x _ _ s → y mode=nearest").
		Bytes(2, 1, 4, 6))
	seed(file(13, N, 2, 2).Node("s=2,2; ConstantOfShape s → c; Split c → a b axis=0; Mul x a → y").Bytes(N, 2, 2))
	calls := file(13, N, 2)
	calls.Function("F", "x", "y", []string{"a"}, func(f File) {
		f.Node("LeakyRelu x → y")
		f.Refer("alpha", "a", pb.AttributeProto_FLOAT)
	})
	seed(calls.Node("F@local x → m a=0.5; F@local m → y").Bytes(N, 2))
	raw := func(kind int32, name string, bytes int) *pb.TensorProto {
		return &pb.TensorProto{Name: &name, DataType: &kind, Dims: []int64{2}, RawData: make([]byte, bytes)}
	}
	seed(file(13, N, 2).Tensor(raw(10, "h", 4)).Tensor(raw(11, "d", 16)).
		Node("Mul x h → m; Add m d → n; Cast n → y to=10").Bytes(N, 2))
	seed(file(13, N, 2).Floats("s", nil, 0.5).Floats("ws", []int64{2}, 0.5, 2).
		Tensor(quantized("z", 3, nil, 2)).Tensor(quantized("w", 3, []int64{2, 2}, 1, 2, 3, 4)).
		Node("QuantizeLinear x s z → q; DequantizeLinear q s z → a; DequantizeLinear w ws → f axis=0").
		Node("MatMul a f → y").Bytes(N, 2))
	seed(file(13, N, 2).Tensor(onnxtest.External("w", []int64{2}, "location=w.bin offset=8")).
		Node("Mul x w → y").Bytes(N, 2))
	for _, c := range integerCases() {
		seed(c.bytes())
	}
	f.Add(small(f)["net_residual"], []byte(nil), []byte{3, 2, 9, 5, 5, 1, 1, 0, 0, 2})
	f.Fuzz(func(t *testing.T, data, weights, edits []byte) {
		if len(data) < 1<<16 {
			passes(t, edited(data, edits), weights)
		}
	})
}
