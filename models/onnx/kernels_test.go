package onnx

import (
	"strings"
	"testing"

	"selfheal/internal/must"
)

// Encode writes operators with slow kernels by others, under the same names, and
// leaves the graph as it is.
func TestForRuntime(t *testing.T) {
	for op, traits := range operators {
		if traits.inKernels == nil {
			continue
		}
		g := NewGraph("test")
		b := &Builder{G: g}
		b.Output("y", b.Op(op, b.Op("Transpose",
			b.Input("x", Shape{Batch, 5})))) // [5, N]: the batch is no whole registers
		if b.Err() != nil {
			t.Fatal(b.Err())
		}
		before := opsOf(g)
		r := must.Get(g.forRuntime())(t)
		if opsOf(g) != before {
			t.Errorf("%s: the graph became %s", op, opsOf(g))
		}
		if strings.Contains(opsOf(r), op) && !strings.Contains(opsOf(r), "Pad "+op+" Slice") {
			t.Errorf("%s is written as %s", op, opsOf(r))
		}
		if r.Producers()[op] == nil {
			t.Errorf("%s: the tensor's name is lost", op)
		}
	}
	// Whole registers need no filling.
	g := NewGraph("test")
	b := &Builder{G: g}
	b.Output("y", b.Op("Log", b.Input("x", Shape{Batch, 4, 8})))
	if r, err := g.forRuntime(); err != nil || opsOf(r) != "Log Identity" {
		t.Errorf("Log of 32 values is written as %s, %v", opsOf(r), err)
	}
}

func opsOf(g *Graph) string {
	ops := []string{}
	for _, n := range g.Nodes {
		ops = append(ops, n.Op)
	}
	return strings.Join(ops, " ")
}
