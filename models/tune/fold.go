package tune

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

// rescale turns relu(s·x + o), with s > 0 and only convolutions behind it, into
// relu(x + o/s) and puts s into their weights: neither the network nor its gradient
// multiplies by s any more.
func rescale(g *onnx.Graph) {
	consumers := g.Consumers()
	outputs := map[string]bool{}
	for _, o := range g.Outputs {
		outputs[o.Name] = true
	}
	only := func(tensor string) *onnx.Node {
		if c := consumers[tensor]; len(c) == 1 && !outputs[tensor] {
			return c[0]
		}
		return nil
	}
	for _, n := range g.Nodes {
		if n.Op != "BatchNormalization" || n.Domain != "" {
			continue
		}
		relu := only(n.Outputs[0])
		if relu == nil || relu.Op != "Relu" || outputs[relu.Outputs[0]] {
			continue
		}
		scale, offset, ok := g.Affine(n)
		if !ok || len(consumers[relu.Outputs[0]]) == 0 {
			continue
		}
		movable := func(conv *onnx.Node) bool {
			w, constant := g.Consts[conv.Input(1)]
			return conv.Op == "Conv" && constant && conv.Inputs[0] == relu.Outputs[0] && len(w.Shape) == 4 &&
				!slices.Contains(conv.Inputs[1:], relu.Outputs[0])
		}
		if slices.ContainsFunc(consumers[relu.Outputs[0]], func(c *onnx.Node) bool { return !movable(c) }) {
			continue
		}
		shift := make([]float32, len(scale))
		for i, s := range scale {
			deviation := math.Sqrt(float64(g.Consts[n.Inputs[4]].Floats[i]) + float64(n.Float("epsilon", 1e-5)))
			shift[i] = float32(float64(offset[i]) / float64(s))
			ok = ok && s > 0 && math.Abs(float64(shift[i])) <= shiftLimit*deviation
		}
		if !ok {
			continue
		}
		vector := func(what string, v []float32) string {
			return g.AddConst(n.Outputs[0]+"/"+what, onnx.FloatTensor(onnx.Shape{int64(len(v))}, v))
		}
		one := slices.Repeat([]float32{1}, len(scale))
		n.Inputs = []string{n.Inputs[0], vector("one", one), vector("shift", shift), vector("zero", make([]float32, len(scale))), vector("one", one)}
		n.Set("epsilon", float32(0))
		for _, conv := range consumers[relu.Outputs[0]] {
			w := g.Consts[conv.Inputs[1]]
			conv.Inputs[1] = g.AddConst(conv.Inputs[1]+"/scaled", scaleInputs(w, scale, int(conv.Int("group", 1))))
		}
	}
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
