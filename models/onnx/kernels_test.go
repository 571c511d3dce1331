package onnx

import (
	"strings"
	"testing"
)

// Encode writes the operators in kernels by others, under the same names, and
// leaves the graph as it is.
func TestForRuntime(t *testing.T) {
	for op := range kernels {
		g := NewGraph("test")
		b := &Builder{G: g}
		b.Output("y", b.Op(op, b.Op("Transpose", b.Input("x", Shape{Batch, 5})))) // [5, N]: the batch is no whole registers
		if b.Err() != nil {
			t.Fatal(b.Err())
		}
		before := operators(g)
		r, err := g.forRuntime()
		if err != nil {
			t.Fatal(op, err)
		}
		if operators(g) != before {
			t.Errorf("%s: the graph became %s", op, operators(g))
		}
		if strings.Contains(operators(r), op) && !strings.Contains(operators(r), "Pad "+op+" Slice") {
			t.Errorf("%s is written as %s", op, operators(r))
		}
		if r.Producers()[op] == nil {
			t.Errorf("%s: the tensor's name is lost", op)
		}
	}
	// Whole registers need no filling.
	g := NewGraph("test")
	b := &Builder{G: g}
	b.Output("y", b.Op("Log", b.Input("x", Shape{Batch, 4, 8})))
	if r, err := g.forRuntime(); err != nil || operators(r) != "Log Identity" {
		t.Errorf("Log of 32 values is written as %s, %v", operators(r), err)
	}
}

func operators(g *Graph) string {
	ops := []string{}
	for _, n := range g.Nodes {
		ops = append(ops, n.Op)
	}
	return strings.Join(ops, " ")
}
