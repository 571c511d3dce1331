package optimize

import (
	"errors"
	"math"
	"slices"

	"selfheal/models/onnx"
)

var errStride = errors.New("no algorithm for this stride")

// fold puts a BatchNormalization behind a Conv that nothing else reads into the
// Conv's weight and bias.
func fold(g *onnx.Graph) {
	producers, consumers := g.Producers(), g.Consumers()
	outputs := map[string]bool{}
	for _, o := range g.Outputs {
		outputs[o.Name] = true
	}
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *onnx.Node) bool {
		if n.Op != "BatchNormalization" || n.Domain != "" {
			return false
		}
		conv := producers[n.Inputs[0]]
		if conv == nil || conv.Op != "Conv" || len(consumers[n.Inputs[0]]) != 1 || outputs[n.Inputs[0]] {
			return false
		}
		w, ok := g.Consts[conv.Inputs[1]]
		scale, offset, known := g.Affine(n)
		bias, constant := g.Consts[conv.Input(2)]
		if !ok || !known || conv.Input(2) != "" && !constant {
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
			g.AddConst(conv.Inputs[1]+"/offset", onnx.FloatTensor(onnx.Shape{int64(len(offset))}, offset))}
		conv.Outputs = []string{n.Outputs[0]}
		producers[n.Outputs[0]] = conv
		return true
	})
}

// shiftLimit bounds how far, in standard deviations of its statistics, rescale may
// shift a state: beyond that the sum's rounding would be felt.
const shiftLimit = 64

// rescale moves factors of channels into the weights of convolutions that alone read
// them, so that neither the network nor its gradient multiplies by them any more: it
// turns relu(s·x + o), with s > 0, into relu(x + o/s), and x/s and x·s into x.
func rescale(g *onnx.Graph) {
	r := rescaler{Graph: g, consumers: g.Consumers(), outputs: map[string]bool{}}
	for _, o := range g.Outputs {
		r.outputs[o.Name] = true
	}
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
	outputs   map[string]bool
}

// convs returns the convolutions that read a tensor, as their input and nothing else;
// nil if anything else does.
func (r *rescaler) convs(tensor string) []*onnx.Node {
	other := func(n *onnx.Node) bool {
		w, constant := r.Consts[n.Input(1)]
		return n.Op != "Conv" || !constant || len(w.Shape) != 4 || slices.Contains(n.Inputs[1:], tensor)
	}
	if r.outputs[tensor] || slices.ContainsFunc(r.consumers[tensor], other) {
		return nil
	}
	return r.consumers[tensor]
}

// into multiplies the weights of convolutions by a factor for each input channel.
func (r *rescaler) into(convs []*onnx.Node, factor []float32) {
	for _, conv := range convs {
		w := r.Consts[conv.Inputs[1]]
		conv.Inputs[1] = r.AddConst(conv.Inputs[1]+"/scaled", scaleInputs(w, factor, int(conv.Int("group", 1))))
	}
}

// factor removes x/s and x·s, as which a standard deviation comes, s a number for each
// channel or one for all. It reports whether it could.
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

// relu moves the scale of a BatchNormalization in front of ReLU.
func (r *rescaler) relu(n *onnx.Node) {
	next := r.consumers[n.Outputs[0]]
	if len(next) != 1 || next[0].Op != "Relu" || r.outputs[n.Outputs[0]] {
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
		return r.AddConst(n.Outputs[0]+"/"+what, onnx.FloatTensor(onnx.Shape{int64(len(v))}, v))
	}
	one := slices.Repeat([]float32{1}, len(scale))
	n.Inputs = []string{n.Inputs[0], vector("one", one), vector("shift", shift), vector("zero", make([]float32, len(scale))), vector("one", one)}
	n.Set("epsilon", float32(0))
	r.into(convs, scale)
}

// scaleInputs multiplies a Conv's weight [O, C/group, …] by a factor for each input channel.
func scaleInputs(w *onnx.Tensor, f []float32, group int) *onnx.Tensor {
	o, c := int(w.Shape[0]), int(w.Shape[1])
	k := int(w.Shape[2:].Items())
	out := onnx.FloatTensor(w.Shape, make([]float32, w.Len()))
	for i := range o {
		first := i / (o / group) * c
		for j := range c {
			for p := range k {
				at := (i*c+j)*k + p
				out.Floats[at] = w.Floats[at] * f[first+j]
			}
		}
	}
	return out
}
