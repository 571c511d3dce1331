package grad

import (
	"fmt"
	"strings"

	"selfheal/models/onnx"
)

// Select is the input of a graph by [Losses] that chooses an image's loss.
const Select = "select" // one-hot

// Losses returns [Loss] for any of several losses: a network with many weights
// then needs one graph for all of them. Besides Image, Label and Target there is an
// input Select, [N, len(heads)], whose one says which loss an image's LossValue and
// Gradient are of; the others leave no trace in either, be they infinite. Target is
// read by targeted heads only. Values and gradients are those of [Loss].
func Losses(net *onnx.Graph, heads []string, detours ...Detour) (*onnx.Graph, error) {
	if len(heads) == 0 {
		return nil, fmt.Errorf("no losses are given")
	}
	out := net.Outputs[0].Shape
	b := &onnx.Builder{G: onnx.NewGraph(net.Name + "/" + strings.Join(heads, "+"))}
	x, y, t := b.Input(Image, net.Inputs[0].Shape), b.Input(Label, out), b.Input(Target, out)
	choice := b.Input(Select, onnx.Shape{onnx.Batch, int64(len(heads))})
	reserve(b, Logits, LossValue, Gradient)
	z, taken := classify(b, net, x, detours)
	loss := ""
	for i, name := range heads {
		h, err := headFor(net, name)
		if err != nil {
			return nil, err
		}
		chosen := b.Op("Greater", nth(b, choice, int64(i)), b.Float(0.5))
		own := b.Op("Where", chosen, z, b.Float(0)) // 0·∞ of another head's gradient would be NaN
		value := h.Build(b, own, y, t)
		if loss == "" {
			loss = value
		} else {
			loss = b.Op("Where", chosen, value, loss)
		}
	}
	g, err := ascent(b, loss, x, taken)
	if err != nil {
		return nil, err
	}
	return finish(b, []string{Logits, LossValue, Gradient}, []string{z, loss, g})
}

// Fits reports whether there is a loss of this name, and a network has logits of
// enough classes for it.
func Fits(head string, net *onnx.Graph) bool {
	_, err := headFor(net, head)
	return err == nil
}
