package grad

import (
	"maps"
	"slices"

	"selfheal/models/onnx"
)

// y = W∗x + b: x̄ in [convInput], W̄ in [Context.convWeight], b̄ = Σ g over the batch and all positions
func conv(c *Context, n *onnx.Node, gy []string) []string {
	weight := c.Shape(n.Inputs[1])
	win := onnx.Sure(onnx.NodeWindow(n, weight[2:]))
	return c.by(n, func() string { return convInput(c, n, win, gy[0]) },
		func() string { return c.convWeight(n.Inputs[0], gy[0], win, weight, n.Int("group", 1)) },
		func() string { return c.channelSum(gy[0]) })
}

// y = Wᵀ∗x + b, the transpose of a Conv from y's shape to x's: x̄ = W∗g, that Conv; W̄ is the weight gradient of that
// Conv for the input g and the cotangent x; b̄ = Σ g
func convTranspose(c *Context, n *onnx.Node, gy []string) []string {
	weight, group := c.Shape(n.Inputs[1]), n.Int("group", 1)
	win := onnx.Sure(onnx.NodeWindow(n, weight[2:]))
	return c.by(n,
		func() string { return c.OpWith("Conv", win.Attrs(onnx.Attrs{"group": group}), gy[0], n.Inputs[1]) },
		func() string { return c.convWeight(gy[0], n.Inputs[0], win, weight, group) },
		func() string { return c.channelSum(gy[0]) })
}

// scaleChannels multiplies each channel of a batch by a constant. For feature maps it uses a BatchNormalization, which
// stays in the blocked layout of the convolutions around it; Mul by a vector leaves that layout.
func (c *Context) scaleChannels(t string, f []float32) string {
	if allOnes(f) {
		return t
	}
	vector := func(v []float32) string { return c.Const(onnx.FloatVector(v)) }
	if len(c.Shape(t)) == 2 {
		return c.Op("Mul", t, vector(f))
	}
	zero, one := vector(make([]float32, len(f))), vector(slices.Repeat([]float32{1}, len(f)))
	return c.OpWith("BatchNormalization", onnx.Attrs{"epsilon": float32(0)}, t, vector(f), zero, zero, one)
}

// y = s·x̂ + b with x̂ = (x−μ)·r and r = 1/√(σ²+ε), a channel at a time, by given
// statistics: x̄ = g·s·r, s̄ = Σ g·x̂, b̄ = Σ g, μ̄ = −s·r·Σ g, σ̄² = −½·s·r²·Σ g·x̂
func batchNormalization(c *Context, n *onnx.Node, gy []string) []string {
	gx, g := make([]string, 5), gy[0]
	x := c.Shape(n.Inputs[0])
	column := append(x[1:2:2], slices.Repeat(onnx.Shape{1}, len(x)-2)...) // a value a channel, to broadcast
	eps := n.Float("epsilon", 1e-5)
	scale, _, constant := c.G.Affine(n)
	if constant && c.needs(n, 0) {
		gx[0] = c.scaleChannels(g, scale)
	}
	parameters := c.needs(n, 1) || c.needs(n, 2) || c.needs(n, 3) || c.needs(n, 4)
	if !parameters && constant {
		return gx
	}
	r := c.Op("Div", c.Float(1), c.Op("Sqrt", c.Op("Add", n.Inputs[4], c.Float(eps))))
	slope := c.Op("Mul", n.Inputs[1], r)
	if gx[0] == "" && c.needs(n, 0) {
		gx[0] = c.Op("Mul", g, c.Reshape(slope, column))
	}
	if c.needs(n, 1) || c.needs(n, 4) {
		centred := c.Op("Sub", n.Inputs[0], c.Reshape(n.Inputs[3], column))
		inner := c.Op("Mul", r, c.channelSum(c.Op("Mul", g, centred)))
		gx[1] = inner
		if c.needs(n, 4) {
			gx[4] = c.Op("Mul", c.Op("Mul", c.Op("Mul", slope, r), inner), c.Float(-0.5))
		}
	}
	if c.needs(n, 2) || c.needs(n, 3) {
		gx[2] = c.channelSum(g)
		gx[3] = c.Op("Neg", c.Op("Mul", slope, gx[2]))
	}
	return gx
}

