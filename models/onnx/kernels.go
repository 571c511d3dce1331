package onnx

import (
	"cmp"
	"math"
	"slices"
)

// Kernels are other forms of operators, which Encode writes. Some operators have slow kernels in ONNX Runtime. Others
// compute the last values of a tensor, which do not fill a vector register, by other code than the rest, so that an
// item's result would depend on its place in the batch. (On 1.2 million values ONNX Runtime 1.31 takes 2.4 ms for Elu,
// 15 ms for Softplus and 0.4 ms for each pass of a replacement.) Graphs keep the original operators, whose gradients
// take few passes.

// exponential returns the parameters of Elu, Selu and Celu: above·x for x > 0, otherwise below·(e^(x·rate) − 1).
func exponential(n *Node) (above, below, rate float32) {
	alpha := n.Float("alpha", 1)
	switch n.Op {
	case "Selu":
		above = n.Float("gamma", 1.05070102214813232421875)
		return above, above * n.Float("alpha", 1.67326319217681884765625), 1
	case "Celu":
		return 1, alpha, 1 / alpha
	}
	return 1, alpha, 1
}

func exponentialKernel(b *Builder, n *Node) string {
	above, below, rate := exponential(n)
	scaled := func(t string, by float32) string {
		if by == 1 {
			return t
		}
		return b.Op("Mul", t, b.Float(by))
	}
	low := b.Op("Exp", scaled(b.Op("Clip", n.Inputs[0], "", b.Float(0)), rate))
	low = b.Op("Sub", scaled(low, below), b.Float(below))
	return b.Op("Add", scaled(b.Op("Relu", n.Inputs[0]), above), low)
}

// x·m/(m+2), m = e(e+2), e = eˣ; above 20 the factor is 1
func mishKernel(b *Builder, n *Node) string {
	e := b.Op("Exp", b.Op("Clip", n.Inputs[0], "", b.Float(20)))
	m := b.Op("Mul", e, b.Op("Add", e, b.Float(2)))
	return b.Op("Mul", n.Inputs[0], b.Op("Div", m, b.Op("Add", m, b.Float(2))))
}

// max(x, 0) + ln(1 + e^−|x|)
func softplusKernel(b *Builder, n *Node) string {
	rest := b.Op("Exp", b.Op("Neg", b.Op("Abs", n.Inputs[0])))
	return b.Op("Add", b.Op("Relu", n.Inputs[0]), b.filled("Log", b.Op("Add", rest, b.Float(1))))
}

func filledKernel(b *Builder, n *Node) string { return b.filled(n.Op, n.Inputs[0]) }

// register is the largest number of floats in a vector register.
const register = 16

// filled appends an elementwise operator so that every item fills whole registers: it appends ones to the item's values
// and cuts them off again.
func (b *Builder) filled(op, x string) string {
	shape := b.Shape(x)
	at, items := shape.BatchAxis(), shape.Items()
	rest := (register - items%register) % register
	if at < 0 || at == 0 && rest == 0 {
		return b.Op(op, x)
	}
	perm, front := []int64{int64(at)}, Shape{shape[at]}
	for i, d := range shape {
		if i != at {
			perm, front = append(perm, int64(i)), append(front, d)
		}
	}
	x = b.Op("Pad", b.Reshape(b.Transpose(x, perm...), Shape{Batch, items}), b.Ints(0, 0, 0, rest), b.Float(1))
	x = b.Op("Slice", b.Op(op, x), b.Ints(0), b.Ints(items), b.Ints(1))
	return b.Transpose(b.Reshape(x, front), Inverse(perm)...)
}

// forRuntime returns a graph with such operators written in their other forms, or g itself if it has none.
func forRuntime(g *Graph) (*Graph, error) {
	special := func(n *Node) bool {
		return n.Domain == "" && TraitsOf(n.Op).inKernels != nil && g.Shapes[n.Input(0)].HasBatch()
	}
	if !slices.ContainsFunc(g.Nodes, special) {
		return g, nil
	}
	c := g.Clone()
	err := c.Rewrite(func(b *Builder, n *Node) bool {
		if !special(n) {
			return false
		}
		b.Prefix = n.Outputs[0] + "/"
		if t := TraitsOf(n.Op).inKernels(b, n); b.err == nil {
			c.Nodes[len(c.Nodes)-1].Outputs[0] = n.Outputs[0]
			delete(c.Shapes, t)
		}
		return true
	})
	return c, cmp.Or(err, c.Verify())
}

// Affine reads a BatchNormalization with constant statistics as y = scale·x + offset for each channel; ok reports
// whether they are all constants.
func (g *Graph) Affine(n *Node) (scale, offset []float32, ok bool) {
	var p [4]*Tensor
	for i := range p {
		if p[i], ok = g.Consts[n.Input(i+1)]; !ok {
			return nil, nil, false
		}
	}
	eps := float64(n.Float("epsilon", 1e-5))
	scale, offset = make([]float32, p[0].Len()), make([]float32, p[0].Len())
	for i := range scale {
		f := float64(p[0].Floats[i]) / math.Sqrt(float64(p[3].Floats[i])+eps)
		scale[i], offset[i] = float32(f), float32(float64(p[1].Floats[i])-f*float64(p[2].Floats[i]))
	}
	return scale, offset, true
}
