package vnnlib

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
	"selfheal/models/onnx/onnxtest"
	"selfheal/models/ort"
)

func TestMain(m *testing.M) { testinput.RunMain(m) }

// declared returns the declarations of so many inputs and outputs.
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

// parse reads a property of a network of a size.
func parse(text string, inputs, outputs int) (*property, error) {
	return parseOf(text, []int{inputs}, []int{outputs})
}

// parseOf reads a property of a network with inputs and outputs of so many values each.
func parseOf(text string, inputs, outputs []int) (*property, error) {
	p, err := parserOf(context.Background(), strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	vectors := func(sizes []int) []onnx.Value {
		return onnx.Each(sizes, func(n int) onnx.Value { return onnx.Value{Shape: onnx.Shape{1, int64(n)}} })
	}
	return p.rest(context.Background(), p.sizeOf(&onnx.Graph{Outputs: vectors(outputs)}, vectors(inputs)))
}

const unitBox = "(assert (>= X_0 -1)) (assert (<= X_0 1.0)) (assert (and (>= X_1 0) (<= X_1 2e0)))\n"

func TestParse(t *testing.T) {
	p := must.Get(parse("; a comment\n(set-logic QF_LRA)\n"+declared(2, 2)+unitBox+
		"(assert (or (and (<= Y_0 Y_1) (> (* 2.0 Y_0) (- 1 X_0 (- X_0)))) (= (+ Y_0 (- Y_1)) 0.5)))\n"+
		"(check-sat)", 2, 2))(t)
	want := "[[-1 0] [1 2] [{[{0 1} {1 -1}] 0 false} {[{0 -2}] -1 true}]] " +
		"[[-1 0] [1 2] [{[{0 1} {1 -1}] 0.5 false} {[{0 -1} {1 1}] -0.5 false}]]"
	if got := shown(p); got != want || len(p.boxes) != 1 {
		t.Errorf("%s of %d boxes, wanted\n%s", got, len(p.boxes), want)
	}
	// Boxes in cases; one of them empty.
	p = must.Get(parse(declared(1, 1)+`(assert (<= X_0 2)) (assert (or (and (>= X_0 0) (<= X_0 1) (<= Y_0 0))
		(and (>= X_0 1.5) (>= Y_0 1)) (and (>= X_0 3) (<= Y_0 9)) (and (>= X_0 1) (< 1 0) (<= Y_0 9))))`, 1, 1))(t)
	if got := shown(p); got != "[[0] [1] [{[{0 1}] 0 false}]] [[1.5] [2] [{[{0 -1}] -1 false}]]" {
		t.Error(got)
	}
}

// shown returns a property's cases.
func shown(p *property) string {
	var all []string
	for _, c := range p.cases {
		all = append(all, fmt.Sprint([]any{c.box.lower, c.box.upper, c.constraints}))
	}
	return strings.Join(all, " ")
}

// The ends of boxes for proofs contain everything between the property's ends; those for counterexamples contain
// nothing else.
func TestEnds(t *testing.T) {
	for _, one := range []struct {
		asserted     string
		low, high    float32
		lower, upper float64
		apart        int
	}{
		{"(>= X_0 -1) (<= X_0 0.5)", -1, 0.5, -1, 0.5, -1},
		{"(> X_0 -1) (< X_0 0.5)", math.Nextafter32(-1, 0), math.Nextafter32(0.5, 0), -1, 0.5, -1},
		{"(>= X_0 0) (<= X_0 0.1)", 0, math.Nextafter32(0.1, 0), 0, 0.1, -1}, // float32's 0.1 is more
		{"(>= X_0 0) (<= (* 3 X_0) 1)", 0, math.Nextafter32(1./3, 0), 0, math.Nextafter(1./3, 1), -1},
		{"(>= X_0 0) (<= (* -3 X_0) 1) (<= X_0 1)", 0, 1, 0, 1, -1},
		{"(>= (* -3 X_0) -1) (>= X_0 0)", 0, math.Nextafter32(1./3, 0), 0, math.Nextafter(1./3, 1), -1},
		{"(>= X_0 0.1) (<= X_0 0.1)", math.Nextafter32(0.1, 1), math.Nextafter32(0.1, 0), 0.1, 0.1, 0},
		{"(= X_0 0.5)", 0.5, 0.5, 0.5, 0.5, -1},
		{"(>= X_0 -1e308) (<= X_0 1e308)", -math.MaxFloat32, math.MaxFloat32, -1e308, 1e308, -1},
		{"(>= X_0 0) (<= (* 1e300 X_0) 1e-20)", 0, 0, 0, math.Nextafter(1e-320, 1), -1},
	} {
		p, err := parse(declared(1, 1)+"(assert (and "+one.asserted+"))", 1, 1)
		if err != nil || len(p.boxes) != 1 {
			t.Errorf("%s: %v, %v", one.asserted, p, err)
			continue
		}
		b := p.boxes[0]
		if b.low[0] != one.low && one.apart < 0 || b.high[0] != one.high && one.apart < 0 || b.lower[0] != one.lower ||
			b.upper[0] != one.upper || b.apart != one.apart {
			t.Errorf("%s: [%v, %v] in [%v, %v], apart %d", one.asserted, b.low, b.high, b.lower, b.upper, b.apart)
		}
	}
}

func TestParseErrors(t *testing.T) {
	deep := declared(2, 1) + unitBox + "(assert" + strings.Repeat(" (and", 200)
	ok := declared(2, 1) + unitBox
	for text, says := range map[string]string{
		"":                              "does not declare X_0; the network has 2 inputs and 1 outputs",
		"(":                             "line 1: a parenthesis is not closed",
		"\n)":                           "line 2: a parenthesis closes nothing",
		"assert":                        "line 1: wants a command",
		"(define-fun f)":                `unknown command "define-fun"`,
		"(declare-const Z_0 Real)":      `declares "Z_0"`,
		"(declare-const X_00 Real)":     `declares "X_00"`,
		"(declare-const X_0 Int)":       `as "Int"`,
		ok + "(declare-const X_1 Real)": "X_1 is declared twice",
		declared(2, 1) + "(assert (<= X_1 1)) (assert (and (<= X_0 1) (>= X_0 1)))": "X_1 has no lower",
		declared(3, 1): "declares X_2; the network has 2 inputs",
		declared(2, 2): "declares Y_1; the network has 1 outputs",
		"(declare-const X_1 Real)(declare-const Y_0 Real)":        "does not declare X_0",
		ok + "(assert (<= Y_1 0))":                                "Y_1 is not declared",
		ok + "(assert (<= Y_0))":                                  "fewer than two values",
		ok + "(assert (<= Y_0 1 2))":                              "is followed by \"2\"",
		ok + "(assert (<= Y_0 (* 1e308 1e308)))":                  "line 5: comes to a number that is not finite",
		ok + "(assert (<= (* 1e308 (* 1e10 Y_0)) 1))":             "not finite",
		ok + "(assert (<= (+ 1e308 1e308 Y_0) 1))":                "not finite",
		ok + "(assert (<= (- (* 1e308 Y_0) (* -1e308 Y_0)) 1))":   "not finite",
		ok + "(assert (<= Y_0 inf))":                              `not "inf"`,
		ok + "(assert (<= Y_0 0x10))":                             `not "0x10"`,
		ok + "(assert (<= Y_0 (+)))":                              "wants a value behind +",
		ok + "(assert (<= Y_0 " + strings.Repeat("7", 300) + "))": "more than 200 bytes",
		ok + "(assert (<= Y_0 ten))":                              `not "ten"`,
		ok + "(assert (<= Y_0 1e999))":                            `not "1e999"`,
		ok + "(assert (<= Y_0 NaN))":                              `not "NaN"`,
		ok + "(assert (<= (* Y_0 Y_0) 1))":                        "multiplies variables",
		ok + "(assert (<= (+ X_0 X_1) 1))":                        "on several inputs",
		ok + "(assert (<= X_0 Y_0))":                              "inputs and outputs",
		ok + "(assert (xor true false))":                          `unknown operator "xor"`,
		ok + "(assert (<= () 1))":                                 "empty parentheses",
		strings.Repeat("(", 200):                                  `unknown command "("`,
		ok + "(assert " + strings.Repeat("(and ", 98) + "(<= Y_0 1)" + strings.Repeat(")", 99) + ")": "closes nothing",
		ok + strings.Repeat("(assert (or (<= Y_0 1) (<= Y_0 2)))", 20):                               "cases",
		deep: "nested more than",
	} {
		_, err := parse(text, 2, 1)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60q: %v, wanted %q", text, err, says)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(declared(2, 2) + unitBox + "(assert (or (and (<= Y_0 Y_1)) (and (>= Y_0 1))))")
	f.Add(second + "(assert (or (!= out[0] out[1]) (== out[0] 1)))")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parse(text, 2, 2)
		if err != nil {
			return
		}
		for _, c := range p.cases {
			for i := range 2 {
				if b := c.box; !(b.lower[i] <= b.upper[i]) || b.apart < 0 && !(b.low[i] <= b.high[i]) {
					t.Errorf("%q has the box %v", text, b)
				}
			}
		}
	})
}

