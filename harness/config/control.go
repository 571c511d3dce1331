package config

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"selfheal/control"
	"selfheal/internal/lists"
	"selfheal/internal/setting"
)

// Control is a named closed-loop controller.
type Control struct {
	Name   string
	Solver control.Solver
	Layers []Layer
}

// Layer is one embedding and its place.
type Layer struct {
	At        At
	Embedding Embedding
}

// Embedding describes the embedding function that a state is controlled towards.
type Embedding struct {
	Kind     string  // one of [control.EmbeddingKinds]; decoding turns autoencoder and along into ONNX with a Training
	Fit      string  // linear: the data set to fit it on
	Variance float64 // linear: fraction of the variance to keep, in (0,1]; 0 if Rank is given
	Rank     int     // linear: number of components; 0 if Variance is given
	Path     string  // onnx: path for Config.Files
	// Training says how selfheal fit makes the file at Path; nil for the user's own file. The hash covers only the
	// file.
	Training *Training `json:"-"`
}

// atKind is the way in which a layer names its place.
type atKind int

// The ways a layer may name its place.
const (
	AtInput    atKind = iota // the image, x_0
	AtLast                   // the tensor entering the final Gemm or MatMul
	AtBoundary               // the input of segment Boundary, from 1
	AtTensor                 // the tensor called Tensor
)

