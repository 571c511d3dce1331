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

// moved is an attribute that is an input from a version of the operator set on.
type moved struct {
	since int64
	name  string
	input int
	def   any // the value where there is none; nil: it is no input then either
}

var inputsOnceAttributes = map[string][]moved{
	"Squeeze": {{13, "axes", 1, nil}}, "Unsqueeze": {{13, "axes", 1, nil}}, "ReduceSum": {{13, "axes", 1, nil}},
	"Split": {{13, "split", 1, nil}}, "Pad": {{11, "pads", 1, nil}, {11, "value", 2, float32(0)}},
	"Slice": {{10, "axes", 3, nil}, {10, "starts", 1, nil}, {10, "ends", 2, nil}},
	"Clip":  {{11, "min", 1, float32(-math.MaxFloat32)}, {11, "max", 2, float32(math.MaxFloat32)}},
	"TopK":  {{10, "k", 1, int64(1)}}, "Upsample": {{9, "scales", 1, nil}},
}

// upgrade rewrites one node from version `from` of the operator set to Opset.
func upgrade(g *onnx.Graph, n *onnx.Node, from int64) {
	input := func(i int, name string, t *onnx.Tensor) {
		n.SetInput(i, g.AddConst(n.Outputs[0]+"/"+name, t))
		delete(n.Attrs, name)
	}
	moves := inputsOnceAttributes[n.Op]
	if moves == nil && strings.HasPrefix(n.Op, "Reduce") {
		moves = []moved{{18, "axes", 1, nil}}
	}
	for _, m := range moves {
		v, given := n.Attrs[m.name]
		if !given {
			v = m.def
		}
		if k, ok := v.(int64); ok {
			v = []int64{k}
		}
		if t := tensorOf(v); t != nil && from < m.since {
			input(m.input, m.name, t)
		}
	}
	switch n.Op {
	case "BatchNormalization":
		if n.Int("training_mode", 0) == 1 {
			return
		}
		n.Outputs = n.Outputs[:1] // the rest exists in training only
		for _, name := range []string{"momentum", "training_mode", "spatial"} {
			delete(n.Attrs, name)
		}
	case "Dropout":
		if trains(g, n) { // it is random, see dropout
			n.Attrs, n.Inputs, n.Outputs = nil, n.Inputs[:2], n.Outputs[:1]
			return
		}
		n.Attrs, n.Inputs, n.Outputs, n.Op = nil, n.Inputs[:1], n.Outputs[:1], "Identity"
	case "Split":
		if n.Input(1) == "" && n.Int("num_outputs", 0) == 0 {
			n.Set("num_outputs", len(n.Outputs))
		}
	case "Pad":
		padAllAxes(g, n)
	case "Upsample":
		n.Op = "Resize"
		legacyResize(g, n)
	case "Resize":
		if from < 11 {
			legacyResize(g, n)
		}
	}
}

// trains reports whether a Dropout drops values: in training mode, by a ratio that is not 0.
func trains(g *onnx.Graph, n *onnx.Node) bool {
	mode := n.Input(2)
	if mode == "" {
		return false
	}
	t, ratio := g.Consts[mode], g.Consts[n.Input(1)]
	onnx.Require(t != nil && (n.Input(1) == "" || ratio != nil), "its ratio and its mode must be constants")
	if n.Input(1) == "" {
		n.SetInput(1, g.AddConst(n.Outputs[0]+"/ratio", onnx.Scalar(0.5)))
		ratio = g.Consts[n.Inputs[1]]
	}
	on := len(t.Ints) == 1 && t.Ints[0] != 0 && len(ratio.Floats) == 1 && ratio.Floats[0] > 0
	onnx.Require(!on || ratio.Floats[0] < 1, "drops every value")
	return on
}

// dropout writes a Dropout in training mode by what it is: each value is kept by chance, and what is kept is scaled.
func dropout(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	x, ratio := n.Inputs[0], s.g.Consts[n.Inputs[1]].Floats[0]
	kept := b.Op("GreaterOrEqual", b.Op("RandomUniformLike", x), b.Float(ratio))
	kept = b.OpWith("Cast", onnx.Attrs{"to": int64(onnx.Float)}, kept)
	return b.Op("Mul", b.Op("Mul", x, b.Float(1/(1-ratio))), kept)
}

// legacyResize gives the operator its form since version 11: X, roi, scales. The older versions sampled at x/scale,
// rounded down where an axis grows and, in ONNX's own test cases and in ONNX Runtime, up where it shrinks.
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

// padAllAxes gives a Pad's widths for every axis where it names some, as it may from operator set 18 on.
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
