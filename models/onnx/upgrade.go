package onnx

import (
	"errors"
	"fmt"
	"slices"
	"sort"
)

// Opset is the operator-set version that Simplify brings older graphs to, so
// that rules and emitted operators know one form only. Newer graphs keep
// theirs: what later versions changed of the operators used here is only which
// element types they take.
const Opset = 18

// oldestOpset is the first with today's broadcasting rules.
const oldestOpset = 7

// upgrade rewrites one node from version `from` of the operator set to Opset.
func (g *Graph) upgrade(n *Node, from int64) error {
	// move turns an integer-list attribute into an input.
	move := func(attr string, at int) {
		if v, ok := n.Attrs[attr]; ok && v.Ints != nil {
			setInput(n, at, g.AddConst(n.Outputs[0]+"/"+attr, IntTensor(v.Ints...)))
		}
		delete(n.Attrs, attr)
	}
	scalar := func(attr string, at int, def float32) {
		setInput(n, at, g.AddConst(n.Outputs[0]+"/"+attr, Scalar(n.Float(attr, def))))
		delete(n.Attrs, attr)
	}
	switch n.Op {
	case "BatchNormalization":
		if n.Int("training_mode", 0) == 1 {
			return errors.New("is in training mode; export the model with eval()")
		}
		n.Outputs = n.Outputs[:1] // the rest exists in training only
		delete(n.Attrs, "momentum")
		delete(n.Attrs, "training_mode")
		delete(n.Attrs, "spatial")
	case "Dropout":
		n.Attrs, n.Inputs, n.Op = nil, n.Inputs[:1], "Identity"
		n.Outputs = n.Outputs[:1]
	case "Squeeze", "Unsqueeze":
		if from < 13 {
			move("axes", 1)
		}
	case "ReduceSum":
		if from < 13 {
			move("axes", 1)
		}
	case "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceProd", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp":
		if from < 18 {
			move("axes", 1)
		}
	case "Split":
		if from < 13 {
			move("split", 1)
		}
		if n.Input(1) == "" && n.Int("num_outputs", 0) == 0 {
			n.Set("num_outputs", len(n.Outputs))
		}
	case "Pad":
		if from < 11 {
			move("pads", 1)
			scalar("value", 2, 0)
		}
		if err := g.padAllAxes(n); err != nil {
			return err
		}
	case "Slice":
		if from < 10 {
			if _, ok := n.Attrs["axes"]; ok {
				move("axes", 3)
			}
			move("starts", 1)
			move("ends", 2)
		}
	case "Clip":
		if from < 11 {
			scalar("min", 1, -3.4028235e38)
			scalar("max", 2, 3.4028235e38)
		}
	case "TopK":
		if from < 10 {
			setInput(n, 1, g.AddConst(n.Outputs[0]+"/k", IntTensor(n.Int("k", 1))))
			delete(n.Attrs, "k")
		}
	case "Upsample":
		n.Op = "Resize"
		if v, ok := n.Attrs["scales"]; ok {
			setInput(n, 1, g.AddConst(n.Outputs[0]+"/scales", FloatTensor(Shape{int64(len(v.Floats))}, v.Floats)))
			delete(n.Attrs, "scales")
		}
		return g.legacyResize(n)
	case "Resize":
		if from < 11 {
			return g.legacyResize(n)
		}
	}
	return nil
}

// legacyResize gives the operator its form since version 11: X, roi, scales. The
// older versions sampled at x/scale, rounded down where an axis grows and, in ONNX's
// own test cases and in ONNX Runtime, up where it shrinks.
func (g *Graph) legacyResize(n *Node) error {
	n.Inputs = []string{n.Input(0), "", n.Input(1)}
	rounding := "floor"
	if t, ok := g.Consts[n.Inputs[2]]; ok && slices.ContainsFunc(t.Floats, func(s float32) bool { return s < 1 }) {
		if rounding = "ceil"; n.Str("mode", "nearest") == "nearest" && slices.ContainsFunc(t.Floats, func(s float32) bool { return s > 1 }) {
			return errors.New("enlarges one axis and shrinks another, which operator sets before 11 sample differently; export the model again")
		}
	}
	n.Set("coordinate_transformation_mode", "asymmetric")
	n.Set("nearest_mode", rounding)
	return nil
}

func setInput(n *Node, i int, name string) {
	for len(n.Inputs) <= i {
		n.Inputs = append(n.Inputs, "")
	}
	n.Inputs[i] = name
}

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