// bent is y = (relu(x0 + x1 − 1) − x0, relu(x1)).
func bent() []byte {
	return onnxtest.New(17, -1, 2).
		Floats("w", []int64{2, 2}, 1, 0, 1, 1).Floats("b", []int64{2}, -1, 0).
		Floats("v", []int64{2, 2}, 1, 0, 0, 1).Floats("u", []int64{2, 2}, -1, 0, 0, 0).
		Node("Gemm x w b → h; Relu h → r; MatMul r v → a; MatMul x u → c; Add a c → y").Bytes(-1, 2)
}

// ask returns the answer to a property of a network.
func ask(t *testing.T, ctx context.Context, model []byte, text string) (Result, string, error) {
	t.Helper()
	dir := t.TempDir()
	q := Query{Model: filepath.Join(dir, "m.onnx"), Spec: filepath.Join(dir, "p.vnnlib"), Seed: 1}
	must.Do(t, os.WriteFile(q.Model, model, 0o644))
	must.Do(t, os.WriteFile(q.Spec, []byte(text), 0o644))
	q.Runtime = func(context.Context) error { return nil }
	var notes strings.Builder
	q.Note = func(line string) { notes.WriteString(line + "\n") }
	r, err := Ask(ctx, q)
	return r, notes.String(), err
}

