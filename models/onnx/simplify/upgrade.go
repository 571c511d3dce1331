package simplify

import (
	"math"
	"slices"
	"strings"

	"selfheal/models/onnx"
)

// oldestOpset is the first with today's broadcasting rules, newestOpset the last that ONNX Runtime runs.
const (
	oldestOpset = 7
	newestOpset = 26
)

// upgrade rewrites one node from version `from` of the operator set to Opset.
func upgrade(g *onnx.Graph, n *onnx.Node, from int64) {
	// move turns a list of integers, which is an attribute before a version, into an input.
	move := func(before int64, attr string, at int) {
		if v := n.Ints(attr, nil); v != nil && from < before {
			n.SetInput(at, g.AddConst(n.Outputs[0]+"/"+attr, onnx.IntTensor(v...)))
			delete(n.Attrs, attr)
		}
	}
	scalar := func(before int64, attr string, at int, def float32) {
		if from < before {
			n.SetInput(at, g.AddConst(n.Outputs[0]+"/"+attr, onnx.Scalar(n.Float(attr, def))))
			delete(n.Attrs, attr)
		}
	}
	switch n.Op {
	case "BatchNormalization":
		onnx.Require(n.Int("training_mode", 0) != 1, "is in training mode; export the model with eval()")
		n.Outputs = n.Outputs[:1] // the rest exists in training only
		delete(n.Attrs, "momentum")
		delete(n.Attrs, "training_mode")
		delete(n.Attrs, "spatial")
	case "Dropout":
		n.Attrs, n.Inputs, n.Outputs, n.Op = nil, n.Inputs[:1], n.Outputs[:1], "Identity"
	case "Squeeze", "Unsqueeze", "ReduceSum":
		move(13, "axes", 1)
	case "Split":
		move(13, "split", 1)
		if n.Input(1) == "" && n.Int("num_outputs", 0) == 0 {
			n.Set("num_outputs", len(n.Outputs))
		}
	case "Pad":
		move(11, "pads", 1)
		scalar(11, "value", 2, 0)
		padAllAxes(g, n)
	case "Slice":
		move(10, "axes", 3)
		move(10, "starts", 1)
		move(10, "ends", 2)
	case "Clip":
		scalar(11, "min", 1, -math.MaxFloat32)
		scalar(11, "max", 2, math.MaxFloat32)
	case "TopK":
		if from < 10 {
			n.SetInput(1, g.AddConst(n.Outputs[0]+"/k", onnx.IntTensor(n.Int("k", 1))))
			delete(n.Attrs, "k")
		}
	case "Upsample":
		n.Op = "Resize"
		if scales, ok := n.Attrs["scales"].([]float32); ok {
			n.SetInput(1, g.AddConst(n.Outputs[0]+"/scales", onnx.FloatVector(scales)))
			delete(n.Attrs, "scales")
		}
		legacyResize(g, n)
	case "Resize":
		if from < 11 {
			legacyResize(g, n)
		}
	default:
		if strings.HasPrefix(n.Op, "Reduce") {
			move(18, "axes", 1)
		}
	}
}

// legacyResize gives the operator its form since version 11: X, roi, scales. The
// older versions sampled at x/scale, rounded down where an axis grows and, in ONNX's
// own test cases and in ONNX Runtime, up where it shrinks.
func legacyResize(g *onnx.Graph, n *onnx.Node) {
	n.Inputs = []string{n.Input(0), "", n.Input(1)}
	rounding := "floor"
	if t, ok := g.Consts[n.Inputs[2]]; ok && len(t.Floats) > 0 && slices.Min(t.Floats) < 1 {
		rounding = "ceil"
		onnx.Require(n.Str("mode", "nearest") != "nearest" || slices.Max(t.Floats) <= 1, "enlarges one axis and "+
			"shrinks another, which operator sets before 11 sample differently; export the model again")
	}
	n.Set("coordinate_transformation_mode", "asymmetric")
	n.Set("nearest_mode", rounding)
}

// padAllAxes gives a Pad's widths for every axis where it names some, as it may
// from operator set 18 on.
func padAllAxes(g *onnx.Graph, n *onnx.Node) {
	if n.Input(3) == "" {
		return
	}
	x := g.Shapes[n.Input(0)]
	axes, ok1 := g.Consts[n.Input(3)]
	pads, ok2 := g.Consts[n.Input(1)]
	onnx.Require(ok1 && ok2 && x != nil, "its pads and axes must be constants")
	at := onnx.Sure(onnx.Axes(axes.Ints, len(x)))
	onnx.Require(len(pads.Ints) == 2*len(at), "pads %v don't fit %d axes", pads.Ints, len(at))
	all := make([]int64, 2*len(x))
	for i, a := range at {
		all[a], all[a+len(x)] = pads.Ints[i], pads.Ints[i+len(at)]
	}
	n.Inputs = n.Inputs[:3]
	n.Inputs[1] = g.AddConst(n.Outputs[0]+"/pads", onnx.IntTensor(all...))
}
