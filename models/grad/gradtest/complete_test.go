package gradtest_test

import (
	"maps"
	"math"
	"slices"
	"testing"

	"selfheal/internal/must"
	"selfheal/models/grad"
	"selfheal/models/grad/gradtest"
	"selfheal/models/onnx"
)

// differentiated lists the operators through which a golden's gradient runs: they
// depend on the image, and the output or the loss on them, by floating-point values.
func differentiated(golden *Golden) map[string]bool {
	g, output := golden.Net, golden.Net.Outputs[0].Name
	if golden.Head != "" {
		var err error
		if g, err = grad.Loss(golden.Net, golden.Head); err != nil {
			panic(err)
		}
		output = grad.LossValue
	}
	active, needed, ops := map[string]bool{g.Inputs[0].Name: true}, map[string]bool{output: true}, map[string]bool{}
	reads := func(n *onnx.Node) []string {
		in := n.Inputs
		switch n.Op {
		case "Where":
			in = in[1:]
		case "GatherElements":
			in = in[:1]
		case "ScatterElements":
			in = []string{in[0], in[2]}
		}
		return in
	}
	var path []*onnx.Node
	for _, n := range g.Nodes {
		if slices.ContainsFunc(reads(n), func(in string) bool { return active[in] }) && grad.HasRule(n.Op) {
			path = append(path, n)
			active[n.Outputs[0]] = true // later ones are indices
		}
	}
	for _, n := range slices.Backward(path) {
		if needed[n.Outputs[0]] {
			ops[n.Op] = true
			for _, in := range reads(n) {
				needed[in] = true
			}
		}
	}
	return ops
}

// settled reports whether an operator has a gradient rule or, instead, needs none.
func settled(op string) bool {
	t := onnx.TraitsOf(op)
	return grad.HasRule(op) != (t.Folded || t.Simplified || t.Discrete())
}

// Every operator has a gradient rule or needs none. Every rule and every head has a golden, and every rule one away
// from kinks, which is checked by differences and a second time. Every operator whose derivative is 0 in the table has
// a golden too, unless it draws at random.
func TestComplete(t *testing.T) {
	ops, heads, steps := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, g := range goldens {
		heads[g.Head] = true
		for _, n := range g.Net.Nodes {
			steps[n.Op] = steps[n.Op] || onnx.TraitsOf(n.Op).Discrete()
		}
		if !g.Kink {
			maps.Copy(ops, differentiated(g))
		}
	}
	for _, op := range onnx.Operators() {
		if !settled(op) {
			t.Errorf("%s needs a gradient rule and has none, or has one and needs none", op)
		}
		if grad.HasRule(op) && !ops[op] {
			t.Errorf("no golden for %s: add a case to scripts/goldens", op)
		}
		if row := onnx.TraitsOf(op); row.Discrete() && !row.Folded && !row.Random && !steps[op] {
			t.Errorf("no golden with %s, whose derivative is 0: add a case to scripts/goldens/elementwise.py", op)
		}
	}
	if settled("NoSuchOperator") {
		t.Error("an operator without traits passes for settled")
	}
	for h := range grad.Heads {
		if !heads[h] {
			t.Errorf("no golden for the loss %s: add a case to scripts/goldens", h)
		}
	}
}

// The difference check can fail: it sees a gradient that is twice too large,
// one that lacks a term, and one with a single wrong entry of sixteen.
func TestDirectionalSeesErrors(t *testing.T) {
	r := gradtest.Rand("quadratic", "sees")
	x := gradtest.Vector(r, 16)
	f := func(in [][]float32) (float64, error) { // Σ x² + x₀·Σ x
		s := 0.0
		for _, v := range in[0] {
			s += float64(v)*float64(v) + float64(in[0][0])*float64(v)
		}
		return s, nil
	}
	right := make([]float32, 16)
	sum := float32(0)
	for i, v := range x {
		right[i] = 2*v + x[0]
		sum += v
	}
	right[0] += sum
	for name, change := range map[string]func(g []float32){
		"right": func([]float32) {},
		"twice": func(g []float32) {
			for i := range g {
				g[i] *= 2
			}
		},
		"term":  func(g []float32) { g[0] -= sum },
		"entry": func(g []float32) { g[5] = 0 },
		"nan":   func(g []float32) { g[5] = float32(math.NaN()) },
	} {
		g := slices.Clone(right)
		change(g)
		e := must.Get(gradtest.Directional(f, [][]float32{x}, [][]float32{g}, gradtest.Rand("quadratic", name), 3))(t)
		if (e <= gradtest.Tolerance) != (name == "right") {
			t.Errorf("%s: error %.2g", name, e)
		}
	}
}
