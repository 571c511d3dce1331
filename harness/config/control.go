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
	Linear   = "linear"   // PCA of clean states
	ONNX     = "onnx"     // a model of the state's own shape
	Identity = "identity" // E(x) = x: no control
)

// EmbeddingKinds are the values of embedding.kind.
var EmbeddingKinds = []string{Linear, ONNX, Identity}

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
	s := Solver{Method: MSA, Outer: 3, Inner: 10, Regularization: 0.001, LearningRate: 0.05, Momentum: 0.5}
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
