package onnx

import (
	"fmt"
	"maps"
	"slices"
	"sort"
)

// AddConst stores a constant under a fresh name that begins with hint.
func (g *Graph) AddConst(hint string, t *Tensor) string {
	name := g.Fresh(hint)
	g.Consts[name] = t
	if g.Shapes != nil {
		g.Shapes[name] = t.Shape
	}
	return name
}

// Take returns a name as [Graph.Fresh] does, and keeps it from being given again.
func (g *Graph) Take(hint string) string {
	name := g.Fresh(hint)
	g.Shapes[name] = nil
	return name
}

// Fresh returns hint, or hint with a number, such that no tensor has that name. Graph passes record the tensors that
// they make in Shapes, so it looks only there.
func (g *Graph) Fresh(hint string) string {
	taken := func(s string) bool {
		_, c := g.Consts[s]
		_, t := g.Shapes[s]
		return c || t
	}
	if !taken(hint) {
		return hint
	}
	name := func(i int) string { return fmt.Sprintf("%s.%d", hint, i) }
	free := 1 // it doubles until its name is free; this finds the first free one if numbers were taken in order
	for free <= len(g.Consts)+len(g.Shapes) && taken(name(free)) {
		free *= 2
	}
	for taken(name(free)) { // a file may use the powers of two
		free++
	}
	return name(free/2 + sort.Search(free-free/2, func(i int) bool { return !taken(name(free/2 + i)) }))
}

// IsOutput reports whether a tensor is an output of the graph.
func (g *Graph) IsOutput(name string) bool {
	return slices.ContainsFunc(g.Outputs, func(v Value) bool { return v.Name == name })
}

// Replace makes every node that reads the tensor old read with instead. Graph outputs keep their names.
func (g *Graph) Replace(old, with string) {
	for _, n := range g.Nodes {
		for i, in := range n.Inputs {
			if in == old {
				n.Inputs[i] = with
			}
		}
	}
}

// Reached returns the nodes that depend on the given tensors, in order, and the tensors themselves together with all
// that these nodes write.
func (g *Graph) Reached(from ...string) (nodes []*Node, tensors map[string]bool) {
	tensors = map[string]bool{}
	for _, t := range from {
		tensors[t] = true
	}
	for _, n := range g.Nodes {
		if slices.ContainsFunc(n.Inputs, func(in string) bool { return tensors[in] }) {
			nodes = append(nodes, n)
			for _, o := range n.Outputs {
				tensors[o] = o != ""
			}
		}
	}
	return nodes, tensors
}

// Prune drops nodes, constants and shapes that no output needs.
func (g *Graph) Prune() {
	need := map[string]bool{}
	for _, o := range g.Outputs {
		need[o.Name] = true
	}
	var kept []*Node
	for _, n := range slices.Backward(g.Nodes) {
		if !slices.ContainsFunc(n.Outputs, func(o string) bool { return need[o] }) {
			continue
		}
		for _, in := range n.Inputs {
			need[in] = true
		}
		kept = append(kept, n)
	}
	slices.Reverse(kept)
	g.Nodes = kept
	for _, n := range kept {
		for _, o := range n.Outputs {
			need[o] = true
		}
	}
	for _, in := range g.Inputs {
		need[in.Name] = true
	}
	maps.DeleteFunc(g.Consts, func(name string, _ *Tensor) bool { return !need[name] })
	maps.DeleteFunc(g.Shapes, func(name string, _ Shape) bool { return !need[name] })
}

// Chain appends a graph to this one, whose output becomes its input. Its tensors get a prefix, and its output becomes
// out. Its operators may be unknown.
func (g *Graph) Chain(behind *Graph, prefix string, out Value) error {
	names := map[string]string{"": "", behind.Inputs[0].Name: g.Outputs[0].Name, behind.Outputs[0].Name: out.Name}
	renamed := func(tensors []string) []string {
		return Each(tensors, func(t string) string {
			if to, ok := names[t]; ok {
				return to
			}
			names[t] = g.Fresh(prefix + t)
			return names[t]
		})
	}
	for _, name := range sortedKeys(behind.Consts) {
		names[name] = g.AddConst(prefix+name, behind.Consts[name])
	}
	for _, n := range behind.Nodes {
		n = n.Clone()
		n.Inputs, n.Outputs = renamed(n.Inputs), renamed(n.Outputs)
		g.Nodes = append(g.Nodes, n)
	}
	if batch := behind.Inputs[0].Shape[0]; batch != Batch { // the file fixes the batch
		g.Inputs[0].Shape[0], out.Shape[0] = batch, batch
	}
	g.Outputs, g.Opset = []Value{out}, max(g.Opset, behind.Opset)
	return g.Verify()
}

// Verify checks the graph's invariants: every tensor is written once and before it is read, constants are as long as
// their shape and hold no NaN, and the outputs exist. Every pass calls it last.
func (g *Graph) Verify() (err error) {
	defer Refused(&err)
	Require(len(g.Inputs) > 0, "the graph has no input")
	Require(len(g.Outputs) > 0, "the graph has no output")
	written := make(map[string]bool, len(g.Nodes)+len(g.Consts))
	for name, t := range g.Consts {
		Require(name != "", "an initializer has no name")
		at(func() any { t.verify(); return nil }, "initializer %q", name)
		written[name] = true
	}
	for _, in := range g.Inputs {
		Require(in.Name != "" && !written[in.Name], "input %q is not a name of its own", in.Name)
		written[in.Name] = true
	}
	for _, n := range g.Nodes {
		Require(n.Op != "", "node %q names no operator", n.Name)
		for _, in := range n.Inputs {
			Require(in == "" || written[in], "node %s reads %q, which nothing before it writes", n, in)
		}
		for _, o := range n.Outputs {
			Require(!written[o], "tensor %q is written twice, again by node %s", o, n)
			written[o] = o != ""
		}
		Require(len(n.Outputs) > 0 && n.Outputs[0] != "", "node %s has no output", n)
	}
	for _, out := range g.Outputs {
		Require(written[out.Name], "output %q is written by nothing", out.Name)
	}
	return nil
}

func (t *Tensor) verify() {
	n := int64(1)
	for _, d := range t.Shape {
		Require(d >= 0, "shape %v has a negative dimension", t.Shape)
		n *= d
	}
	Require(int64(t.Len()) == n, "shape %v needs %d values, it has %d", t.Shape, n, t.Len())
	i := slices.IndexFunc(t.Floats, func(v float32) bool { return v != v })
	Require(i < 0, "value %d is NaN", i)
}
