package simplify

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"selfheal/models/onnx"
)

// oldestOpset is the first with today's broadcasting rules.
const oldestOpset = 7

// upgrade rewrites one node from version `from` of the operator set to Opset.
func upgrade(g *onnx.Graph, n *onnx.Node, from int64) error {
	// move turns an integer-list attribute into an input.
	move := func(attr string, at int) {
		if v := n.Ints(attr, nil); v != nil {
			n.SetInput(at, g.AddConst(n.Outputs[0]+"/"+attr, onnx.IntTensor(v...)))
		}
		delete(n.Attrs, attr)
	}
	scalar := func(attr string, at int, def float32) {
		n.SetInput(at, g.AddConst(n.Outputs[0]+"/"+attr, onnx.Scalar(n.Float(attr, def))))
		delete(n.Attrs, attr)
	}
	if strings.HasPrefix(n.Op, "Reduce") && n.Op != "ReduceSum" && from < 18 {
		move("axes", 1)
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
	case "Squeeze", "Unsqueeze", "ReduceSum":
		if from < 13 {
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
		if err := padAllAxes(g, n); err != nil {
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
			n.SetInput(1, g.AddConst(n.Outputs[0]+"/k", onnx.IntTensor(n.Int("k", 1))))
			delete(n.Attrs, "k")
		}
	case "Upsample":
		n.Op = "Resize"
		if v, ok := n.Attrs["scales"]; ok {
			scales, _ := v.([]float32)
			n.SetInput(1, g.AddConst(n.Outputs[0]+"/scales", onnx.FloatVector(scales)))
			delete(n.Attrs, "scales")
		}
		return legacyResize(g, n)
	case "Resize":
		if from < 11 {
			return legacyResize(g, n)
		}
	}
	return nil
}

// legacyResize gives the operator its form since version 11: X, roi, scales. The
// older versions sampled at x/scale, rounded down where an axis grows and, in ONNX's
// own test cases and in ONNX Runtime, up where it shrinks.
func legacyResize(g *onnx.Graph, n *onnx.Node) error {
	n.Inputs = []string{n.Input(0), "", n.Input(1)}
	rounding := "floor"
	if t, ok := g.Consts[n.Inputs[2]]; ok && slices.ContainsFunc(t.Floats, func(s float32) bool { return s < 1 }) {
		if rounding = "ceil"; n.Str("mode", "nearest") == "nearest" && slices.ContainsFunc(t.Floats,
			func(s float32) bool { return s > 1 }) {
			return errors.New("enlarges one axis and shrinks another, which operator sets before 11 sample " +
				"differently; export the model again")
		}
	}
	n.Set("coordinate_transformation_mode", "asymmetric")
	n.Set("nearest_mode", rounding)
	return nil
}

// padAllAxes gives a Pad's widths for every axis where it names some, as it may
// from operator set 18 on.
func padAllAxes(g *onnx.Graph, n *onnx.Node) error {
	if n.Input(3) == "" {
		return nil
	}
	x := g.Shapes[n.Input(0)]
	axes, ok1 := g.Consts[n.Input(3)]
	pads, ok2 := g.Consts[n.Input(1)]
	if !ok1 || !ok2 || x == nil {
		return errors.New("its pads and axes must be constants")
	}
	at, err := onnx.Axes(axes.Ints, len(x))
	if err != nil {
		return err
	}
	if len(pads.Ints) != 2*len(at) {
		return fmt.Errorf("pads %v don't fit %d axes", pads.Ints, len(at))
	}
	all := make([]int64, 2*len(x))
	for i, a := range at {
		all[a], all[a+len(x)] = pads.Ints[i], pads.Ints[i+len(at)]
	}
	n.Inputs = n.Inputs[:3]
	n.Inputs[1] = g.AddConst(n.Outputs[0]+"/pads", onnx.IntTensor(all...))
	return nil
}
