package simplify

import (
	"math"
	"slices"

	"selfheal/models/onnx"
)

// ONNX Runtime adds up products of 8-bit integers in int32: in the operators on quantised values, and in the Conv, Gemm
// and MatMul of a QDQ graph, which it replaces by those. Such a sum is off by a multiple of 2³² where it leaves int32,
// and only there: every step of a kernel is taken modulo 2³², the parts that zero points make included, so that what
// leaves int32 on the way does no harm (but see ort.Saturates). The graph, which holds integers as floats, has the
// sum brought back by a formula where its range leaves int32.

// sum is a tensor that ONNX Runtime computes as integers of int32.
type sum struct {
	scale  *onnx.Tensor // of the integers, in a shape that broadcasts against them
	lo, hi float64      // of the integers, before any is brought back
	open   bool         // an Add behind it joins it
}

func (a *sum) leaves() bool { return a.lo < math.MinInt32 || a.hi > math.MaxInt32 }

// summed notes which sums ONNX Runtime computes in int32, and writes those that may leave it. It reports true where it
// has.
func summed(s *simplifier, n *onnx.Node) bool {
	y := n.Outputs[0]
	if s.sums[y] != nil { // it is being written
		return false
	}
	var a *sum
	switch {
	case n.Op == "Conv" || n.Op == "Gemm" || n.Op == "MatMul":
		a = s.products(n)
	case s.int32s[n]:
		a = s.integers(n)
	case n.Op == "Add":
		a = s.biased(n)
	}
	if a == nil {
		return false
	}
	if !a.leaves() {
		s.sums[y] = a
		return false
	}
	// Beyond it float32 does not hold what is left.
	onnx.Require(max(-a.lo, a.hi) < 1<<42, "computes integers up to %.3g in int32, where they leave it again and again",
		max(-a.lo, a.hi))
	e := &expansion{s: s, n: n}
	all := n.Clone()
	all.Outputs[0] = s.g.Take(y + "/sum")
	s.sums[all.Outputs[0]] = a
	e.made = append(e.made, all)
	whole := slices.Clone(a.scale.Floats)
	for i := range whole {
		whole[i] *= 1 << 32
	}
	number := func(v float32) string { return e.constant(onnx.Scalar(v)) }
	period, t := e.constant(onnx.FloatTensor(a.scale.Shape, whole)), all.Outputs[0]
	times := e.op("Floor", nil, e.op("Add", nil, e.op("Div", nil, t, period), number(0.5)))
	e.add("Sub", nil, []string{y}, t, e.op("Mul", nil, times, period))
	e.visit()
	s.sums[y] = &sum{scale: a.scale, lo: math.MinInt32, hi: math.MaxInt32, open: a.open}
	return true
}

// products is the sum of an operator on quantised tensors: nil where it is none, or where ONNX Runtime leaves the
// operators of a QDQ graph as they are. It does where a Conv's output is not quantised at once.
func (s *simplifier) products(n *onnx.Node) *sum {
	x, w := s.steps[n.Input(0)], s.steps[n.Input(1)]
	switch {
	case x == nil || w == nil || !x.bytes() || !w.bytes() || len(x.scale) > 1,
		!s.kernels && (n.Op == "Conv" && !s.quantizes(n.Outputs[0]) || n.Float("beta", 1) != 1):
		return nil
	}
	alpha := n.Float("alpha", 1)
	a := &sum{scale: onnx.FloatTensor(onnx.Shape{}, onnx.Each(w.scale, func(v float32) float32 {
		return alpha * x.scale[0] * v
	})), open: n.Op == "MatMul" && !s.kernels}
	shape, data := s.g.Shapes[n.Inputs[1]], s.g.Consts[n.Inputs[1]]
	channels, of := channelsOf(n, shape)
	if count := len(w.scale); count > 1 {
		if a.scale.Shape = (onnx.Shape{channels}); n.Op == "Conv" {
			a.scale.Shape = append(a.scale.Shape, slices.Repeat(onnx.Shape{1}, len(shape)-2)...)
		}
		if int64(count) != channels || of(int(shape[w.axis+1:].Items())) != 1 { // no scale for each channel
			s.g.Inexact = true
			return nil
		}
	}
	least, most := make([]float64, channels), make([]float64, channels)
	lo, hi := x.span()
	if data == nil { // two tensors of activations
		terms := float64(shape.Items() / channels)
		wlo, whi := w.span()
		a.lo, a.hi = corners(lo, hi, wlo, whi)
		a.lo, a.hi = a.lo*terms, a.hi*terms
	} else {
		for i, v := range data.Floats {
			q, c := float64(v/w.scale[w.at(i, shape)]), of(i)
			least[c], most[c] = least[c]+min(lo*q, hi*q), most[c]+max(lo*q, hi*q)
		}
		a.lo, a.hi = math.Inf(1), math.Inf(-1)
		for i, v := range s.added(n.Input(2), a.scale.Floats, channels) {
			c := i % int(channels)
			a.lo, a.hi = min(a.lo, least[c]+v), max(a.hi, most[c]+v)
		}
	}
	return a
}

// channelsOf gives the number of output channels that weights have, and of the i-th weight that it is of.
func channelsOf(n *onnx.Node, w onnx.Shape) (channels int64, of func(i int) int) {
	switch {
	case n.Op == "Conv" || n.Int("transB", 0) == 1:
		of = func(i int) int { return i / int(w[1:].Items()) }
		return w[0], of
	case len(w) < 2:
		return 1, func(int) int { return 0 }
	}
	channels = w[len(w)-1]
	return channels, func(i int) int { return i % int(channels) }
}

