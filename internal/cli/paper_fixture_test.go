package cli

import (
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/harness/config"
	"selfheal/harness/dataset"
	"selfheal/harness/open"
	"selfheal/internal/must"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
)

// drawn writes a network with the weights that a seed gives it.
func drawn(t *testing.T, skeleton, path string) {
	t.Helper()
	g := must.Get(onnxtest.FillSkeleton([]byte(read(t, "models/zoo/skeletons/"+skeleton+".onnx")), 1))(t)
	store(t, g, path)
}

func store(t *testing.T, g *onnx.Graph, path string) {
	t.Helper()
	data := must.Get(g.Encode())(t)
	put(t, path, data)
}

// tinyEmbedding writes an embedding of states: it adds to a state the result of two convolutions (images) or two
// matrices (vectors). The weights are random, and so small that the closed loop, whose objective is |E(x) − x|², does
// not diverge.
func tinyEmbedding(t *testing.T, path string, state ...int64) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, uint64(len(state))))
	weights := func(dims ...int64) *onnx.Tensor {
		s := onnx.Shape(dims)
		v := make([]float32, s.Items())
		for i := range v {
			v[i] = float32(0.1 * r.NormFloat64() / math.Sqrt(float64(max(dims[0], dims[1]))))
		}
		return onnx.FloatTensor(s, v)
	}
	b := &onnx.Builder{G: onnx.NewGraph("tiny")}
	x := b.Input("state", append(onnx.Shape{onnx.Batch}, state...))
	if len(state) == 3 {
		pads := onnx.Attrs{"pads": []int64{1, 1, 1, 1}}
		code := b.Op("Relu", b.OpWith("Conv", pads, x, b.Const(weights(4, state[0], 3, 3))))
		b.Output("embedding", b.Op("Add", x, b.OpWith("Conv", pads, code, b.Const(weights(state[0], 4, 3, 3)))))
	} else {
		b.Output("embedding", b.Op("Add", x,
			b.Op("MatMul", b.Op("Elu", b.Op("MatMul", x, b.Const(weights(state[0], 8)))),
				b.Const(weights(8, state[0])))))
	}
	must.Do(t, b.Err())
	store(t, b.G, path)
}

// records makes images of noise in CIFAR's layout, with so many coarse labels before a label.
func records(labels []int, coarse int) []byte {
	r := rand.New(rand.NewPCG(11, 13))
	var data []byte
	for _, l := range labels {
		data = append(append(data, make([]byte, coarse)...), byte(l))
		for range 3072 {
			data = append(data, byte(r.Uint32()))
		}
	}
	return data
}

// tinyImageNet writes images of noise in Tiny-ImageNet's layout.
func tinyImageNet(t *testing.T, dir string, labels []int) {
	t.Helper()
	r := rand.New(rand.NewPCG(17, 19))
	var classes, lines strings.Builder
	for i := range 200 {
		fmt.Fprintf(&classes, "n%08d\n", i)
	}
	put(t, filepath.Join(dir, "wnids.txt"), []byte(classes.String()))
	for i, l := range labels {
		name := fmt.Sprintf("val_%d.JPEG", i)
		fmt.Fprintf(&lines, "%s\tn%08d\t0\t0\t63\t63\n", name, l)
		im := image.NewRGBA(image.Rect(0, 0, 64, 64))
		for y := range 64 {
			for x := range 64 {
				im.Set(x, y, color.RGBA{uint8(r.Uint32()), uint8(r.Uint32()), uint8(r.Uint32()), 255})
			}
		}
		var b strings.Builder
		must.Do(t, jpeg.Encode(&b, im, nil))
		put(t, filepath.Join(dir, "val", "images", name), []byte(b.String()))
	}
	put(t, filepath.Join(dir, "val", "val_annotations.txt"), []byte(lines.String()))
}

// answers returns the classes that a network of the config predicts for a data set's first images.
func answers(t *testing.T, file, model, data string, n int) []int {
	t.Helper()
	cfg := must.Get(config.Load(file))(t)
	u := must.Get(open.Use(t.Context(), cfg, model, "none", open.Options{}))(t)
	defer u.Close()
	d := must.Get(dataset.Open(cfg.Dataset(data).Spec, cfg.Files, n))(t)
	alone, _ := must.Get2(u.Answers(t.Context(), d.Len(), func(i int) ([]float32, error) {
		_, pixels, _, err := d.Image(i)
		return pixels, err
	}))(t)
	labels := make([]int, len(alone))
	for i, a := range alone {
		labels[i] = a.Class
	}
	return labels
}
