package onnx_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// Networks whose shape arithmetic names the batch, or which were exported with a
// batch of 1, give every item of a batch of 3 what they give it alone.
func TestBatchIsOpened(t *testing.T) {
	ones := floatTensor("", []int64{1}, 1)
	batch := func(f file) file { return f.ints("zero", 0).node("Shape x → s").node("Gather s zero → n") }
	for _, c := range []struct {
		name  string
		data  []byte
		shape onnx.Shape
		value func(x []float32) []float32
	}{
		{"a token joined to a batch of 1", newFile(13, 1, 2, 2).floats("c", []int64{1, 1, 2}, 7).ints("e", 1, -1, -1).ints("one", 1).
			node("Shape c → s").node("Expand c s → t").node("Concat t x → y", "axis", 1).bytes(1, 3, 2),
			onnx.Shape{N, 3, 2}, func(x []float32) []float32 { return append([]float32{7, 7}, x...) }},
		{"a token expanded to the batch", batch(newFile(13, N, 2, 2)).floats("c", []int64{1, 1, 2}, 7).ints("r", 1, 2).
			node("Concat n r → t", "axis", 0).node("Expand c t → e").node("Concat e x → y", "axis", 1).bytes(N, 3, 2),
			onnx.Shape{N, 3, 2}, func(x []float32) []float32 { return append([]float32{7, 7}, x...) }},
		{"an expanded part of the item", batch(newFile(13, N, 1, 2)).ints("r", 2, 2).
			node("Concat n r → t", "axis", 0).node("Expand x t → y").bytes(N, 2, 2),
			onnx.Shape{N, 2, 2}, func(x []float32) []float32 { return append(slices.Clone(x), x...) }},
		{"ones of the batch's size", batch(newFile(13, N, 2)).ints("r", 2).
			node("Concat n r → t", "axis", 0).node("ConstantOfShape t → o", "value", ones).node("Add o x → y").bytes(N, 2),
			onnx.Shape{N, 2}, func(x []float32) []float32 { return []float32{x[0] + 1, x[1] + 1} }},
		{"a Squeeze without axes", newFile(13, N, 1, 2, 1).node("Squeeze x → y").bytes(N, 2), onnx.Shape{N, 2}, slices.Clone[[]float32]},
		{"a batch of 1 joined with heads", newFile(13, 1, 2, 4).ints("h", 2, 2, 2).ints("b", 2, 1, 4).
			node("Transpose x → t", "perm", []int64{1, 0, 2}).node("Reshape t h → j").node("Neg j → k").node("Reshape k b → l").
			node("Transpose l → y", "perm", []int64{1, 0, 2}).bytes(1, 2, 4),
			onnx.Shape{N, 2, 4}, negated},
		{"rows that a batch of 1 lies in", newFile(13, 1, 2, 2).floats("w", []int64{2, 2}, 1, 2, -1, 3).floats("c", []int64{2}, 5).ints("r", 2, 2).ints("b", 2, 1, 2).
			node("Transpose x → t", "perm", []int64{1, 0, 2}).node("Reshape t r → j").node("Gemm j w c → k", "transB", 1, "alpha", 2.0, "beta", 0.5).
			node("Neg k → m").node("Reshape m b → l").node("Transpose l → y", "perm", []int64{1, 0, 2}).bytes(1, 2, 2),
			onnx.Shape{N, 2, 2}, func(x []float32) []float32 {
				row := func(a, b float32) []float32 { return []float32{-2*(a+2*b) - 2.5, -2*(3*b-a) - 2.5} }
				return append(row(x[0], x[1]), row(x[2], x[3])...)
			}},
		{"pads listed from the last axis", newFile(13, N, 1, 2).tensor(intTensor("p", []int64{6}, 1, 2, 0, 0, 0, 0)).tensor(intTensor("two", []int64{2}, -1, 2)).
			ints("m1", -1).ints("low", math.MinInt64+1).ints("z", 0).
			node("Reshape p two → a").node("Slice a m1 low z m1 → b").node("Transpose b → c", "perm", []int64{1, 0}).node("Reshape c m1 → d").
			node("Pad x d → y").bytes(N, 1, 5), onnx.Shape{N, 1, 5}, func(x []float32) []float32 { return []float32{0, x[0], x[1], 0, 0} }},
		{"sizes that go through floats", newFile(13, N, 1, 1, 3).ints("two", 2).ints("three", 3).ints("z", 0).floats("half", nil, 1.5).
			node("Shape x → s").node("Slice s z two → front").node("Gather s three → w").node("Cast w → f", "to", 1).node("Mul f half → g").
			node("Floor g → h").node("Cast h → i", "to", 7).ints("one", 1).node("Concat front one i → t", "axis", 0).
			node("Resize x _ _ t → y", "coordinate_transformation_mode", "asymmetric", "nearest_mode", "floor").bytes(N, 1, 1, 4),
			onnx.Shape{N, 1, 1, 4}, func(x []float32) []float32 { return []float32{x[0], x[0], x[1], x[2]} }},
		{"unpooling to a stated size", newFile(13, 1, 1, 3, 3).ints("t", 1, 1, 3, 3).
			node("MaxPool x → v i", "kernel_shape", []int64{2, 2}, "strides", []int64{2, 2}).
			node("MaxUnpool v i t → y", "kernel_shape", []int64{2, 2}, "strides", []int64{2, 2}).bytes(1, 1, 3, 3),
			onnx.Shape{N, 1, 3, 3}, func(x []float32) []float32 {
				y := make([]float32, 9)
				best := 0
				for _, i := range []int{1, 3, 4} {
					if x[i] > x[best] {
						best = i
					}
				}
				y[best] = x[best]
				return y
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := open(t, c.data)
			if !slices.Equal(g.Outputs[0].Shape, c.shape) {
				t.Fatalf("output %v, want %v", g.Outputs[0].Shape, c.shape)
			}
			const items = 3
			var x, want []float32
			for i := range items {
				item := ramp(g.Inputs[0].Shape.Items())
				for j := range item {
					item[j] *= float32(i+1) * float32(1-2*(i%2))
				}
				x, want = append(x, item...), append(want, c.value(item)...)
			}
			data, err := g.Encode()
			if err != nil {
				t.Fatal(err)
			}
			s, err := ort.Open(c.name, data)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			shape := slices.Clone(g.Inputs[0].Shape)
			shape[0] = items
			y, err := s.Run([]ort.Tensor{{Shape: shape, Data: x}})
			if err != nil {
				t.Fatal(err)
			}
			if !near(y[0].Data, want) {
				t.Errorf("gives %v, want %v", y[0].Data, want)
			}
		})
	}
}

