package train

import (
	"slices"

	"selfheal/models/grad"
	"selfheal/models/onnx"
)

// On maps of fewer than smallMap places a Conv is always the faster form; from largeMap places on a ConvTranspose is
// faster for as many channels in as out.
const (
	smallMap = 16 * 16
	largeMap = 32 * 32
)

// faster rewrites convolutions of stride 1 whose weights are inputs, in place. ONNX Runtime's fast kernel takes only
// constant weights; with others a Conv copies every input channel once for each tap, and a ConvTranspose writes every
// output channel as often. With flipped taps and exchanged channels either computes the same as the other, so the
// numbers of channels decide. On 32 images of 32×32 with 3×3 taps, a Conv of 24 to 3 channels takes 8.2 ms and its
// other form 1.1 ms; from 3 to 24 channels they take 0.9 and 3.4 ms. direct says that a provider runs convolutions
// fastest as they are. A Conv is always the faster form there: OpenVINO runs a ConvTranspose with such weights in
// float32.
func faster(g *onnx.Graph, direct bool) error {
	flipped := map[string]string{}
	return g.Rewrite(func(b *onnx.Builder, n *onnx.Node) bool {
		attributes, ok := otherForm(g, n, direct)
		if !ok {
			return false
		}
		w := n.Inputs[1]
		if flipped[w] == "" {
			b.Prefix = "flipped/"
			flipped[w] = flip(b, w)
		}
		other := &onnx.Node{Op: "ConvTranspose", Name: n.Name, Inputs: slices.Clone(n.Inputs), Outputs: n.Outputs}
		if n.Op == "ConvTranspose" {
			other.Op = "Conv"
		}
		other.Inputs[1] = flipped[w]
		for name, v := range attributes {
			other.Set(name, v)
		}
		b.Append(other)
		return true
	})
}

// otherForm returns the attributes with which a Conv is faster as a ConvTranspose, or the reverse. It returns false
// if the node's own form is faster.
func otherForm(g *onnx.Graph, n *onnx.Node, direct bool) (onnx.Attrs, bool) {
	if n.Domain != "" || n.Op != "Conv" && n.Op != "ConvTranspose" || n.Int("group", 1) != 1 {
		return nil, false
	}
	if _, constant := g.Consts[n.Inputs[1]]; constant {
		return nil, false
	}
	x, y, w := g.Shapes[n.Inputs[0]], g.Shapes[n.Outputs[0]], g.Shapes[n.Inputs[1]]
	win, err := onnx.NodeWindow(n, w[2:])
	if err != nil || w.HasBatch() || x[1] < 0 || y[1] < 0 {
		return nil, false
	}
	sign := int64(-1) // the sign of a map's growth with the kernel
	if n.Op == "ConvTranspose" {
		sign = 1
	}
	pads := grad.Turned(win)
	if pads == nil {
		return nil, false
	}
	for i, pad := range win.Pads[len(win.Kernel):] {
		// With stride 1 an output padding is more of the same border, which the sizes show.
		if y[i+2] != x[i+2]+sign*(pads[i]-pad) {
			return nil, false
		}
	}
	win.Pads = pads
	fewer, places := x[1]-y[1], y[2:].Items()          // channels
	better := direct || fewer < 0 || places < smallMap // as a Conv
	if n.Op == "Conv" {
		better = !direct && (fewer > 0 && places >= smallMap || fewer == 0 && places >= largeMap)
	}
	if !better || onnx.Shape(win.Kernel).Items() == 1 {
		return nil, false
	}
	return win.Attrs(onnx.Attrs{}), true
}

// flip reverses the taps of a weight and exchanges its channels.
func flip(b *onnx.Builder, w string) string {
	k := len(b.Shape(w)) - 2
	perm, axes, ones, ends := []int64{1, 0}, []int64{}, []int64{}, []int64{}
	for i := range k {
		perm, axes = append(perm, int64(i+2)), append(axes, int64(i+2))
		ones, ends = append(ones, -1), append(ends, -b.Shape(w)[i+2]-1)
	}
	t := b.OpWith("Transpose", onnx.Attrs{"perm": perm}, w)
	return b.Op("Slice", t, b.Ints(ones...), b.Ints(ends...), b.Ints(axes...), b.Ints(ones...))
}

// doubledFrom is the number of places from which a map gains by doubled.
const doubledFrom = 8 * 8