// Known answers are right: over the box y0 = relu(x0 + x1 − 1) − x0 lies in [−1, 1], y1 = x1 in [0, 2].
func TestDecide(t *testing.T) {
	testinput.Runtime(t)
	for asserted, want := range map[string]answer{
		"(assert (<= Y_0 -0.999))":                                         sat,
		"(assert (<= Y_0 -1.001))":                                         unsat,
		"(assert (>= Y_1 2))":                                              sat,
		"(assert (> Y_1 2))":                                               unknown, // the border
		"(assert (>= (* 0.1 Y_1) 0.2001))":                                 unsat,   // no coefficient of float32
		"(assert (>= Y_1 2.001))":                                          unsat,
		"(assert (or (<= Y_0 -5) (>= Y_1 3)))":                             unsat,
		"(assert (or (<= Y_0 -5) (>= Y_1 1.5)))":                           sat,
		"(assert (and (<= Y_0 -0.5) (>= Y_1 7)))":                          unsat,
		"(assert (<= X_0 -0.5)) (assert (>= Y_1 1)) (assert (>= Y_0 0.4))": sat,
		"(assert (<= X_0 -2))":                                             unsat, // an empty box
		"(assert (<= X_0 0))":                                              sat,   // any input
	} {
		got, _, err := ask(t, context.Background(), bent(), declared(2, 2)+unitBox+asserted)
		must.Do(t, err)
		if got.answer != want {
			t.Errorf("%s: %s, wanted %s", asserted, got.answer, want)
		}
		if got.answer != sat {
			continue
		}
		y0 := math.Max(float64(got.x[0]+got.x[1]-1), 0) - float64(got.x[0])
		if math.Abs(y0-got.y[0]) > 1e-6 || got.y[1] != float64(got.x[1]) {
			t.Errorf("%s: %v → %v", asserted, got.x, got.y)
		}
		if text := got.String(); !strings.HasPrefix(text, "sat\n((X_0 ") || strings.Count(text, "(") != 5 ||
			!strings.HasSuffix(text, "))\n") {
			t.Error(text)
		}
	}
}

