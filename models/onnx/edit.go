package onnx

import (
	"fmt"
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

// Fresh returns hint, or hint with a number, such that no tensor is called so.
// Tensors that graph passes make are recorded in Shapes, so it is enough to look there.
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
	free := 1 // doubled until its name is free; then the first free one, where they are taken in order
	for taken(name(free)) {
		free *= 2
	}
	return name(free/2 + sort.Search(free-free/2, func(i int) bool { return !taken(name(free/2 + i)) }))
}

// IsOutput reports whether a tensor is an output of the graph.
func (g *Graph) IsOutput(name string) bool {
	return slices.ContainsFunc(g.Outputs, func(v Value) bool { return v.Name == name })
}

// Replace makes every node that reads the tensor old read with instead.
// Graph outputs keep their names.
func (g *Graph) Replace(old, with string) {
	for _, n := range g.Nodes {
		for i, in := range n.Inputs {
			if in == old {
				n.Inputs[i] = with
			}
		}
	}
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
	for name := range g.Consts {
		if !need[name] {
			delete(g.Consts, name)
		}
	}
	for name := range g.Shapes {
		if !need[name] {
			delete(g.Shapes, name)
		}
	}
}
