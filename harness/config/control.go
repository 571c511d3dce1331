package config

import (
	"strconv"
	"strings"
)

// The ways to find the controls.
const (
	Greedy = "greedy" // u_t = E_t(x_t) − x_t along the controlled path
	PMP    = "pmp"    // Pontryagin's maximum principle, one ascent step a layer and sweep
	MSA    = "msa"    // the method of successive approximations: inner ascent steps a layer and sweep
)

// Methods are the values of solver.method.
var Methods = []string{Greedy, PMP, MSA}

// The kinds of embedding.
const (
	Linear      = "linear"      // PCA of clean states
	ONNX        = "onnx"        // a model of the state's own shape
	Autoencoder = "autoencoder" // what a [Training] makes; then its file counts as ONNX
	Identity    = "identity"    // E(x) = x: no control
)

// EmbeddingKinds are the values of embedding.kind.
var EmbeddingKinds = []string{Linear, ONNX, Autoencoder, Identity}

// AtKind says how a layer names its place.
type AtKind int

// The ways a layer may name its place.
const (
	AtInput    AtKind = iota // the image, x_0
	AtLast                   // the tensor entering the final Gemm or MatMul
	AtBoundary               // the input of segment Boundary, from 1
	AtTensor                 // the tensor called Tensor
)

// At is the place of an embedding. An unquoted integer in the config is a
// boundary (0 is the input); a quoted one is a tensor's name.
type At struct {
	Kind     AtKind
	Boundary int
	Tensor   string
}

// String returns the place as it is written in a config.
func (a At) String() string {
	switch a.Kind {
	case AtInput:
		return "input"
	case AtLast:
		return "last"
	case AtBoundary:
		return strconv.Itoa(a.Boundary)
	}
	if wholeNumber.MatchString(a.Tensor) {
		return strconv.Quote(a.Tensor)
	}
	return a.Tensor
}

func (d *decoder) control(name string, n *node, where string) Control {
	c := Control{Name: name}
	solver := &node{kind: mapNode, pos: n.pos}
	places := map[At]bool{}
	d.object(n, where,
		optional("solver", func(n *node, where string) { solver = n }),
		required("layers", d.list(1, false, func(n *node, where string) {
			var l Layer
			d.object(n, where,
				required("at", func(n *node, where string) {
					if !d.at(&l.At, n, where) {
						return
					}
					if places[l.At] {
						d.fail(n.pos, "%s: there is an embedding at %s already", where, l.At)
					}
					places[l.At] = true
				}),
				required("embedding", func(n *node, where string) { d.embedding(&l.Embedding, n, where) }),
			)
			c.Layers = append(c.Layers, l)
		})),
	)
	c.Solver = d.solver(solver, join(where, "solver"))
	return c
}

func (d *decoder) at(to *At, n *node, where string) bool {
	s, ok := d.text(n, where, "input, last, a boundary number or the name of a tensor")
	if !ok {
		return false
	}
	switch {
	case s == "input":
		*to = At{Kind: AtInput}
	case s == "last":
		*to = At{Kind: AtLast}
	case n.quoted || !wholeNumber.MatchString(s):
		*to = At{Kind: AtTensor, Tensor: s}
	default:
		t := -1
		if d.integer(&t, 0)(n, where); t < 0 {
			return false
		}
		if t > 0 {
			*to = At{Kind: AtBoundary, Boundary: t}
		} else {
			*to = At{Kind: AtInput} // x_0 is the input of F_0
		}
	}
	return true
}

// noUse lists the solver keys that a method can't be given, and why.
var noUse = map[string]struct {
	keys   []string
	reason string
}{
	Greedy: {[]string{"outer", "inner", "learning_rate", "momentum"}, "it makes no sweeps"},
	PMP:    {[]string{"inner"}, "it makes one ascent step a layer and sweep; outer alone counts them"},
}