func TestAsk(t *testing.T) {
	testinput.Runtime(t)
	_, _, err := ask(t, context.Background(), bent(), declared(1, 2)+"(assert (<= X_0 1)) (assert (>= X_0 0))")
	if err == nil || !strings.Contains(err.Error(), "does not declare X_1; the network has 2 inputs and 2 outputs") {
		t.Error(err)
	}
	// A network that cannot be bounded is only attacked.
	unbounded := onnxtest.New(17, -1, 2).Node("Exp x → a; Sqrt a → b; Mul b x → y").Bytes(-1, 2)
	got, notes, err := ask(t, context.Background(), unbounded, declared(2, 2)+unitBox+"(assert (>= Y_1 5))")
	if err != nil || got.answer != sat || !strings.Contains(notes, "nothing can be proven of it") {
		t.Error(got, notes, err)
	}
	// A box without a float32 value is proven, and contains no counterexample.
	apart := "(assert (and (>= X_0 0.1) (<= X_0 0.1) (>= X_1 0) (<= X_1 1)))"
	for asserted, want := range map[string]answer{"(assert (<= Y_1 2))": unknown, "(assert (>= Y_1 2))": unsat} {
		got, notes, err := ask(t, context.Background(), bent(), declared(2, 2)+apart+asserted)
		if err != nil || got.answer != want ||
			!strings.Contains(notes, "no float32 lies between the bounds of inputs such as X_0 in 1 of 1 boxes") {
			t.Error(asserted, got, notes, err)
		}
	}
	// A box beyond float32 proves nothing and causes no panic.
	huge := "(assert (and (>= X_0 -1e308) (<= X_0 1e308) (>= X_1 0) (<= X_1 1)))"
	got, _, err = ask(t, context.Background(), bent(), declared(2, 2)+huge+"(assert (>= Y_1 2))")
	if err != nil || got.answer != unknown {
		t.Error(got, err)
	}
}

// A quantised network is proven as it rounds, and the proof is checked against its file.
func TestQuantised(t *testing.T) {
	testinput.Runtime(t)
	for _, form := range []string{"qdq-16", "qoperator-channel"} {
		model := must.Get(os.ReadFile("../../models/bounds/testdata/quantised/pooled-" + form + ".onnx"))(t)
		file := must.Get(ort.OpenOriginal(form, &onnx.File{Data: model}, ""))(t)
		y := must.Get(file.Run(slices.Repeat([]float32{0.5}, 3*8*8)))(t)
		file.Close()
		box := declared(3*8*8, len(y))
		for i := range 3 * 8 * 8 {
			box += fmt.Sprintf("(assert (<= X_%d 0.501)) (assert (>= X_%d 0.499))\n", i, i)
		}
		for asserted, want := range map[string]answer{
			fmt.Sprintf("(assert (>= Y_0 %g))", y[0]+2):                                unsat,
			fmt.Sprintf("(assert (>= Y_0 %g)) (assert (<= Y_0 %g))", y[0]-1, y[0]+0.5): sat,
		} {
			got, _, err := ask(t, t.Context(), model, box+asserted)
			if saturates := ort.Saturates() && want == unsat; err != nil || got.answer != want && !saturates {
				t.Errorf("%s, %s: %v, %v", form, asserted, got, err)
			}
		}
	}
}

// Nothing is proven if sums may leave int32, as they do at the upper corner. Within int32 there is a proof.
func TestSumsLeaveInt32(t *testing.T) {
	testinput.Runtime(t)
	for _, c := range onnxtest.Overflowing() {
		if !slices.Contains([]string{"QLinearConv", "QGemm", "ConvInteger and Add", "QDQ Conv"}, c.Name) {
			continue // which package bounds tries
		}
		for lower, want := range map[float64]answer{0.3: unsat, 0.9: unknown} {
			box := declared(192, 3)
			for i := range 192 {
				box += fmt.Sprintf("(assert (>= X_%d %g)) (assert (<= X_%d %g))\n", i, lower, i, lower+0.1)
			}
			most := map[answer]time.Duration{unsat: 30 * time.Second, unknown: 400 * time.Millisecond}[want]
			ctx, cancel := context.WithTimeout(t.Context(), most)
			got, _, err := ask(t, ctx, c.Data, box+"(assert (<= Y_0 Y_2))")
			cancel()
			if saturates := ort.Saturates() && want == unsat; err != nil && ctx.Err() == nil || !saturates &&
				(got.answer == unsat) != (want == unsat) {
				t.Errorf("%s, from %g: %v, %v", c.Name, lower, got.answer, err)
			}
		}
	}
}

