package grad

import (
	"slices"

	"selfheal/models/onnx"
)

// correlation computes the gradient of a Conv's weight: W̄ = Σ over the batch and the output's positions of g times x
// at the place that the kernel's tap reads.
type correlation struct {
	*Context
	x, g    string // the Conv's input and the cotangent of its output
	win     onnx.Window
	weight  onnx.Shape // [O, I/groups, kernel…]
	groups  int64
	spatial []int64 // the axes behind the channels
	out     []int64 // g's sizes along the spatial axes
	swapped bool    // x and g are exchanged, see swap
}

// Limits of convWeight's choice, measured on ONNX Runtime with one thread. For 64 channels, 3×3, 32×32, batch 64, one
// product per tap takes 70 ms, the Conv with batch and channels exchanged 180 ms, one product of all taps 90 ms, and
// the layer's forward pass 40 ms. For 3 input channels one product of all taps takes half as long as one per tap; for
// 512 channels on 4×4 the Conv takes 105 instead of 177 ms. If there are more input than output channels, the places
// are read from g: 24 to 3 channels, 3×3, 32×32, batch 32 then take 2.1 instead of 8.4 ms.
const (
	fewChannels  = 8
	fewPositions = 32
)

// convWeight returns the cotangent of a Conv's weight: W̄[o, i, t] = Σ_n Σ_p g[n, o, p]·x[n, i, p·stride + t·dilation −
// pad]. The usual form is one product per tap; a depthwise Conv multiplies elementwise.
func (c *Context) convWeight(x, g string, win onnx.Window, weight onnx.Shape, groups int64) string {
	v := &correlation{Context: c, x: x, g: g, win: win, weight: weight, groups: groups}
	for i := range win.Kernel {
		v.spatial = append(v.spatial, int64(i+2))
		v.out = append(v.out, c.Shape(g)[i+2])
	}
	positions, inner, taps := onnx.Shape(v.out).Items(), weight[1], onnx.Shape(win.Kernel).Items()
	switch {
	case groups == weight[0] && inner == 1 && groups > 1:
		return v.weightByElements()
	case weight.HasBatch() || groups == 1 && taps > 1 && inner > fewChannels && positions < fewPositions:
		return v.weightByConv()
	}
	v.swap(c.Shape(x))
	return v.weightByProducts()
}

// swap exchanges x and g where that makes what taps copies smaller: with stride 1 and q = p + t·dilation − pad,
//
//	W̄[o, i, t] = Σ_n Σ_q x[n, i, q]·g[n, o, q − t·dilation + pad],
//
// the same with x and g exchanged, the taps in reverse order and another padding.
func (v *correlation) swap(x onnx.Shape) {
	pads := Turned(v.win)
	if pads == nil || v.groups > 1 || v.weight[0] >= v.weight[1] || onnx.Shape(v.win.Kernel).Items() == 1 {
		return
	}
	v.x, v.g, v.out, v.swapped, v.win.Pads = v.g, v.x, x[2:], true, pads
}

// weightByConv returns a Conv of x with g as its kernel; batch and channels are exchanged, and so are strides and
// dilations.
func (v *correlation) weightByConv() string {
	perm := append([]int64{1, 0}, v.spatial...)
	transposed := func(t string) string { return v.OpWith("Transpose", onnx.Attrs{"perm": perm}, t) }
	win := onnx.Window{Strides: v.win.Dilations, Dilations: v.win.Strides, Pads: v.win.Pads}
	w := v.OpWith("Conv", win.Attrs(onnx.Attrs{}), transposed(v.x), transposed(v.g))
	zeros := make([]int64, len(v.spatial))
	if !slices.Equal([]int64(v.Shape(w)[2:]), v.win.Kernel) { // some rows of x lie in no window
		w = v.Op("Slice", w, v.Ints(zeros...), v.Ints(v.win.Kernel...), v.Ints(v.spatial...))
	}
	return transposed(w)
}