func (d *decoder) solver(n *node, where string) Solver {
	s := Solver{Method: MSA, Outer: 3, Inner: 10, Regularization: 0.001, LearningRate: 0.003, Momentum: 0.5}
	d.object(n, where,
		optional("method", d.enum(&s.Method, Methods)),
		optional("outer", d.integer(&s.Outer, 1)),
		optional("inner", d.integer(&s.Inner, 1)),
		optional("regularization", d.number(&s.Regularization, notNegative)),
		optional("learning_rate", d.number(&s.LearningRate, positive)),
		optional("momentum", d.number(&s.Momentum, belowOne)),
	)
	for _, key := range noUse[s.Method].keys {
		if v := n.get(key); v != nil {
			d.fail(v.pos, "%s can't be given with method %s: %s; remove it (or --set %s=null)",
				join(where, key), s.Method, noUse[s.Method].reason, join(where, key))
		}
	}
	switch s.Method {
	case Greedy:
		s.Outer, s.Inner, s.LearningRate, s.Momentum = 0, 0, 0, 0
	case PMP:
		s.Inner = 0
	}
	return s
}

// embeddingKeys are the keys that each kind of embedding takes beside kind.
var embeddingKeys = map[string][]string{
	Linear: {"fit", "variance", "rank"},
	ONNX:   {"path"},
}

func (d *decoder) embedding(to *Embedding, n *node, where string) {
	if kind := n.get("kind"); kind != nil && kind.text == Autoencoder {
		t := d.training(n, where)
		*to = Embedding{Kind: ONNX, Fit: t.Fit, Path: t.Path, Training: t}
		return
	}
	known := map[string]setter{
		"fit": func(n *node, where string) {
			d.str(&to.Fit, "the name of a data set")(n, where)
			d.refer(n, where, "datasets")
		},
		"variance": d.number(&to.Variance, share),
		"rank":     d.integer(&to.Rank, 1),
		"path":     d.file(&to.Path),
	}
	fields := []field{required("kind", d.enum(&to.Kind, EmbeddingKinds))}
	if kind := n.get("kind"); kind != nil {
		for _, key := range embeddingKeys[kind.text] {
			fields = append(fields, field{key, key == "fit" || key == "path", known[key]})
		}
	}
	if n.kind == mapNode {
		kind := n.get("kind")
		if kind == nil || embeddingKeys[kind.text] == nil && kind.text != Identity {
			// The kind is at fault, not the keys that go with it.
			n = &node{kind: mapNode, pos: n.pos, entries: nil}
			if kind != nil {
				n.entries = []entry{{"kind", kind.pos, kind}}
			}
		}
	}
	before := len(d.errs)
	d.object(n, where, fields...)
	if to.Kind != Linear || len(d.errs) > before {
		return
	}
	variance, rank := n.get("variance"), n.get("rank")
	switch {
	case variance == nil && rank == nil:
		d.fail(n.pos, "%s needs variance (the share to keep, such as 0.99) or rank (the number of components)", where)
	case variance != nil && rank != nil:
		d.fail(rank.pos, "%s takes either variance or rank, not both", where)
	}
}

// kindList is for messages: "a, b or c".
func kindList(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}

// What a training minimises.
const (
	CleanObjective     = "clean"     // Eq. 4 on clean images
	DenoisingObjective = "denoising" // min over the embedding, max over an ℓ∞ ball around the image
)

// The optimisers and the schedules of their learning rate.
var (
	Optimizers = []string{"adam", "sgd"}
	Schedules  = []string{"cosine", "step", "constant"}
)

// Training says how an embedding of kind autoencoder is fitted. A run reads the file at
// Path and nothing else of it.
type Training struct {
	Path         string // where the embedding goes; for Config.Files
	Fit          string // the data set
	Architecture string // a built-in embedding function; "" with Start
	Width        int    // of its first layer; 0: the architecture's own
	Start        string // an embedding to begin with; "" with Architecture
	Epochs       int
	Batch        int     // default 128
	Weight       float64 // of ‖E(x) − x‖² beside the cross-entropy, default 0.1
	Optimizer    string  // one of [Optimizers], default adam
	LearningRate float64 // default 0.001 (adam), 0.01 (sgd)
	Momentum     float64 // sgd; default 0.9
	WeightDecay  float64 // default 0
	Schedule     string  // one of [Schedules], default cosine
	Flip         bool    // images mirrored at random
	Crop         int     // pixels that images are shifted by at random, at most
	Objective    string  // clean, the default, or denoising
	Epsilon      float64 // denoising: radius of the ball
	Steps        int     // denoising: of the inner maximisation, default 7
	StepSize     float64 // denoising: default ε/4
	Models       []string
	Seed         uint64 // default: the config's
	seeded       bool
}