// Parts of a box are bounded if bounds over the whole box leave room. A border that no float32 meets is given up.
func TestBranch(t *testing.T) {
	testinput.Runtime(t)
	// |x0 − ½| + |x1|, and 2·max(x0 − ½, 0) − max(½ − x0, 0)
	model := onnxtest.New(17, -1, 2).Floats("w", []int64{2, 4}, 1, -1, 0, 0, 0, 0, 1, -1).
		Floats("b", []int64{4}, -0.5, 0.5, 0, 0).Floats("v", []int64{4, 2}, 1, 2, 1, -1, 1, 0, 1, 0).
		Node("Gemm x w b → h; Relu h → a; MatMul a v → y").Bytes(-1, 2)
	for asserted, want := range map[string]answer{
		"(assert (<= Y_0 -0.001))":                   unsat,
		"(assert (and (<= Y_0 0.1) (>= Y_1 0.25)))":  unsat,
		"(assert (and (<= Y_0 0.1) (>= Y_1 0.15)))":  sat,
		"(assert (or (<= Y_0 -0.01) (>= Y_1 1.01)))": unsat,
		"(assert (or (<= Y_0 -0.01) (>= Y_1 0.99)))": sat,
		"(assert (< Y_0 0))":                         unknown,
	} {
		text := declared(2, 2) + unitBox + asserted
		got, _, err := ask(t, t.Context(), model, text)
		if err != nil || got.answer != want {
			t.Errorf("%s: %v, %v", asserted, got, err)
		}
	}
}

// A part without finite bounds is cut, and does not count as decided.
func TestUnboundedPartsAreKept(t *testing.T) {
	testinput.Runtime(t)
	model := onnxtest.New(17, -1, 2).Node("Exp x → a; Exp a → b; Exp b → c; Neg c → y").Bytes(-1, 2)
	file := &onnx.File{Data: model}
	in, out := must.Get2(onnx.Ports(model))(t)
	p := must.Get(parse(declared(2, 2)+unitBox+"(assert (<= Y_0 -1e30))", 2, 2))(t)
	q := must.Get(newQuestion(file, must.Get(open(file, in, nil, nil))(t), p, out, func(string) {}))(t)
	defer q.close()
	b := p.boxes[0]
	tree := &boxTree{q: q, box: b}
	whole, _ := must.Get2(tree.bound(t.Context(), part{lower: b.lower, upper: b.upper, cases: b.cases}, nil))(t)
	if whole.short < 1e30 {
		t.Fatalf("the bounds lack %g: they are finite", whole.short)
	}
	if parts, err := tree.examine(t.Context(), []part{whole}); err != nil || len(parts) == 0 {
		t.Errorf("%d parts, %v", len(parts), err)
	}
}

