package control

import (
	"fmt"

	"selfheal/models/onnx"
)

// maxExportNodes bounds the graphs that [Controller.Graph] writes: runtimes take long
// to open larger ones, and an unrolled solver grows without end.
const maxExportNodes = 20_000

// Graph returns the closed loop as one network: input "image", [N C H W] in [0,1], with
// the model's mean and std inside, output "logits", [N classes]; N is symbolic. With
// the greedy solver it is x_{t+1} = F_t(E_t(x_t)), otherwise the solver unrolled: every
// sweep, adjoint and ascent step as nodes, which share their weights. Its operators
// are standard ones, those of the network as given, and it carries the names of model,
// control and solver as metadata. A graph of more than 20,000 nodes is refused.
func (c *Controller) Graph() (*onnx.Graph, error) {
	fail := func(err error) (*onnx.Graph, error) {
		return nil, fmt.Errorf("control %s on model %s: %w", c.Name, c.net.Name, err)
	}
	s := &symbols{c: c, b: &onnx.Builder{G: onnx.NewGraph(c.net.Name + "/" + c.Name)},
		gradients: map[gradientKey]*onnx.Graph{}, weights: map[float32]string{},
		differences: map[string]difference{}, copies: map[string]int{}}
	if n, err := s.nodes(); err != nil {
		return fail(err)
	} else if n > maxExportNodes {
		return fail(fmt.Errorf("the %v solver unrolls to about %d ONNX nodes, more than the %d that a file may have; "+
			"give it fewer sweeps (outer) or ascent steps (inner), or take the greedy solver",
			c.Solver.Method, n, maxExportNodes))
	}
	image := s.b.Input("image", c.stages[0].plain.Inputs[0].Shape)
	p, err := solve[string](c, s, image, true)
	if err != nil {
		return fail(err)
	}
	s.b.Prefix = ""
	s.b.Output("logits", p.x[len(c.stages)])
	if err := s.b.Err(); err != nil {
		return fail(err)
	}
	g := s.b.G
	g.Prune()
	shareConstants(g)
	g.Meta["model"], g.Meta["control"], g.Meta["solver"] = c.net.Name, c.Name, c.Solver.String()
	if err := g.Verify(); err != nil {
		return fail(err)
	}
	return g, nil
}

// symbols computes with names of tensors in a graph under construction: solving with
// it writes the solver down as ONNX nodes.
type symbols struct {
	c           *Controller
	b           *onnx.Builder
	gradients   map[gradientKey]*onnx.Graph
	weights     map[float32]string    // constants that values are multiplied by
	differences map[string]difference // by their names
	copies      map[string]int        // of each graph so far
}

// gradientKey says which gradient of a stage's Hamiltonian is meant: at the last
// controlled stage p = 0, and the segment plays no part.
type gradientKey struct {
	stage   int
	adjoint bool
}

// difference is a − b.
type difference struct{ a, b string }

// gradient returns the graph of ∇_z H at a stage: one for all its copies, which is
// why they can share its constants.
func (s *symbols) gradient(t int, adjoint bool) (*onnx.Graph, error) {
	key := gradientKey{t, adjoint}
	if g := s.gradients[key]; g != nil {
		return g, nil
	}
	segment := s.c.stages[t].plain
	if !adjoint {
		segment = nil
	}
	g, err := hamiltonian(segment, s.c.stages[t].embedding)
	s.gradients[key] = g
	return g, err
}

// sumNodes is how many nodes the linear combinations of an ascent step take, at most.
const sumNodes = 7

// nodes counts those that solving will add, at most, but for a few sums along the path.
func (s *symbols) nodes() (int64, error) {
	var sum int64
	for t, v := range s.c.count(true) {
		st := s.c.stages[t]
		sum += v.segment * int64(len(st.plain.Nodes))
		if st.embedding != nil {
			sum += v.embed * int64(len(st.embedding.Nodes))
		}
		if v.ascent > 0 {
			g, err := s.gradient(t, t < s.c.last)
			if err != nil {
				return 0, err
			}
			sum += v.ascent * (int64(len(g.Nodes)) + sumNodes)
		}
	}
	return sum, nil
}

// inline appends a copy of a graph with one output, its tensors named behind the kind
// and number of what it stands for: F2/…, the third copy F2.3/….
func (s *symbols) inline(kind string, t int, g *onnx.Graph, inputs ...string) (string, error) {
	name := fmt.Sprintf("%s%d", kind, t)
	s.copies[name]++
	if n := s.copies[name]; n > 1 {
		name += fmt.Sprintf(".%d", n)
	}
	s.b.Prefix = name + "/"
	bind := map[string]string{}
	for i, in := range g.Inputs {
		bind[in.Name] = inputs[i]
	}
	out := s.b.Inline(g, bind)[g.Outputs[0].Name]
	s.b.Prefix = "sum/"
	return out, s.b.Err()
}

func (s *symbols) embed(t int, z string) (string, error) {
	return s.inline("E", t, s.c.stages[t].embedding, z)
}

func (s *symbols) segment(t int, z string) (string, error) {
	return s.inline("F", t, s.c.stages[t].plain, z)
}

func (s *symbols) ascent(t int, z string, p *string) (string, error) {
	g, err := s.gradient(t, p != nil)
	if err != nil {
		return "", err
	}
	if p == nil {
		return s.inline("H", t, g, z)
	}
	return s.inline("H", t, g, z, *p)
}

// sum appends the nodes of a linear combination. x + (E(x) − x), the controlled state
// of a greedy start, is E(x) itself.
func (s *symbols) sum(terms ...term[string]) string {
	ones := len(terms) == 2 && terms[0].weight == 1
	if ones && terms[1].weight == 1 {
		if d, ok := s.differences[terms[1].value]; ok && d.b == terms[0].value {
			return d.a
		}
	}
	if ones && terms[1].weight == -1 {
		out := s.b.Op("Sub", terms[0].value, terms[1].value)
		s.differences[out] = difference{terms[0].value, terms[1].value}
		return out
	}
	out := s.scaled(terms[0])
	for _, t := range terms[1:] {
		out = s.b.Op("Add", out, s.scaled(t))
	}
	return out
}

func (s *symbols) scaled(t term[string]) string {
	if t.weight == 1 {
		return t.value
	}
	w, ok := s.weights[t.weight]
	if !ok {
		w = s.b.Float(t.weight)
		s.weights[t.weight] = w
	}
	return s.b.Op("Mul", t.value, w)
}

func (s *symbols) running(bool, string, string, string) {}
func (s *symbols) costs() bool                          { return false }

// shareConstants makes the constants that are one tensor one initializer, called as
// where it is read first: copies of a graph are then as large as one.
func shareConstants(g *onnx.Graph) {
	first := map[*onnx.Tensor]string{}
	for _, n := range g.Nodes {
		for i, in := range n.Inputs {
			t, ok := g.Consts[in]
			if !ok {
				continue
			}
			if first[t] == "" {
				first[t] = in
			}
			n.Inputs[i] = first[t]
		}
	}
	for name, t := range g.Consts {
		if first[t] != name {
			delete(g.Consts, name)
			delete(g.Shapes, name)
		}
	}
}
