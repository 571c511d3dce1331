// Package control runs a classifier, undefended or controlled, as an [attacks.Oracle]. It implements the closed loop
// of "Self-Healing Robust Neural Networks via Closed-Loop Control" (Chen, Li, Zhang): the network is a chain of
// segments x_{t+1} = F_t(x_t + u_t), embedding functions E_t know the manifolds of clean states, and a controller
// chooses the u_t for each image.
//
// [NewNetwork] opens a classifier, [Network.ForAttacks] makes the copy that attacks use, [Network.Cut] cuts a network
// into a chain, [NewController] closes the loop over it, and [NewDefended] differentiates the loop for a white-box
// attack. A loop's answer for an image depends on that image alone, not on the batch or the number of workers.
package control

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	"selfheal/attacks"
	"selfheal/models/grad"
	"selfheal/models/heads"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/opened"
	"selfheal/models/optimize"
	"selfheal/models/ort"
	"selfheal/models/split"
)

// Network is an undefended classifier on a pool, and the places at which it can be cut. It is an [attacks.Oracle].
type Network struct {
	Name       string
	Graph      *onnx.Graph // simplified, from images in [0,1] to logits
	Parameters int64       // of the network as given, without its preprocessing
	Labels     bool        // the network gives only the class, see [NetworkOptions]
	Boundaries []string    // tensors at which every controller cuts it: T − 1 for T segments
	// ID is the SHA-256 of the network, mean and std included, and of whether convolutions run as the model has them.
	ID string

	fast     *onnx.Graph // Graph as it runs
	pool     *ort.Pool
	direct   bool
	attacked bool
	shape    attacks.Shape
	classes  int
	*losses
	file      File      // nil if the opened network answers
	lent      bool      // another network owns the file and closes it
	unrounded *losses   // of the network without rounding, for a file that rounds
	function  *Function // nil unless the network is one
	voting
	Task *Task // nil for classification
	// Stepped is set if the logits, or a head's scores, move in steps, so that the gradient can't be theirs.
	Stepped  bool
	Ensemble bool // the network is several together, see [NewEnsemble]

	compiling sync.Mutex
	forward   *ort.Program // compiled on first use
}

// rewrite returns the graph in the form in which it runs.
func (n *Network) rewrite(g *onnx.Graph) (*onnx.Graph, error) {
	if n.direct || g == nil {
		return g, nil
	}
	return optimize.Graph(g)
}

// NetworkOptions say how to open a network.
type NetworkOptions struct {
	simplify.Options      // a label's logits are 1 for its class and 0 for others
	Probabilities    bool // the output is softmax probabilities; their logarithms serve as logits
	// Votes is how many passes decide an answer of a network that draws random numbers, which Seed determines. It is
	// 0 for other networks.
	Votes int
	Seed  uint64
	Task  heads.Task // the zero value is classification
	At    []string   // boundaries as tensor names; nil for the default ones
}

// NewNetwork prepares a classifier from an ONNX model's bytes and keeps the model's operators. Judge with it; attack
// its [Network.ForAttacks]. Errors say what is wrong with the model and where.
func NewNetwork(pool *ort.Pool, name string, model []byte, o NetworkOptions) (*Network, error) {
	g, err := opened.Graph(&onnx.File{Data: model}, o.Options, nil)
	if err != nil {
		return nil, err
	}
	n := &Network{Name: name, Graph: g, Parameters: g.Parameters(), pool: pool, direct: true, Labels: o.Label}
	if simplify.IsFlat(g) {
		image := [3]int{}
		if o.Size != nil {
			image, _ = o.Size() // images that can't be read are reported where they are needed
		}
		if err := simplify.Unflattened(g, image); err != nil {
			return nil, err
		}
	}
	if err := simplify.Preprocess(g, o.Options); err != nil {
		return nil, err
	}
	g.Name = name
	if err := n.head(o); err != nil {
		return nil, err
	}
	in := g.Inputs[0].Shape
	if len(in) != 4 {
		return nil, fmt.Errorf("input %q has shape %v; an image classifier takes [N C H W]", g.Inputs[0].Name, in)
	}
	n.shape = attacks.Shape{C: int(in[1]), H: int(in[2]), W: int(in[3])}
	if n.Boundaries = o.At; o.At == nil {
		n.Boundaries = split.Boundaries(n.Task.before(g))
	}
	if _, err := n.Cut(); err != nil {
		return nil, err
	}
	if err := n.newVoting(o); err != nil {
		return nil, err
	}
	if err := ort.Fits(g); err != nil {
		return nil, err
	}
	n.fast = g
	n.losses = newLosses(n, g, g)
	identity, err := g.Encode()
	if err == nil && n.Task != nil {
		err = n.Task.open(g)
	}
	if err != nil {
		return nil, err
	}
	if g.IsCopy() { // a file may answer for it
		identity = append(identity, model...)
	}
	n.ID = fmt.Sprintf("%x", sha256.Sum256(identity))
	return n, nil
}

// ForAttacks returns the network to attack. It runs on the pool's device for attacks, see [ort.On]. Unless direct is
// set, package optimize rewrites it for the CPU, which changes results by float32 rounding. If the file computes
// otherwise than the opened network (in integers or halves, or on levels alone), attacks ask the file too. Close it
// before the network.
func (n *Network) ForAttacks(direct bool) (_ *Network, err error) {
	a := &Network{Name: n.Name, Graph: n.Graph, Parameters: n.Parameters, Labels: n.Labels, Boundaries: n.Boundaries,
		ID: n.ID, pool: n.pool, direct: direct || n.Opaque(), attacked: true, shape: n.shape, classes: n.classes,
		voting: n.voting, Task: n.Task, Stepped: n.Stepped, Ensemble: n.Ensemble, function: n.function}
	if a.fast, err = a.rewrite(n.Graph); err != nil {
		return nil, err
	}
	a.losses = newLosses(a, n.Graph, a.fast)
	if n.otherwise() {
		err, a.lent = a.AnsweredBy(n.file), true
	}
	return a, err
}

