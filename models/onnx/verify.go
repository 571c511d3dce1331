package onnx

import "fmt"

// Verify checks the graph's invariants: every tensor is written once and
// before it is read, constants are as long as their shape and hold no NaN, and the
// outputs exist. Every pass ends with it.
func (g *Graph) Verify() error {
	if len(g.Inputs) == 0 {
		return fmt.Errorf("the graph has no input")
	}
	if len(g.Outputs) == 0 {
		return fmt.Errorf("the graph has no output")
	}
	written := make(map[string]bool, len(g.Nodes)+len(g.Consts))
	for name, t := range g.Consts {
		if name == "" {
			return fmt.Errorf("an initializer has no name")
		}
		if err := t.verify(); err != nil {
			return fmt.Errorf("initializer %q: %w", name, err)
		}
		written[name] = true
	}
	for _, in := range g.Inputs {
		if in.Name == "" || written[in.Name] {
			return fmt.Errorf("input %q is not a name of its own", in.Name)
		}
		written[in.Name] = true
	}
	for _, n := range g.Nodes {
		if n.Op == "" {
			return fmt.Errorf("node %q names no operator", n.Name)
		}
		for _, in := range n.Inputs {
			if in != "" && !written[in] {
				return fmt.Errorf("node %s reads %q, which nothing before it writes", n.Label(), in)
			}
		}
		for _, o := range n.Outputs {
			if o == "" {
				continue
			}
			if written[o] {
				return fmt.Errorf("tensor %q is written twice, again by node %s", o, n.Label())
			}
			written[o] = true
		}
		if len(n.Outputs) == 0 || n.Outputs[0] == "" {
			return fmt.Errorf("node %s has no output", n.Label())
		}
	}
	for _, out := range g.Outputs {
		if !written[out.Name] {
			return fmt.Errorf("output %q is written by nothing", out.Name)
		}
	}
	return nil
}

func (t *Tensor) verify() error {
	n := int64(1)
	for _, d := range t.Shape {
		if d < 0 {
			return fmt.Errorf("shape %v has a negative dimension", t.Shape)
		}
		n *= d
	}
	if int64(t.Len()) != n {
		return fmt.Errorf("shape %v needs %d values, it has %d", t.Shape, n, t.Len())
	}
	for i, v := range t.Floats {
		if v != v {
			return fmt.Errorf("value %d is NaN", i)
		}
	}
	return nil
}