// A Squeeze that has nothing to drop keeps the batch, also where that is 1: ONNX
// Runtime takes an empty list of axes for all dimensions of 1.
func TestSqueezeOfNothing(t *testing.T) {
	for name, data := range map[string][]byte{
		"no axes":      newFile(13, N, 2).node("Squeeze x → a").node("Neg a → y").bytes(N, 2),
		"at the end":   newFile(13, N, 2).node("Neg x → a").node("Squeeze a → y").bytes(N, 2),
		"empty axes":   newFile(13, N, 2).ints("e").node("Squeeze x e → a").node("Neg a → y").bytes(N, 2),
		"as attribute": newFile(11, N, 2).node("Squeeze x → a", "axes", []int64{}).node("Neg a → y").bytes(N, 2),
		"as it was":    newFile(11, N, 2).node("Squeeze x → a").node("Neg a → y").bytes(N, 2),
		"some axes":    newFile(11, N, 1, 2).node("Squeeze x → a").node("Neg a → y").bytes(N, 2),
	} {
		g := open(t, data)
		encoded, err := g.Encode()
		if err != nil {
			t.Fatal(name, err)
		}
		s, err := ort.Open(name, encoded)
		if err != nil {
			t.Fatal(name, err)
		}
		defer s.Close()
		for items := int64(1); items < 3; items++ {
			shape := slices.Clone(g.Inputs[0].Shape)
			shape[0] = items
			y, err := s.Run([]ort.Tensor{{Shape: shape, Data: ramp(2 * items)}})
			if err != nil {
				t.Fatal(name, err)
			}
			if !slices.Equal(y[0].Shape, []int64{items, 2}) || !near(y[0].Data, negated(ramp(2*items))) {
				t.Errorf("%s: %d items give %v of shape %v", name, items, y[0].Data, y[0].Shape)
			}
		}
	}
}

func negated(x []float32) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = -v
	}
	return y
}

