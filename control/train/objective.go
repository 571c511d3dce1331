// Package train trains embedding functions: auto-encoders E_t on the states x_t of frozen classifiers. The objective
// is the paper's Eq. 4: the cross-entropy of the rest of the network on E_t(x_t) plus weight·‖E_t(x_t) − x_t‖². One
// ONNX graph computes the loss and its gradients by E's parameters; Go holds the data's order and the optimiser.
//
// [New] builds an embedding, [Around] cuts a network, [NewTrainer] prepares a training, and [Trainer.Step] makes a
// step. A training with the same settings gives the same bits with any number of workers, also if it continues from a
// [Checkpoint].
package train

import (
	"errors"
	"fmt"
	"slices"

	"selfheal/control"
	"selfheal/internal/lists"
	"selfheal/models/grad"
	"selfheal/models/onnx"
	"selfheal/models/optimize"
	"selfheal/models/split"
)

// Network is a frozen classifier, cut at the embedding's place.
type Network struct {
	Name   string
	Before *onnx.Graph // image → x_t; nil if the state is the image
	After  *onnx.Graph // x_t → logits, [N classes]
}

// Around cuts a network in front of segment t of a chain. States are on the controlled path, as in Eq. 4: earlier
// holds the embeddings of segments before t. If tuned is set, package optimize rewrites both parts for the CPU, which
// changes numbers by float32 rounding.
func Around(n *control.Network, c *control.Chain, t int, earlier map[int]*onnx.Graph, tuned bool) (Network, error) {
	out := Network{Name: n.Name, After: n.Graph}
	if t > 0 {
		parts, err := split.At(n.Graph, []string{c.Segments[t].Inputs[0].Name})
		if err != nil {
			return Network{}, err
		}
		out.After = parts[1]
		var before []part
		for s, segment := range c.Segments[:t] {
			prefix := fmt.Sprintf("%d/", s)
			before = append(before, part{prefix, earlier[s]}, part{prefix, segment})
		}
		if out.Before, err = composed(n.Name+"/before", "state", c.StateShape(0), before...); err != nil {
			return Network{}, err
		}
	}
	if !tuned {
		return out, nil
	}
	var err error
	if out.After, err = optimize.Graph(out.After); err == nil && out.Before != nil {
		out.Before, err = optimize.Graph(out.Before)
	}
	return out, err
}

// part is a graph and the prefix of its tensors in a larger one. A nil graph stands for the identity.
type part struct {
	prefix string
	graph  *onnx.Graph
}

func (p part) in(b *onnx.Builder, inputs ...string) []string {
	if p.graph == nil {
		return inputs
	}
	b.Prefix = p.prefix
	defer func() { b.Prefix = "" }()
	return b.CallAll(p.graph, inputs...)
}

// composed returns a graph that sends an image through parts, one after the other.
func composed(name, output string, image onnx.Shape, parts ...part) (*onnx.Graph, error) {
	b := &onnx.Builder{G: onnx.NewGraph(name)}
	x := b.Input("image", image)
	for _, p := range parts {
		x = p.in(b, x)[0]
	}
	b.Output(output, x)
	return b.Done()
}

func (n Network) image() onnx.Shape {
	if n.Before != nil {
		return n.Before.Inputs[0].Shape
	}
	return n.After.Inputs[0].Shape
}

func (n Network) state() onnx.Shape { return n.After.Inputs[0].Shape }

func (n Network) classes() int { return int(n.After.Outputs[0].Shape.Items()) }

// Outputs of a loss graph, in this order; gradients follow.
const (
	logitsAt         = iota // [N classes]
	crossEntropyAt          // [N 1]
	reconstructionAt        // [N 1], ‖E(x) − x‖²
	gradientsAt             // and after them the statistics of normalisations
)

