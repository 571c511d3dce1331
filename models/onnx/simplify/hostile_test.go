package simplify_test

import (
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/grad"
	"selfheal/models/onnx"
	pb "selfheal/models/onnx/onnxpb"
	"selfheal/models/onnx/simplify"
)

// small are the models that the gradient tests use: every operator with a rule.
func small(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "grad", "gradtest", "testdata", "*.onnx"))
	if err != nil || len(files) == 0 {
		t.Fatal("no models in gradtest/testdata: ", err)
	}
	all := map[string][]byte{}
	for _, f := range files {
		all[strings.TrimSuffix(filepath.Base(f), ".onnx")] = must.Get(os.ReadFile(f))(t)
	}
	return all
}

// allocLimit bounds the memory that reading a file of some kilobytes may take: constant folding's bound is 2^24 values.
const allocLimit = 512 << 20

// read opens a model as a user's file is opened, asserting what holds of any bytes: no panic, no absurd allocation,
// errors on one line, and a graph that was accepted can be written, read again and given to the gradient walk.
func read(t testing.TB, data []byte) error {
	t.Helper()
	var g *onnx.Graph
	before := must.Allocated()
	err := must.Survive(t, func() (err error) {
		g, err = simplify.Open(data, simplify.Options{})
		return err
	})
	if used := must.Allocated() - before; used > allocLimit+100*uint64(len(data)) {
		t.Fatalf("took %d MiB", used>>20)
	}
	if err != nil {
		return err
	}
	written(t, g)
	for _, s := range g.Shapes {
		if s.Items() > 1<<22 {
			return nil // its gradient may need as much
		}
	}
	before = must.Allocated()
	if v, err := grad.VJP(g); err == nil {
		must.Get(v.Encode())(t)
	}
	// averagePool writes out its kernel, GlobalAveragePool and flipKernel theirs.
	if used := must.Allocated() - before; used > 4<<30 {
		t.Fatalf("its gradient took %d MiB", used>>20)
	}
	return nil
}

func TestTruncatedFiles(t *testing.T) {
	data := small(t)["net_residual"]
	for n := 0; n < len(data); n += 97 {
		if read(t, data[:n]) == nil {
			t.Errorf("the first %d of %d bytes are accepted", n, len(data))
		}
	}
	if err := read(t, data); err != nil {
		t.Error(err)
	}
}

func TestFlippedBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 97))
	refused := 0
	for _, name := range []string{"net_residual", "net_squeeze_excite", "maxpool_ceil", "upsample_opset9"} {
		data := small(t)[name]
		for range 2000 {
			flipped := slices.Clone(data)
			for range 1 + r.IntN(3) {
				flipped[r.IntN(len(data))] ^= byte(1 + r.IntN(255))
			}
			if read(t, flipped) != nil {
				refused++
			}
		}
	}
	if refused < 1000 || refused > 7900 {
		t.Errorf("%d of 8000 files are refused: the flips miss what matters", refused)
	}
}

// swap tries values in a place, one after the other, and puts back what was there.
func swap[T any](try func(), place *T, values ...T) {
	old := *place
	for _, v := range values {
		*place = v
		try()
	}
	*place = old
}

// eighth returns each eighth of some values, at each turn from another one on; SELFHEAL_TEST_LARGE takes all.
func eighth[T any](turn *int, of []T) (some []T) {
	if testinput.Large() {
		return of
	}
	for i := *turn % 8; i < len(of); i += 8 {
		some = append(some, of[i])
	}
	*turn++
	return some
}

// Every integer of every model is replaced by hostile ones, every input dropped, every output blanked, every operator
// exchanged. A place takes each eighth hostile integer and operator, the next place the others in turn; with
// SELFHEAL_TEST_LARGE it takes them all.
func TestHostileIntegers(t *testing.T) {
	tried, accepted := 0, 0
	integers, operators := 0, 0
	models := small(t)
	for _, name := range slices.Sorted(maps.Keys(models)) {
		data := models[name]
		var m pb.ModelProto
		must.Do(t, proto.Unmarshal(data, &m))
		try := func() {
			changed := must.Get(proto.Marshal(&m))(t)
			defer func() {
				if r := recover(); r != nil {
					panic(name + ": " + m.String())
				}
			}()
			tried++
			if read(t, changed) == nil {
				accepted++
			}
		}
		each := func(v []int64) {
			for i := range v {
				swap(try, &v[i], eighth(&integers, hostile)...)
			}
		}
		for _, in := range m.Graph.Input {
			for _, d := range in.GetType().GetTensorType().GetShape().GetDim() {
				old := d.Value
				for _, h := range eighth(&integers, hostile) {
					d.Value = &pb.TensorShapeProto_Dimension_DimValue{DimValue: h}
					try()
				}
				d.Value = old
			}
		}
		for _, c := range m.Graph.Initializer {
			each(c.Dims)
			if c.GetDataType() == 7 && len(c.RawData) <= 64 {
				for i := 0; i < len(c.RawData); i += 8 {
					for _, h := range eighth(&integers, hostile) {
						changed := binary.LittleEndian.AppendUint64(slices.Clone(c.RawData[:i]), uint64(h))
						swap(try, &c.RawData, append(changed, c.RawData[i+8:]...))
					}
				}
			}
		}
		for _, n := range m.Graph.Node {
			for _, a := range n.Attribute {
				each(a.Ints)
				if a.I != nil {
					for _, h := range eighth(&integers, hostile) {
						swap(try, &a.I, &h)
					}
				}
			}
			for i := range n.Attribute { // without an attribute
				swap(try, &n.Attribute, slices.Delete(slices.Clone(n.Attribute), i, i+1))
			}
			for i := range n.Input {
				swap(try, &n.Input, slices.Delete(slices.Clone(n.Input), i, i+1))
				swap(try, &n.Input[i], "", "x")
			}
			for i := range n.Output {
				swap(try, &n.Output[i], "")
			}
			for _, other := range eighth(&operators, []string{"Identity", "Shape", "Reshape", "Concat", "Dropout",
				"Split", "Cast", "Constant", "Gather", "Softmax", "Conv", "ReduceSum", "Resize", "Slice", "TopK",
				"MaxPool", "Clip"}) {
				swap(try, &n.OpType, &other)
			}
		}
	}
	t.Logf("%d changed models, %d accepted", tried, accepted)
}