// taps lists the part of x that each place of the kernel reads, [N, I, out…].
func (v *correlation) taps() []string {
	x, k := v.x, len(v.spatial)
	if slices.ContainsFunc(v.win.Pads, func(p int64) bool { return p != 0 }) {
		pads := slices.Concat([]int64{0, 0}, v.win.Pads[:k], []int64{0, 0}, v.win.Pads[k:])
		x = v.Op("Pad", x, v.Ints(pads...))
	}
	// Strided reads of single values are slow: the columns of a stride are picked once, not for every tap.
	last, columns := k-1, []string(nil)
	if s := v.win.Strides[last]; s > 1 && v.win.Kernel[last] > s {
		for r := range s {
			columns = append(columns, v.Op("Slice", x, v.Ints(r), v.Ints(v.Shape(x)[last+2]), v.Ints(v.spatial[last]),
				v.Ints(s)))
		}
	}
	axes := v.Ints(v.spatial...)
	all := make([]string, onnx.Shape(v.win.Kernel).Items())
	for t := range all {
		starts, ends, steps, rest, from := make([]int64, k), make([]int64, k), slices.Clone(v.win.Strides), int64(t), x
		for i := last; i >= 0; i-- {
			starts[i] = rest % v.win.Kernel[i] * v.win.Dilations[i]
			rest /= v.win.Kernel[i]
			if i == last && columns != nil {
				from, starts[i], steps[i] = columns[starts[i]%steps[i]], starts[i]/steps[i], 1
			}
			ends[i] = starts[i] + (v.out[i]-1)*steps[i] + 1
		}
		whole := true
		for i := range k {
			whole = whole && steps[i] == 1 && starts[i] == 0 && ends[i] == v.Shape(from)[i+2]
		}
		if all[t] = from; !whole {
			all[t] = v.Op("Slice", from, v.Ints(starts...), v.Ints(ends...), axes, v.Ints(steps...))
		}
	}
	if v.swapped {
		slices.Reverse(all)
	}
	return all
}

// weightByProducts multiplies the positions of each tap, or of all taps at once if x has few channels, with g's, for
// each item and group: [X, positions]·[positions, G].
func (v *correlation) weightByProducts() string {
	positions, taps := onnx.Shape(v.out).Items(), v.taps()
	inner, outer, count := v.weight[1], v.weight[0]/v.groups, int64(len(taps))
	if v.swapped {
		inner, outer = outer, inner
	}
	g := v.Op("Reshape", v.g, v.Ints(0, v.groups, outer, positions))
	g = v.OpWith("Transpose", onnx.Attrs{"perm": []int64{0, 1, 3, 2}}, g)
	for i, t := range taps {
		taps[i] = v.Op("Reshape", t, v.Ints(0, v.groups, inner, positions))
	}
	product := func(x string) string { return v.Sum(v.Op("MatMul", x, g), []int64{0}) }
	sum, perm := "", []int64{0, 3, 2, 1} // of [groups, taps, inner, outer]
	if inner <= fewChannels && count > 1 {
		sum = product(v.OpWith("Concat", onnx.Attrs{"axis": 2}, taps...))
		sum = v.Op("Reshape", sum, v.Ints(v.groups, count, inner, outer))
	} else {
		for i, t := range taps {
			taps[i] = product(t)
		}
		if sum = taps[0]; count > 1 {
			sum = v.OpWith("Concat", onnx.Attrs{"axis": 0}, taps...)
		}
		perm = []int64{1, 3, 2, 0} // of [taps, groups, inner, outer]
	}
	if v.swapped { // the weight's input channels are outer here
		perm[1], perm[2] = perm[2], perm[1]
	}
	sum = v.OpWith("Transpose", onnx.Attrs{"perm": perm}, sum)
	return v.Reshape(sum, v.weight)
}

// weightByElements handles groups with one input and one output channel.
func (v *correlation) weightByElements() string {
	taps := v.taps()
	for i, t := range taps {
		sum := v.Sum(v.Op("Mul", t, v.g), v.spatial)
		taps[i] = v.Op("Reshape", sum, v.Ints(0, v.weight[0], 1))
	}
	all := taps[0]
	if len(taps) > 1 {
		all = v.OpWith("Concat", onnx.Attrs{"axis": 2}, taps...)
	}
	return v.Reshape(v.Sum(all, []int64{0}), v.weight)
}

// channelSum adds g, [N, C, …], up over everything but the channels: [C].
func (c *Context) channelSum(g string) string {
	shape := c.Shape(g)
	return c.Reshape(c.Sum(g, append([]int64{0}, onnx.Range(2, len(shape))...)), shape[1:2])
}
