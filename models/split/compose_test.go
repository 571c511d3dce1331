package split

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

func TestMain(m *testing.M) { testinput.RunMain(m) }

// chain runs graphs one after another on one item.
func chain(t *testing.T, graphs []*onnx.Graph, x []float32, opts ...ort.CompileOption) []float32 {
	t.Helper()
	for _, g := range graphs {
		x = onnxtest.RunFile(t, must.Get(g.Encode())(t), x, g.Outputs[0].Shape.Items(), opts...)
	}
	return x
}

// composes cuts g at boundaries and compares the segments with the whole: up to rounding if the runtime may fuse
// operators, bit for bit if not.
func composes(t *testing.T, g *onnx.Graph, boundaries []string) {
	t.Helper()
	segments := must.Get(At(g, boundaries))(t)
	if len(segments) != len(boundaries)+1 {
		t.Fatalf("%d segments for %d boundaries", len(segments), len(boundaries))
	}
	joints(t, g, segments, boundaries)
	r := rand.New(rand.NewPCG(4, 2))
	for range 2 {
		x := make([]float32, g.Inputs[0].Shape.Items())
		for i := range x {
			x[i] = r.Float32()
		}
		whole := []*onnx.Graph{g}
		got, want := chain(t, segments, x), chain(t, whole, x)
		diff, scale := 0.0, 0.0
		for i := range want {
			diff = math.Max(diff, math.Abs(float64(got[i]-want[i])))
			scale = math.Max(scale, math.Abs(float64(want[i])))
		}
		if !(diff <= 1e-5*scale) || scale == 0 {
			t.Errorf("%q: segments differ by %g at a scale of %g", boundaries, diff, scale)
		}
		if !slices.Equal(chain(t, segments, x, ort.Unoptimized()), chain(t, whole, x, ort.Unoptimized())) {
			t.Errorf("%q: without optimisation the segments give other bits", boundaries)
		}
	}
}

// joints checks that each segment begins where the one before it ends.
func joints(t *testing.T, g *onnx.Graph, segments []*onnx.Graph, boundaries []string) {
	t.Helper()
	names := slices.Concat([]string{g.Inputs[0].Name}, boundaries, []string{g.Outputs[0].Name})
	var parameters, flops int64
	for i, s := range segments {
		if s.Inputs[0].Name != names[i] || s.Outputs[0].Name != names[i+1] {
			t.Errorf("segment %d: inputs %v, outputs %v, want %q to %q", i, s.Inputs, s.Outputs, names[i], names[i+1])
		}
		if len(s.Inputs) != 1 || len(s.Outputs) != 1 || !s.Inputs[0].Shape.HasBatch() {
			t.Errorf("segment %d: inputs %v, outputs %v", i, s.Inputs, s.Outputs)
		}
		parameters, flops = parameters+s.Parameters(), flops+s.FLOPs()
	}
	if parameters != g.Parameters() || flops != g.FLOPs() {
		t.Errorf("%d parameters and %d FLOPs, not %d and %d", parameters, flops, g.Parameters(), g.FLOPs())
	}
}

func zoo(t *testing.T, name string) *onnx.Graph {
	t.Helper()
	var o simplify.Options
	if strings.HasPrefix(name, "preact") {
		o.Mean, o.Std = []float32{0.5, 0.4, 0.3}, []float32{0.25}
	}
	g, _ := must.Get2(simplify.Load(filepath.Join("..", "zoo", name), o))(t)
	return g
}

// The embeddings are networks too: the auto-encoder of the input has no Gemm.
func TestBundledNetworksCompose(t *testing.T) {
	for name, boundaries := range map[string]int{
		"preact_standard.onnx": 5, "preact_robust.onnx": 5, // stem, three joins, pooled features
		"input_ae.onnx": -1, "hidden_ae.onnx": -1,
	} {
		g := zoo(t, name)
		at := Boundaries(g)
		if boundaries >= 0 && len(at) != boundaries {
			t.Errorf("%s: boundaries %q", name, at)
		}
		composes(t, g, at)
		composes(t, g, nil)
		composes(t, g, Cuts(g)) // everywhere at once
	}
}

func TestRealNetworksCompose(t *testing.T) {
	for name, boundaries := range map[string]func(at []string) bool{
		"resnet_2b.onnx":        func(at []string) bool { return slices.Equal(at, []string{"17", "24", "29", "32"}) },
		"rn18w16_standard.onnx": func(at []string) bool { return len(at) == 10 }, // stem, eight joins, pooled features
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			half := simplify.Options{Mean: []float32{0.5}, Std: []float32{0.25}}
			g, _ := must.Get2(simplify.Load(testinput.Real(t, name), half))(t)
			if at := Boundaries(g); !boundaries(at) {
				t.Errorf("boundaries %q", at)
			}
			composes(t, g, Boundaries(g))
			composes(t, g, Cuts(g)[3:5])
		})
	}
}
