package onnx

import (
	"strings"
	"testing"

	"selfheal/internal/must"
)

// Encode replaces operators with slow kernels, keeps the names, and leaves the graph unchanged.
func TestForRuntime(t *testing.T) {
	for op, traits := range operators {
		if traits.inKernels == nil {
			continue
		}
		g := NewGraph("test")
		b := &Builder{G: g}
		b.Output("y", b.Op(op, b.Op("Transpose",
			b.Input("x", Shape{Batch, 5})))) // [5, N]: the batch does not fill whole registers
		if b.Err() != nil {
			t.Fatal(b.Err())
		}
		before := opsOf(g)
		r := must.Get(forRuntime(g))(t)
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
	if r, err := forRuntime(g); err != nil || opsOf(r) != "Log Identity" {
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

// lack returns what an operator's row lacks, or "". Package gradtest checks gradient rules.
func lack(t Traits) string {
	switch {
	case (t.shape == nil) != t.Folded:
		return "has no shape rule and is not folded, or both"
	case t.Gain > 0 && !t.Pointwise && !t.Simplified:
		return "has a gain and is not pointwise"
	case t.Slope != nil && (t.Simplified || t.Discrete()):
		return "has a slope that nobody asks for"
	case t.inKernels != nil && !t.Pointwise:
		return "has another kernel, which must keep the shape, and is not pointwise"
	case len(t.Parameters) > 0 && t.Parameters[len(t.Parameters)-1] >= max(3, t.Inputs):
		return "has parameters beyond its inputs"
	}
	return ""
}

// Every row is complete; and the check can fail.
func TestOperatorsAreComplete(t *testing.T) {
	for op, row := range operators {
		if f := lack(row); f != "" {
			t.Errorf("%s %s", op, f)
		}
	}
	for _, spoil := range []func(row *Traits){
		func(row *Traits) { row.shape = nil },
		func(row *Traits) { row.Folded = true },
		func(row *Traits) { row.Pointwise = false },
		func(row *Traits) { row.Simplified = true },
		func(row *Traits) { row.Parameters = []int{3} },
	} {
		row := operators["Elu"]
		if spoil(&row); lack(row) == "" {
			t.Errorf("%+v passes for complete", row)
		}
	}
}

// The attributes of every operator are known: others are refused.
func TestAttributesAreKnown(t *testing.T) {
	for name := range operators {
		if _, known := attributesOf[name]; !known {
			t.Errorf("%s: run scripts/goldens/operator_attributes.py", name)
		}
	}
}
