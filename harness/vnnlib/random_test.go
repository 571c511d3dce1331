package vnnlib

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/ort"
)

// network draws a small network: of several ranks and layouts, with an open, fixed or absent batch.
func network(rng *rand.Rand) (model []byte, inputs, outputs int) {
	floats := func(n int64, size float32) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = size * float32(rng.NormFloat64())
		}
		return v
	}
	in, hidden, out := int64(1+rng.IntN(5)), int64(2+rng.IntN(6)), int64(1+rng.IntN(4))
	batch := []int64{-1, 1}[rng.IntN(2)]
	activation := []string{"Relu", "LeakyRelu", "Sigmoid", "Tanh", "Elu"}[rng.IntN(5)]
	dense := func(f onnxtest.File, from, kind string, in int64) onnxtest.File {
		f = f.Floats("w1", []int64{in, hidden}, floats(in*hidden, 1)...).
			Floats("b1", []int64{hidden}, floats(hidden, 0.5)...).
			Floats("w2", []int64{hidden, out}, floats(hidden*out, 1)...).
			Floats("b2", []int64{out}, floats(out, 0.5)...)
		switch kind {
		case "Gemm":
			return f.Node("Gemm " + from + " w1 b1 → h; " + activation + " h → a; Gemm a w2 b2 → y")
		case "left": // W·x, of vectors
			return f.Node("Transpose w1 → t1 perm=1,0; Transpose w2 → t2 perm=1,0; MatMul t1 " + from +
				" → h0; Add b1 h0 → h; " + activation + " h → a; MatMul t2 a → y0; Add y0 b2 → y")
		}
		return f.Node("MatMul " + from + " w1 → h0; Add h0 b1 → h; " + activation +
			" h → a; MatMul a w2 → y0; Add y0 b2 → y")
	}
	switch rng.IntN(7) {
	case 0: // a vector
		side := []string{"left", "right"}[rng.IntN(2)]
		return dense(onnxtest.New(17, in), "x", side, in).Bytes(out), int(in), int(out)
	case 1:
		return dense(onnxtest.New(17, batch, in), "x", "Gemm", in).Bytes(batch, out), int(in), int(out)
	case 2: // an image with channels last, brought to the front
		f := onnxtest.New(17, batch, 5, 6, 3).Floats("k", []int64{2, 3, 3, 3}, floats(54, 0.4)...).
			Node("Transpose x → f perm=0,3,1,2; Conv f k → c strides=2,2; Relu c → r; Transpose r → l perm=0,2,3,1; " +
				"Flatten l → g")
		return dense(f, "g", "Gemm", 2*2*2).Bytes(batch, out), 90, int(out)
	case 3: // channels first
		f := onnxtest.New(17, batch, 3, 5, 6).Floats("k", []int64{2, 3, 3, 3}, floats(54, 0.4)...).
			Node("Conv x k → c strides=2,2; Relu c → r; Flatten r → g")
		return dense(f, "g", "Gemm", 2*2*2).Bytes(batch, out), 90, int(out)
	case 4: // a matrix without a batch
		f := onnxtest.New(17, 3, in).Floats("m", []int64{2, 3}, floats(6, 1)...).
			Node("MatMul m x → z; s=-1,; Reshape z s → g")
		return dense(f, "g", "right", 2*in).Bytes(out), 3 * int(in), int(out)
	case 5: // a vector that becomes an image, and part of it once more behind that
		f := onnxtest.New(17, 12).Floats("k", []int64{2, 1, 2, 2}, floats(8, 0.7)...).
			Node("s=1,1,3,4; Reshape x s → i; Conv i k → c; Relu c → r; e=-1,; Reshape r e → v; p=0,; q=2,; " +
				"Slice x p q → o; Concat v o → g axis=0")
		return dense(f, "g", "right", 2*2*3+2).Bytes(out), 12, int(out)
	default: // with a dimension too many
		f := onnxtest.New(17, 1, in, 1).Node("z=0,; Squeeze x z → u; m=1,; Squeeze u m → g")
		return dense(f, "g", "right", in).Bytes(out), int(in), int(out)
	}
}