// convInput returns the cotangent of a Conv's input: the transposed convolution of g with W. ONNX Runtime runs Conv
// faster than ConvTranspose, so with constant W the result is a Conv. With stride 1, its kernel is flipped and its
// channels exchanged; with stride s, on small maps, one such Conv computes each of the input's s² phases, which are
// interleaved.
func convInput(c *Context, n *onnx.Node, win onnx.Window, g string) string {
	x, k, group := c.Shape(n.Inputs[0]), len(win.Kernel), n.Int("group", 1)
	outPad := make([]int64, k)
	for i := range k {
		reach := (win.Kernel[i] - 1) * win.Dilations[i]
		outPad[i] = (x[i+2] + win.Pads[i] + win.Pads[i+k] - reach - 1) % win.Strides[i]
	}
	if t, ok := c.G.Consts[n.Inputs[1]]; ok {
		if pads := Turned(win); pads != nil {
			flipped := c.Const(exchange(t, int(group), reversed(win.Kernel)))
			w := onnx.Window{Kernel: win.Kernel, Dilations: win.Dilations, Pads: pads}
			return c.OpWith("Conv", w.Attrs(onnx.Attrs{"group": group}), g, flipped)
		}
		if onnx.Shape(win.Kernel).Items() > 1 && x[2:].Items() <= phasesUpTo(group) {
			if gx := convPhases(c, t, win, x, g, group); gx != "" {
				return gx
			}
		}
	}
	attrs := win.Attrs(onnx.Attrs{"output_padding": outPad, "group": group})
	return c.OpWith("ConvTranspose", attrs, g, n.Inputs[1])
}

// Turned returns the pads of the reversed convolution; nil if it has strides or would have to crop.
func Turned(win onnx.Window) []int64 {
	k := len(win.Kernel)
	pads := make([]int64, 2*k)
	for i := range k {
		reach := (win.Kernel[i] - 1) * win.Dilations[i]
		pads[i], pads[i+k] = reach-win.Pads[i], reach-win.Pads[i+k]
		if win.Strides[i] != 1 || min(pads[i], pads[i+k]) < 0 {
			return nil
		}
	}
	return pads
}

// phasesUpTo returns the number of places in a map up to which phases are faster than ConvTranspose, as measured on 64
// to 672 channels: interleaving phases costs some three nanoseconds a value, and ConvTranspose a matrix product for
// every group.
func phasesUpTo(group int64) int64 {
	if group > 1 {
		return 16 * 16
	}
	return 8 * 8
}

// phase computes one residue of an axis modulo the stride s: with k the first of its taps and
// δ = (residue + pad − k)/s,
//
//	x̄[s·j + residue] = Σ_t g[j + δ − t]·w[k + s·t]
//
// This is a Conv with these taps in reverse and len(taps) − 1 − δ of padding before g.
type phase struct {
	taps          []int64
	before, after int64
}

// axisPhases lists the phases of an axis of size x with g of size y; nil if one would have to crop g or has no taps.
func axisPhases(kernel, stride, pad, x, y int64) []phase {
	each := (x + stride - 1) / stride // values in a phase; the last may lie beyond x
	var out []phase
	for r := range stride {
		p := phase{}
		first := (r + pad) % stride
		for k := first; k < kernel; k += stride {
			p.taps = append(p.taps, k)
		}
		slices.Reverse(p.taps)
		delta := (r + pad - first) / stride
		p.before = int64(len(p.taps)) - 1 - delta
		p.after = each + delta - y
		if len(p.taps) == 0 || p.before < 0 || p.after < 0 {
			return nil
		}
		out = append(out, p)
	}
	return out
}