// At is the place of an embedding. In a config a number without quotes is a boundary, a quoted one a tensor's name.
type At struct {
	Kind     atKind
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

func controlObject(name string, c *Control) object {
	c.Name = name
	layer := func(l *Layer) value { return layerObject(l).value() }
	return object{rows: []row{
		optional("solver", solverObject(&c.Solver).value(), "{}", "how the controls are found"),
		required("layers", list(&c.Layers, span{least: 1}, layer), "the embeddings and where they stand"),
	}, check: func(d *decoder, n *node, where string) {
		places := map[At]bool{}
		for i, l := range c.Layers {
			if places[l.At] {
				at := n.get("layers").items[i].get("at")
				d.fail(at.pos, "%s.layers[%d].at: there is an embedding at %s already", where, i, l.At)
			}
			places[l.At] = true
		}
		c.link(func(layer int, why string) {
			d.fail(n.get("layers").items[layer].pos, "%s.layers[%d]: %s", where, layer, why)
		})
	}}
}

// link tells an embedding that trains along, and the one that it trains along with, of each other. A control with such
// embeddings has no others.
func (c *Control) link(fail func(layer int, why string)) {
	is := func(i int, along bool) bool {
		t := c.Layers[i].Embedding.Training
		return t != nil && (along && t.IsAlong || !along && t.Joint && c.Layers[i].At.Kind == AtInput)
	}
	for i, l := range c.Layers {
		t := l.Embedding.Training
		switch other := 1 - i; {
		case t == nil || !t.Joint && !t.IsAlong:
		case len(c.Layers) != 2 || !is(other, t.Joint) || !is(i, !t.Joint):
			fail(i, "joint training takes a control of two embeddings: an autoencoder at the input whose objective "+
				"has joint: true, and one of kind along behind it")
			return
		case t.Joint && path.Clean(c.Layers[other].Embedding.Path) == path.Clean(l.Embedding.Path):
			fail(other, "two embeddings need two files")
		case t.Joint && strings.Contains(c.Layers[other].Embedding.Path, "{size}"):
			fail(other, "one embedding trains along: its path has no {size}")
		case t.Joint:
			t.Along = c.Layers[other].Embedding.Training
			t.Along.Fit, t.Along.Models = t.Fit, t.Models
			t.JointWeight = t.Along.Weight
		}
	}
}

func layerObject(l *Layer) object {
	return object{rows: []row{
		required("at", l.At.value(), "`input`; `last`, which enters the final Gemm or MatMul; t, the input of "+
			"segment F_t; or a tensor's name (a number in quotes)"),
		required("embedding", l.Embedding.object().value(), "the embedding that the state is drawn towards"),
	}}
}

func (a *At) value() value {
	const want = "input, last, a boundary number or the name of a tensor"
	s := schema{"type": scalars, "minLength": 1, "minimum": 0, "maximum": orNone.Max}
	v := text(&a.Tensor, want).then(func(d *decoder, n *node, where string) {
		number := !n.quoted && wholeNumber.MatchString(a.Tensor)
		switch {
		case a.Tensor == "input":
			*a = At{Kind: AtInput}
		case a.Tensor == "last":
			*a = At{Kind: AtLast}
		case !number:
			a.Kind = AtTensor
		default:
			*a = At{Kind: AtBoundary}
			if whole(&a.Boundary, orNone).decode(d, n, where); a.Boundary == 0 {
				a.Kind = AtInput // x_0 is the input of F_0
			}
		}
	})
	v.schema = func() schema { return s }
	return v
}

// solverObject returns a solver: a form for each method, with the settings that the method uses.
func solverObject(s *control.Solver) object {
	method := func(s control.Spec) string { return string(s.Method) }
	methods := lists.Map(control.Solvers, method)
	o := object{rows: []row{
		optional("method", choice((*string)(&s.Method), methods), string(control.MSA), "how they are found"),
	}}
	for _, spec := range control.Solvers {
		o.forms = append(o.forms, form{string(spec.Method), [][2]string{{"method", string(spec.Method)}}, spec.Why})
	}
	for _, given := range control.Settings {
		r := settingRow(given.Setting, func(v any) { given.Set(s, v) })
		r.applied = false
		takes := func(spec control.Spec) bool { return spec.Takes(given.Name) }
		r.only = lists.Map(lists.Only(control.Solvers, takes), method)
		o.rows = append(o.rows, r)
	}
	return o
}

// DefaultSolver returns the solver of a control that does not name one.
func DefaultSolver() (s control.Solver) {
	solverObject(&s).decode(&decoder{}, &node{kind: mapNode}, "")
	return s
}

// object returns an embedding. Decoding turns kind autoencoder into the file that its training makes.
func (e *Embedding) object() object {
	t := &Training{}
	rows := []row{
		required("kind", choice(&e.Kind, embeddingKinds), "which embedding"),
		required("fit", name(&e.Fit, "a data set", "datasets"), "data set that it is fitted on").
			in(control.Linear, control.Autoencoder),
		optional("variance", decimal(&e.Variance, setting.Fraction), "",
			"fraction to keep, such as 0.99").in(control.Linear),
		optional("rank", count(&e.Rank), "",
			"number of components, instead of `variance`").in(control.Linear),
		required("path", file(&e.Path), "the file; {size} stands for the state's number of values").in(control.ONNX),
		required("path", file(&e.Path), "file that `selfheal fit` writes and runs read; {size} as in "+
			"onnx").in(control.Autoencoder),
		required("path", file(&e.Path), "file that `selfheal fit` writes and runs read").in(control.Along),
	}
	for _, r := range t.rows() {
		forms := []string{control.Autoencoder}
		if slices.Contains(ofNetwork, r.key) {
			forms = append(forms, control.Along)
		}
		rows = append(rows, r.in(forms...).notHashed())
	}
	return object{rows: rows, forms: formsBy("kind", embeddingKinds),
		either: map[string][2]string{control.Linear: {"variance", "rank"},
			control.Autoencoder: {"architecture", "start"}, control.Along: {"architecture", "start"}},
		check: func(d *decoder, n *node, where string) {
			if t.IsAlong = e.Kind == control.Along; e.Kind != control.Autoencoder && !t.IsAlong {
				return
			}
			t.checkDimensions(d, n, where)
			t.checkWeights(d, n, where)
			t.checkReach(d, n, where)
			if n.get("seed") == nil {
				d.later = append(d.later, func(c *Config) { t.Seed = c.Seed })
			}
			t.Fit, t.Path = e.Fit, e.Path
			e.Kind, e.Training = control.ONNX, t
		}}
}
