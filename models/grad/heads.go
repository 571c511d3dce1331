package grad

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"selfheal/models/onnx"
)

// A Head appends a loss to the logits: from logits, label and target, all [N, classes] (label and target one-hot), it
// makes the loss of every image, [N, 1].
type Head struct {
	Targeted   bool // reads target
	MinClasses int
	Build      func(b *onnx.Builder, logits, label, target string) string
}

// Heads are the losses that attacks maximise, by their names in package attacks. Here z₍₁₎ ≥ z₍₂₎ ≥ … are the sorted
// logits, y is the label, t the target (Croce & Hein 2020, sections 4 and 5):
var Heads = map[string]Head{
	// log Σ exp z − z_y
	"ce": {false, 2, func(b *onnx.Builder, z, y, _ string) string {
		return b.Op("Neg", pick(b, b.OpWith("LogSoftmax", onnx.Attrs{"axis": -1}, z), y))
	}},
	// z_t − log Σ exp z
	"ce-targeted": {true, 2, func(b *onnx.Builder, z, _, t string) string {
		return pick(b, b.OpWith("LogSoftmax", onnx.Attrs{"axis": -1}, z), t)
	}},
	// −(z_y − max_{j≠y} z_j) / (z₍₁₎ − z₍₃₎ + 1e-12)
	"dlr": {false, 3, func(b *onnx.Builder, z, y, _ string) string {
		top := sorted(b, z, 3)
		return b.Op("Div", b.Op("Sub", other(b, z, y), pick(b, z, y)), spread(b, nth(b, top, 0), nth(b, top, 2)))
	}},
	// −(z_y − z_t) / (z₍₁₎ − (z₍₃₎ + z₍₄₎)/2 + 1e-12)
	"dlr-targeted": {true, 4, func(b *onnx.Builder, z, y, t string) string {
		top := b.Multi("Split", onnx.Attrs{"axis": -1, "num_outputs": 4}, 4, sorted(b, z, 4))
		half := b.Op("Mul", b.Op("Add", top[2], top[3]), b.Float(0.5))
		return b.Op("Div", b.Op("Sub", pick(b, z, t), pick(b, z, y)), spread(b, top[0], half))
	}},
	// z_t − z_y
	"logit-difference": {true, 2, func(b *onnx.Builder, z, y, t string) string {
		return b.Op("Sub", pick(b, z, t), pick(b, z, y))
	}},
	// max_{j≠y} z_j − z_y
	"margin": {false, 2, func(b *onnx.Builder, z, y, _ string) string {
		return b.Op("Sub", other(b, z, y), pick(b, z, y))
	}},
	// max_{j≠y} p_j − p_y, with p = softmax z
	"probability-margin": {false, 2, func(b *onnx.Builder, z, y, _ string) string {
		p := b.OpWith("Softmax", onnx.Attrs{"axis": -1}, z)
		return b.Op("Sub", other(b, p, y), pick(b, p, y))
	}},
}

// pick returns the logit that a one-hot w names, [N, 1]. It selects instead of multiplying, because a logit may be −∞.
// ReduceSum's rounding depends on the batch, but adding zeros to one value does not round.
func pick(b *onnx.Builder, z, w string) string {
	named := b.Op("Where", b.Op("Greater", w, b.Float(0.5)), z, b.Float(0))
	return b.OpWith("ReduceSum", onnx.Attrs{"keepdims": 1}, named, b.Ints(1))
}

// spread returns the denominator first − last + 1e-12 of DLR, and 1 where that is infinite: a class of −∞ never wins,
// so the loss is the one for too few classes.
func spread(b *onnx.Builder, first, last string) string {
	d := b.Op("Add", b.Op("Sub", first, last), b.Float(1e-12))
	return b.Op("Where", b.Op("Greater", d, b.Float(math.MaxFloat32)), b.Float(1), d)
}

