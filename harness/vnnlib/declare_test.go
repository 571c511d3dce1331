package vnnlib

import (
	"strings"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx"
)

// second begins a file of version 2 about a network of two inputs and two outputs.
const second = `(vnnlib-version <2.0>) ; a comment
(declare-network n
  (declare-input in Real [1, 2])
  (declare-hidden between float32 [1,4] "a (name\")")
  (declare-output out float32 [2]))
(assert (and (>= in[0,0] -1) (<= in [0,0] 1.0) (>= in[0,1] 0) (<= in[0,1] 2.0)))
`

// A file of version 2 asks the same as one of version 1.
func TestSecondVersion(t *testing.T) {
	testinput.Runtime(t)
	for asserted, plain := range map[string]string{
		"(assert (<= out[0] out[1]))":                         "(assert (<= Y_0 Y_1))",
		"(assert (or (< (* 2.0 out[1]) 1.0) (== out[0] 0)))":  "(assert (or (< (* 2.0 Y_1) 1.0) (= Y_0 0)))",
		"(assert (!= out[0] in[0,0]))(assert (> out[1] 3.0))": "",
		"(assert (!= out[0] 1))":                              "(assert (or (< Y_0 1) (> Y_0 1)))",
	} {
		p, err := parse(second+asserted, 2, 2)
		if plain == "" {
			if err == nil || !strings.Contains(err.Error(), "inputs lie in a box") {
				t.Errorf("%s: %v", asserted, err)
			}
			continue
		}
		must.Do(t, err)
		if got, want := shown(p), shown(must.Get(parse(declared(2, 2)+unitBox+plain, 2, 2))(t)); got != want {
			t.Errorf("%s: %s, want %s", asserted, got, want)
		}
	}
	got, _, err := ask(t, t.Context(), bent(), second+"(assert (>= out[1] 1.5))")
	must.Do(t, err)
	lines := strings.Split(got.String(), "\n")
	if len(lines) != 8 || lines[0] != "sat" || lines[1] != "in Real [1,2]" || lines[4] != "out float32 [2]" {
		t.Errorf("%q", lines)
	}
	// A scalar has no index.
	scalar := strings.Replace(strings.Replace(second, "out float32 [2]", "out float32 []", 1), "[1, 2]", "[2]", 1)
	scalar = strings.ReplaceAll(strings.ReplaceAll(scalar, "[0,0]", "[0]"), "[0,1]", "[1]")
	if p := must.Get(parse(scalar+"(assert (<= out 0))", 2, 1))(t); len(p.cases) != 1 {
		t.Errorf("%d cases", len(p.cases))
	}
}

// Several inputs and outputs are asked about together, as one vector, in the order of the file.
func TestSeveralInputsAndOutputs(t *testing.T) {
	head := `(vnnlib-version <2.0>)
(declare-network n (declare-input a Real [1]) (declare-input b Real [1,2])
  (declare-output p Real [2]) (declare-output q Real []))
(assert (and (>= a[0] -1) (<= a[0] 1) (>= b[0,0] 0) (<= b[0,0] 1) (>= b[0,1] 2) (<= b[0,1] 3)))
`
	p := must.Get(parseOf(head+"(assert (<= (+ p[1] q) 4))", []int{1, 2}, []int{2, 1}))(t)
	if got := shown(p); got != "[[-1 0 2] [1 1 3] [{[{1 1} {2 1}] 4 false}]]" {
		t.Error(got)
	}
	for _, c := range []struct {
		inputs, outputs []int
		says            string
	}{
		{[]int{2, 1}, []int{2, 1}, "a has 1 values, the network's input 2"},
		{[]int{1, 2}, []int{1, 2}, "p has 2 values, the network's output 1"},
		{[]int{1, 2, 1}, []int{2, 1}, "declares 2 inputs, the network has 3"},
		{[]int{1, 2}, []int{2}, "declares 2 outputs, the network has 1"},
	} {
		if _, err := parseOf(head, c.inputs, c.outputs); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v %v: %v, wanted %s", c.inputs, c.outputs, err, c.says)
		}
	}
	// p is [a + b0, relu(b1 − a)] and q is b0·2: of the box p1 + q lies in [1, 6].
	testinput.Runtime(t)
	for _, batched := range []bool{true, false} {
		net := two(t, batched)
		for asserted, want := range map[string]answer{
			"(assert (>= (+ p[1] q) 5.9))": sat, "(assert (>= (+ p[1] q) 6.01))": unsat, "(assert (>= q p[1]))": sat,
			"(assert (and (<= p[0] -0.5) (>= q 1.01)))": unsat, "(assert (and (<= p[0] -0.5) (>= q 0.9)))": sat,
		} {
			text := head
			if !batched {
				text = strings.NewReplacer("[1,2]", "[2]", "[0,", "[").Replace(head)
			}
			got, _, err := ask(t, t.Context(), net, text+asserted)
			must.Do(t, err)
			lines := strings.Split(got.String(), "\n")
			if got.answer != want || want == sat && (len(lines) != 12 || lines[0] != "sat" ||
				lines[1] != "a Real [1]" || lines[9] != "q Real []") {
				t.Errorf("batched %v, %s: %q", batched, asserted, lines)
			}
		}
	}
}

