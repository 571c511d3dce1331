package control

import (
	"selfheal/internal/number"
	"selfheal/models/grad"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// stage is segment t of the closed loop with its embedding, if it has one. Its controlled state is z = x_t + u_t.
type stage struct {
	plain, fast graphs // as given and as they run
	last        bool   // no control follows, so p_{t+1} is 0
	size        int    // number of values of x_t
	next        int    // number of values of x_{t+1}
	passes      passes // an ascent's program maps z, p_{t+1} to ∇_z H; at the last stage it has no p
}

// graphs are a segment F and an embedding E of its input. Either may be nil.
type graphs struct{ segment, embedding *onnx.Graph }

func (s *stage) controlled() bool { return s.plain.embedding != nil }

// compile compiles the programs of a stage. Only stages that a sweep visits get a gradient.
func (s *stage) compile(net *Network, swept bool) (err error) {
	f := s.plain.segment
	s.size, s.next = int(f.Inputs[0].Shape.Items()), int(f.Outputs[0].Shape.Items())
	if s.fast.segment, err = net.rewrite(f); err != nil {
		return err
	}
	if s.fast.embedding, err = net.rewrite(s.plain.embedding); err != nil {
		return err
	}
	return s.passes.compile(net, s, [questions]builder{
		segment: func(g graphs) (*onnx.Graph, error) { return g.segment, nil },
		embed:   func(g graphs) (*onnx.Graph, error) { return g.embedding, nil },
		ascent: func(g graphs) (*onnx.Graph, error) {
			if !swept {
				return nil, nil
			}
			return s.ahead(g).hamiltonian()
		},
	})
}

// ahead returns the graphs that an ascent at the stage differentiates: at the last stage without the segment, because
// p is 0.
func (s *stage) ahead(g graphs) graphs {
	if s.last {
		g.segment = nil
	}
	return g
}

type passes [questions]struct {
	program *ort.Program // nil if there is nothing to compute
	flops   int64        // FLOPs for an image, of the network as given, in whatever form it runs
}

// builder makes the graph that answers a question from a stage's graphs, or returns nil.
type builder func(graphs) (*onnx.Graph, error)

// compile makes programs of a stage's fast graphs and counts costs on its plain ones.
func (p *passes) compile(net *Network, s *stage, build [questions]builder) error {
	for q, b := range build {
		given, err := b(s.plain)
		if err != nil {
			return err
		}
		if given == nil {
			continue
		}
		p[q].flops = given.Unguarded().FLOPs()
		if p[q].program, err = net.derived(func() (*onnx.Graph, error) { return b(s.fast) }); err != nil {
			return err
		}
	}
	return nil
}

func (p *passes) flops(n calls) (sum int64) {
	for q := range p {
		sum = number.Sum(sum, number.Product(n[q], p[q].flops))
	}
	return sum
}

func (p *passes) close() {
	for _, one := range p {
		if one.program != nil {
			one.program.Close()
		}
	}
}

// hamiltonian returns the gradient by z of the parts of the Hamiltonian that depend on the state (paper, section
// 4.2):
//
//	H = p_{t+1}·F(z) − ½‖E(z) − z‖² − (c/2)‖u‖²
//
// The first term needs a segment, the second an embedding. As z = x + u, the result is ∇_x H and ∇_u H + c·u.
func (g graphs) hamiltonian() (*onnx.Graph, error) {
	b := &onnx.Builder{G: onnx.NewGraph("hamiltonian")}
	var z string
	seeds := map[string]string{}
	if f := g.segment; f != nil {
		b.G.Name = f.Name + "/hamiltonian"
		z = b.Input("z", f.Inputs[0].Shape)
		p := b.Input("p", f.Outputs[0].Shape)
		b.Prefix = "F/"
		seeds[b.Call(f, z)] = p
	} else {
		b.G.Name = g.embedding.Name + "/residual"
		z = b.Input("z", g.embedding.Inputs[0].Shape)
	}
	if g.embedding != nil {
		b.Prefix = "E/"
		// d = E(z) − z is differentiated with the cotangent −d: −½‖d‖².
		d := b.Op("Sub", b.Call(g.embedding, z), z)
		seeds[d] = b.Op("Neg", d)
	}
	b.Prefix = "grad/"
	gradients, err := grad.Backward(b, seeds, []string{z})
	if err != nil {
		return nil, err
	}
	b.Output("dz", gradients[z])
	return b.Done()
}
