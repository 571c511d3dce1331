package bounds

import (
	"math"
	"slices"

	"selfheal/models/grad"
	"selfheal/models/onnx"
)

// maxPool is the window of a MaxPool: for each value of the output, its places in the input's item, -1 outside.
type maxPool struct {
	kernel int // values in a window
	plane  int // outputs in a channel
	at     []int32
	window onnx.Window
}

// mostTaken bounds the places of a MaxPool's windows.
const mostTaken = 1 << 24

func newMaxPool(g *onnx.Graph, n *onnx.Node) (*maxPool, bool) {
	x, y := g.Shapes[n.Inputs[0]], g.Shapes[n.Outputs[0]]
	if len(n.Outputs) > 1 && n.Outputs[1] != "" {
		return nil, false
	}
	w, err := onnx.NodeWindow(n, x[2:]) // for a GlobalMaxPool the whole plane
	kernel := onnx.Shape(w.Kernel).Items()
	if err != nil || y.Items() > mostTaken/kernel {
		return nil, false
	}
	plane := int(x[2:].Items())
	p := &maxPool{kernel: int(kernel), plane: int(y[2:].Items()), window: w}
	for c := range int(x[1]) {
		for o := range p.plane {
			for k := range p.kernel {
				at := p.place(x[2:], y[2:], o, k)
				if at >= 0 {
					at += c * plane
				}
				p.at = append(p.at, int32(at))
			}
		}
	}
	return p, true
}

// place returns the index in a plane of value k of window o, or -1.
func (p *maxPool) place(in, out onnx.Shape, o, k int) int {
	at, step := 0, 1
	for a := len(in) - 1; a >= 0; a-- {
		i := int64(o)%out[a]*p.window.Strides[a] - p.window.Pads[a] + int64(k)%p.window.Kernel[a]*p.window.Dilations[a]
		if i < 0 || i >= in[a] {
			return -1
		}
		at, step = at+step*int(i), step*int(in[a])
		o, k = o/int(out[a]), k/int(p.window.Kernel[a])
	}
	return at
}

// places returns for each window the value with the largest lower bound, whether no other can be larger, and the
// largest upper bound: the maximum lies between them (auto_LiRPA's bounds).
func (p *maxPool) places(lower, upper []float32) (best []int, sure []bool, most []float32) {
	out := len(p.at) / p.kernel
	best, sure, most = make([]int, out), make([]bool, out), make([]float32, out)
	for o := range out {
		window := p.at[o*p.kernel : (o+1)*p.kernel]
		best[o] = slices.IndexFunc(window, func(i int32) bool { return i >= 0 })
		for k, i := range window {
			if i >= 0 && lower[i] > lower[window[best[o]]] {
				best[o] = k
			}
		}
		sure[o], most[o] = true, upper[window[best[o]]]
		for k, i := range window {
			if i >= 0 && k != best[o] {
				sure[o] = sure[o] && upper[i] <= lower[window[best[o]]]
				most[o] = max(most[o], upper[i])
			}
		}
	}
	return best, sure, most
}

// mask returns the index of value k of window o in the mask [C, values of a window, outputs of a channel…].
func (p *maxPool) mask(o, k int) int { return (o/p.plane*p.kernel+k)*p.plane + o%p.plane }

// pool replaces a MaxPool by the values that its bounds take: the coefficients go to the places named by its masks.
func (w *walk) pool(s *stage, g, positive string, both func(slope, step, g, positive string) string) string {
	p, x, y := s.pool, w.n.graph.Shapes[s.tensor], w.n.one(s.output())
	apart := func(t string) string { return w.Op("Unsqueeze", t, w.Ints(2)) }
	masks := slices.Insert(slices.Clone(y), 2, int64(p.kernel))
	each := both(w.port(slopePort, s, masks), w.port(stepPort, s, masks), apart(g), apart(positive))
	channels := y[1]
	each = w.Reshape(each, slices.Concat(onnx.Shape{onnx.Batch, channels * int64(p.kernel)}, y[2:]))
	weight := onnx.Filled(0, slices.Concat(onnx.Shape{channels * int64(p.kernel), 1}, p.window.Kernel)...)
	for i := range int(channels) * p.kernel {
		weight.Floats[i*p.kernel+i%p.kernel] = 1
	}
	w.p.perRow = max(w.p.perRow, int(channels)*p.kernel*p.plane)
	return w.OpWith("ConvTranspose", grad.Transposed(p.window, x, y), each, w.Const(weight))
}

