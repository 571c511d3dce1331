package vnnlib

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
)

func TestMain(m *testing.M) { testinput.RunMain(m) }

// declared are the declarations of so many inputs and outputs.
func declared(inputs, outputs int) string {
	var out strings.Builder
	for i := range inputs {
		fmt.Fprintf(&out, "(declare-const X_%d Real)\n", i)
	}
	for i := range outputs {
		fmt.Fprintf(&out, "(declare-const Y_%d Real)\n", i)
	}
	return out.String()
}

const box = "(assert (>= X_0 -1)) (assert (<= X_0 1.0)) (assert (and (>= X_1 0) (<= X_1 2e0)))\n"

func TestParse(t *testing.T) {
	p := must.Get(Parse("; a comment\n(set-logic QF_LRA)\n" + declared(2, 2) + box +
		"(assert (or (and (<= Y_0 Y_1) (> (* 2.0 Y_0) (- 1 X_0 (- X_0)))) (= (+ Y_0 (- Y_1)) 0.5)))\n(check-sat)"))(t)
	want := "{2 2 [{[-1 0] [1 2] [{[1 -1] 0 false} {[-2 0] -1 true}]} " +
		"{[-1 0] [1 2] [{[1 -1] 0.5 false} {[-1 1] -0.5 false}]}]}"
	if got := fmt.Sprint(*p); got != want {
		t.Errorf("%s, wanted\n%s", got, want)
	}
	// Boxes in cases; one of them empty.
	p = must.Get(Parse(declared(1, 1) + `(assert (<= X_0 2)) (assert (or (and (>= X_0 0) (<= X_0 1) (<= Y_0 0))
		(and (>= X_0 1.5) (>= Y_0 1)) (and (>= X_0 3) (<= Y_0 9))))`))(t)
	if got := fmt.Sprint(p.Cases); got != "[{[0] [1] [{[1] 0 false}]} {[1.5] [2] [{[-1] -1 false}]}]" {
		t.Error(got)
	}
}