// convPhases writes the cotangent by phases, for two axes with one stride and no dilation; "" if that is impossible.
func convPhases(c *Context, w *onnx.Tensor, win onnx.Window, x onnx.Shape, g string, group int64) string {
	s := win.Strides[0]
	if len(win.Kernel) != 2 || s == 1 || s != win.Strides[1] || win.Dilations[0] != 1 || win.Dilations[1] != 1 {
		return ""
	}
	y := c.Shape(g)
	rows := axisPhases(win.Kernel[0], s, win.Pads[0], x[2], y[2])
	columns := axisPhases(win.Kernel[1], s, win.Pads[1], x[3], y[3])
	if rows == nil || columns == nil {
		return ""
	}
	var parts []string
	for _, r := range rows {
		for _, q := range columns {
			parts = append(parts, c.OpWith("Conv", onnx.Attrs{
				"kernel_shape": []int64{int64(len(r.taps)), int64(len(q.taps))},
				"pads":         []int64{r.before, q.before, r.after, q.after}, "group": group,
			}, g, c.Const(exchange(w, int(group), [][]int64{r.taps, q.taps}))))
		}
	}
	full := c.OpWith("DepthToSpace", onnx.Attrs{"blocksize": s, "mode": "DCR"},
		c.OpWith("Concat", onnx.Attrs{"axis": 1}, parts...))
	if f := c.Shape(full); f[2] != x[2] || f[3] != x[3] {
		full = c.Op("Slice", full, c.Ints(0, 0), c.Ints(x[2], x[3]), c.Ints(2, 3))
	}
	return full
}

// Phased returns a graph in which each transposed convolution with several groups and a stride is written as
// convolutions by phases, if it has that form. OpenVINO runs such operators group by group; ONNX Runtime runs large
// ones faster unchanged.
func Phased(g *onnx.Graph) (phased *onnx.Graph, err error) {
	defer onnx.Refused(&err)
	out := *g
	out.Consts, out.Shapes = maps.Clone(g.Consts), maps.Clone(g.Shapes)
	return &out, out.Rewrite(func(b *onnx.Builder, n *onnx.Node) bool {
		w := g.Consts[n.Input(1)]
		if n.Op != "ConvTranspose" || len(n.Inputs) != 2 || n.Int("group", 1) <= 1 || w == nil {
			return false
		}
		b.Prefix = "phased/"
		y, win := n.Outputs[0], onnx.Sure(onnx.NodeWindow(n, w.Shape[2:]))
		if convPhases(&Context{Builder: b}, w, win, g.Shapes[y], n.Inputs[0], n.Int("group", 1)) == "" {
			return false
		}
		out.Nodes[len(out.Nodes)-1].Outputs[0] = y
		return true
	})
}

// reversed lists the taps of each axis from the last to the first.
func reversed(kernel []int64) [][]int64 {
	taps := make([][]int64, len(kernel))
	for i, k := range kernel {
		taps[i] = onnx.Range(0, int(k))
		slices.Reverse(taps[i])
	}
	return taps
}

// exchange turns a Conv weight [O, I/g, k…] into the weight [I, O/g, taps…] of a
// Conv that computes its input's gradient, with the given taps of each axis.
func exchange(t *onnx.Tensor, group int, taps [][]int64) *onnx.Tensor {
	o, ig := int(t.Shape[0]), int(t.Shape[1])
	og, k := o/group, int(t.Shape[2:].Items())
	at := []int{0} // places of the taps in a kernel, in order
	shape := onnx.Shape{int64(ig * group), int64(og)}
	for axis, list := range taps {
		next := make([]int, 0, len(at)*len(list))
		for _, p := range at {
			for _, tap := range list {
				next = append(next, p*int(t.Shape[2+axis])+int(tap))
			}
		}
		at, shape = next, append(shape, int64(len(list)))
	}
	out := onnx.FloatTensor(shape, make([]float32, ig*group*og*len(at)))
	for g := range group {
		for a := range og {
			for b := range ig {
				from, to := ((g*og+a)*ig+b)*k, ((g*ig+b)*og+a)*len(at)
				for i, p := range at {
					out.Floats[to+i] = t.Floats[from+p]
				}
			}
		}
	}
	return out
}

func allOnes(v []float32) bool {
	return !slices.ContainsFunc(v, func(f float32) bool { return f != 1 })
}
