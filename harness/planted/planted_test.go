package planted

import (
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/result"
	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/opened"
	"selfheal/models/ort"
)

func TestMain(m *testing.M) { testinput.RunMain(m) }

// network opens a bundled network, perhaps behind a rounding of its images to so many levels.
func network(t *testing.T, workers int, levels float32) (*control.Network, []attacks.Image) {
	t.Helper()
	data := must.Get(os.ReadFile("../../models/zoo/preact_standard.onnx"))(t)
	if levels > 0 {
		g := must.Get(opened.Graph(&onnx.File{Data: data}, simplify.Options{}, nil))(t)
		b := &onnx.Builder{G: onnx.NewGraph("rounded")}
		x := b.Input("x", g.Inputs[0].Shape)
		x = b.Op("Div", b.Op("Round", b.Op("Mul", x, b.Float(levels))), b.Float(levels))
		b.Output("y", b.Call(g, x))
		data = must.Get(must.Get(b.Done())(t).Encode())(t)
	}
	pool := ort.NewPool(workers, 16)
	t.Cleanup(pool.Close)
	n := must.Get(control.NewNetwork(pool, "n", data, control.NetworkOptions{}))(t)
	t.Cleanup(n.Close)
	const record = 1 + 3*32*32
	raw := must.Get(os.ReadFile("../../models/zoo/shapes10/test.bin"))(t)
	var images []attacks.Image
	logits := make([]float32, n.Classes())
	for i := 0; len(images) < 8; i++ {
		im := attacks.Image{ID: i, Label: int(raw[i*record]), Pixels: make([]float32, record-1)}
		for k := range im.Pixels {
			im.Pixels[k] = float32(raw[i*record+1+k]) / 255
		}
		must.Do(t, n.Logits(t.Context(), im.Pixels, logits))
		if attacks.Argmax(logits) == im.Label {
			images = append(images, im)
		}
	}
	return n, images
}

func planting(t *testing.T, workers int, levels float32, s attacks.Setup, epsilon float64) Outcome {
	t.Helper()
	n, images := network(t, workers, levels)
	p := must.Get(n.Planted())(t)
	t.Cleanup(p.Close)
	recipe := must.Get(s.Make(epsilon, n.Classes()))(t)
	return must.Get(Test(t.Context(), p, recipe, images, Options{Samples: 99}))(t)
}

// APGD finds every planted point, in ℓ1 AutoAttack, as APGD's cross-entropy alone misses some there. A single step and
// random points do not. APGD finds nothing behind a rounding, which slopes pass. The outcome does not depend on the
// workers.
func TestFindsWhatIsPlanted(t *testing.T) {
	for norm, epsilon := range map[attacks.Norm]float64{attacks.Linf: 8.0 / 255, attacks.L2: 0.5, attacks.L1: 8} {
		kind := "apgd-ce"
		if norm == attacks.L1 {
			kind = "autoattack"
		}
		found := planting(t, 1, 0, attacks.Setup{Kind: kind, Norm: norm}, epsilon)
		if found.N < 7 || found.Found < found.N || found.Random > 0 {
			t.Errorf("%s: %+v", norm, found)
		}
	}
	step := planting(t, 1, 0, attacks.Setup{Kind: "fgsm", Norm: attacks.Linf}, 8.0/255)
	if step.N < 7 || step.Found > step.N/2 {
		t.Errorf("one step: %+v", step)
	}
	for name, s := range map[string]attacks.Setup{"on levels": {Pixels: "8bit"}, "towards": {Target: "next"}} {
		s.Kind, s.Version, s.Norm = "autoattack", "quick", attacks.Linf
		if found := planting(t, 1, 0, s, 4.0/255); found.N < 7 || found.Found < found.N-1 {
			t.Errorf("%s: %+v", name, found)
		}
	}
	// In so small a ball few levels are left; what is planted lies on them.
	small := attacks.Setup{Kind: "autoattack", Version: "quick", Norm: attacks.L2, Pixels: "8bit"}
	if found := planting(t, 1, 0, small, 0.1); found.N < 4 || found.Found < found.N-1 {
		t.Errorf("in a small ball on levels: %+v", found)
	}
	strong := attacks.Setup{Kind: "apgd-ce", Norm: attacks.Linf}
	behind := planting(t, 1, 7, strong, 8.0/255)
	if behind.N < 7 || behind.Found > 0 {
		t.Errorf("behind a rounding: %+v", behind)
	}
	if again := planting(t, 2, 7, strong, 8.0/255); !reflect.DeepEqual(again, behind) {
		t.Errorf("with two workers: %+v, with one %+v", again, behind)
	}
}