// relax computes the bounds of a MaxPool.
func (p *maxPool) relax(s *stage, r *relaxation, sums *sums, unit float64) {
	r.ports[slopePort], r.ports[stepPort] = make([]float32, len(p.at)), make([]float32, len(p.at))
	best, sure, most := p.places(r.lower, r.upper)
	for o, k := range best {
		window := p.at[o*p.kernel : (o+1)*p.kernel]
		r.out.Lower[o], r.out.Upper[o] = r.lower[window[k]], most[o]
		inner, reach := 0.0, 0.0
		for _, i := range window {
			if i >= 0 {
				inner = max(inner, float64(r.wrong[i]))
				reach = max(reach, -float64(r.lower[i]), float64(r.upper[i]))
			}
		}
		// Overlapping windows and other readers of the input add up at one place.
		inner += gamma(unit, int64(p.kernel)+4+s.readers) * reach
		zero, at := float64(s.segment.atZero[window[k]]), p.mask(o, k)
		above, below := float64(most[o]), zero
		if sure[o] {
			above = zero
			r.ports[slopePort][at] = 1
		} else {
			r.ports[stepPort][at] = 1
		}
		sums.set(o, above, below-above, -inner, 2*inner)
	}
}

// product is a Mul of two tensors: the places of each value's factors in both, which are joined as the stage's input.
type product struct {
	first, second []int32
	repeats       int64 // the most values that one value of a factor takes part in
}

// newProduct appends the stage's input in front of the node. Both factors have the batch first.
func newProduct(g *onnx.Graph, at int) (p *product, joined string) {
	n := g.Nodes[at]
	a, b, y := g.Shapes[n.Inputs[0]], g.Shapes[n.Inputs[1]], g.Shapes[n.Outputs[0]]
	if len(a) != len(y) || len(b) != len(y) || a[0] != onnx.Batch || b[0] != onnx.Batch || y.Items() > mostTaken {
		return nil, ""
	}
	p = &product{repeats: y.Items() / min(a.Items(), b.Items())}
	places := func(in onnx.Shape, from int64) []int32 {
		return onnx.Each(y[1:].Places(in[1:].Strides()), func(at int64) int32 { return int32(from + at) })
	}
	p.first, p.second = places(a, 0), places(b, a.Items())
	return p, insert(g, at, n.Outputs[0], func(b *onnx.Builder) string {
		flat := func(t string) string { return b.Reshape(t, onnx.Shape{onnx.Batch, g.Shapes[t].Items()}) }
		return b.OpWith("Concat", onnx.Attrs{"axis": int64(1)}, flat(n.Inputs[0]), flat(n.Inputs[1]))
	})
}

// relax uses McCormick's planes (McCormick 1976), chosen as in auto_LiRPA, for a from la to ua and b from lb to ub:
//
//	lb·a + la·b − la·lb ≤ a·b ≤ ub·a + la·b − la·ub.
func (p *product) relax(s *stage, r *relaxation, sums *sums, unit float64) {
	size := len(p.first)
	slopes, steps, others := make([]float32, size), make([]float32, size), make([]float32, size)
	for o, i := range p.first {
		j := p.second[o]
		la, ua := float64(r.lower[i]), float64(r.upper[i])
		lb, ub := float64(r.lower[j]), float64(r.upper[j])
		slopes[o], steps[o], others[o] = r.upper[j], float32(lb-ub), r.lower[i]
		step, reachA, reachB := float64(steps[o]), max(-la, ua), max(-lb, ub)
		above, below := -la*ub, -la*lb-math.Abs(lb-ub-step)*reachA
		low, high := min(la*lb, la*ub, ua*lb, ua*ub), max(la*lb, la*ub, ua*lb, ua*ub)
		wrong := 4 * unit * max(-low, high)
		r.out.Lower[o], r.out.Upper[o] = down(low-wrong), up(high+wrong)
		// Coefficients are added up with those of other values and readers at one place.
		size := math.Abs(ub) + math.Abs(step)
		wrong += gamma(unit, 4+s.readers+p.repeats) * (reachA*size + reachB*math.Abs(la))
		zeroA, zeroB := float64(s.segment.atZero[i]), float64(s.segment.atZero[j])
		wrongA, wrongB := float64(r.wrong[i]), float64(r.wrong[j])
		sums.set(o, above+ub*zeroA+la*zeroB, below-above+step*zeroA,
			-wrong-math.Abs(ub)*wrongA-math.Abs(la)*wrongB,
			2*wrong+(math.Abs(ub+step)+math.Abs(ub))*wrongA+2*math.Abs(la)*wrongB)
	}
	r.ports[slopePort], r.ports[stepPort], r.ports[otherSlopePort] = slopes, steps, others
}
