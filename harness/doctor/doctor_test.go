package doctor

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/ort"
)

var asIs simplify.Options

func TestMain(m *testing.M) { testinput.RunMain(m) }

// file reads a file of package models.
func file(t *testing.T, path string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(filepath.Join("..", "..", "models", path)))(t)
}

// states examines a model and returns the outcome of each check, in order.
func states(t *testing.T, model []byte, o simplify.Options) ([]Check, []State) {
	t.Helper()
	checks := must.Get(Model(context.Background(), model, Options{Options: o}))(t)
	var all []State
	for _, c := range checks {
		all = append(all, c.State)
	}
	return checks, all
}

func TestSoundModels(t *testing.T) {
	for name, o := range map[string]simplify.Options{
		"preact_standard.onnx": {},
		"preact_robust.onnx":   {Mean: []float32{0.5, 0.4, 0.3}, Std: []float32{0.5}},
	} {
		checks, got := states(t, file(t, "zoo/"+name), o)
		if !slices.Equal(got, []State{OK, OK, OK, OK, OK}) {
			t.Errorf("%s: %v", name, checks)
		}
		details := []string{"3×32×32 → 10 classes", "6 segments", "central differences", "bit for bit", "onnx-go"}
		for i, want := range details {
			must.Have(t, checks[i].Detail, want)
		}
	}
}

// graph returns a network of one operator between a Conv and the classes.
func graph(t *testing.T, op func(b *onnx.Builder, x string) string) []byte {
	t.Helper()
	b := &onnx.Builder{G: onnx.NewGraph("test")}
	x := b.Input("x", onnx.Shape{onnx.Batch, 3, 6, 6})
	r := rand.New(rand.NewPCG(1, 1))
	weights := func(shape ...int64) string {
		v := make([]float32, onnx.Shape(shape).Items())
		for i := range v {
			v[i] = float32(r.NormFloat64()) / 4
		}
		return b.Const(onnx.FloatTensor(shape, v))
	}
	c := b.OpWith("Conv", onnx.Attrs{"kernel_shape": []int64{3, 3}}, x, weights(4, 3, 3, 3))
	b.Output("y", b.Op("Gemm", b.Op("Flatten", op(b, c)), weights(64, 5), weights(5)))
	must.Do(t, b.Err())
	return must.Get(b.G.Encode())(t)
}

// A check that can't be made, or fails, says why, and the others are still made. A gradient of 0 with differences of
// 0 is no evidence about the gradient. A model that doesn't run has one check.
func TestChecksSayWhy(t *testing.T) {
	for name, c := range map[string]struct {
		model  []byte
		o      simplify.Options
		states []State
		check  int // that says the detail
		detail string
	}{
		"the second engine lacks operators": {graph(t, func(b *onnx.Builder, x string) string {
			return b.OpWith("AveragePool", onnx.Attrs{"kernel_shape": []int64{1, 1}}, b.Op("Softsign", x))
		}), asIs, []State{OK, OK, OK, OK, Skipped}, 4, "onnx-go lacks AveragePool, Softsign"},
		"no gradient rule": {graph(t, func(b *onnx.Builder, x string) string {
			half := b.OpWith("Resize", onnx.Attrs{"mode": "linear", "antialias": 1}, x, "",
				b.Const(onnx.FloatTensor(onnx.Shape{4}, []float32{1, 1, 0.5, 1})))
			return b.OpWith("Concat", onnx.Attrs{"axis": 2}, half, half)
		}), asIs, []State{OK, OK, Failed, OK, Skipped}, 2, "antialias is not supported"},
		"steps": {graph(t, func(b *onnx.Builder, x string) string {
			return b.Op("Sign", b.Op("Add", x, b.Float(9)))
		}), asIs, []State{OK, OK, Skipped, OK, Skipped}, 2, "flat"},
		"faint": {graph(t, func(b *onnx.Builder, x string) string { return b.Op("Mul", x, b.Float(1e-9)) }),
			asIs, []State{OK, OK, Skipped, OK, OK}, 2, "flat"},
		"single logit": {file(t, "../control/testdata/single_column.onnx"), asIs, []State{OK, OK, OK, OK, OK}, 0,
			"2 classes"},
		"not finite": {graph(t, func(b *onnx.Builder, x string) string {
			return b.Op("Log", b.Op("Neg", b.Op("Exp", x)))
		}), asIs, []State{Failed}, 0, "NaN"},
		"wrong preprocessing": {file(t, "zoo/preact_standard.onnx"), simplify.Options{Mean: []float32{0, 0}},
			[]State{Failed}, 0, "mean has 2 values"},
	} {
		checks, got := states(t, c.model, c.o)
		if !slices.Equal(got, c.states) || !strings.Contains(checks[c.check].Detail, c.detail) {
			t.Errorf("%s: %v", name, checks)
		}
	}
}

// Each comparison fails if its reference is wrong.
func TestChecksCanFail(t *testing.T) {
	ctx := context.Background()
	pool := ort.NewPool(1, images)
	defer pool.Close()
	s := &examination{model: file(t, "zoo/preact_standard.onnx")}
	must.Get(s.open(ctx, pool))(t)
	s.logits[1] = slices.Clone(s.logits[1])
	s.logits[1][4] += 0.01
	for name, c := range map[string]struct {
		run  func(context.Context) (string, error)
		want string
	}{
		Composes: {s.composes, "more than 1e-05"},
		Batches:  {s.batches, "the logits of image 1 differ"},
		Agrees:   {s.agrees, "more than 0.0001"},
	} {
		if got := s.examine(ctx, name, c.run); got.State != Failed || !strings.Contains(got.Detail, c.want) {
			t.Errorf("%v", got)
		}
	}
	s.o.Mean = []float32{0.1} // for the second engine only
	if got := s.examine(ctx, Agrees, s.agrees); got.State != Failed {
		t.Errorf("%v", got)
	}
	got := s.examine(ctx, Runs, func(context.Context) (string, error) { panic("oh") })
	if got.State != Failed || !strings.Contains(got.Detail, "a fault in selfheal: oh") {
		t.Errorf("%v", got)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Model(ctx, file(t, "zoo/preact_standard.onnx"), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Broken files give checks that say so.
func TestBrokenFiles(t *testing.T) {
	model := file(t, "crosscheck/testdata/small.onnx")
	for _, cut := range []int{0, 1, 100, len(model) / 2, len(model) - 1} {
		if checks, _ := states(t, model[:cut], asIs); checks[0].State != Failed || checks[0].Detail == "" {
			t.Errorf("%d bytes: %v", cut, checks)
		}
	}
	r := rand.New(rand.NewPCG(2, 2))
	for range 60 {
		broken := slices.Clone(model)
		for range 1 + r.IntN(3) {
			broken[r.IntN(900)] = byte(r.Uint32()) // the nodes come before the weights
		}
		checks, _ := states(t, broken, asIs)
		for _, c := range checks {
			if strings.Contains(c.Detail, "fault in selfheal") || (c.State != OK && c.Detail == "") {
				t.Errorf("%v", c)
			}
		}
	}
}
