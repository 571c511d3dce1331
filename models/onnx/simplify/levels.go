package simplify

import (
	"math"
	"slices"

	"selfheal/models/onnx"
)

// levels has a network of 8-bit levels, whose input is uint8, take the same numbers as float32. Its Casts to wider
// integers and to floats do nothing then. An operator that computes on the integers is refused: it wraps or rounds.
func levels(g *onnx.Graph) {
	if len(g.Inputs) != 1 || g.Inputs[0].DType != onnx.Uint8 {
		return
	}
	integer := map[string]bool{g.Inputs[0].Name: true} // in the file
	for _, n := range g.Nodes {
		if !slices.ContainsFunc(n.Inputs, func(in string) bool { return integer[in] }) {
			continue
		}
		whole := true // of the output
		switch n.Op {
		case "Cast":
			to := onnx.DType(n.Int("to", 0))
			onnx.Require(slices.Contains([]onnx.DType{onnx.Float, onnx.Uint8, onnx.Int32, onnx.Int64}, to),
				"node %s casts the input's uint8 to ONNX element type %d, which does not hold all levels", n, to)
			n.Op, n.Attrs, whole = "Identity", nil, to != onnx.Float
		case "Shape", "Size":
			continue
		case "DequantizeLinear":
			whole = false
		case "Identity", "Transpose", "Slice", "Concat", "Gather":
		default:
			if expansionOf(n) != nil { // as quantised values
				whole = false
				break
			}
			onnx.Require(onnx.TraitsOf(n.Op).Relabels,
				"cast the input %q to float32 before anything is computed: node %s takes it as uint8",
				g.Inputs[0].Name, n)
		}
		for _, o := range n.Outputs {
			integer[o] = whole
		}
	}
	g.Inputs[0].DType, g.Levels = onnx.Float, true
	g.Notice("takes uint8, but is attacked with pixels that are not rounded to levels: what it is given is 255 times " +
		"images in [0,1]")
}

// unscaled leaves out a division by 255 that the input of levels goes through first: images in [0,1] need none. It
// reports false where there is none.
func unscaled(g *onnx.Graph) bool {
	in := g.Inputs[0].Name
	readers := g.Consumers()[in]
	if len(readers) != 1 || readers[0].Inputs[0] != in || g.IsOutput(readers[0].Outputs[0]) {
		return false
	}
	n := readers[0]
	c := g.Consts[n.Input(1)]
	other := func(v float32) bool {
		return !(n.Op == "Div" && v == 255 || n.Op == "Mul" && math.Abs(float64(v)*255-1) < 1e-7)
	}
	if c == nil || len(c.Floats) == 0 || slices.ContainsFunc(c.Floats, other) || !slices.Equal(g.Shapes[n.Outputs[0]],
		g.Shapes[in]) {
		return false
	}
	g.Replace(n.Outputs[0], in)
	g.Prune()
	return true
}
