package simplify_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
)

// Networks whose shape arithmetic names the batch, or which were exported with a
// batch of 1, give every item of a batch of 3 what they give it alone.
func TestBatchIsOpened(t *testing.T) {
	ones := onnxtest.FloatTensor("", []int64{1}, 1)
	batch := func(f File) File {
		return f.Node("zero=0,; Shape x → s; Gather s zero → n")
	}
	for _, c := range []struct {
		name  string
		data  []byte
		shape onnx.Shape
		value func(x vec) vec
	}{
		{"a token joined to a batch of 1", file(13, 1, 2, 2).
			Node("c[1,1,2]=7.0; e=1,-1,-1; one=1,; Shape c → s; Expand c s → t; Concat t x → y axis=1").Bytes(1, 3, 2),
			onnx.Shape{N, 3, 2}, func(x vec) vec { return append([]float32{7, 7}, x...) }},
		{"a token expanded to the batch", batch(file(13, N, 2, 2)).
			Node("c[1,1,2]=7.0; r=1,2; Concat n r → t axis=0; Expand c t → e; Concat e x → y axis=1").Bytes(N, 3, 2),
			onnx.Shape{N, 3, 2}, func(x vec) vec { return append([]float32{7, 7}, x...) }},
		{"a token tiled for the batch and within the item", batch(file(13, N, 2, 2)).
			Node("c[1,1,1]=7.0; r=1,2; Concat n r → t axis=0; Tile c t → e; Concat e x → y axis=1").Bytes(N, 3, 2),
			onnx.Shape{N, 3, 2}, func(x vec) vec { return append([]float32{7, 7}, x...) }},
		{"an expanded part of the item",
			batch(file(13, N, 1, 2)).Node("r=2,2; Concat n r → t axis=0; Expand x t → y").Bytes(N, 2, 2),
			onnx.Shape{N, 2, 2}, func(x vec) vec { return append(slices.Clone(x), x...) }},
		{"an Expand of joined heads of a batch of 2", file(13, 2, 2, 1).
			Node("h=4,1; e=1,4,3; b=2,2,3; Reshape x h → j; Expand j e → k; Reshape k b → y").Bytes(2, 2, 3),
			onnx.Shape{N, 2, 3}, func(x vec) vec { return vec{x[0], x[0], x[0], x[1], x[1], x[1]} }},
		{"ones of the batch's size", batch(file(13, N, 2)).
			Node("r=2,; Concat n r → t axis=0; ConstantOfShape t → o", "value", ones).Node("Add o x → y").Bytes(N, 2),
			onnx.Shape{N, 2}, func(x vec) vec { return vec{x[0] + 1, x[1] + 1} }},
		{"a Squeeze without axes", file(13, N, 1, 2, 1).Node("Squeeze x → y").Bytes(N, 2), onnx.Shape{N, 2},
			slices.Clone[[]float32]},
		{"a batch of 1 joined with heads", file(13, 1, 2, 4).
			Node("h=2,2,2; b=2,1,4; Transpose x → t perm=1,0,2; Reshape t h → j; Neg j → k; Reshape k b → l").
			Node("Transpose l → y perm=1,0,2").Bytes(1, 2, 4), onnx.Shape{N, 2, 4}, negated},
		{"rows that a batch of 1 lies in", file(13, 1, 2, 2).Floats("w", []int64{2, 2}, 1, 2, -1, 3).
			Node("c[2]=5.0; r=2,2; b=2,1,2; Transpose x → t perm=1,0,2; Reshape t r → j").
			Node("Gemm j w c → k transB=1 alpha=2.0 beta=0.5; Neg k → m; Reshape m b → l").
			Node("Transpose l → y perm=1,0,2").Bytes(1, 2, 2),
			onnx.Shape{N, 2, 2}, func(x vec) vec {
				row := func(a, b float32) []float32 { return vec{-2*(a+2*b) - 2.5, -2*(3*b-a) - 2.5} }
				return append(row(x[0], x[1]), row(x[2], x[3])...)
			}},
		{"places counted for a batch of 1", file(13, 1, 3).Ints("m1", -1).
			Tensor(onnxtest.IntTensor("at", []int64{1, 2, 2}, 2, 0, 2, 1)).
			Node("Reshape x m1 → flat; Gather flat at → y").Bytes(1, 2, 2),
			onnx.Shape{N, 2, 2}, func(x vec) vec { return vec{x[2], x[0], x[2], x[1]} }},
		{"places counted for a batch of 2", file(13, 2, 3).Ints("m1", -1).
			Tensor(onnxtest.IntTensor("at", []int64{2, 2}, 2, 0, 5, 3)).
			Node("Reshape x m1 → flat; Gather flat at → y").Bytes(2, 2),
			onnx.Shape{N, 2}, func(x vec) vec { return vec{x[2], x[0]} }},
		{"pads listed from the last axis", file(13, N, 1, 2).
			Tensor(onnxtest.IntTensor("p", []int64{6}, 1, 2, 0, 0, 0, 0)).
			Tensor(onnxtest.IntTensor("two", []int64{2}, -1, 2)).Ints("m1", -1).Ints("low", math.MinInt64+1).
			Node("z=0,; Reshape p two → a; Slice a m1 low z m1 → b; Transpose b → c perm=1,0; Reshape c m1 → d").
			Node("Pad x d → y").Bytes(N, 1, 5), onnx.Shape{N, 1, 5},
			func(x vec) vec { return vec{0, x[0], x[1], 0, 0} }},
		{"sizes that go through floats", file(13, N, 1, 1, 3).Node("two=2,; three=3,; z=0,; half=1.5; Shape x → s").
			Node("Slice s z two → front; Gather s three → w; Cast w → f to=1; Mul f half → g").
			Node("Floor g → h; Cast h → i to=7").Node("one=1,; Concat front one i → t axis=0").
			Node("Resize x _ _ t → y coordinate_transformation_mode=asymmetric nearest_mode=floor").Bytes(N, 1, 1, 4),
			onnx.Shape{N, 1, 1, 4}, func(x vec) vec { return vec{x[0], x[0], x[1], x[2]} }},
		{"unpooling to a stated size", file(13, 1, 1, 3, 3).Node("t=1,1,3,3").
			Node("MaxPool x → v i kernel_shape=2,2 strides=2,2; MaxUnpool v i t → y kernel_shape=2,2 strides=2,2").
			Bytes(1, 1, 3, 3),
			onnx.Shape{N, 1, 3, 3}, func(x vec) vec {
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
			g := onnxtest.Open(t, c.data)
			if !slices.Equal(g.Outputs[0].Shape, c.shape) {
				t.Fatalf("output %v, want %v", g.Outputs[0].Shape, c.shape)
			}
			const items = 3
			var x, want []float32
			for i := range items {
				item := onnxtest.Ramp(g.Inputs[0].Shape.Items())
				for j := range item {
					item[j] *= float32(i+1) * float32(1-2*(i%2))
				}
				x, want = append(x, item...), append(want, c.value(item)...)
			}
			if y := together(t, g, items, x).Data; !onnxtest.Near(y, want) {
				t.Errorf("gives %v, want %v", y, want)
			}
		})
	}
}

