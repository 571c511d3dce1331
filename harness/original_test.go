package harness

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selfheal/attacks"
	"selfheal/internal/must"
	"selfheal/models/bounds"
	"selfheal/models/onnx/onnxtest"
)

// coloured begins a config of a channels-last network that takes pixels from 0 to 255, and six images.
func coloured(t *testing.T) (text, dir string) {
	t.Helper()
	dir = t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	floats := func(n int64) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64()) / 255
		}
		return v
	}
	model := onnxtest.New(17, -1, 6, 5, 3).Floats("k", []int64{2, 3, 3, 3}, floats(54)...).
		Floats("w", []int64{24, 3}, floats(72)...).
		Node("Transpose x → f perm=0,3,1,2; Conv f k → c; Relu c → r; Flatten r → g; MatMul g w → y").Bytes(-1, 3)
	must.Do(t, os.WriteFile(filepath.Join(dir, "m.onnx"), model, 0o644))
	archived(t, filepath.Join(dir, "images.npz"), 6, attacks.Shape{C: 3, H: 6, W: 5})
	return `
version: 1
datasets: {test: {format: npz, path: ` + dir + `/images.npz}}
models:
  m: {path: ` + dir + `/m.onnx, preprocess: {scale: 255, mean: [1, 2, 3], std: [3, 2, 1]}}
attacks:
  b: {kind: bounds, norm: linf, epsilon: 0.0001}
  p: {kind: autoattack, version: quick, norm: l2, epsilon: 0.0001, prove: true}
  l1: {kind: bounds, norm: l1, epsilon: 0.0001}
suites: {s: {dataset: test, models: [m], attacks: [b, p, l1]}}
`, dir
}

// Proofs are held against the network's file, which has channels last and wants other numbers.
func TestProofsAreHeldAgainstTheFile(t *testing.T) {
	text, _ := coloured(t)
	p := plan(t, text, 1, 4)
	f, _, _ := runFor(t, p)
	if proven := f.Cells[1]; proven.Attack != "b" || proven.Correct == 0 || proven.Correct != f.Cells[0].Correct {
		t.Fatalf("%s proves %d of %d images", proven.Attack, proven.Correct, f.Cells[0].Correct)
	}
	o := openerOf(t, p.Config)
	b := must.Get(o.prepare(p.Jobs[0]))(t)
	defer b.close()
	ctx := context.Background()
	file := must.Get(b.compared(ctx))(t)
	im := must.Get(b.set.image(0))(t)
	who := alone(b.net)
	z := must.Get(who.logits(ctx, im.Pixels))(t)
	im.Label = 0
	for class, v := range z {
		if v > z[im.Label] {
			im.Label = class
		}
	}
	around := func(p, epsilon float64) bounds.Region { return bounds.Ball(im.Pixels, p, epsilon, 0, 1) }
	must.Do(t, b.hold(ctx, who, around(2, 1e-5), im))
	im.Label = (im.Label + 1) % 3
	err := b.hold(ctx, who, around(2, 1e-5), im)
	if err == nil || !strings.Contains(err.Error(), "is proven, and model m as it lies answers class") {
		t.Errorf("a false proof: %v", err)
	}
	// Any rewriting that changes what the network computes is found.
	for name, change := range map[string]func(){
		"the layout": func() { file.last = !file.last },
		"the mean":   func() { other := *file.model; other.Mean = []float64{1, 2, 40}; file.model = &other },
	} {
		was := *file
		change()
		if name == "the layout" {
			im := must.Get(b.set.image(0))(t)
			if y := must.Get(file.answer(im.Pixels))(t); float32(y[0]) == z[0] {
				t.Error("the layout does not matter")
			}
		} else {
			must.Refuse(t, file.compare(ctx, b.net, b.set), "image 0: output")
		}
		*file = was
	}
}

// Corners lie in their region, and for a ball at its radius where the box allows that.
func TestCorners(t *testing.T) {
	x := make([]float32, 50)
	for i := range x {
		x[i] = 0.5
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, norm := range []attacks.Norm{attacks.L1, attacks.L2, attacks.Linf} {
		for _, epsilon := range []float64{0.1, 0.4} {
			c := corner(bounds.Ball(x, exponents[norm], epsilon, 0, 1), rng)
			if d := norm.Distance(x, c); d > epsilon*(1+1e-6) || d < 0.999*epsilon {
				t.Errorf("%s: a corner of %v lies at %v", norm, epsilon, d)
			}
		}
	}
}
