package bounds

import (
	"slices"

	"selfheal/models/grad"
	"selfheal/models/onnx"
)

// maxPool is the window of a MaxPool: for each value of the output, the places in the input's item, -1 outside.
type maxPool struct {
	kernel int // values of a window
	plane  int // outputs of a channel
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
	w, err := onnx.NodeWindow(n, x[2:]) // that of a GlobalMaxPool is all
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

// place is where value k of window o lies in a plane, or -1.
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

// places are, for each window, which of its values has the largest lower bound, whether no other can be larger, and the
// largest of all upper bounds: the maximum lies between them (auto_LiRPA's bounds).
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

// mask is where the mask [C, values of a window, outputs of a channel…] has value k of window o.
func (p *maxPool) mask(o, k int) int { return (o/p.plane*p.kernel+k)*p.plane + o%p.plane }

// pool replaces a MaxPool by the values that its bounds take: the coefficients of an output go to the places of the
// window that its masks name.
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