// added are the integers that a bias adds to the channels of a sum with such scales, which may be there more than once.
func (s *simplifier) added(b string, scale []float32, channels int64) []float64 {
	data, q := s.g.Consts[b], s.steps[b]
	if data == nil || q == nil || q.kind != onnx.Int32 || len(data.Floats) == 0 {
		s.g.Inexact = s.g.Inexact || b != "" // the runtime quantises it by the sum's scale
		return make([]float64, channels)
	}
	v := make([]float64, max(int(channels), len(data.Floats)))
	for i := range v {
		of, own := float64(scale[i%len(scale)]), float64(q.scale[i%len(q.scale)])
		// The kernels take neither a scale nor a zero point of it.
		s.g.Inexact = s.g.Inexact || q.zero[i%len(q.zero)] != 0 || !(math.Abs(own-of) <= nearly*math.Abs(of))
		v[i] = float64(data.Floats[i%len(data.Floats)]) / of
	}
	return v
}

// nearly is by how much a bias's scale may differ from that of what it is added to: by a few roundings of float32.
const nearly = 4. / (1 << 24)

// biased is the sum of a matrix product of a QDQ graph and a bias, of which ONNX Runtime makes one operator.
func (s *simplifier) biased(n *onnx.Node) *sum {
	for i, in := range n.Inputs {
		a, b := s.sums[in], n.Inputs[1-i]
		data, y := s.g.Consts[b], s.g.Shapes[in]
		if a == nil || !a.open || data == nil || data.Shape.Items() > y[len(y)-1] {
			continue
		}
		v := s.added(b, a.scale.Floats, y[len(y)-1])
		return &sum{scale: a.scale, lo: a.lo + slices.Min(v), hi: a.hi + slices.Max(v)}
	}
	return nil
}

// onSums gives the range of what an operator makes of integers.
var onSums = map[string]func(a, b *sum) (lo, hi float64){
	"Add":  func(a, b *sum) (lo, hi float64) { return a.lo + b.lo, a.hi + b.hi },
	"Sub":  func(a, b *sum) (lo, hi float64) { return a.lo - b.hi, a.hi - b.lo },
	"Mul":  func(a, b *sum) (lo, hi float64) { return corners(a.lo, a.hi, b.lo, b.hi) },
	"Max":  func(a, b *sum) (lo, hi float64) { return max(a.lo, b.lo), max(a.hi, b.hi) },
	"Min":  func(a, b *sum) (lo, hi float64) { return min(a.lo, b.lo), min(a.hi, b.hi) },
	"Relu": func(a, _ *sum) (lo, hi float64) { return max(a.lo, 0), max(a.hi, 0) },
}

// int32s are the nodes that compute integers from what a ConvInteger or a MatMulInteger gives.
func int32s(g *onnx.Graph) map[*onnx.Node]bool {
	nodes, whole := map[*onnx.Node]bool{}, map[string]bool{}
	for _, n := range g.Nodes {
		of := slices.ContainsFunc(n.Inputs, func(in string) bool { return whole[in] })
		nodes[n] = of && onSums[n.Op] != nil
		if nodes[n] || of && onIntegers(n.Op) || n.Op == "ConvInteger" || n.Op == "MatMulInteger" {
			whole[n.Outputs[0]] = true
		}
	}
	return nodes
}

// corners are the least and the largest product of a number from alo to ahi and one from blo to bhi.
func corners(alo, ahi, blo, bhi float64) (lo, hi float64) {
	return min(alo*blo, alo*bhi, ahi*blo, ahi*bhi), max(alo*blo, alo*bhi, ahi*blo, ahi*bhi)
}

// integers returns the sum that an operator makes of sums and constants of int32, which become floats.
func (s *simplifier) integers(n *onnx.Node) *sum {
	of := make([]*sum, len(n.Inputs))
	for i, in := range n.Inputs {
		c := s.g.Consts[in]
		if of[i] = s.sums[in]; c != nil && c.DType == onnx.Int32 && len(c.Ints) > 0 {
			n.Inputs[i] = s.g.AddConst(in+"/floats", floats(c.Shape, c.Ints))
			of[i] = &sum{lo: float64(slices.Min(c.Ints)), hi: float64(slices.Max(c.Ints))}
		}
		onnx.Require(of[i] != nil, "its input %q is no sum of int32 by known steps: cast what is quantised "+
			"dynamically to float32 before anything is computed with it", in)
	}
	s.integer(n.Outputs[0])
	all := of[0]
	for _, b := range of[min(1, len(of)-1):] { // a single one with itself
		lo, hi := onSums[n.Op](all, b)
		all = &sum{scale: onnx.Scalar(1), lo: lo, hi: hi}
	}
	return all
}

// quantizes reports whether nothing reads a tensor but a QuantizeLinear, past operators that ONNX Runtime leaves out in
// front of one.
func (s *simplifier) quantizes(tensor string) bool {
	return !s.g.IsOutput(tensor) && len(s.reads[tensor]) > 0 &&
		!slices.ContainsFunc(s.reads[tensor], func(n *onnx.Node) bool {
			switch n.Op {
			case "QuantizeLinear":
				return false
			case "Relu", "Clip", "Identity":
				return !s.quantizes(n.Outputs[0])
			}
			return true
		})
}
