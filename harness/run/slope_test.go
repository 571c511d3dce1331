package run

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/internal/testplan"
	"selfheal/models/onnx"
)

// A network that adds half of its weight behind a rounding, which has no gradient, moves twice as far along its
// gradient as this says, whichever attack it is. Without the rounding nothing is said, nor of a file of uint8, whose
// gradient passes through a rounding on purpose.
func TestGradientDiffers(t *testing.T) {
	testinput.Runtime(t)
	dir := t.TempDir()
	images := must.Get(os.ReadFile("../../docs/paper/front/first.bin"))(t)
	weights, rng := make([]float32, 3072*10), rand.New(rand.NewPCG(1, 2))
	for i := range weights {
		weights[i] = float32(rng.NormFloat64())
	}
	for record := range slices.Chunk(images, 3073) { // the network is right on each
		var z [10]float32
		for i, v := range record[1:] {
			for k := range z {
				z[k] += float32(v) * weights[10*i+k]
			}
		}
		record[0] = byte(slices.Index(z[:], slices.Max(z[:])))
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "first.bin"), images, 0o644))
	for name, warns := range map[string]bool{"rounds": true, "smooth": false, "levels": false} {
		b := &onnx.Builder{G: onnx.NewGraph(name)}
		x := b.Input("x", onnx.Shape{onnx.Batch, 3, 32, 32})
		if name == "levels" {
			b.G.Inputs[0].DType = onnx.Uint8
			x = b.Op("Mul", b.OpWith("Cast", onnx.Attrs{"to": int(onnx.Float)}, x), b.Float(1./255))
		}
		y := b.Op("Mul", b.Op("Round", b.Op("Mul", x, b.Float(5000))), b.Float(1./5000))
		if name == "smooth" {
			y = b.Op("Mul", x, b.Float(1))
		}
		h := b.OpWith("Flatten", onnx.Attrs{"axis": int64(1)}, b.Op("Add", x, y))
		b.Output("z", b.Op("MatMul", h, b.Const(onnx.FloatTensor(onnx.Shape{3072, 10}, weights))))
		path := filepath.Join(dir, name+".onnx")
		must.Do(t, os.WriteFile(path, must.Get(must.Get(b.Done())(t).Encode())(t), 0o644))
		text := fmt.Sprintf(`{version: 1, datasets: {d: {format: cifar10-bin, path: %q}}, models: {m: {path: %q}},
attacks: {p: {kind: pgd, norm: linf, epsilon: 1e-5, steps: 2}, f: {kind: fgsm, norm: linf, epsilon: 1e-5}},
suites: {s: {dataset: d, models: [m], attacks: [p, f]}}}`,
			filepath.Join(dir, "first.bin"), path)
		f := must.Get(Run(t.Context(), testplan.Plan(t, text, 1, 2), Options{Out: filepath.Join(dir, name)}))(t)
		for _, c := range f.Cells[1:] {
			got := slices.Contains(c.Masking, result.WarnGradientDiffers.ID)
			if got != warns || f.Cells[0].Correct != 20 {
				t.Errorf("%s, %s: %d right, %+v", name, c.Attack, f.Cells[0].Correct, c.Warnings)
			}
		}
	}
}
