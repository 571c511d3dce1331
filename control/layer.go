package control

import (
	"selfheal/models/grad"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// stage is segment t of the closed loop with its embedding, if it has one, as
// programs. z = x_t + u_t is the controlled state.
type stage struct {
	plain, fast              *onnx.Graph  // F as given and as it runs
	embedding, fastEmbedding *onnx.Graph  // E likewise; nil without one
	size                     int          // values of x_t
	next                     int          // values of x_{t+1}
	forward                  *ort.Program // z → F(z)
	embed                    *ort.Program // z → E(z); nil without an embedding
	// z, p_{t+1} → ∇_z [p·F(z) − ½‖E(z) − z‖²], without an embedding J_Fᵀp. At the last
	// controlled stage p is 0 and no input: z → −(J_E − I)ᵀ(E(z) − z).
	ascent    *ort.Program
	flops     int64 // of F
	embedCost int64 // FLOPs of E
	sweepCost int64 // FLOPs of the gradient that a sweep takes
}

// newStage compiles what a loop needs of a segment: the gradient only where a
// sweep passes, with p = 0 at its last stage.
func newStage(net *Network, segment, embedding *onnx.Graph, swept, last bool) (*stage, error) {
	s := &stage{plain: segment, embedding: embedding, flops: segment.FLOPs()}
	s.size, s.next = int(segment.Inputs[0].Shape.Items()), int(segment.Outputs[0].Shape.Items())
	var err error
	if s.fast, err = net.rewrite(segment); err != nil {
		return nil, err
	}
	if s.forward, err = compile(net.pool, s.fast); err != nil {
		return nil, err
	}
	if s.fastEmbedding, err = net.rewrite(embedding); err != nil {
		return s, err
	}
	if embedding != nil {
		s.embedCost = embedding.FLOPs()
		if s.embed, err = compile(net.pool, s.fastEmbedding); err != nil {
			return s, err
		}
	}
	if !swept {
		return s, nil
	}
	fast := s.fast
	if last {
		segment, fast = nil, nil
	}
	// Costs are those of the network as given, in whatever form it runs.
	asGiven, err := hamiltonian(segment, embedding)
	if err != nil {
		return s, err
	}
	s.sweepCost = asGiven.FLOPs()
	g := asGiven
	if !net.direct {
		if g, err = hamiltonian(fast, s.fastEmbedding); err != nil {
			return s, err
		}
	}
	s.ascent, err = compile(net.pool, g)
	return s, err
}

// hamiltonian builds the gradient with respect to z of the parts of the
// Hamiltonian that depend on the state (paper, section 4.2):
//
//	H = p_{t+1}·F(z) − ½‖E(z) − z‖² − (c/2)‖u‖²,
//
// the first term without a segment left out, the second without an embedding.
// As z = x + u, this is ∇_x H, and ∇_u H is it minus c·u.
func hamiltonian(segment, embedding *onnx.Graph) (*onnx.Graph, error) {
	b := &onnx.Builder{G: onnx.NewGraph("hamiltonian")}
	var z string
	seeds := map[string]string{}
	if segment != nil {
		b.G.Name = segment.Name + "/hamiltonian"
		z = b.Input("z", segment.Inputs[0].Shape)
		p := b.Input("p", segment.Outputs[0].Shape)
		b.Prefix = "F/"
		y := b.Inline(segment, map[string]string{segment.Inputs[0].Name: z})[segment.Outputs[0].Name]
		seeds[y] = p
	} else {
		b.G.Name = embedding.Name + "/residual"
		z = b.Input("z", embedding.Inputs[0].Shape)
	}
	if embedding != nil {
		b.Prefix = "E/"
		e := b.Inline(embedding, map[string]string{embedding.Inputs[0].Name: z})[embedding.Outputs[0].Name]
		// d = E(z) − z is differentiated with the cotangent −d: −½‖d‖².
		d := b.Op("Sub", e, z)
		seeds[d] = b.Op("Neg", d)
	}
	b.Prefix = "grad/"
	g, err := grad.Backward(b, seeds, []string{z})
	if err != nil {
		return nil, err
	}
	b.Output("dz", g[z])
	if err := b.Err(); err != nil {
		return nil, err
	}
	b.G.Prune()
	return b.G, b.G.Verify()
}

func (s *stage) close() {
	for _, p := range []*ort.Program{s.forward, s.embed, s.ascent} {
		if p != nil {
			p.Close()
		}
	}
}