// sorted returns the k largest logits in descending order, [N, k].
func sorted(b *onnx.Builder, z string, k int64) string {
	return b.Multi("TopK", onnx.Attrs{"axis": -1}, 2, z, b.Ints(k))[0]
}

// nth returns column i of a matrix, [N, 1].
func nth(b *onnx.Builder, t string, i int64) string {
	return b.Op("Slice", t, b.Ints(i), b.Ints(i+1), b.Ints(1))
}

// other returns max_{j≠y} z_j, [N, 1].
func other(b *onnx.Builder, z, y string) string {
	wrong := b.Op("Where", b.Op("Greater", y, b.Float(0.5)), b.Float(float32(math.Inf(-1))), z)
	return sorted(b, wrong, 1)
}

// Names of the inputs and outputs of the graphs that this package makes.
const (
	Image     = "image"
	Label     = "label"     // one-hot
	Target    = "target"    // one-hot
	Cotangent = "cotangent" // cotangent of the output
	Logits    = "logits"
	LossValue = "loss"
	Gradient  = "gradient" // with respect to the image or state
)

// ParameterGradient returns the name of the output that holds a parameter's gradient.
func ParameterGradient(parameter string) string { return "gradient/" + parameter }

// Fits returns an error if there is no loss of this name, or the network has too few classes for it.
func Fits(head string, net *onnx.Graph) error {
	h, ok := Heads[head]
	if !ok {
		return fmt.Errorf("unknown loss %q", head)
	}
	if z := net.Outputs[0].Shape; len(z) != 2 || z[1] < int64(h.MinClasses) {
		return fmt.Errorf("loss %s needs logits of at least %d classes, the network gives %v", head, h.MinClasses, z)
	}
	return nil
}

// A Detour is a part of a network whose derivative is replaced by the identity: gradients take the tensor To for From
// plus a constant. Both are the network's first input or outputs. Gradients include To's whole influence on the logits.
type Detour struct{ From, To string }

// Loss returns the graph of an attack step, one forward and one backward pass in one run. Its inputs are Image, Label
// and, for a targeted head, Target; its outputs are Logits, LossValue [N, 1] and Gradient = ∂loss/∂image. net is a
// simplified classifier with output [N, classes]. Its inputs other than the image come last, under their names, and
// count as constants. Detours are in the network's order and leave no way around them.
func Loss(net *onnx.Graph, head string, detours ...Detour) (*onnx.Graph, error) {
	return lossGraph(net, []string{head}, false, Differentiation, detours)
}

// LossBy is [Loss] with other rules than the gradient's, such as [Sloped].
func LossBy(rules Rules, net *onnx.Graph, head string, detours ...Detour) (*onnx.Graph, error) {
	return lossGraph(net, []string{head}, false, rules, detours)
}

// ascent returns the gradient of a loss, [N, 1], by the image x: 0 if no cotangent reaches x, as behind a Floor.
func ascent(b *onnx.Builder, rules Rules, loss, x string, detours []Detour) (string, error) {
	at, cotangent := loss, b.Op("Clip", loss, b.Float(1), b.Float(1)) // cotangent of a sum over images
	for _, d := range slices.Backward(append([]Detour{{To: x}}, detours...)) {
		g, err := BackwardBy(b, rules, map[string]string{at: cotangent}, []string{d.To})
		if errors.As(err, new(IndependentError)) {
			return b.Op("Mul", x, b.Float(0)), b.Err()
		}
		if err != nil {
			return "", err
		}
		at, cotangent = d.From, g[d.To]
	}
	return cotangent, nil
}

