package optimize

import (
	"math"
	"slices"

	"selfheal/models/onnx"
)

// fold merges a BatchNormalization into the Conv before it, whose output nothing else reads.
func fold(g *onnx.Graph) {
	producers, consumers := g.Producers(), g.Consumers()
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *onnx.Node) bool {
		if n.Op != "BatchNormalization" || n.Domain != "" {
			return false
		}
		x := n.Inputs[0]
		conv := producers[x]
		if conv == nil || conv.Op != "Conv" || len(consumers[x]) != 1 || g.IsOutput(x) {
			return false
		}
		w, bias := g.Consts[conv.Inputs[1]], g.Consts[conv.Input(2)]
		scale, offset, ok := g.Affine(n)
		if w == nil || bias == nil && conv.Input(2) != "" || !ok {
			return false
		}
		per := w.Len() / len(scale)
		folded := onnx.FloatTensor(w.Shape, make([]float32, w.Len()))
		for i, v := range w.Floats {
			folded.Floats[i] = v * scale[i/per]
		}
		if bias != nil {
			for i, b := range bias.Floats {
				offset[i] += b * scale[i]
			}
		}
		conv.Inputs = []string{conv.Inputs[0],
			g.AddConst(conv.Inputs[1]+"/folded", folded),
			g.AddConst(conv.Inputs[1]+"/offset", onnx.FloatVector(offset))}
		conv.Outputs = []string{n.Outputs[0]}
		producers[n.Outputs[0]] = conv
		return true
	})
}

// shiftLimit bounds how far rescale may shift a state, in standard deviations of its statistics: beyond that, rounding
// of the sum would matter.
const shiftLimit = 64

// rescale moves a channel's factor into the weights of the following convolutions, if nothing else reads the product.
// Then neither the network nor its gradient multiplies by it: relu(s·x + o), with s > 0, becomes relu(x + o/s), and x/s
// and x·s become x.
func rescale(g *onnx.Graph) {
	r := rescaler{g, g.Consumers()}
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *onnx.Node) bool {
		if n.Domain != "" {
			return false
		}
		switch n.Op {
		case "BatchNormalization":
			r.relu(n)
		case "Div", "Mul":
			return r.factor(n)
		}
		return false
	})
}

type rescaler struct {
	*onnx.Graph
	consumers map[string][]*onnx.Node
}

// convs returns the convolutions that read a tensor as their input; nil if anything else reads it.
func (r *rescaler) convs(tensor string) []*onnx.Node {
	other := func(n *onnx.Node) bool {
		w, constant := r.Consts[n.Input(1)]
		return n.Op != "Conv" || !constant || len(w.Shape) != 4 || slices.Contains(n.Inputs[1:], tensor)
	}
	if r.IsOutput(tensor) || slices.ContainsFunc(r.consumers[tensor], other) {
		return nil
	}
	return r.consumers[tensor]
}

// into multiplies the weights of convolutions by a factor for each input channel.
func (r *rescaler) into(convs []*onnx.Node, factor []float32) {
	for _, conv := range convs {
		w := r.Consts[conv.Inputs[1]] // [O, C/group, H, W]
		channels, kernel := int(w.Shape[1]), int(w.Shape[2:].Items())
		perGroup := int(w.Shape[0] / conv.Int("group", 1) * w.Shape[1:].Items())
		scaled := onnx.FloatTensor(w.Shape, make([]float32, w.Len()))
		for i, v := range w.Floats {
			scaled.Floats[i] = v * factor[i/perGroup*channels+i/kernel%channels]
		}
		conv.Inputs[1] = r.AddConst(conv.Inputs[1]+"/scaled", scaled)
	}
}

// factor removes x/s and x·s if s is one number for each channel or one for all, such as a standard deviation. It
// reports whether it did.
func (r *rescaler) factor(n *onnx.Node) bool {
	x, by := n.Inputs[0], n.Inputs[1]
	if _, constant := r.Consts[x]; constant && n.Op == "Mul" {
		x, by = by, x
	}
	s, ok := r.Consts[by]
	in := r.Shapes[x]
	convs := r.convs(n.Outputs[0])
	if !ok || convs == nil || len(in) != 4 || len(s.Shape) > 4 ||
		s.Len() != 1 && (len(s.Shape) < 3 || s.Shape[len(s.Shape)-3] != in[1] || s.Len() != int(in[1])) {
		return false
	}
	factor := make([]float32, in[1])
	for i := range factor {
		if factor[i] = s.Floats[i%s.Len()]; n.Op == "Div" {
			factor[i] = 1 / factor[i]
		}
		if f := math.Abs(float64(factor[i])); !(f > 1e-6 && f < 1e6) {
			return false
		}
	}
	r.into(convs, factor)
	for _, conv := range convs {
		conv.Inputs[0] = x
	}
	r.consumers[x] = append(slices.DeleteFunc(r.consumers[x], func(c *onnx.Node) bool { return c == n }), convs...)
	return true
}

// relu moves the scale of a BatchNormalization before a ReLU.
func (r *rescaler) relu(n *onnx.Node) {
	next := r.consumers[n.Outputs[0]]
	if len(next) != 1 || next[0].Op != "Relu" || r.IsOutput(n.Outputs[0]) {
		return
	}
	convs := r.convs(next[0].Outputs[0])
	scale, offset, ok := r.Affine(n)
	if !ok || convs == nil {
		return
	}
	shift := make([]float32, len(scale))
	for i, s := range scale {
		deviation := math.Sqrt(float64(r.Consts[n.Inputs[4]].Floats[i]) + float64(n.Float("epsilon", 1e-5)))
		shift[i] = float32(float64(offset[i]) / float64(s))
		ok = ok && s > 0 && math.Abs(float64(shift[i])) <= shiftLimit*deviation
	}
	if !ok {
		return
	}
	vector := func(what string, v []float32) string {
		return r.AddConst(n.Outputs[0]+"/"+what, onnx.FloatVector(v))
	}
	one, zero := slices.Repeat([]float32{1}, len(scale)), make([]float32, len(scale))
	n.Inputs = append(n.Inputs[:1:1],
		vector("one", one), vector("shift", shift), vector("zero", zero), vector("one", one))
	n.Set("epsilon", float32(0))
	r.into(convs, scale)
}