// doubled rewrites, in place, 3×3 convolutions of maps in which every value is repeated 2×2 times. An output of such
// a convolution depends on only 2×2 different values: in an even row its three taps fall on the values above, here
// and here, in an odd row on here, here and below. Adding up the weights that fall together gives four 2×2
// convolutions of the map before it was doubled, one for each corner of the squares in the output. They take 4
// products instead of 9, forwards and in both gradients. The weight must be an input of e: for constants the
// runtime's fast kernel is as good.
func doubled(e *onnx.Graph) error {
	repeated := map[string]string{} // the tensor that each doubled tensor repeats
	err := e.Rewrite(func(b *onnx.Builder, n *onnx.Node) bool {
		if repeats(e, n) {
			repeated[n.Outputs[0]] = n.Inputs[0]
		}
		from, ok := repeated[n.Inputs[0]]
		if ok = ok && threeByThree(e, n); ok {
			b.Prefix = n.Outputs[0] + "/"
			corners(b, n, from)
		}
		return ok
	})
	if err == nil {
		e.Prune()
	}
	return err
}

// repeats reports whether a node repeats every value of large enough maps 2×2 times.
func repeats(e *onnx.Graph, n *onnx.Node) bool {
	if n.Op != "Resize" || n.Domain != "" {
		return false
	}
	x, y := e.Shapes[n.Inputs[0]], e.Shapes[n.Outputs[0]]
	return n.Str("mode", "nearest") == "nearest" &&
		n.Str("coordinate_transformation_mode", "half_pixel") == "asymmetric" &&
		n.Str("nearest_mode", "round_prefer_floor") == "floor" && len(x) == 4 &&
		slices.Equal(y, onnx.Shape{x[0], x[1], 2 * x[2], 2 * x[3]}) && x[2:].Items() >= doubledFrom
}

// threeByThree reports whether a node is a plain 3×3 Conv that keeps the map's size and whose weight is not a
// constant.
func threeByThree(e *onnx.Graph, n *onnx.Node) bool {
	if n.Op != "Conv" || n.Domain != "" || n.Int("group", 1) != 1 || e.Consts[n.Inputs[1]] != nil {
		return false
	}
	w := e.Shapes[n.Inputs[1]]
	win, err := onnx.NodeWindow(n, w[2:])
	ones := func(v []int64) bool { return !slices.ContainsFunc(v, func(x int64) bool { return x != 1 }) }
	return err == nil && slices.Equal(win.Kernel, []int64{3, 3}) && ones(win.Strides) && ones(win.Dilations) &&
		ones(win.Pads)
}

// corners writes Conv n of from, repeated 2×2 times, as four convolutions in one.
func corners(b *onnx.Builder, n *onnx.Node, from string) {
	x, w := b.Shape(from), b.Shape(n.Inputs[1])
	out, in := w[0], w[1]
	// which[p] lists, for even (0) and odd (1) rows or columns, the index in a pair of neighbours on which each tap
	// falls.
	which := [2][3]int{{0, 1, 1}, {0, 0, 1}}
	sums := make([]float32, 9*16)
	for tap := range 9 {
		for p := range 4 {
			place := which[p/2][tap/3]*2 + which[p%2][tap%3]
			sums[tap*16+p*4+place] = 1
		}
	}
	weight := b.Op("MatMul", b.Op("Reshape", n.Inputs[1], b.Ints(out*in, 9)),
		b.Const(onnx.FloatTensor(onnx.Shape{9, 16}, sums)))
	weight = b.OpWith("Transpose", onnx.Attrs{"perm": []int64{2, 0, 1, 3}},
		b.Op("Reshape", weight, b.Ints(out, in, 4, 4)))
	inputs := []string{from, b.Op("Reshape", weight, b.Ints(4*out, in, 2, 2))}
	if bias := n.Input(2); bias != "" {
		inputs = append(inputs, b.OpWith("Concat", onnx.Attrs{"axis": 0}, bias, bias, bias, bias))
	}
	// With a border of 1, value (r, c) sees rows r − 1 and r. Row j serves the even row 2j, row j + 1 the odd one.
	all := b.OpWith("Conv", onnx.Attrs{"kernel_shape": []int64{2, 2}, "pads": []int64{1, 1, 1, 1}}, inputs...)
	parts := slices.Clone(b.Multi("Split", onnx.Attrs{"axis": 1}, 4, all, b.Ints(out, out, out, out)))
	for p := range parts {
		row, column := int64(p/2), int64(p%2)
		parts[p] = b.Op("Slice", parts[p], b.Ints(row, column), b.Ints(row+x[2], column+x[3]), b.Ints(2, 3))
	}
	squares := b.OpWith("Concat", onnx.Attrs{"axis": 1}, parts...)
	interleaved := &onnx.Node{Op: "DepthToSpace", Name: n.Name, Inputs: []string{squares}, Outputs: n.Outputs}
	interleaved.Set("blocksize", 2)
	interleaved.Set("mode", "DCR")
	b.Append(interleaved)
}