// classify inlines a classifier at the image x, with its further inputs as inputs of the graph, and returns the logits
// and the detours' tensors in the graph.
func classify(b *onnx.Builder, net *onnx.Graph, x string, detours []Detour) (logits string, taken []Detour) {
	bind := map[string]string{net.Inputs[0].Name: x}
	for _, in := range net.Inputs[1:] {
		bind[in.Name] = b.Input(in.Name, in.Shape)
	}
	out := b.Inline(net, bind)
	for _, d := range detours {
		from, to := out[d.From], out[d.To]
		if d.From == net.Inputs[0].Name {
			from = x
		}
		if from == "" || to == "" {
			b.Fail(fmt.Errorf("a detour from %q to %q: no such input or outputs", d.From, d.To))
		}
		taken = append(taken, Detour{from, to})
	}
	return out[net.Outputs[0].Name], taken
}

// VJP returns the vector-Jacobian graph of a network: inputs "x" and Cotangent, outputs "y" and "dx" = Jᵀ·cotangent.
func VJP(net *onnx.Graph) (*onnx.Graph, error) {
	b := &onnx.Builder{G: onnx.NewGraph(net.Name + "/vjp")}
	x := b.Input("x", net.Inputs[0].Shape)
	w := b.Input(Cotangent, net.Outputs[0].Shape)
	reserve(b, "y", "dx")
	y := b.Call(net, x)
	g, err := Backward(b, map[string]string{y: w}, []string{x})
	if err != nil {
		return nil, err
	}
	return finish(b, []string{"y", "dx"}, []string{y, g[x]})
}

// reserve keeps inlined tensors from getting the names of outputs.
func reserve(b *onnx.Builder, names ...string) {
	for _, n := range names {
		b.G.Shapes[n] = nil
	}
}

// finish makes tensors the graph's outputs, drops what they don't need and verifies.
func finish(b *onnx.Builder, names, tensors []string) (*onnx.Graph, error) {
	for i, n := range names {
		delete(b.G.Shapes, n)
		b.Output(n, tensors[i])
	}
	return b.Done()
}

// Select is the input of a graph by [Losses] that chooses an image's loss.
const Select = "select" // one-hot

// Losses returns [Loss] for any of several losses, so that a network with many weights needs one graph for all of them.
// It takes another input, Select, [N, len(heads)], whose one names the loss that each image's LossValue and Gradient
// belong to. The other losses do not affect either, even if they are infinite. Only targeted heads read Target. Values
// and gradients equal [Loss]'s.
func Losses(net *onnx.Graph, heads []string, detours ...Detour) (*onnx.Graph, error) {
	if len(heads) == 0 {
		return nil, fmt.Errorf("no losses are given")
	}
	return lossGraph(net, heads, true, Differentiation, detours)
}

// lossGraph is [Losses], or [Loss] of the first head if choose is false.
func lossGraph(net *onnx.Graph, heads []string, choose bool, rules Rules, detours []Detour) (*onnx.Graph, error) {
	for _, name := range heads {
		if err := Fits(name, net); err != nil {
			return nil, err
		}
	}
	out := net.Outputs[0].Shape
	b := &onnx.Builder{G: onnx.NewGraph(net.Name + "/" + strings.Join(heads, "+"))}
	x, y, t, choice := b.Input(Image, net.Inputs[0].Shape), b.Input(Label, out), "", ""
	if choose || Heads[heads[0]].Targeted {
		t = b.Input(Target, out)
	}
	if choose {
		choice = b.Input(Select, onnx.Shape{onnx.Batch, int64(len(heads))})
	}
	reserve(b, Logits, LossValue, Gradient)
	z, taken := classify(b, net, x, detours)
	own, chosen, loss := z, "", ""
	for i, name := range heads {
		if choose {
			chosen = b.Op("Greater", nth(b, choice, int64(i)), b.Float(0.5))
			own = b.Op("Where", chosen, z, b.Float(0)) // 0·∞ of another head's gradient would be NaN
		}
		value := Heads[name].Build(b, own, y, t)
		if loss == "" {
			loss = value
		} else {
			loss = b.Op("Where", chosen, value, loss)
		}
	}
	g, err := ascent(b, rules, loss, x, taken)
	if err != nil {
		return nil, err
	}
	return finish(b, []string{Logits, LossValue, Gradient}, []string{z, loss, g})
}