// Points are planted for attacks that take gradients. Missed ones, or few planted ones, are a sign.
func TestFitsAndHides(t *testing.T) {
	for kind, fits := range map[string]bool{"apgd-ce": true, "autoattack": true, "square": false, "rays": false} {
		if r := must.Get(attacks.Setup{Kind: kind, Norm: attacks.Linf}.Make(0.1, 10))(t); Fits(r) != fits {
			t.Errorf("%s: %v", kind, !fits)
		}
	}
	for _, c := range []struct {
		n, found, skipped int
		hides             bool
	}{{16, 16, 0, false}, {16, 15, 0, false}, {16, 14, 0, true}, {3, 3, 0, true}, {4, 4, 0, false}, {1, 1, 12, false},
		{0, 0, 16, false}} {
		all := Outcome{Planted: result.Planted{N: c.n, Found: c.found}, Skipped: c.skipped}
		if all.Hides(16) != c.hides {
			t.Errorf("%+v", c)
		}
	}
	ids := []int{5, 3, 8}
	if asked := Asked(ids); len(asked) != 3 || len(Asked(make([]int, 99))) != 16 {
		t.Errorf("%v are asked", asked)
	}
}

// Readouts suit networks of one logit, of two classes and of a thousand.
func TestPlantsInAnyNumberOfClasses(t *testing.T) {
	for _, values := range []int64{1, 2, 1000} {
		rng := rand.New(rand.NewPCG(5, uint64(values)))
		b := &onnx.Builder{G: onnx.NewGraph("classes")}
		draw := func(shape ...int64) string {
			w := make([]float32, int(onnx.Shape(shape).Items()))
			for i := range w {
				w[i] = float32(rng.NormFloat64() / 3)
			}
			return b.Const(onnx.FloatTensor(shape, w))
		}
		x := b.Input("x", onnx.Shape{onnx.Batch, 3, 8, 8})
		x = b.Op("Relu", b.Op("Conv", x, draw(16, 3, 3, 3)))
		x = b.Op("Flatten", b.Op("GlobalAveragePool", b.Op("Relu", b.Op("Conv", x, draw(24, 16, 3, 3)))))
		b.Output("y", b.Op("Gemm", x, draw(24, values), draw(values)))
		model := must.Get(must.Get(b.Done())(t).Encode())(t)
		pool := ort.NewPool(1, 16)
		t.Cleanup(pool.Close)
		n := must.Get(control.NewNetwork(pool, "n", model, control.NetworkOptions{}))(t)
		t.Cleanup(n.Close)
		var images []attacks.Image
		for i := range 4 {
			im := attacks.Image{ID: i, Pixels: make([]float32, n.Shape().Size())}
			for k := range im.Pixels {
				im.Pixels[k] = rng.Float32()
			}
			logits := make([]float32, n.Classes())
			must.Do(t, n.Logits(t.Context(), im.Pixels, logits))
			im.Label = attacks.Argmax(logits)
			images = append(images, im)
		}
		p := must.Get(n.Planted())(t)
		t.Cleanup(p.Close)
		recipe := must.Get(attacks.Setup{Kind: "autoattack", Norm: attacks.Linf}.Make(4.0/255, n.Classes()))(t)
		found := must.Get(Test(t.Context(), p, recipe, images, Options{Samples: 99}))(t)
		if found.N != len(images) || found.Found != found.N {
			t.Errorf("%d values: %+v", values, found)
		}
	}
}

// Both ways to compute the score agree: w = (XᵀX/n + λI)⁻¹d satisfies its equation.
func TestSeparate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, width := range []int{5, 40} {
		others, point := make([][]float64, 20), make([]float64, width)
		for i := range others {
			others[i] = make([]float64, width)
			for k := range others[i] {
				others[i][k] = rng.NormFloat64() * float64(k+1)
			}
		}
		for k := range point {
			point[k] = 3 * rng.NormFloat64()
		}
		s := separate(others, point)
		trace := 0.0
		for _, f := range others {
			for k, v := range f {
				trace += (v - s.mean[k]) * (v - s.mean[k]) / 20
			}
		}
		for k := range point {
			left := 1e-3 * trace / float64(width) * s.weights[k]
			for _, f := range others {
				left += (f[k] - s.mean[k]) * s.score(f) / 20
			}
			if want := point[k] - s.mean[k]; math.Abs(left-want) > 1e-8*max(1, math.Abs(want)) {
				t.Errorf("width %d, feature %d: %v, want %v", width, k, left, want)
			}
		}
		if separate(others, s.mean) != nil {
			t.Error("the mean stands out")
		}
	}
}

func TestPlantedIsForBalls(t *testing.T) {
	n, images := network(t, 1, 0)
	p := must.Get(n.Planted())(t)
	t.Cleanup(p.Close)
	recipe := must.Get(attacks.Setup{Kind: "sigma-zero", Norm: attacks.L0}.Make(4, n.Classes()))(t)
	_, err := Test(t.Context(), p, recipe, images, Options{})
	must.Refuse(t, err, "in balls of linf, l2 and l1")
}
