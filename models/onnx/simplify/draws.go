package simplify

import (
	"cmp"

	"selfheal/models/onnx"
)

// Draw is an input that stands for an operator's random numbers, behind the graph's others.
type Draw struct {
	Size   int  // values of an item
	Normal bool // standard normal ones; else uniform in [0,1)
}

// Draws makes inputs of the random numbers that a simplified graph draws, so that whoever runs it says what they are.
func Draws(g *onnx.Graph) (all []Draw, err error) {
	defer onnx.Refused(&err)
	err = g.Rewrite(func(b *onnx.Builder, n *onnx.Node) bool {
		b.Prefix = "draws/"
		draw := Draw{Normal: n.Op == "RandomNormalLike"}
		var y string
		switch n.Op {
		case "RandomNormalLike":
			y = b.Op("Add", b.Op("Mul", drawn(b, n), b.Float(n.Float("scale", 1))), b.Float(n.Float("mean", 0)))
		case "RandomUniformLike":
			low, high := n.Float("low", 0), n.Float("high", 1)
			y = b.Op("Add", b.Op("Mul", drawn(b, n), b.Float(high-low)), b.Float(low))
		case "Bernoulli":
			y = b.OpWith("Cast", onnx.Attrs{"to": int64(onnx.Float)}, b.Op("Less", drawn(b, n), n.Inputs[0]))
		default:
			return false
		}
		draw.Size = int(g.Shapes[y].Items())
		all = append(all, draw)
		b.Append(&onnx.Node{Op: "Identity", Inputs: []string{y}, Outputs: n.Outputs})
		return true
	})
	return all, cmp.Or(err, g.Verify())
}

// drawn is the input of an operator's random numbers.
func drawn(b *onnx.Builder, n *onnx.Node) string {
	shape := b.Shape(n.Outputs[0])
	onnx.Require(len(shape) > 0 && shape[0] == onnx.Batch, "node %s: its random numbers have shape %v, without the "+
		"batch in front", n, shape)
	return b.Input("draws", shape)
}
