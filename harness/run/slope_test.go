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
// gradient as this says. Without the rounding nothing is said.
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
	for name, rounds := range map[string]bool{"rounds": true, "smooth": false} {
		b := &onnx.Builder{G: onnx.NewGraph(name)}
		x := b.Input("x", onnx.Shape{onnx.Batch, 3, 32, 32})
		y := b.Op("Mul", b.Op("Round", b.Op("Mul", x, b.Float(5000))), b.Float(1./5000))
		if !rounds {
			y = b.Op("Mul", x, b.Float(1))
		}
		h := b.OpWith("Flatten", onnx.Attrs{"axis": int64(1)}, b.Op("Add", x, y))
		b.Output("z", b.Op("MatMul", h, b.Const(onnx.FloatTensor(onnx.Shape{3072, 10}, weights))))
		path := filepath.Join(dir, name+".onnx")
		must.Do(t, os.WriteFile(path, must.Get(must.Get(b.Done())(t).Encode())(t), 0o644))
		text := fmt.Sprintf(`{version: 1, datasets: {d: {format: cifar10-bin, path: %q}}, models: {m: {path: %q}},
attacks: {p: {kind: pgd, norm: linf, epsilon: 1e-5, steps: 2}}, suites: {s: {dataset: d, models: [m], attacks: [p]}}}`,
			filepath.Join(dir, "first.bin"), path)
		f := must.Get(Run(t.Context(), testplan.Plan(t, text, 1, 2), Options{Out: filepath.Join(dir, name)}))(t)
		got := slices.Contains(f.Cells[1].Masking, result.WarnGradientDiffers.ID)
		if got != rounds || f.Cells[0].Correct != 20 {
			t.Errorf("%s: %d right, %+v", name, f.Cells[0].Correct, f.Cells[1].Warnings)
		}
	}
}
