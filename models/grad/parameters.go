package grad

import (
	"fmt"
	"slices"

	"selfheal/models/onnx"
)

// Objective says what a parameter gradient is taken of, and by which parameters.
type Objective struct {
	// Head is a name in Heads: the gradient is that of the losses' sum over the
	// batch. Empty: of Σ cotangent·output.
	Head string
	// Parameters are constants of the network, such as weights and biases.
	Parameters []string
	// Image asks for the gradient by the image as well.
	Image bool
}

// ParameterGradient is the name of the output that holds a parameter's gradient.
func ParameterGradient(parameter string) string { return "gradient/" + parameter }

// Parameters returns the graph that a training step runs. Its inputs are those
// of [Loss] or, without a head, of [VJP], and after them the parameters in the
// order of o.Parameters, whose present values net.Consts holds; each keeps its
// name, unless that is taken by another input. Its outputs are Logits and
// LossValue or "y", then the gradient of each parameter, of the parameter's
// shape and called ParameterGradient, and last, where o.Image asks for it, that
// of the image, Gradient or "dx". The gradients of parameters are sums over the
// batch: such a graph runs on a whole batch at once, and not in a pool that puts
// its own together. net is not changed.
func Parameters(net *onnx.Graph, o Objective) (*onnx.Graph, error) {
	if len(o.Parameters) == 0 {
		return nil, fmt.Errorf("no parameters are given")
	}
	open := net.Clone()
	for i, name := range o.Parameters {
		t, ok := net.Consts[name]
		switch {
		case !ok:
			return nil, fmt.Errorf("the network has no constant %q", name)
		case t.DType != onnx.Float:
			return nil, fmt.Errorf("constant %q does not hold float32 values", name)
		case slices.Contains(o.Parameters[:i], name):
			return nil, fmt.Errorf("parameter %q is named twice", name)
		}
		delete(open.Consts, name)
		open.Inputs = append(open.Inputs, onnx.Value{Name: name, DType: onnx.Float, Shape: t.Shape})
	}
	b := &onnx.Builder{G: onnx.NewGraph(net.Name + "/parameters")}
	names := []string{"y"}
	x, y, t := "x", Cotangent, ""
	var h Head
	if o.Head == "" {
		x, y = b.Input("x", net.Inputs[0].Shape), b.Input(Cotangent, net.Outputs[0].Shape)
	} else {
		var err error
		if h, err = headFor(net, o.Head); err != nil {
			return nil, err
		}
		names = []string{Logits, LossValue}
		x, y = b.Input(Image, net.Inputs[0].Shape), b.Input(Label, net.Outputs[0].Shape)
		if h.Targeted {
			t = b.Input(Target, net.Outputs[0].Shape)
		}
	}
	for _, p := range o.Parameters {
		names = append(names, ParameterGradient(p))
	}
	if o.Image {
		names = append(names, map[bool]string{true: "dx", false: Gradient}[o.Head == ""])
	}
	reserve(b, names...)
	bind, wrt := map[string]string{net.Inputs[0].Name: x}, []string{}
	for _, p := range o.Parameters {
		bind[p] = b.Input(p, net.Consts[p].Shape)
		wrt = append(wrt, bind[p])
	}
	if o.Image {
		wrt = append(wrt, x)
	}
	z := b.Inline(open, bind)[net.Outputs[0].Name]
	tensors, seeds := []string{z}, map[string]string{z: y}
	if o.Head != "" {
		loss := h.Build(b, z, y, t)
		tensors, seeds = append(tensors, loss), map[string]string{loss: b.Op("Clip", loss, b.Float(1), b.Float(1))}
	}
	g, err := Backward(b, seeds, wrt)
	if err != nil {
		return nil, err
	}
	for _, w := range wrt {
		tensors = append(tensors, g[w])
	}
	return finish(b, names, tensors)
}