func TestTimeout(t *testing.T) {
	testinput.Runtime(t)
	asked := declared(2, 2) + unitBox + "(assert (> Y_1 2))"
	ctx, stop := context.WithDeadline(context.Background(), time.Now())
	defer stop()
	if got, _, err := ask(t, ctx, bent(), asked); err != nil || got.answer != timeout {
		t.Error(got, err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if got, _, err := ask(t, ended, bent(), asked); err == nil {
		t.Error(got)
	}
}

// There is no answer, neither sat nor unsat, about a network that differs from its file, as after a wrong rewriting.
func TestNoAnswerOfAnotherNetwork(t *testing.T) {
	testinput.Runtime(t)
	in, out := must.Get2(onnx.Ports(bent()))(t)
	net := must.Get(open(&onnx.File{Data: bent()}, in, nil, nil))(t)
	// y1 is twice as large in the file.
	file := &onnx.File{Data: bytes.Replace(bent(), []byte{0, 0, 128, 63, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 128, 63},
		[]byte{0, 0, 128, 63, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64}, 1)}
	if bytes.Equal(file.Data, bent()) {
		t.Fatal("the file is not changed")
	}
	for _, asserted := range []string{"(assert (>= Y_1 2.5))", "(assert (<= Y_1 -0.5))", "(assert (<= Y_0 -1.5))",
		"(assert (and (>= Y_1 1.4) (<= Y_1 1.6) (<= X_1 1.5) (>= X_1 1.45)))"} {
		p := must.Get(parse(declared(2, 2)+unitBox+asserted, 2, 2))(t)
		q := must.Get(newQuestion(file, net, p, out, func(string) {}))(t)
		got, err := q.decide(context.Background(), 1)
		if err == nil || !strings.Contains(err.Error(), "of the file is") &&
			!strings.Contains(err.Error(), "violates it") {
			t.Errorf("%s: %v, %v", asserted, got.answer, err)
		}
		q.close()
	}
}

// TestParseIsLinear: the time to read a file grows with its length, whatever it contains. If it grew with the square,
// each of these would take minutes.
func TestParseIsLinear(t *testing.T) {
	const n = 300_000
	repeat := strings.Repeat
	hidden := func(n int) string {
		var all strings.Builder
		for i := range n {
			fmt.Fprintf(&all, "(declare-hidden h%d float32 [1] n)", i)
		}
		return all.String()
	}
	network := "(declare-network f %s (declare-input X float32 [1]) (declare-output Y float32 [1]))" +
		"(assert (and (>= X[0] 0) (<= X[0] 1)))"
	for _, c := range []struct{ name, text, wrong string }{
		{"a product", declared(1, 1) + "(assert (and (>= X_0 0) (<= X_0 1) (<= (* (+ " + repeat("Y_0 ", n) + ") " +
			repeat("1 ", n) + ") 0)))", ""},
		{"a product within products", declared(1, 1) + "(assert (and (>= X_0 0) (<= X_0 1) (<= " + repeat("(* ", 90) +
			"(+ " + repeat("Y_0 ", n/10) + ")" + repeat(" 1)", 90) + " 0)))", ""},
		{"declarations", fmt.Sprintf(network, hidden(mostTensors-2)), ""},
		{"too many declarations", fmt.Sprintf(network, hidden(mostTensors)), "more than 100000 tensors"},
	} {
		begun := time.Now()
		_, err := parse(c.text, 1, 1)
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("%s: %s", c.name, took)
		}
		if c.wrong == "" {
			must.Do(t, err)
		} else {
			must.Refuse(t, err, c.wrong)
		}
	}
}

// TestProducts: a product's constants may be anywhere.
func TestProducts(t *testing.T) {
	for product, want := range map[string]string{
		"(* 2 3 Y_0)": "[{0 6}]", "(* 2 Y_0 3)": "[{0 6}]", "(* (+ Y_0 1) 2 0.5)": "[{0 1}]",
		"(- (* 2 (+ 1 Y_0)))": "[{0 -2}]", "(* (- 2) (- Y_0 3))": "[{0 -2}]",
	} {
		p := must.Get(parse(declared(1, 1)+"(assert (and (>= X_0 0) (<= X_0 1) (<= "+product+" 1)))", 1, 1))(t)
		if got := fmt.Sprint(p.cases[0].constraints[0].row); got != want {
			t.Errorf("%s: %s, want %s", product, got, want)
		}
	}
	p := must.Get(parse(declared(1, 1)+"(assert (and (>= X_0 0) (<= X_0 1) (<= (* 3 (+ 1 Y_0) 2) 0)))", 1, 1))(t)
	if bound := p.cases[0].constraints[0].bound; bound != -6 {
		t.Error(bound)
	}
	for product, wrong := range map[string]string{"(* 2 Y_0 3 Y_0)": "multiplies variables",
		"(* 1e200 1e200 Y_0)": "not finite", "(* (+ Y_0 1) 1e200 1e200)": "not finite"} {
		_, err := parse(declared(1, 1)+"(assert (<= "+product+" 1))", 1, 1)
		must.Refuse(t, err, wrong)
	}
}

// A tensor's size does not overflow into a network's.
func TestDeclaredSize(t *testing.T) {
	_, err := parse("(declare-network n (declare-input x Real [4294967296,4294967296,4])(declare-output y Real [1]))"+
		"(assert (<= x[0,0,0] 0))", 0, 1)
	must.Refuse(t, err, "x has 10000000 values")
	_, err = parse("(declare-network n (declare-input x Real [6148914691236517206,3])(declare-output y Real [1]))"+
		"(assert (<= x[0,0] 0))", 2, 1)
	must.Refuse(t, err, "x has 10000000 values")
}