func (d *decoder) training(n *node, where string) *Training {
	t := &Training{Batch: 128, Weight: 0.1, Optimizer: "adam", Schedule: "cosine", Objective: CleanObjective}
	d.object(n, where,
		required("kind", nil),
		required("fit", func(n *node, where string) {
			d.str(&t.Fit, "the name of a data set")(n, where)
			d.refer(n, where, "datasets")
		}),
		required("path", d.file(&t.Path)),
		required("epochs", d.integer(&t.Epochs, 1)),
		optional("architecture", d.str(&t.Architecture, "the name of a built-in embedding, such as conv-ae")),
		optional("width", d.integer(&t.Width, 1)),
		optional("start", d.file(&t.Start)),
		optional("batch", d.integer(&t.Batch, 1)),
		optional("weight", d.number(&t.Weight, notNegative)),
		optional("optimizer", func(n *node, where string) { d.optimizer(t, n, where) }),
		optional("schedule", d.enum(&t.Schedule, Schedules)),
		optional("augment", func(n *node, where string) {
			d.object(n, where, optional("flip", d.boolean(&t.Flip)), optional("crop", d.integer(&t.Crop, 0)))
		}),
		optional("objective", func(n *node, where string) { d.objective(t, n, where) }),
		optional("models", func(n *node, where string) {
			d.words(&t.Models, "the name of a model", 1)(n, where)
			d.refer(n, where, "models")
		}),
		optional("seed", func(n *node, where string) {
			d.seed(&t.Seed)(n, where)
			t.seeded = true
		}),
	)
	start, width := n.get("start"), n.get("width")
	switch {
	case start == nil && n.get("architecture") == nil && n.get("epochs") != nil:
		d.fail(n.pos, "%s needs architecture (such as conv-ae) or start (an ONNX embedding to begin with)", where)
	case start != nil && n.get("architecture") != nil:
		d.fail(start.pos, "%s takes either architecture or start, not both", where)
	case start != nil && width != nil:
		d.fail(width.pos, "%s is for an architecture; the embedding that start names has its own", join(where, "width"))
	}
	if t.LearningRate == 0 {
		t.LearningRate = map[string]float64{"adam": 0.001, "sgd": 0.01}[t.Optimizer]
	}
	return t
}

func (d *decoder) optimizer(t *Training, n *node, where string) {
	d.object(n, where,
		optional("kind", d.enum(&t.Optimizer, Optimizers)),
		optional("lr", d.number(&t.LearningRate, positive)),
		optional("momentum", d.number(&t.Momentum, belowOne)),
		optional("weight_decay", d.number(&t.WeightDecay, notNegative)),
	)
	momentum := n.get("momentum")
	switch {
	case t.Optimizer == "sgd" && momentum == nil:
		t.Momentum = 0.9
	case t.Optimizer == "adam" && momentum != nil:
		d.fail(momentum.pos, "%s can't be given with adam, whose averages are fixed at 0.9 and 0.999; remove it", join(where, "momentum"))
	}
}

func (d *decoder) objective(t *Training, n *node, where string) {
	if n.kind == scalarNode {
		d.enum(&t.Objective, []string{CleanObjective, DenoisingObjective})(n, where)
		if t.Objective == DenoisingObjective {
			d.fail(n.pos, "%s denoising needs a radius; write {kind: denoising, epsilon: 8/255}", where)
		}
		return
	}
	fields := []field{required("kind", d.enum(&t.Objective, []string{CleanObjective, DenoisingObjective}))}
	if kind := n.get("kind"); kind != nil && kind.text == DenoisingObjective {
		t.Steps = 7
		fields = append(fields, required("epsilon", d.number(&t.Epsilon, positive)), optional("steps", d.integer(&t.Steps, 1)),
			optional("step_size", d.number(&t.StepSize, positive)))
	}
	d.object(n, where, fields...)
	if t.StepSize == 0 {
		t.StepSize = t.Epsilon / 4
	}
}
