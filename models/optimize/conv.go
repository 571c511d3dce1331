package optimize

import (
	"slices"

	"selfheal/models/onnx"
)

// conv writes a convolution between [H W N C] states if that is cheaper, including the change of the input's layout. It
// returns false if the node should stay.
func (w *rewriter) conv(n *onnx.Node) bool {
	weight, bias, win, ok := constantConv(w.src, n)
	if !ok || !w.isImage(n.Inputs[0]) || n.Int("group", 1) != 1 {
		return false
	}
	y := ""
	switch {
	case slices.ContainsFunc(win.Dilations, func(d int64) bool { return d != 1 }):
		return false
	case win.Kernel[0] == 1 && win.Kernel[1] == 1:
		if !w.isHWNC(n.Inputs[0]) || slices.ContainsFunc(win.Pads, func(p int64) bool { return p != 0 }) {
			return false
		}
		y = w.product(n, weight, win)
	case win.Kernel[0] == 3 && win.Kernel[1] == 3:
		s := w.choose(n, weight.Shape, win)
		if s == nil {
			return false
		}
		w.weights += int64(s.n*s.n) * weight.Shape[0] * weight.Shape[1]
		y = w.winograd(n, weight, win, s)
	default:
		return false
	}
	if bias != nil {
		y = w.Op("Add", y, w.perChannel(bias.Floats))
	}
	w.hwnc[n.Outputs[0]] = y
	return true
}

// constantConv returns the weight, [O C H W], the bias, nil if there is none, and the window of a Conv; ok is false for
// another node and for computed weights.
func constantConv(g *onnx.Graph, n *onnx.Node) (w, bias *onnx.Tensor, win onnx.Window, ok bool) {
	w, bias = g.Consts[n.Input(1)], g.Consts[n.Input(2)]
	if n.Op != "Conv" || n.Domain != "" || w == nil || len(w.Shape) != 4 || bias == nil && n.Input(2) != "" {
		return nil, nil, win, false
	}
	win, err := onnx.NodeWindow(n, w.Shape[2:])
	return w, bias, win, err == nil
}

// choose returns the algorithm for a 3×3 convolution, nil if it should stay.
func (w *rewriter) choose(n *onnx.Node, weight onnx.Shape, win onnx.Window) *algorithm {
	in, out := w.src.Shapes[n.Inputs[0]], w.src.Shapes[n.Outputs[0]]
	stay, move := directCost(weight, out), 0.0
	if !w.isHWNC(n.Inputs[0]) {
		move = layoutCost(in)
	}
	if !w.nchw[n.Inputs[0]] {
		stay += layoutCost(in)
	}
	s, cost := cheapest(w.sizes, weight, in, out, win)
	// The next layer is usually of the same kind and finds its input laid out.
	if s == nil || cost > worthwhile*stay || cost+move > stay {
		return nil
	}
	return s
}

// cheapest chooses among the algorithms F(m) of the given m for a 3×3 kernel; nil if there is none.
func cheapest(sizes []int, w, in, out onnx.Shape, win onnx.Window) (best *algorithm, cost float64) {
	if win.Strides[0] != win.Strides[1] || in[1] < minChannels || out[1] < minChannels {
		return nil, 0
	}
	for _, m := range sizes {
		s := algorithmOf(m, win.Strides[0])
		if s == nil {
			return nil, 0
		}
		// ONNX Runtime's product of a single row rounds in its own order, unless its weights are constants (see
		// entries), so there must be two tiles at least. With stride 2 a single tile reads more weights than it saves.
		least := int(min(out[2], out[3]))
		if least <= m && (w[0]*w[1] < manyAlone || s.stride > 1 || least < m) {
			continue
		}
		if c := winogradCost(s, in, out); best == nil || c < cost {
			best, cost = s, c
		}
	}
	return best, cost
}

// product writes a 1×1 convolution: a matrix product over the channels, at every stride-th place.
func (w *rewriter) product(n *onnx.Node, weight *onnx.Tensor, win onnx.Window) string {
	x := w.inHWNC(n.Inputs[0])
	for axis, stride := range win.Strides {
		if stride != 1 {
			x = w.Op("Slice", x, w.Ints(0), w.Ints(w.Shape(x)[axis]), w.Ints(int64(axis)), w.Ints(stride))
		}
	}
	return w.Op("MatMul", x, w.Const(onnx.FloatTensor(weight.Shape[:2], weight.Floats).Transposed()))
}

// Costs of one image on ONNX Runtime's CPU kernels, in multiply-adds of its
// blocked convolution (about 120 GFLOP/s on an AVX-512 core). They were fitted to
// single layers of 64 to 512 channels at 4×4 to 32×32, batch 32; only their ratios matter.
const (
	perProduct  = 1.1 // one multiply-add of a matrix product
	perWritten  = 24  // one float32 written by a matrix product, from memory and back
	perMoved    = 60  // one float32 moved by a Transpose
	worthwhile  = 0.8 // another form must cost less than this fraction of the direct form
	narrowMap   = 1.3 // cost of a Conv on maps less than 6 wide, relative to wider ones
	minChannels = 16  // with fewer, matrix products are inefficient
	// From this many weights per tap, each entry has its own product.
	manyWeights = 256 * 256
	// From this many weights per tap, even a layer of a single tile is worth it: each of its entries always has its own
	// product.
	manyAlone = 128 * 128
	// Bound on the transformed weights of a network: 1 GiB for its passes, and as much again for their gradients.
	maxWeights = 1 << 28
)

// directCost returns the cost of a Conv unchanged. Its kernel computes several outputs of a row at a time; narrow maps
// have too few.
func directCost(w, out onnx.Shape) float64 {
	cost := float64(out.Items()) * float64(w[1:].Items())
	if out[3] < 6 {
		cost *= narrowMap
	}
	return cost
}

// winogradCost returns the cost of a 3×3 Conv by algorithm s along both axes.
func winogradCost(s *algorithm, in, out onnx.Shape) float64 {
	c, o := float64(in[1]), float64(out[1])
	h, wd, oh, ow := float64(in[2]), float64(in[3]), float64(out[2]), float64(out[3])
	eh, ew := float64(s.n*s.tiles(int(out[2]))), float64(s.n*s.tiles(int(out[3])))
	products := eh*h*wd*c + eh*ew*wd*c + // into the transformed domain
		eh*ew*c*o +
		eh*ow*ew*o + oh*eh*ow*o // and back
	written := eh*wd*c + eh*ew*c + eh*ew*o + eh*ow*o + oh*ow*o
	return perProduct*products + perWritten*written
}

func layoutCost(s onnx.Shape) float64 { return perMoved * float64(s.Items()) }