// lossGraph returns a graph of the loss of a batch, Σ CE + weight·Σ ‖E(x) − x‖², and its gradients by the parameters
// or, if byImage is set, by the image. Inputs are image [N C H W], for perturbed images also the clean image, whose
// state E is to return, label [N classes], weight [1] and the parameters. A label is one-hot, but holds probabilities
// in the search of [TRADES]. Under Gaussian noise the cross-entropy is not in the loss, or its label is the network's
// own answer to the clean image: ones at the largest logits. An adversarial search does without the reconstruction.
func lossGraph(n Network, embedding *onnx.Graph, s Settings, byImage bool) (*onnx.Graph, error) {
	e, parameters := embedding.Clone(), parametersOf(embedding)
	for _, p := range parameters {
		e.Inputs = append(e.Inputs, onnx.Value{Name: p, DType: onnx.Float, Shape: e.Consts[p].Shape})
		e.Shapes[p] = e.Consts[p].Shape
		delete(e.Consts, p)
	}
	batchwise := learns(e)
	if batchwise {
		e.Inputs = append(e.Inputs, onnx.Value{Name: "share", DType: onnx.Float, Shape: onnx.Shape{1}})
		e.Shapes["share"] = onnx.Shape{1}
		if err := normalising(e, "share"); err != nil {
			return nil, err
		}
	}
	if err := doubled(e); err != nil {
		return nil, err
	}
	b := &onnx.Builder{G: onnx.NewGraph(n.Name + "/fit")}
	image := b.Input("image", n.image())
	clean := image
	if s.Objective.perturbed() {
		clean = b.Input("clean", n.image())
	}
	label := b.Input("label", n.After.Outputs[0].Shape)
	weight := b.Input("weight", onnx.Shape{1})
	wrt := lists.Map(parameters, func(p string) string { return b.Input("parameter/"+p, embedding.Consts[p].Shape) })
	x := part{"before/", n.Before}.in(b, image)[0]
	target := x
	if s.Objective.perturbed() {
		target = part{"clean/", n.Before}.in(b, clean)[0]
	}
	given := append([]string{x}, wrt...)
	if batchwise {
		given = append(given, b.Input("share", onnx.Shape{1}))
	}
	embedded := part{"E/", e}.in(b, given...)
	y, statistics := embedded[0], embedded[1:]
	z := part{"after/", n.After}.in(b, y)[0]
	if byImage {
		wrt = []string{image}
	}
	if s.Objective == Gaussian && s.Loss == Stability {
		answer := part{"answer/", n.After}.in(b, target)[0]
		largest := b.OpWith("ReduceMax", onnx.Attrs{"keepdims": 1}, answer, b.Ints(1))
		label = b.OpWith("Cast", onnx.Attrs{"to": int(onnx.Float)}, b.Op("Equal", answer, largest))
	}
	loss := grad.Heads["ce"].Build(b, z, label, "")
	if s.Loss == TRADES && byImage {
		loss = b.Op("Neg", b.Sum(b.Op("Mul", label, logSoftmax(b, z)), []int64{1}))
	} else if s.Loss == TRADES {
		again := part{"E/clean/", e}.in(b, append([]string{target}, given[1:]...)...)
		for i, s := range statistics {
			statistics[i] = b.Op("Mul", b.Op("Add", s, again[1+i]), b.Float(0.5))
		}
		answer := part{"after/clean/", n.After}.in(b, again[0])[0]
		of := logSoftmax(b, answer)
		p := b.OpWith("Softmax", onnx.Attrs{"axis": -1}, answer)
		divergence := b.Sum(b.Op("Mul", p, b.Op("Sub", of, logSoftmax(b, z))), []int64{1})
		loss = grad.Heads["ce"].Build(b, answer, label, "")
		loss = b.Op("Add", loss, b.Op("Mul", divergence, b.Float(float32(s.Beta))))
	}
	distance := b.Op("Sub", y, target)
	seeds := map[string]string{}
	if s.Objective != Gaussian || s.Loss == Stability {
		seeds[loss] = b.Op("Clip", loss, b.Float(1), b.Float(1))
	}
	if s.Weight > 0 && !(byImage && s.Objective == Adversarial) { // ∂(w·‖d‖²)/∂d = 2w·d
		seeds[distance] = b.Op("Mul", distance, b.Op("Add", weight, weight))
	}
	g, err := grad.Backward(b, seeds, wrt)
	if independent, ok := errors.AsType[grad.IndependentError](err); ok {
		return nil, fmt.Errorf("the loss does not depend on the embedding's %q", independent.Tensor)
	}
	if err != nil {
		return nil, err
	}
	flat := b.Op("Reshape", b.Op("Mul", distance, distance), b.Ints(0, n.state().Items()))
	b.Output("logits", z)
	b.Output("cross-entropy", loss)
	b.Output("reconstruction", b.OpWith("ReduceSum", onnx.Attrs{"keepdims": 1}, flat, b.Ints(1)))
	for _, w := range wrt {
		b.Output(grad.ParameterGradient(w), g[w])
	}
	for i, s := range statistics {
		b.Output(fmt.Sprintf("statistics/%d", i), s)
	}
	if _, err := b.Done(); err != nil {
		return nil, err
	}
	if err := faster(b.G); err != nil {
		return nil, err
	}
	return b.G, b.G.Verify()
}

func logSoftmax(b *onnx.Builder, z string) string {
	return b.OpWith("LogSoftmax", onnx.Attrs{"axis": -1}, z)
}

// learns reports whether an embedding's normalisations use the statistics of a step's images while it trains, and
// keep running averages for afterwards. Several normalisations learn: with held statistics the error grows from layer
// to layer until SegNet and FCN learn nothing. A single one keeps its statistics, as networks that share an embedding
// have features of different sizes.
func learns(e *onnx.Graph) bool { return len(normalisations(e)) > 1 }

// parametersOf lists the constants of an embedding that training changes, sorted: weights, biases or scales of an
// operator whose gradient by them is known. It leaves out means and variances of BatchNormalization, and single
// numbers that are added or multiplied, which exporters write for parts of formulas.
func parametersOf(e *onnx.Graph) []string {
	var names []string
	for _, n := range e.Nodes {
		for _, i := range onnx.TraitsOf(n.Op).Parameters {
			t, ok := e.Consts[n.Input(i)]
			statistic := n.Op == "BatchNormalization" && i > 2
			formula := (n.Op == "Add" || n.Op == "Mul") && ok && t.Len() == 1
			if ok && t.DType == onnx.Float && t.Len() > 0 && !statistic && !formula &&
				!slices.Contains(names, n.Input(i)) {
				names = append(names, n.Input(i))
			}
		}
	}
	slices.Sort(names)
	return names
}
