package onnxtest_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/internal/must"
	"selfheal/models/onnx"
	pb "selfheal/models/onnx/onnxpb"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
)

// skeletonOf takes a model's weights out, as scripts/zoo/export.py --skeleton does.
func skeletonOf(t *testing.T, data []byte) []byte {
	t.Helper()
	var m pb.ModelProto
	must.Do(t, proto.Unmarshal(data, &m))
	for _, c := range m.Graph.Initializer {
		if c.GetDataType() == 1 && onnx.Shape(c.Dims).Items() > 16 {
			c.RawData, c.FloatData = nil, nil
		}
	}
	m.MetadataProps = append(m.MetadataProps, &pb.StringStringEntryProto{Key: proto.String("selfheal.skeleton"),
		Value: proto.String("1")})
	return must.Get(proto.Marshal(&m))(t)
}

// A filled skeleton has the model's graph and constants of its shapes, the
// small ones with their values, and runs; opened as a model it is refused.
func TestFillSkeleton(t *testing.T) {
	data := must.Get(os.ReadFile(filepath.Join("..", "..", "zoo", "preact_standard.onnx")))(t)
	bare := skeletonOf(t, data)
	if len(bare) > len(data)/20 {
		t.Errorf("%d bytes of %d are left", len(bare), len(data))
	}
	_, err := simplify.Open(bare, simplify.Options{})
	must.Refuse(t, err, "is a skeleton")
	want := must.Get(onnx.Decode(data))(t)
	g := must.Get(onnxtest.FillSkeleton(bare, 7))(t)
	if onnxtest.Operators(g) != onnxtest.Operators(want) || len(g.Inputs) != 1 || g.Meta["selfheal.skeleton"] != "" {
		t.Errorf("%s with inputs %v, metadata %v", onnxtest.Operators(g), g.Inputs, g.Meta)
	}
	for name, c := range want.Consts {
		f := g.Consts[name]
		switch {
		case f == nil || f.DType != c.DType || !slices.Equal(f.Shape, c.Shape):
			t.Errorf("%s is %v, not %v", name, f, c.Shape)
		case f.Len() <= 16 && (!slices.Equal(f.Floats, c.Floats) || !slices.Equal(f.Ints, c.Ints)):
			t.Errorf("%s has lost its values", name)
		}
	}
	must.Do(t, simplify.Graph(g))
	for _, v := range onnxtest.Run(t, g, onnxtest.Ramp(3*32*32)) {
		if !(math.Abs(float64(v)) < 50) {
			t.Errorf("a logit is %v", v)
		}
	}
}

// Weights follow from the seed and their names: pinned bits, which every
// platform must draw, and a moment of each distribution.
func TestSkeletonWeights(t *testing.T) {
	f := onnxtest.New(13, N, 4, 8, 8)
	bare := func(name string, dims ...int64) {
		f.Tensor(&pb.TensorProto{Name: proto.String(name), DataType: proto.Int32(1), Dims: dims})
	}
	bare("w", 64, 4, 3, 3)
	bare("b", 64)
	for _, name := range []string{"scale", "bias", "mean", "var"} {
		bare(name, 64)
	}
	bare("last", 64, 64, 1, 1)
	bare("head", 64, 100)
	bare("turned", 100, 64)
	f.Node("Conv x w b → c pads=1,1,1,1; BatchNormalization c scale bias mean var → n; Relu n → r")
	f.Node("Conv r last → d; Add d n → s; GlobalAveragePool s → p; Flatten p → f; MatMul f head → h")
	f.Node("Transpose turned → u; MatMul f u → v; Add h v → y")
	data := skeletonOf(t, f.Bytes(N, 100))
	g := must.Get(onnxtest.FillSkeleton(data, 1))(t)
	for _, c := range []struct {
		name            string
		mean, deviation float64
		first           uint32
	}{
		{"w", 0, math.Sqrt(1. / 36), 0xbe5d757c}, {"b", 0, 0.1, 0x3e0c9c2c}, {"scale", 1, math.Sqrt(1. / 12),
			0x3fa68659}, {"var", 1, math.Sqrt(1. / 12), 0x3f342376},
		{"bias", 0, 0.1, 0x3deda32a}, {"mean", 0, 0.1, 0xbba036f6},
		{"last", 0, math.Sqrt(2. / 64 / 2), 0x3e26ba10},   // after a ReLU, one of two joins
		{"head", 0, math.Sqrt(1. / 64 / 2), 0x3e04219e},   // meets another branch that ends in weights
		{"turned", 0, math.Sqrt(1. / 64 / 2), 0x3debc71b}, // likewise, fan-in of the transposed
	} {
		v := g.Consts[c.name].Floats
		mean, square := 0.0, 0.0
		for _, x := range v {
			mean += float64(x) / float64(len(v))
		}
		for _, x := range v {
			square += (float64(x) - mean) * (float64(x) - mean) / float64(len(v))
		}
		tolerance := 5 * c.deviation / math.Sqrt(float64(len(v)))
		if math.Abs(mean-c.mean) > tolerance || math.Abs(math.Sqrt(square)-c.deviation) > tolerance {
			t.Errorf("%s: mean %.3f, deviation %.4f, want %g, %.4f", c.name, mean, math.Sqrt(square), c.mean,
				c.deviation)
		}
		if got := math.Float32bits(v[0]); got != c.first {
			t.Errorf("%s begins with %#x, not %#x", c.name, got, c.first)
		}
	}
	again := must.Get(onnxtest.FillSkeleton(data, 1))(t)
	other := must.Get(onnxtest.FillSkeleton(data, 2))(t)
	if !slices.Equal(g.Consts["w"].Floats, again.Consts["w"].Floats) || slices.Equal(g.Consts["w"].Floats,
		other.Consts["w"].Floats) {
		t.Error("weights do not follow from the seed")
	}
	if slices.Equal(g.Consts["head"].Floats, g.Consts["turned"].Floats) {
		t.Error("weights do not follow from their names")
	}
}

func TestSkeletonErrors(t *testing.T) {
	small := onnxtest.New(13, N, 2).Node("Neg x → y").Bytes(N, 2)
	bare := func(dims ...int64) []byte {
		f := onnxtest.New(13, N, 2)
		f.Tensor(&pb.TensorProto{Name: proto.String("w"), DataType: proto.Int32(1), Dims: dims})
		return skeletonOf(t, f.Node("MatMul x w → y").Bytes(N, 2))
	}
	twice := onnxtest.New(13, N, 2)
	for range 2 {
		twice.Tensor(&pb.TensorProto{Name: proto.String("w"), DataType: proto.Int32(1), Dims: []int64{2, 20}})
	}
	for want, data := range map[string][]byte{
		"is not a skeleton": small,
		"not an ONNX model": []byte("x"),
		"more than":         bare(1<<15, 1<<15),
		"is not possible":   bare(1<<62, 1<<62),
		"is defined twice":  skeletonOf(t, twice.Node("MatMul x w → y").Bytes(N, 20)),
		"needs 4 values":    bare(2, 2),
	} {
		_, err := onnxtest.FillSkeleton(data, 0)
		must.Refuse(t, err, want)
	}
}
