package simplify_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

// of is the size of images, channels, height and width.
func of(image [3]int) func() ([3]int, error) { return func() ([3]int, error) { return image, nil } }

// A network that leaves the size of its images open gives what its file gives, for images of any size.
func TestOpenSize(t *testing.T) {
	const conv, pooled = "w[2,3,3,3]=0.125; Conv x w → c pads=1,1,1,1; ", "; GlobalAveragePool z → p; Flatten p → y"
	const last = "Transpose x → t perm=0,3,1,2; w[2,3,3,3]=0.125; Conv t w → z" + pooled
	for _, c := range []struct {
		shape  []int64
		layout string
		nodes  string
		image  [3]int
	}{
		{[]int64{N, 3, N, N}, "", conv + "Relu c → z" + pooled, [3]int{3, 8, 6}},
		{[]int64{N, 3, N, N}, "", conv + "Relu c → z" + pooled, [3]int{3, 5, 17}},
		{[]int64{1, 3, N, N}, "", conv + "Relu c → z" + pooled, [3]int{3, 9, 9}},
		{[]int64{N, 3, N, 6}, "", conv + "Relu c → z" + pooled, [3]int{3, 8, 6}},
		{[]int64{N, N, N, N}, "", conv + "Relu c → z" + pooled, [3]int{3, 8, 6}},
		{[]int64{N, N, N, 3}, "", last, [3]int{3, 8, 6}},
		{[]int64{N, N, N, N}, "nhwc", last, [3]int{3, 8, 6}},
		// As exporters write x.view(x.shape[0], -1, h*w).mean(-1), and an interpolation to half the size.
		{[]int64{N, 3, N, N}, "", conv + "Shape c → s; i=0; j=2; k=3; Gather s i → n; Gather s j → h; " +
			"Gather s k → v; Mul h v → a; o=0,; m=-1,; Unsqueeze n o → n1; Unsqueeze a o → a1; " +
			"Concat n1 m a1 → r axis=0; Reshape c r → q; ReduceMean q → y axes=2, keepdims=0", [3]int{3, 8, 6}},
		{[]int64{N, 3, N, N}, "", conv + "f=1.0; e[0]=0.0; r=2,; Shape c → s; b=0,; d=2,; g=4,; Slice s b d → s1; " +
			"Slice s d g → s2; Div s2 r → s3; Concat s1 s3 → s4 axis=0; Resize c _ _ s4 → z mode=nearest" + pooled,
			[3]int{3, 8, 6}},
	} {
		data := file(13, c.shape...).Node(c.nodes).Bytes(N, 2)
		g, err := simplify.Open(data, simplify.Options{Layout: c.layout, Size: of(c.image)})
		if err != nil {
			t.Errorf("%v %s: %v", c.shape, c.nodes, err)
			continue
		}
		n := c.image[0] * c.image[1] * c.image[2]
		file := original(t, data)
		file.Take(simplify.Sized(c.shape, c.layout, c.image))
		rng := rand.New(rand.NewPCG(1, 2))
		x, theirs := make([]float32, n), make([]float32, n)
		behind := file.Shape()[3] == 3 // the channels
		for i := range x {
			at := i
			if behind {
				at = i%(n/3)*3 + i/(n/3)
			}
			x[i] = rng.Float32()
			theirs[at] = x[i]
		}
		if err := ort.Agree(must.Get(file.Run(theirs))(t), onnxtest.Run(t, g, x)); err != nil {
			t.Errorf("%v %s: %v", c.shape, c.nodes, err)
		}
	}
}

func TestOpenSizeErrors(t *testing.T) {
	fixed := file(13, N, 3, N, N).Node("Flatten x → f; w[192,2]=0.125; MatMul f w → y").Bytes(N, 2)
	must.Get(simplify.Open(fixed, simplify.Options{Size: of([3]int{3, 8, 8})}))(t)
	for want, o := range map[string]simplify.Options{
		`input "x" leaves dimension 2 of [N 3 N N] open`:                   {},
		"the file leaves the images' size open, and 9×8 pixels were taken": {Size: of([3]int{3, 8, 9})},
		"no images": {Size: func() ([3]int, error) { return [3]int{}, errors.New("no images") }},
	} {
		_, err := simplify.Open(fixed, o)
		must.Refuse(t, err, want)
	}
}