// A Squeeze that has nothing to drop keeps the batch, also where that is 1: ONNX
// Runtime takes an empty list of axes for all dimensions of 1.
func TestSqueezeOfNothing(t *testing.T) {
	for name, data := range map[string][]byte{
		"no axes":    file(13, N, 2).Node("Squeeze x → a; Neg a → y").Bytes(N, 2),
		"at the end": file(13, N, 2).Node("Neg x → a; Squeeze a → y").Bytes(N, 2),
		"empty axes": file(13, N, 2).Ints("e").Node("Squeeze x e → a; Neg a → y").Bytes(N, 2),
		"as attribute": file(11, N, 2).Node("Squeeze x → a", "axes", []int64{}).Node("Neg a → y").
			Bytes(N, 2),
		"as it was": file(11, N, 2).Node("Squeeze x → a; Neg a → y").Bytes(N, 2),
		"some axes": file(11, N, 1, 2).Node("Squeeze x → a; Neg a → y").Bytes(N, 2),
	} {
		g := onnxtest.Open(t, data)
		for items := int64(1); items < 3; items++ {
			y := together(t, g, items, onnxtest.Ramp(2*items))
			if !slices.Equal(y.Shape, []int64{items, 2}) || !onnxtest.Near(y.Data, negated(onnxtest.Ramp(2*items))) {
				t.Errorf("%s: %d items give %v of shape %v", name, items, y.Data, y.Shape)
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

// A rewrite that would join the items of a batch is refused, in one line that says where.
func TestBatchIsKeptApart(t *testing.T) {
	counted := func(items int64) File {
		return file(13, N, 4).Int("z", 0).Int("o", 1).Int("k", items).Ints("u", 1).Ints("m1", -1).
			Tensor(onnxtest.IntTensor("at", []int64{1, 4}, 0, 1, 2, 3)).
			Node("Shape x → s; Gather s z → n; Range z n o → r; Mul r k → first").
			Node("Unsqueeze first u → column; Add column at → place; Reshape x m1 → flat")
	}
	fixed := func(places ...int64) File {
		return file(13, 2, 3).Ints("m1", -1).Tensor(onnxtest.IntTensor("at", []int64{2, 2}, places...)).
			Node("Reshape x m1 → flat; Gather flat at → y")
	}
	rows := func() File {
		return file(13, N, 3, 2).Node("t=-1,2; Transpose x → a perm=1,0,2; Reshape a t → r")
	}
	for _, c := range []struct {
		name string
		file File
		want string
	}{
		{"a view that fits", counted(4).Node("Gather flat place → y"), ""},
		{"a view into the next item", counted(3).Node("Gather flat place → y"), `Gather "y" … other items`},
		{"counted places that fit", fixed(2, 0, 5, 3), ""},
		{"counted places of the next item", fixed(2, 3, 5, 6), `Gather "y" … other items … dynamic_shapes`},
		{"counted places that differ among the items", fixed(2, 0, 5, 4), `Gather "y" … other items`},
		{"a flat batch", counted(4).Node("Neg flat → y"), `Neg "y" … joins the items`},
		{"counted places as values", counted(4).Node("Cast place → c to=1; Add x c → y"), "joins the items"},
		{"rows at the output", file(13, N, 3, 2).Node("t=-1,2; Transpose x → a perm=1,0,2; Reshape a t → y"),
			`Reshape "y" … mixes the batch`},
		{"a softmax over rows", rows().Node("Softmax r → s axis=0; Neg s → y"),
			`Softmax "s" … batch lies within the rows`},
		{"a product of rows", rows().Node("Transpose r → q; MatMul q r → y"),
			`Transpose "q" … batch lies within the rows`},
		{"a value for every row", rows().Node("c[6,1]=1.0; Add r c → s; Neg s → y"),
			`Add "s" … batch lies within the rows`},
		{"a value for every column of another rank", rows().Node("c[1,1,2]=1.0; Add r c → s; Neg s → y"),
			`Add "s" … batch lies within the rows`},
		{"a flat batch of another size", file(13, N, 4).Node("t=8,; Reshape x t → f; Neg f → y"),
			`Reshape "f" … [8] is not the size of a flat batch of 4`},
		{"a product over joined heads", file(13, N, 4).Node("t=-1,2; Reshape x t → a; Transpose a → b; MatMul b a → y"),
			`MatMul "y" … are the batch`},
		{"a sum over joined heads", file(13, N, 4).Node("t=-1,2; z=0,; Reshape x t → a; ReduceSum a z → y"),
			`ReduceSum "y" … reduces the batch`},
		{"a softmax over joined heads", file(13, N, 4).Node("t=-1,2; Reshape x t → a; Softmax a → y axis=0"),
			`Softmax "y" … along the batch`},
		{"a constant repeated for joined heads", file(13, N, 4).Node("z=0; two=2,; c[1,4]=1.0; four=4,; Shape x → s").
			Node("Gather s z → n; Mul n two → m; Concat m four → t axis=0; Expand c t → y"),
			`Expand "y" … more than once for every item`},
		{"a GatherND of items",
			file(13, N, 4).Tensor(onnxtest.IntTensor("i", []int64{2, 1}, 0, 0)).Node("GatherND x i → y"),
			`GatherND "y" … picks from the batch`},
		{"a GatherND out of range", file(13, N, 4).Tensor(onnxtest.IntTensor("i", []int64{1, 1}, 4)).
			Node("Transpose x → t; GatherND t i → y"), `GatherND "y" … index 4 is outside [4 N]`},
		{"an LpPool of another norm", file(13, N, 1, 4).Node("LpPool x → y p=3 kernel_shape=2,"), `LpPool "y" … p = 3`},
		{"unpooling to a shape without the batch", file(13, N, 1, 2, 2).
			Node("t=2,1,2,2; MaxPool x → v i kernel_shape=2,2; MaxUnpool v i t → y kernel_shape=2,2"),
			`MaxUnpool "y" … output_shape`},
		{"unpooling to other channels", file(13, 1, 1, 2, 2).
			Node("t=1,2,2,2; MaxPool x → v i kernel_shape=2,2; MaxUnpool v i t → y kernel_shape=2,2"),
			`MaxUnpool "y" … output_shape`},
		{"a Tile of the batch", file(13, N, 2).Node("t=2,1; Tile x t → y"), `Tile "y" … repeats the batch`},
		{"a running sum along the batch", file(13, N, 2).Node("a=0; CumSum x a → y"), `CumSum "y" … along the batch`},
		{"a Gather out of range", file(13, N, 2).Node("i=-3; Gather x i → y axis=1"),
			`Gather "y" … index -3 is outside`},
		{"joined heads at the output", file(13, N, 4).Node("t=-1,2; Reshape x t → y"), `output "y" … [2N 2]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := simplify.Open(c.file.Bytes(N, 2), simplify.Options{})
			if c.want == "" {
				must.Do(t, err)
			} else {
				must.Refuse(t, err, strings.Split(c.want, " … ")...)
			}
		})
	}
}
