package control

import (
	"fmt"

	"selfheal/internal/number"
	"selfheal/models/onnx"
)

// maxExportNodes bounds the graphs that [Controller.Graph] writes. Runtimes take long to open larger ones.
const maxExportNodes = 20_000

// Graph returns the closed loop as one network. Its input is "image", [N C H W] in [0,1]; its output is "logits", [N
// classes], or, for a task other than classification, "answer", without the head; N is symbolic. The model's mean and
// std are part of it. For the greedy solver it computes x_{t+1} = F_t(E_t(x_t)). For others it is the solver unrolled:
// every sweep, adjoint and ascent step has nodes of its own, which share their weights. Its metadata name model,
// control and solver. Graph refuses to write more than 20,000 nodes.
func (c *Controller) Graph() (*onnx.Graph, error) { return c.graph(false, true) }

// Literal is like [Controller.Graph] but keeps every sum that the loop computes, also x + (E(x) − x).
func (c *Controller) Literal() (*onnx.Graph, error) { return c.graph(true, true) }

// Front returns only the part before the network, for a loop that controls nothing but the image. Its output is the
// controlled image.
func (c *Controller) Front() (*onnx.Graph, error) { return c.graph(false, false) }

func (c *Controller) graph(literal, whole bool) (*onnx.Graph, error) {
	fail := func(err error) (*onnx.Graph, error) {
		return nil, fmt.Errorf("control %s on model %s: %w", c.Name, c.net.Name, err)
	}
	s := &symbols{c: c, literal: literal, b: &onnx.Builder{G: onnx.NewGraph(c.net.Name + "/" + c.Name)},
		gradients: map[int]*onnx.Graph{}, weights: map[float32]string{}, differences: map[string][2]string{},
		copies: map[string]int{}}
	if n, err := s.nodes(); err != nil {
		return fail(err)
	} else if n > maxExportNodes {
		return fail(fmt.Errorf("the %v solver unrolls to about %d ONNX nodes, more than the %d that a file may have; "+
			"give it fewer sweeps (outer) or ascent steps (inner), or take the greedy solver",
			c.Solver.Method, n, maxExportNodes))
	}
	image := s.b.Input("image", c.stages[0].plain.segment.Inputs[0].Shape)
	s.b.Prefix = "sum/"
	p, err := solve(c, s, image, whole, nil, nil)
	if err != nil {
		return fail(err)
	}
	if s.b.Prefix = ""; whole {
		name := "logits"
		if c.net.Task != nil {
			name = "answer"
		}
		s.b.Output(name, p.x[len(c.stages)])
	} else {
		s.b.Output("controlled", p.z[0])
	}
	g, err := s.b.Done()
	if err != nil {
		return fail(err)
	}
	shareConstants(g)
	g.Meta["model"], g.Meta["control"], g.Meta["solver"] = c.net.Name, c.Name, c.Solver.String()
	return g, g.Verify()
}

// symbols computes with the names of tensors in a graph under construction: solving with it writes the solver as
// nodes.
type symbols struct {
	c           *Controller
	literal     bool
	b           *onnx.Builder
	gradients   map[int]*onnx.Graph  // by stage: copies of a gradient's graph share its constants
	weights     map[float32]string   // names of constants, by value
	differences map[string][2]string // the two names of each difference a − b
	copies      map[string]int       // how often each graph was copied so far
}

func (s *symbols) graph(q question, t int) (g *onnx.Graph, err error) {
	switch of := s.c.stages[t]; q {
	case segment:
		if t == len(s.c.stages)-1 && s.c.net.Task != nil {
			return s.c.net.Task.before(of.plain.segment), nil
		}
		return of.plain.segment, nil
	case embed:
		return of.plain.embedding, nil
	default:
		if s.gradients[t] == nil {
			s.gradients[t], err = of.ahead(of.plain).hamiltonian()
		}
		return s.gradients[t], err
	}
}

// sumNodes bounds the nodes that the linear combinations of an ascent step take.
const sumNodes = 7

// nodes returns an upper bound of the nodes that solving adds, apart from a few sums along the path.
func (s *symbols) nodes() (sum int64, err error) {
	for t, asked := range s.c.count(true) {
		for q, times := range asked {
			if times == 0 {
				continue
			}
			g, err := s.graph(question(q), t)
			if err != nil {
				return 0, err
			}
			sum = number.Sum(sum, number.Product(times, int64(len(g.Nodes))))
		}
		sum = number.Sum(sum, number.Product(asked[ascent], sumNodes))
	}
	return sum, nil
}

// ask appends a copy of a graph. It prefixes tensors with kind and stage: F2/…, in the third copy F2.3/….
func (s *symbols) ask(q question, t int, z string, p *string) (string, error) {
	g, err := s.graph(q, t)
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("%c%d", "FEH"[q], t)
	s.copies[name]++
	if n := s.copies[name]; n > 1 {
		name += fmt.Sprintf(".%d", n)
	}
	inputs := []string{z}
	if p != nil {
		inputs = append(inputs, *p)
	}
	s.b.Prefix = name + "/"
	out := s.b.Call(g, inputs...)
	s.b.Prefix = "sum/"
	return out, s.b.Err()
}

// sum appends a linear combination. It shortens x + (E(x) − x), the state after a greedy start, to E(x), unless the
// graph is literal.
func (s *symbols) sum(terms ...term[string]) string {
	ones := len(terms) == 2 && terms[0].weight == 1
	if ones && terms[1].weight == 1 && !s.literal {
		if d, ok := s.differences[terms[1].value]; ok && d[1] == terms[0].value {
			return d[0]
		}
	}
	if ones && terms[1].weight == -1 {
		out := s.b.Op("Sub", terms[0].value, terms[1].value)
		s.differences[out] = [2]string{terms[0].value, terms[1].value}
		return out
	}
	out := s.scaled(terms[0])
	for _, t := range terms[1:] {
		out = s.b.Op("Add", out, s.scaled(t))
	}
	return out
}

func (s *symbols) free(string) {}

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

// shareConstants merges equal constants into one initializer, so that many copies of a graph take the room of one.
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