// What would join the items of a batch is refused, in one line that says where.
func TestBatchIsKeptApart(t *testing.T) {
	counted := func(items int64) file {
		return newFile(13, N, 4).tensor(intTensor("z", nil, 0)).tensor(intTensor("o", nil, 1)).tensor(intTensor("k", nil, items)).ints("u", 1).ints("m1", -1).
			tensor(intTensor("at", []int64{1, 4}, 0, 1, 2, 3)).
			node("Shape x → s").node("Gather s z → n").node("Range z n o → r").node("Mul r k → first").node("Unsqueeze first u → column").node("Add column at → place").
			node("Reshape x m1 → flat")
	}
	rows := func() file {
		return newFile(13, N, 3, 2).ints("t", -1, 2).node("Transpose x → a", "perm", []int64{1, 0, 2}).node("Reshape a t → r")
	}
	for _, c := range []struct {
		name string
		data []byte
		want []string
	}{
		{"a view that fits", counted(4).node("Gather flat place → y").bytes(N, 4), nil},
		{"a view into the next item", counted(3).node("Gather flat place → y").bytes(N, 4), []string{`Gather "y"`, "other items"}},
		{"a flat batch", counted(4).node("Neg flat → y").bytes(N), []string{`Neg "y"`, "joins the items"}},
		{"counted places as values", counted(4).node("Cast place → c", "to", 1).node("Add x c → y").bytes(N, 4), []string{"joins the items"}},
		{"rows at the output", newFile(13, N, 3, 2).ints("t", -1, 2).node("Transpose x → a", "perm", []int64{1, 0, 2}).node("Reshape a t → y").bytes(N, 2),
			[]string{`Reshape "y"`, "mixes the batch"}},
		{"a softmax over rows", rows().node("Softmax r → s", "axis", 0).node("Neg s → y").bytes(N, 2), []string{`Softmax "s"`, "batch lies within the rows"}},
		{"a product of rows", rows().node("Transpose r → q").node("MatMul q r → y").bytes(2, 2), []string{`Transpose "q"`, "batch lies within the rows"}},
		{"a value for every row", rows().floats("c", []int64{6, 1}, 1).node("Add r c → s").node("Neg s → y").bytes(N, 2), []string{`Add "s"`, "batch lies within the rows"}},
		{"a value for every column of another rank", rows().floats("c", []int64{1, 1, 2}, 1).node("Add r c → s").node("Neg s → y").bytes(N, 2), []string{`Add "s"`, "batch lies within the rows"}},
		{"a flat batch of another size", newFile(13, N, 4).ints("t", 8).node("Reshape x t → f").node("Neg f → y").bytes(N), []string{`Reshape "f"`, "[8] is not the size of a flat batch of 4"}},
		{"a product over joined heads", newFile(13, N, 4).ints("t", -1, 2).node("Reshape x t → a").node("Transpose a → b").node("MatMul b a → y").bytes(2, 2),
			[]string{`MatMul "y"`, "are the batch"}},
		{"a sum over joined heads", newFile(13, N, 4).ints("t", -1, 2).ints("z", 0).node("Reshape x t → a").node("ReduceSum a z → y").bytes(2), []string{`ReduceSum "y"`, "reduces the batch"}},
		{"a softmax over joined heads", newFile(13, N, 4).ints("t", -1, 2).node("Reshape x t → a").node("Softmax a → y", "axis", 0).bytes(N, 2), []string{`Softmax "y"`, "along the batch"}},
		{"a constant repeated for joined heads", newFile(13, N, 4).tensor(intTensor("z", nil, 0)).ints("two", 2).floats("c", []int64{1, 4}, 1).
			ints("four", 4).node("Shape x → s").node("Gather s z → n").node("Mul n two → m").node("Concat m four → t", "axis", 0).node("Expand c t → y").bytes(N, 4),
			[]string{`Expand "y"`, "more than once for every item"}},
		{"a GatherND of items", newFile(13, N, 4).tensor(intTensor("i", []int64{2, 1}, 0, 0)).node("GatherND x i → y").bytes(N, 4), []string{`GatherND "y"`, "picks from the batch"}},
		{"a GatherND out of range", newFile(13, N, 4).tensor(intTensor("i", []int64{1, 1}, 4)).node("Transpose x → t").node("GatherND t i → y").bytes(1, N),
			[]string{`GatherND "y"`, "index 4 is outside [4 N]"}},
		{"an LpPool of another norm", newFile(13, N, 1, 4).node("LpPool x → y", "p", 3, "kernel_shape", []int64{2}).bytes(N, 1, 3), []string{`LpPool "y"`, "p = 3"}},
		{"unpooling to a shape without the batch", newFile(13, N, 1, 2, 2).ints("t", 2, 1, 2, 2).node("MaxPool x → v i", "kernel_shape", []int64{2, 2}).
			node("MaxUnpool v i t → y", "kernel_shape", []int64{2, 2}).bytes(N, 1, 2, 2), []string{`MaxUnpool "y"`, "output_shape"}},
		{"unpooling to other channels", newFile(13, 1, 1, 2, 2).ints("t", 1, 2, 2, 2).node("MaxPool x → v i", "kernel_shape", []int64{2, 2}).
			node("MaxUnpool v i t → y", "kernel_shape", []int64{2, 2}).bytes(1, 2, 2, 2), []string{`MaxUnpool "y"`, "output_shape"}},
		{"a Tile of the batch", newFile(13, N, 2).ints("t", 2, 1).node("Tile x t → y").bytes(N, 2), []string{`Tile "y"`, "repeats the batch"}},
		{"a running sum along the batch", newFile(13, N, 2).tensor(intTensor("a", nil, 0)).node("CumSum x a → y").bytes(N, 2), []string{`CumSum "y"`, "along the batch"}},
		{"a Gather out of range", newFile(13, N, 2).tensor(intTensor("i", nil, -3)).node("Gather x i → y", "axis", 1).bytes(N), []string{`Gather "y"`, "index -3 is outside"}},
		{"joined heads at the output", newFile(13, N, 4).ints("t", -1, 2).node("Reshape x t → y").bytes(N, 2), []string{`output "y"`, "[2N 2]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := onnx.Open(c.data, nil, nil)
			if c.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil {
				t.Fatal("is opened")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%q does not name %q", err, w)
				}
			}
		})
	}
}