func TestParseErrors(t *testing.T) {
	ok := declared(2, 1) + box
	for text, says := range map[string]string{
		"":                                     "no inputs",
		"(":                                    "line 1: a parenthesis is not closed",
		"\n)":                                  "line 2: a parenthesis closes nothing",
		"assert":                               "line 1: wants a command",
		"(define-fun f)":                       `unknown command "define-fun"`,
		"(declare-const Z_0 Real)":             `declares "Z_0"`,
		"(declare-const X_00 Real)":            `declares "X_00"`,
		"(declare-const X_0 Int)":              `as "Int"`,
		ok + "(declare-const X_1 Real)":        "X_1 is declared twice",
		declared(1, 1) + "(assert (<= X_0 1))": "X_0 has no lower",
		"(declare-const X_1 Real)(declare-const Y_0 Real)": "number 0 is missing",
		ok + "(assert (<= Y_1 0))":                         "Y_1 is not declared",
		ok + "(assert (<= Y_0))":                           "compares 1 values",
		ok + "(assert (<= Y_0 ten))":                       `not "ten"`,
		ok + "(assert (<= Y_0 1e999))":                     `not "1e999"`,
		ok + "(assert (<= Y_0 NaN))":                       `not "NaN"`,
		ok + "(assert (<= (* Y_0 Y_0) 1))":                 "multiplies variables",
		ok + "(assert (<= (+ X_0 X_1) 1))":                 "on several inputs",
		ok + "(assert (<= X_0 Y_0))":                       "inputs and outputs",
		ok + "(assert (xor true false))":                   `unknown operator "xor"`,
		ok + "(assert (<= () 1))":                          "empty parentheses",
		strings.Repeat("(", 200):                           "nested more than",
		ok + "(assert " + strings.Repeat("(and ", 99) + "(<= Y_0 1)" + strings.Repeat(")", 100) + ")": "closes nothing",
		ok + strings.Repeat("(assert (or (<= Y_0 1) (<= Y_0 2)))", 20):                                "cases",
	} {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60q: %v, wanted %q", text, err, says)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(declared(2, 2) + box + "(assert (or (and (<= Y_0 Y_1)) (and (>= Y_0 1))))")
	f.Fuzz(func(_ *testing.T, text string) {
		p, err := Parse(text)
		if err == nil && (p.Inputs == 0 || p.Outputs == 0) {
			panic("a property without variables")
		}
	})
}

// bent is y = (relu(x0 + x1 − 1) − x0, relu(x1)).
func bent(t *testing.T) *onnx.Graph {
	return onnxtest.Open(t, onnxtest.New(17, -1, 2).
		Floats("w", []int64{2, 2}, 1, 0, 1, 1).Floats("b", []int64{2}, -1, 0).
		Floats("v", []int64{2, 2}, 1, 0, 0, 1).Floats("u", []int64{2, 2}, -1, 0, 0, 0).
		Node("Gemm x w b → h; Relu h → r; MatMul r v → a; MatMul x u → c; Add a c → y").Bytes(-1, 2))
}

// Answers are right where they are known: over the box y0 = relu(x0 + x1 − 1) − x0 lies in [−1, 1], y1 = x1 in
// [0, 2].
func TestDecide(t *testing.T) {
	testinput.Runtime(t)
	for asserted, want := range map[string]Answer{
		"(assert (<= Y_0 -0.999))":                                         Sat,
		"(assert (<= Y_0 -1.001))":                                         Unsat,
		"(assert (>= Y_1 2))":                                              Sat,
		"(assert (> Y_1 2))":                                               Unknown, // the border
		"(assert (>= (* 0.1 Y_1) 0.2001))":                                 Unsat,   // no coefficient of float32
		"(assert (>= Y_1 2.001))":                                          Unsat,
		"(assert (or (<= Y_0 -5) (>= Y_1 3)))":                             Unsat,
		"(assert (or (<= Y_0 -5) (>= Y_1 1.5)))":                           Sat,
		"(assert (and (<= Y_0 -0.5) (>= Y_1 7)))":                          Unsat,
		"(assert (<= X_0 -0.5)) (assert (>= Y_1 1)) (assert (>= Y_0 0.4))": Sat,
		"(assert (<= X_0 -2))":                                             Unsat, // an empty box
		"(assert (<= X_0 0))":                                              Sat,   // any input
	} {
		p := must.Get(Parse(declared(2, 2) + box + asserted))(t)
		q := must.Get(Ask(bent(t), p))(t)
		must.Do(t, q.Unbounded())
		got := must.Get(q.Decide(context.Background(), 1))(t)
		q.Close()
		if got.Answer != want {
			t.Errorf("%s: %s, wanted %s", asserted, got.Answer, want)
		}
		if got.Answer != Sat {
			continue
		}
		y0 := math.Max(float64(got.X[0]+got.X[1]-1), 0) - float64(got.X[0])
		if math.Abs(y0-float64(got.Y[0])) > 1e-6 || got.Y[1] != got.X[1] {
			t.Errorf("%s: %v → %v", asserted, got.X, got.Y)
		}
		if text := got.String(); !strings.HasPrefix(text, "sat\n((X_0 ") || strings.Count(text, "(") != 5 ||
			!strings.HasSuffix(text, "))\n") {
			t.Error(text)
		}
	}
}

func TestAskErrors(t *testing.T) {
	testinput.Runtime(t)
	p := must.Get(Parse(declared(1, 2) + "(assert (<= X_0 1)) (assert (>= X_0 0))"))(t)
	_, err := Ask(bent(t), p)
	if err == nil || !strings.Contains(err.Error(), "1 inputs and 2 outputs, the network 2 and 2") {
		t.Error(err)
	}
	// A network that cannot be bounded is attacked alone.
	g := onnxtest.Open(t, onnxtest.New(17, -1, 2).Node("Exp x → a; Sqrt a → b; Mul b x → y").Bytes(-1, 2))
	p = must.Get(Parse(declared(2, 2) + box + "(assert (>= Y_1 5))"))(t)
	q := must.Get(Ask(g, p))(t)
	defer q.Close()
	if got := must.Get(q.Decide(context.Background(), 1))(t); got.Answer != Sat || q.Unbounded() == nil {
		t.Error(got, q.Unbounded())
	}
}

func TestTimeout(t *testing.T) {
	testinput.Runtime(t)
	q := must.Get(Ask(bent(t), must.Get(Parse(declared(2, 2)+box+"(assert (> Y_1 2))"))(t)))(t)
	defer q.Close()
	ctx, stop := context.WithDeadline(context.Background(), time.Now())
	defer stop()
	if got := must.Get(q.Decide(ctx, 1))(t); got.Answer != Timeout {
		t.Error(got)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if got, err := q.Decide(ended, 1); err == nil {
		t.Error(got)
	}
}