// randomProperty draws a property: a box, and sums of outputs in a disjunction of conjunctions. Bounds lie near the
// ends of the outputs over the box.
func randomProperty(rng *rand.Rand, file *ort.Original, inputs, outputs int) string {
	var text strings.Builder
	text.WriteString(declared(inputs, outputs))
	center, width := make([]float64, inputs), 0.02+0.5*rng.Float64()
	var ys [][]float64
	for i := range center {
		center[i] = rng.NormFloat64()
		fmt.Fprintf(&text, "(assert (>= X_%d %v)) (assert (<= X_%d %v))\n", i, center[i]-width, i, center[i]+width)
	}
	for range 200 {
		x := make([]float32, inputs)
		for i := range x {
			x[i] = float32(center[i] + width*(2*rng.Float64()-1))
		}
		y, err := file.Run(x)
		if err != nil {
			panic(err)
		}
		ys = append(ys, y)
	}
	atom := func() string {
		i, j, factor := rng.IntN(outputs), rng.IntN(outputs), float64(rng.IntN(5)-2)
		least, most := 1e30, -1e30
		for _, y := range ys {
			v := y[i] + factor*y[j]
			least, most = min(least, v), max(most, v)
		}
		end := most + (most-least)*(1.4*rng.Float64()-0.4)
		return fmt.Sprintf("(>= (+ Y_%d (* %v Y_%d)) %v)", i, factor, j, end)
	}
	text.WriteString("(assert (or")
	for range 1 + rng.IntN(3) {
		text.WriteString(" (and")
		for range 1 + rng.IntN(2) {
			text.WriteString(" " + atom())
		}
		text.WriteString(")")
	}
	text.WriteString("))")
	return text.String()
}

// tryRandom asks a random question and checks the answer against samples of the file.
func tryRandom(t *testing.T, seed uint64, samples int) answer {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed/7, 1)) // several questions a network
	model, inputs, outputs := network(rng)
	file := must.Get(ort.OpenOriginal("file", &onnx.File{Data: model}, ""))(t)
	defer file.Close()
	rng = rand.New(rand.NewPCG(seed, 2))
	text := randomProperty(rng, file, inputs, outputs)
	ctx, stop := context.WithTimeout(context.Background(), 3*time.Second)
	defer stop()
	got, notes, err := ask(t, ctx, model, text)
	if err != nil || notes != "" {
		t.Fatalf("seed %d: %v, %s", seed, err, notes)
	}
	p := must.Get(parse(text, inputs, outputs))(t)
	box := p.boxes[0]
	violated := func(x []float32) bool {
		y := must.Get(file.Run(x))(t)
		for _, c := range p.cases {
			if c.holds(func(i int) float64 { return y[i] }) {
				return true
			}
		}
		return false
	}
	switch got.answer {
	case sat:
		for i, v := range got.x {
			if float64(v) < box.lower[i] || float64(v) > box.upper[i] {
				t.Errorf("seed %d: X_%d = %v lies outside [%v, %v]", seed, i, v, box.lower[i], box.upper[i])
			}
		}
		if !violated(got.x) {
			t.Errorf("seed %d: sat, and the counterexample is none", seed)
		}
	case unsat:
		for which := range samples {
			if violated(box.point(which%200, rng)) {
				t.Errorf("seed %d: unsat, and a sample is a counterexample:\n%s", seed, text)
				break
			}
		}
	}
	return got.answer
}

// No answer to a random question is wrong, for several layouts and ranks: two questions for each of 30 networks, with
// SELFHEAL_TEST_LARGE all seven.
func TestRandomProperties(t *testing.T) {
	testinput.Runtime(t)
	counts, questions := map[answer]int{}, 0
	for seed := range uint64(210) {
		if seed%7 >= 2 && !testinput.Large() || seed >= 70 && testing.Short() {
			continue
		}
		questions++
		counts[tryRandom(t, seed, 500)]++
	}
	t.Log(counts)
	if counts[sat] < questions/5 || counts[unsat] < questions/5 {
		t.Errorf("%v: the questions are too easy or too hard to tell", counts)
	}
}

// The same, from any seed.
func FuzzRandomProperties(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		testinput.Runtime(t)
		tryRandom(t, seed, 300)
	})
}
