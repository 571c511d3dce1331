package optimize

import (
	"slices"

	"selfheal/models/onnx"
)

// blockChannels is the number of channels in a block of ONNX Runtime's convolutions on the processors where
// space-to-depth was measured, those with AVX-512. It is used everywhere: parts of a run may be on different machines,
// and all must compute the same graph.
const blockChannels = 16

// spaceToDepth turns states with few channels, [N C H W], between convolutions into [N 4C H/2 W/2]: channel (2r + q)·C
// + c holds channel c's places in rows 2i + r and columns 2j + q. ONNX Runtime computes whole blocks of channels; in
// this form no channel of a block is idle. The next convolutions, which have a stride of 2, get a stride of 1, so that
// their gradient is a Conv and not a ConvTranspose. The states have at most half a block of channels, and only
// value-by-value operators and such convolutions read them.
func spaceToDepth(g *onnx.Graph, block int64) {
	consumers := g.Consumers()
	for _, n := range g.Nodes {
		s := g.Shapes[n.Outputs[0]]
		if n.Op != "Conv" || len(s) != 4 || s[1] > block/2 || s[2]%2 != 0 || s[3]%2 != 0 {
			continue
		}
		writer, ok := writeAsDepth(g, n, block)
		if !ok {
			continue
		}
		states, changes := []string{n.Outputs[0]}, []func(){writer}
		for i := 0; i < len(states) && ok; i++ { // states grows
			ok = ok && !g.IsOutput(states[i])
			for _, next := range consumers[states[i]] {
				if unary(g, next) {
					states = append(states, next.Outputs[0])
					continue
				}
				reader, can := readAsDepth(g, next, states[i])
				changes, ok = append(changes, reader), ok && can
			}
		}
		if !ok || len(changes) == 1 {
			continue
		}
		for _, change := range changes {
			change()
		}
		for _, name := range states {
			g.Shapes[name] = onnx.Shape{s[0], 4 * s[1], s[2] / 2, s[3] / 2}
		}
	}
}

// unary reports whether a node works value by value on its first input alone.
func unary(g *onnx.Graph, n *onnx.Node) bool {
	if n.Domain != "" || !onnx.TraitsOf(n.Op).Pointwise || g.Consts[n.Inputs[0]] != nil {
		return false
	}
	return !slices.ContainsFunc(n.Inputs[1:], func(in string) bool {
		k := g.Consts[in]
		return in != "" && (k == nil || k.Len() != 1 || len(k.Shape) > 4)
	})
}

// squareConv is [constantConv] for a Conv without groups or dilations and with one stride for both axes.
func squareConv(g *onnx.Graph, n *onnx.Node) (w, bias *onnx.Tensor, win onnx.Window, ok bool) {
	w, bias, win, ok = constantConv(g, n)
	ok = ok && n.Int("group", 1) == 1 && slices.Max(win.Dilations) == 1 && win.Strides[0] == win.Strides[1]
	return w, bias, win, ok
}

// writeAsDepth returns a change that makes the Conv n write its output as depth. With stride s and padding p, n
// computes y[2i + r] = Σ_k w[k]·x[s(2i + r) + k − p]. That is a Conv of stride 2s whose weight for residue r is w moved
// by s·r, so its kernel is larger by s. The change is refused if it takes over 1.5 times as many multiplications,
// including idle channels.
func writeAsDepth(g *onnx.Graph, n *onnx.Node, block int64) (change func(), ok bool) {
	w, bias, win, ok := squareConv(g, n)
	if !ok {
		return nil, false
	}
	in, out, s := g.Shapes[n.Inputs[0]], g.Shapes[n.Outputs[0]], win.Strides[0]
	o := w.Shape[0]
	kernel := []int64{win.Kernel[0] + s, win.Kernel[1] + s}
	before := win.Kernel[0] * win.Kernel[1] * wholeBlocks(o, block)
	if after := kernel[0] * kernel[1] * wholeBlocks(4*o, block) / 4; 2*after > 3*before {
		return nil, false
	}
	pads := slices.Clone(win.Pads)
	for i := range kernel {
		pads[i+2] = max(0, s*(out[i+2]-1)+win.Kernel[i]-in[i+2]-pads[i])
	}
	return func() {
		moved := onnx.Filled(0, 4*o, w.Shape[1], kernel[0], kernel[1])
		for r := range int64(2) {
			for q := range int64(2) {
				move(w, moved, func(a, b, t, u int64) (int64, int64, int64, int64) {
					return (2*r+q)*o + a, b, t + s*r, u + s*q
				})
			}
		}
		n.Inputs[1] = g.AddConst(n.Inputs[1]+"/packed", moved)
		if bias != nil {
			biases := onnx.FloatTensor(onnx.Shape{4 * o}, slices.Repeat(bias.Floats, 4))
			n.Inputs[2] = g.AddConst(n.Inputs[2]+"/packed", biases)
		}
		n.Set("kernel_shape", kernel)
		n.Set("strides", []int64{2 * s, 2 * s})
		n.Set("pads", pads)
	}, true
}

func wholeBlocks(n, block int64) int64 { return (n + block - 1) / block * block }

// readAsDepth returns a change that makes the Conv n, of stride 2, read its input, x, as depth. z[i] = Σ_t w[t]·x[2i +
// t − p] is then a Conv of stride 1, as place 2i + t − p is residue (t − p) mod 2 at i + ⌊(t − p)/2⌋.
func readAsDepth(g *onnx.Graph, n *onnx.Node, x string) (change func(), ok bool) {
	w, _, win, ok := squareConv(g, n)
	if !ok || win.Strides[0] != 2 || n.Inputs[0] != x || slices.Contains(n.Inputs[1:], x) {
		return nil, false
	}
	in, out := g.Shapes[x], g.Shapes[n.Outputs[0]]
	c := w.Shape[1]
	first, kernel, pads := make([]int64, 2), make([]int64, 2), make([]int64, 4)
	for i := range kernel {
		first[i] = (-win.Pads[i]) >> 1 // rounds down
		last := (win.Kernel[i] - 1 - win.Pads[i]) >> 1
		kernel[i] = last - first[i] + 1
		pads[i], pads[i+2] = -first[i], out[i+2]+last-in[i+2]/2
		ok = ok && pads[i+2] >= 0
	}
	return func() {
		moved := onnx.Filled(0, w.Shape[0], 4*c, kernel[0], kernel[1])
		move(w, moved, func(a, b, t, u int64) (int64, int64, int64, int64) {
			i, j := t-win.Pads[0], u-win.Pads[1]
			return a, (i&1*2+j&1)*c + b, i>>1 - first[0], j>>1 - first[1]
		})
		n.Inputs[1] = g.AddConst(n.Inputs[1]+"/packed", moved)
		n.Set("kernel_shape", kernel)
		n.Set("strides", []int64{1, 1})
		n.Set("pads", pads)
	}, ok
}

// move copies each weight of w, [O C K K'], to another place of moved.
func move(w, moved *onnx.Tensor, to func(o, c, i, j int64) (int64, int64, int64, int64)) {
	s, from := moved.Shape, 0
	for o := range w.Shape[0] {
		for c := range w.Shape[1] {
			for i := range w.Shape[2] {
				for j := range w.Shape[3] {
					a, b, t, u := to(o, c, i, j)
					moved.Floats[((a*s[1]+b)*s[2]+t)*s[3]+u] = w.Floats[from]
					from++
				}
			}
		}
	}
}
