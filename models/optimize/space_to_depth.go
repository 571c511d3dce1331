package optimize

import (
	"slices"

	"golang.org/x/sys/cpu"

	"selfheal/models/onnx"
)

// blocked returns how many channels a block of ONNX Runtime's convolutions holds where
// narrow states are packed, 0 where that was not measured.
func blocked() int64 {
	if cpu.X86.HasAVX512F {
		return 16
	}
	return 0
}

// pack turns states of few channels, [N C H W], between convolutions into
// [N 4C H/2 W/2]: channel (2r + q)·C + c holds channel c's places in rows 2i + r and
// columns 2j + q. A block of channels, which is computed whole, then has no idle
// ones, and the convolutions behind, which have a stride of 2, get one of 1 and with it
// a gradient that is a Conv again and no ConvTranspose. It is for states of at most
// half a block that only value-by-value operators and such convolutions read.
func pack(g *onnx.Graph, block int64) {
	consumers, outputs := g.Consumers(), map[string]bool{}
	for _, o := range g.Outputs {
		outputs[o.Name] = true
	}
	for _, n := range g.Nodes {
		s := g.Shapes[n.Outputs[0]]
		if n.Op != "Conv" || len(s) != 4 || s[1] > block/2 || s[2]%2 != 0 || s[3]%2 != 0 {
			continue
		}
		producer, ok := packProducer(g, n, block)
		if !ok {
			continue
		}
		states, changes := []string{n.Outputs[0]}, []func(){producer}
		for i := 0; i < len(states) && ok; i++ { // states grows
			ok = ok && !outputs[states[i]]
			for _, next := range consumers[states[i]] {
				if unary(g, next) {
					states = append(states, next.Outputs[0])
					continue
				}
				consumer, packable := packConsumer(g, next, states[i])
				changes, ok = append(changes, consumer), ok && packable
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

// unary reports whether a node works on each value of its first input alone.
func unary(g *onnx.Graph, n *onnx.Node) bool {
	if n.Domain != "" || !slices.Contains(pointwise, n.Op) {
		return false
	}
	for _, in := range n.Inputs[1:] {
		if k, constant := g.Consts[in]; in != "" && (!constant || k.Len() != 1 || len(k.Shape) > 4) {
			return false
		}
	}
	_, constant := g.Consts[n.Inputs[0]]
	return !constant
}

// packable returns the window and the constant weight of a plain Conv along two axes.
func packable(g *onnx.Graph, n *onnx.Node) (win onnx.Window, w *onnx.Tensor, ok bool) {
	if n.Op != "Conv" || n.Domain != "" || n.Int("group", 1) != 1 {
		return win, nil, false
	}
	if w, ok = g.Consts[n.Inputs[1]]; !ok || len(w.Shape) != 4 {
		return win, nil, false
	}
	win, err := onnx.NodeWindow(n, w.Shape[2:])
	plain := err == nil && win.Dilations[0] == 1 && win.Dilations[1] == 1 && win.Strides[0] == win.Strides[1]
	return win, w, plain
}

// packProducer returns what makes the Conv n write its output packed. With stride s and
// padding p it computes y[2i + r] = Σ_k w[k]·x[s(2i + r) + k − p], which is a Conv of
// stride 2s whose weight for residue r is w moved by s·r. Its kernel is larger by s: where
// that makes more than half as many multiplications again, idle channels counted as well,
// it is not worth it.
func packProducer(g *onnx.Graph, n *onnx.Node, block int64) (change func(), ok bool) {
	win, w, ok := packable(g, n)
	bias, constant := g.Consts[n.Input(2)]
	if !ok || n.Input(2) != "" && !constant {
		return nil, false
	}
	in, out, s := g.Shapes[n.Inputs[0]], g.Shapes[n.Outputs[0]], win.Strides[0]
	o := w.Shape[0]
	kernel := []int64{win.Kernel[0] + s, win.Kernel[1] + s}
	if narrow, wide := win.Kernel[0]*win.Kernel[1]*rounded(o, block), kernel[0]*kernel[1]*rounded(4*o, block)/4; 2*wide > 3*narrow {
		return nil, false
	}
	pads := slices.Clone(win.Pads)
	for i := range kernel {
		pads[i+2] = max(0, s*(out[i+2]-1)+win.Kernel[i]-in[i+2]-pads[i])
	}
	return func() {
		packed := blank(4*o, w.Shape[1], kernel[0], kernel[1])
		for r := range int64(2) {
			for q := range int64(2) {
				place(packed, w, func(a, b, t, u int64) (int64, int64, int64, int64) {
					return (2*r+q)*o + a, b, t + s*r, u + s*q
				})
			}
		}
		n.Inputs[1] = g.AddConst(n.Inputs[1]+"/packed", packed)
		if bias != nil {
			n.Inputs[2] = g.AddConst(n.Inputs[2]+"/packed", onnx.FloatTensor(onnx.Shape{4 * o}, slices.Repeat(bias.Floats, 4)))
		}
		n.Set("kernel_shape", kernel)
		n.Set("strides", []int64{2 * s, 2 * s})
		n.Set("pads", pads)
	}, true
}

// rounded is n rounded up to whole blocks.
func rounded(n, block int64) int64 { return (n + block - 1) / block * block }

// packConsumer returns what makes the Conv n, of stride 2, read its input, x, packed:
// z[i] = Σ_t w[t]·x[2i + t − p], where place 2i + t − p is residue (t − p) mod 2 at
// i + ⌊(t − p)/2⌋, so that it is a Conv of stride 1.
func packConsumer(g *onnx.Graph, n *onnx.Node, x string) (change func(), ok bool) {
	win, w, ok := packable(g, n)
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
		packed := blank(w.Shape[0], 4*c, kernel[0], kernel[1])
		place(packed, w, func(a, b, t, u int64) (int64, int64, int64, int64) {
			i, j := t-win.Pads[0], u-win.Pads[1]
			return a, (i&1*2+j&1)*c + b, i>>1 - first[0], j>>1 - first[1]
		})
		n.Inputs[1] = g.AddConst(n.Inputs[1]+"/packed", packed)
		n.Set("kernel_shape", kernel)
		n.Set("strides", []int64{1, 1})
		n.Set("pads", pads)
	}, ok
}

func blank(shape ...int64) *onnx.Tensor {
	return onnx.FloatTensor(shape, make([]float32, onnx.Shape(shape).Items()))
}

// place copies each weight of w, [O C K K'], to another place of packed.
func place(packed, w *onnx.Tensor, to func(o, c, i, j int64) (int64, int64, int64, int64)) {
	s, from := packed.Shape, 0
	for o := range w.Shape[0] {
		for c := range w.Shape[1] {
			for i := range w.Shape[2] {
				for j := range w.Shape[3] {
					a, b, t, u := to(o, c, i, j)
					packed.Floats[((a*s[1]+b)*s[2]+t)*s[3]+u] = w.Floats[from]
					from++
				}
			}
		}
	}
}