// Ready compiles the forward pass, unless a file answers.
func (n *Network) Ready() error {
	if n.file != nil {
		return nil
	}
	_, err := n.program()
	return err
}

// program returns the forward pass and compiles it on first use.
func (n *Network) program() (_ *ort.Program, err error) {
	n.compiling.Lock()
	defer n.compiling.Unlock()
	switch {
	case n.forward != nil:
	case n.Opaque():
		n.forward, err = n.answering()
	default:
		n.forward, err = n.compile(n.fast)
	}
	return n.forward, err
}

// pass runs the opened network.
func (n *Network) pass(ctx context.Context, out []float32, in ...[]float32) error {
	p, err := n.program()
	if err != nil {
		return err
	}
	truth, err := n.Task.of(ctx)
	if err != nil {
		return err
	}
	return n.pool.Run(ctx, p, slices.Insert(in, 1, truth...), [][]float32{out})
}

// FLOPs returns the floating-point operations of one image's forward pass.
func (n *Network) FLOPs() int64 { return n.Graph.FLOPs() }

// Pool returns the pool on which the network runs.
func (n *Network) Pool() *ort.Pool { return n.pool }

// Logits implements [attacks.Oracle].
func (n *Network) Logits(ctx context.Context, x, out []float32) error {
	if n.file != nil {
		return n.file.Logits(ctx, x, out)
	}
	if n.votes > 0 {
		return n.mean(ctx, x, out, QuestionPasses(n.votes))
	}
	return n.CopyLogits(ctx, x, out)
}

// Sample gives logits of the image that fill writes, see [ort.Pool.RunOf]. It is for callers that need only the
// classes of many images. If the opened network's answer is not clear ([attacks.Clear]), the file answers. A network
// that draws random numbers makes one pass.
func (n *Network) Sample(ctx context.Context, fill func(x []float32), out []float32) error {
	// a network that gives only the class has no near misses
	if n.votes == 0 && !n.otherwise() && !(n.file != nil && n.Labels) {
		p, err := n.program()
		if err == nil {
			err = n.pool.RunOf(ctx, p, fill, [][]float32{out})
		}
		if err != nil || n.file == nil || attacks.Clear(out) {
			return err
		}
	}
	x := make([]float32, n.shape.Size())
	fill(x)
	if n.votes > 0 {
		return n.mean(ctx, x, out, 1)
	}
	return n.file.Logits(ctx, x, out)
}

// otherwise reports whether the file computes otherwise than the opened network: in integers or halves, or on levels.
func (n *Network) otherwise() bool {
	return n.file != nil && (n.Graph.IsCopy() || n.Graph.Levels)
}

// Gradient implements [attacks.Oracle].
func (n *Network) Gradient(ctx context.Context, x []float32, loss attacks.Loss, label, target int,
	e *attacks.Evaluation) error {
	if n.votes > 0 {
		return averagedBy{n, n.losses}.gradient(ctx, x, loss, label, target, e)
	}
	if n.file != nil {
		return n.fileGradient(ctx, x, loss, label, target, e)
	}
	return n.losses.gradient(ctx, x, loss, label, target, e)
}

// Close frees the network's programs and closes its file, unless another network owns it.
func (n *Network) Close() {
	if n.file != nil && !n.lent {
		n.file.Close()
	}
	if n.unrounded != nil {
		n.unrounded.close()
	}
	if n.forward != nil {
		n.forward.Close()
	}
	if n.Task != nil && !n.attacked {
		n.Task.close()
	}
	n.losses.close()
}

// derived compiles a gradient. If it gives NaN for an image, a second gradient is derived, which selects by masks
// instead of multiplying by them.
func (n *Network) derived(derive func() (*onnx.Graph, error)) (*ort.Program, error) {
	g, err := derive()
	if err != nil {
		return nil, err
	}
	fast, options := g.Unguarded(), []ort.CompileOption(nil)
	if fast != g {
		options = append(options, ort.Exactly(func() (*ort.Program, error) {
			g, err := derive()
			if err != nil {
				return nil, err
			}
			return n.compile(g)
		}))
	}
	return n.compile(fast, options...)
}

// compile compiles a graph in the form in which it runs. If the graph begins by subtracting a mean, the pool does
// that.
func (n *Network) compile(g *onnx.Graph, options ...ort.CompileOption) (*ort.Program, error) {
	g, mean := optimize.Centre(g)
	var err error
	if n.pool.Target(n.attacked).Row().Phased {
		if g, err = grad.Phased(g); err != nil {
			return nil, err
		}
	}
	data, err := g.Encode()
	if err != nil {
		return nil, err
	}
	weights, item := g.Memory()
	options = append(options, ort.Centred(mean), ort.Footprint(weights, item))
	if n.attacked {
		options = append(options, ort.ForAttacks())
	}
	return n.pool.Compile(g.Name, data, options...)
}

func oneHot(classes, class int) []float32 {
	v := make([]float32, classes)
	v[class] = 1
	return v
}

func sized(s []float32, n int) []float32 { return slices.Grow(s[:0], n)[:n] }
