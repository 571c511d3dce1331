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
	"selfheal/models/grad"
	"selfheal/models/onnx"
	"selfheal/models/optimize"
	"selfheal/models/split"
)

// Network is a frozen classifier, cut at the embedding's place.
type Network struct {
	Name   string
	Before *onnx.Graph // image → x_t; nil if the state is the image
	// Between is x_t → the later state whose embedding trains along; nil if none does.
	Between *onnx.Graph
	After   *onnx.Graph // x_t, or that later state → logits, [N classes]
}

// Around cuts a network in front of segment t of a chain and, if it is not 0, of the segment later. States are on the
// controlled path, as in Eq. 4: earlier holds the embeddings of segments before t. If tuned is set, package optimize
// rewrites the parts for the CPU, which changes numbers by float32 rounding.
func Around(n *control.Network, c *control.Chain, t, later int, earlier map[int]*onnx.Graph, tuned bool) (Network,
	error) {
	var cuts []string
	for _, s := range []int{t, later} {
		if s > 0 {
			cuts = append(cuts, c.Segments[s].Inputs[0].Name)
		}
	}
	parts, err := []*onnx.Graph{n.Graph}, error(nil)
	if len(cuts) > 0 {
		if parts, err = split.At(n.Graph, cuts); err != nil {
			return Network{}, err
		}
	}
	if n.Task != nil {
		return Network{}, errors.New("an embedding is trained by the classes' cross-entropy, and the model's task is " +
			"another")
	}
	out := Network{Name: n.Name, After: parts[len(parts)-1]}
	if later > 0 {
		out.Between = parts[len(parts)-2]
	}
	if t > 0 {
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
	for _, g := range []**onnx.Graph{&out.Before, &out.Between, &out.After} {
		if *g == nil {
			continue
		}
		if *g, err = optimize.Graph(*g); err != nil {
			return Network{}, err
		}
	}
	return out, nil
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
	return n.State()
}

// Behind returns the network cut at the later state whose embedding trains along, with e in front of it.
func (n Network) Behind(e *onnx.Graph) (Network, error) {
	before, err := composed(n.Name+"/behind", "state", n.image(), part{"before/", n.Before}, part{"E/", e},
		part{"between/", n.Between})
	return Network{Name: n.Name, Before: before, After: n.After}, err
}

// State returns the shape of the states x_t, with the batch in front.
func (n Network) State() onnx.Shape {
	if n.Between != nil {
		return n.Between.Inputs[0].Shape
	}
	return n.After.Inputs[0].Shape
}

func (n Network) classes() int { return int(n.After.Outputs[0].Shape.Items()) }

// Outputs of a loss graph, in this order; gradients follow.
const (
	logitsAt         = iota // [N classes]
	crossEntropyAt          // [N 1]
	reconstructionAt        // [N 1], ‖E(x) − x‖²
	gradientsAt             // and after them the statistics of normalisations, and a second embedding's ‖E(x) − x‖²
)

// lossGraph returns a graph of the loss of a batch, Σ CE + weight·Σ ‖E(x) − x‖², and its gradients by the parameters
// or, if byImage is set, by the image. Inputs are image [N C H W], for perturbed images also the clean image, whose
// state E is to return, label [N classes], weight [1] and the parameters. A label is one-hot, but holds probabilities
// in the search of [TRADES]. Under Gaussian noise the cross-entropy is not in the loss, or its label is the network's
// own answer to the clean image: ones at the largest logits. An adversarial search does without the reconstruction. A
// second embedding, that of a later state, is to return that state as it arrives: s.JointWeight·‖E(x) − x‖² is added.
func lossGraph(n Network, embeddings []*onnx.Graph, s Settings, byImage bool) (*onnx.Graph, error) {
	b := &onnx.Builder{G: onnx.NewGraph(n.Name + "/fit")}
	image := b.Input("image", n.image())
	clean := image
	if s.Objective.perturbed() {
		clean = b.Input("clean", n.image())
	}
	label := b.Input("label", n.After.Outputs[0].Shape)
	weight := b.Input("weight", onnx.Shape{1})
	chain, err := chained(b, n, embeddings)
	if err != nil {
		return nil, err
	}
	x := part{"before/", n.Before}.in(b, image)[0]
	target := x
	if s.Objective.perturbed() {
		target = part{"clean/", n.Before}.in(b, clean)[0]
	}
	seen := chain.on(b, "", x)
	y, z, statistics := seen.embedded[0], seen.logits, seen.statistics
	wrt := chain.parameters
	if byImage {
		wrt = []string{image}
	}
	if s.Objective == Gaussian && s.Loss == Stability {
		answer := part{"answer/after/", n.After}.in(b, part{"answer/", n.Between}.in(b, target)...)[0]
		largest := b.OpWith("ReduceMax", onnx.Attrs{"keepdims": 1}, answer, b.Ints(1))
		label = b.OpWith("Cast", onnx.Attrs{"to": int(onnx.Float)}, b.Op("Equal", answer, largest))
	}
	loss := grad.Heads["ce"].Build(b, z, label, "")
	if s.Loss == TRADES && byImage {
		loss = b.Op("Neg", b.Sum(b.Op("Mul", label, logSoftmax(b, z)), []int64{1}))
	} else if s.Loss == TRADES {
		again := chain.on(b, "again/", target)
		for i, s := range statistics {
			statistics[i] = b.Op("Mul", b.Op("Add", s, again.statistics[i]), b.Float(0.5))
		}
		of := logSoftmax(b, again.logits)
		p := b.OpWith("Softmax", onnx.Attrs{"axis": -1}, again.logits)
		divergence := b.Sum(b.Op("Mul", p, b.Op("Sub", of, logSoftmax(b, z))), []int64{1})
		loss = grad.Heads["ce"].Build(b, again.logits, label, "")
		loss = b.Op("Add", loss, b.Op("Mul", divergence, b.Float(float32(s.Beta))))
	}
	distance := b.Op("Sub", y, target)
	seeds := map[string]string{}
	if s.Objective != Gaussian || s.Loss == Stability {
		seeds[loss] = b.Op("Clip", loss, b.Float(1), b.Float(1))
	}
	reconstructs := !(byImage && s.Objective == Adversarial)
	if s.Weight > 0 && reconstructs { // ∂(w·‖d‖²)/∂d = 2w·d
		seeds[distance] = b.Op("Mul", distance, b.Op("Add", weight, weight))
	}
	later := "" // the second embedding's
	if len(embeddings) > 1 {
		if later = b.Op("Sub", seen.embedded[1], seen.states[1]); s.JointWeight > 0 && reconstructs {
			seeds[later] = b.Op("Mul", later, b.Float(float32(2*s.JointWeight)))
		}
	}
	g, err := grad.Backward(b, seeds, wrt)
	if independent, ok := errors.AsType[grad.IndependentError](err); ok {
		return nil, fmt.Errorf("the loss does not depend on the embedding's %q", independent.Tensor)
	}
	if err != nil {
		return nil, err
	}
	squared := func(d string) string {
		flat := b.Op("Reshape", b.Op("Mul", d, d), b.Ints(0, b.Shape(d).Items()))
		return b.OpWith("ReduceSum", onnx.Attrs{"keepdims": 1}, flat, b.Ints(1))
	}
	b.Output("logits", z)
	b.Output("cross-entropy", loss)
	b.Output("reconstruction", squared(distance))
	for _, w := range wrt {
		b.Output(grad.ParameterGradient(w), g[w])
	}
	for i, s := range statistics {
		b.Output(fmt.Sprintf("statistics/%d", i), s)
	}
	if later != "" {
		b.Output("reconstruction/along", squared(later))
	}
	if _, err := b.Done(); err != nil {
		return nil, err
	}
	if err := faster(b.G, s.On.Row().Direct); err != nil {
		return nil, err
	}
	return b.G, b.G.Verify()
}

// chain holds the embeddings, whose parameters are inputs of the graph, and the parts of the network behind them.
type chain struct {
	embeddings, network []*onnx.Graph // in turn
	inputs              [][]string    // of each embedding, beside its state
	parameters          []string      // of all embeddings
}

func chained(b *onnx.Builder, n Network, embeddings []*onnx.Graph) (c chain, err error) {
	c.network = []*onnx.Graph{n.Between, n.After}[2-len(embeddings):]
	share := ""
	for i, embedding := range embeddings {
		e, inputs := embedding.Clone(), []string(nil)
		for _, p := range parametersOf(embedding) {
			e.Inputs = append(e.Inputs, onnx.Value{Name: p, DType: onnx.Float, Shape: e.Consts[p].Shape})
			e.Shapes[p] = e.Consts[p].Shape
			delete(e.Consts, p)
			inputs = append(inputs, b.Input(fmt.Sprintf("parameter/%d/%s", i, p), e.Shapes[p]))
		}
		c.parameters = append(c.parameters, inputs...)
		if learns(e) {
			e.Inputs = append(e.Inputs, onnx.Value{Name: "share", DType: onnx.Float, Shape: onnx.Shape{1}})
			e.Shapes["share"] = onnx.Shape{1}
			if err := normalising(e, "share"); err != nil {
				return c, err
			}
			share = "share"
			inputs = append(inputs, share)
		}
		if err := doubled(e); err != nil {
			return c, err
		}
		c.embeddings, c.inputs = append(c.embeddings, e), append(c.inputs, inputs)
	}
	if share != "" { // the last input of the graph
		b.Input(share, onnx.Shape{1})
	}
	return c, nil
}

// seen holds the tensors of a pass through a chain.
type seen struct {
	states, embedded []string // of each embedding: what goes in and comes out
	logits           string
	statistics       []string // of the embeddings' normalisations
}

func (c chain) on(b *onnx.Builder, prefix, x string) (s seen) {
	for i, e := range c.embeddings {
		out := part{fmt.Sprintf("%sE/%d/", prefix, i), e}.in(b, append([]string{x}, c.inputs[i]...)...)
		s.states, s.embedded = append(s.states, x), append(s.embedded, out[0])
		s.statistics = append(s.statistics, out[1:]...)
		x = part{fmt.Sprintf("%safter/%d/", prefix, i), c.network[i]}.in(b, out[0])[0]
	}
	s.logits = x
	return s
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