// two returns a network of two inputs and two outputs, of vectors or of batches of them.
func two(t *testing.T, batched bool) []byte {
	shape := func(n int64) onnx.Shape {
		if batched {
			return onnx.Shape{onnx.Batch, n}
		}
		return onnx.Shape{n}
	}
	g := onnx.NewGraph("two")
	b := &onnx.Builder{G: g}
	x, y := b.Input("inputs", shape(1)), b.Input("outputs", shape(2)) // names that joining would use
	axis := b.Ints(int64(len(shape(1)) - 1))
	first, second := b.Op("Slice", y, b.Ints(0), b.Ints(1), axis), b.Op("Slice", y, b.Ints(1), b.Ints(2), axis)
	relu := b.Op("Relu", b.Op("Sub", second, x))
	b.Output("p", b.OpWith("Concat", onnx.Attrs{"axis": int64(len(shape(1)) - 1)}, b.Op("Add", x, first), relu))
	b.Output("q", b.Op("Mul", first, b.Float(2)))
	return must.Get(must.Get(b.Done())(t).Encode())(t)
}

func TestSecondVersionErrors(t *testing.T) {
	network := "(vnnlib-version <2.0>)(declare-network n (declare-input x Real [2])(declare-output y Real [1])"
	y := "(declare-output y Real [1])"
	for _, c := range [][2]string{
		{"(vnnlib-version <3.0>)", "version \"<3.0>\""},
		{"(vnnlib-version 2.0)", "version \"2.0\""},
		{"(vnnlib-version <2.0> 1)", "is followed by"},
		{network, "a parenthesis is not closed"},
		{network + "(declare-output z Real [1]))", "declares 2 outputs, the network has 1"},
		{network + "(declare-input z Real [1]))", "declares 2 inputs, the network has 1"},
		{network + "(declare-output x Real [1]))", "x is declared twice"},
		{network + "(isomorphic-to m))", "unknown declaration \"isomorphic-to\""},
		{network + ")(declare-network m", "declares a second network, m"},
		{network + ")(declare-const X_0 Real)", "beside a network's tensors"},
		{network + ")(assert (<= x[2] 1))", "no index 2 in dimension 0, which has 2"},
		{network + ")(assert (<= x[0,0] 1))", "x has 1 dimensions, not 2"},
		{network + ")(assert (<= x 1))", "x has 1 dimensions, not 0"},
		{network + ")(assert (<= x[a] 1))", "\"a\" is not an index"},
		{network + ")(assert (<= x[0 1] 1))", "wants a comma"},
		{network + ")(assert (<= X_0 1))", "X_0 is not declared"},
		{network + ")(assert (<= z[0] 1))", "wants a number or a variable"},
		{"(declare-network n (declare-input x int64 [2]))", "of the type \"int64\""},
		{"(declare-network n (declare-input x Real [2] initialized))", "from the file"},
		{"(declare-network n (declare-input x Real [3])" + y + ")",
			"x has 3 values, the network's input 2"},
		{"(declare-network n (declare-input x Real [0])" + y + ")", "a dimension of 0"},
		{"(declare-network n (declare-input x Real [2])(declare-output y Real [9999,99999]))",
			"values, the network's output 1"},
		{"(declare-network n x)", "declares \"x\" in a network"},
		{"(declare-network n (declare-hidden h Real [1] \"a", "a quote is not closed"},
		{strings.Replace(strings.Replace(second, "[1, 2]", "[2]", 1), "float32 [2]", "Real [1]", 1),
			"in has 1 dimensions, not 2"},
		{strings.Replace(second, "float32 [2]", "Real [1]", 1) + "(assert (<= between[0,1] 1))",
			"lies between layers"},
	} {
		if _, err := parse(c[0], 2, 1); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%.80q: %v, wanted %q", c[0], err, c[1])
		}
	}
}
