package simplify

import "selfheal/models/onnx"

// lowerGridSample reads an image between its pixels: the pixels near each place are gathered and added up with weights,
// which follow the place smoothly. Places outside of the image are brought to where the values are the same.
func lowerGridSample(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	x, grid := s.g.Shapes[n.Inputs[0]], s.g.Shapes[n.Inputs[1]]
	m := sampler{b, n.Str("mode", ""), n.Str("padding_mode", "zeros"), n.Int("align_corners", 0) == 1, 0}
	switch m.mode {
	case "", "bilinear", "linear":
		m.mode, m.rim = "linear", 1 // where pixels without weight lie
	case "bicubic", "cubic":
		m.mode = "cubic"
	case "nearest":
	default:
		onnx.Refuse("has mode %q", m.mode)
	}
	if m.padding == "zeros" {
		m.rim = 2
	}
	pixels := b.Op("Pad", n.Inputs[0], b.Ints(0, 0, m.rim, m.rim, 0, 0, m.rim, m.rim))
	height, width := x[2]+2*m.rim, x[3]+2*m.rim
	axis := func(i int, pixels int64) []tap {
		at := b.OpWith("Gather", onnx.Attrs{"axis": 3}, n.Inputs[1], b.Ints(int64(i)))
		return m.taps(b.Reshape(at, onnx.Shape{onnx.Batch, 1, grid[1] * grid[2]}), float64(pixels-1))
	}
	columns := axis(0, x[3])
	pixels = b.Reshape(pixels, onnx.Shape{onnx.Batch, x[1], height * width})
	y := ""
	for _, v := range axis(1, x[2]) {
		row := ""
		for _, h := range columns {
			index := b.Op("Add", b.Op("Mul", v.index, b.Float(float32(width))), h.index)
			index = b.Op("Expand", b.OpWith("Cast", onnx.Attrs{"to": int64(onnx.Int64)}, index), b.Ints(1, x[1], 1))
			row = m.added(row, b.OpWith("GatherElements", onnx.Attrs{"axis": 2}, pixels, index), h.weight)
		}
		y = m.added(y, row, v.weight)
	}
	return b.Reshape(y, onnx.Shape{onnx.Batch, x[1], grid[1], grid[2]})
}

// sampler reads images of which rim zeros have been put on each side.
type sampler struct {
	*onnx.Builder
	mode, padding string
	aligned       bool // −1 and 1 are the middles of the outer pixels, and not their edges
	rim           int64
}

// added adds a weighted term to a sum; "" stands for a sum of nothing and for the weight 1.
func (m sampler) added(sum, term, weight string) string {
	if weight != "" {
		term = m.Op("Mul", term, weight)
	}
	if sum != "" {
		term = m.Op("Add", sum, term)
	}
	return term
}

// tap is a pixel's number along an axis, as a float, and its weight; "" for 1.
type tap struct{ index, weight string }

// taps returns the pixels near places along an axis, whose pixels lie from 0 to last.
func (m sampler) taps(at string, last float64) []tap {
	edge := 0.5
	if m.aligned {
		edge = 0
	}
	p := m.Op("Sub", m.Op("Mul", m.Op("Add", at, m.num(1)), m.num(last/2+edge)), m.num(edge))
	if m.mode == "nearest" {
		p = m.Op("Round", p)
	}
	reflect := func(p string) string { return p }
	beyond := 0.0 // how far outside of the pixels the values change
	switch {
	case m.padding == "zeros":
		beyond = 2
	case m.padding == "reflection":
		if last+edge > 0 {
			reflect = func(p string) string { return m.reflected(p, edge, last+2*edge) }
		}
		p, beyond = reflect(p), edge
	case m.padding != "border":
		onnx.Refuse("has padding_mode %q", m.padding)
	}
	if m.mode == "cubic" {
		beyond = max(beyond, 3)
	} else if m.padding != "zeros" {
		beyond, reflect = 0, func(p string) string { return p }
	}
	p = m.Op("Clip", p, m.num(-beyond), m.num(last+beyond))
	pixel := func(k float64) string { // the k-th behind the one at or before the place
		i, rim := m.Op("Add", m.Op("Floor", p), m.num(k)), float64(m.rim)
		return m.Op("Add", m.Op("Clip", reflect(i), m.num(-rim), m.num(last+rim)), m.num(rim))
	}
	if m.mode == "nearest" {
		return []tap{{pixel(0), ""}}
	}
	f := m.OpWith("Mod", onnx.Attrs{"fmod": 1}, m.Op("Add", p, m.num(4)), m.num(1)) // how far behind that it lies
	rest := m.Op("Sub", m.num(1), f)
	if m.mode == "linear" {
		return []tap{{pixel(0), rest}, {pixel(1), f}}
	}
	const a = -0.75
	near := func(d string) string { return m.cubic(d, a+2, -a-3, 0, 1) }
	far := func(d string) string { return m.cubic(m.Op("Add", d, m.num(1)), a, -5*a, 8*a, -4*a) }
	return []tap{{pixel(-1), far(f)}, {pixel(0), near(f)}, {pixel(1), near(rest)}, {pixel(2), far(rest)}}
}

// reflected reflects places at −edge and span − edge, as often as needed.
func (m sampler) reflected(p string, edge, span float64) string {
	d := m.OpWith("Mod", onnx.Attrs{"fmod": 1}, m.Op("Abs", m.Op("Add", p, m.num(edge))), m.num(2*span))
	return m.Op("Sub", m.num(span-edge), m.Op("Abs", m.Op("Sub", d, m.num(span))))
}

// cubic computes a·d³ + b·d² + c·d + e.
func (m sampler) cubic(d string, a, b, c, e float64) string {
	y := m.Op("Add", m.Op("Mul", m.num(a), d), m.num(b))
	return m.Op("Add", m.Op("Mul", m.Op("Add", m.Op("Mul", y, d), m.num(c)), d), m.num(e))
}

func (m sampler) num(v float64) string { return m.Float(float32(v)) }

// affineGrid computes a grid of places for GridSample: θ·(x, y, 1) for those of the pixels.
func affineGrid(s *simplifier, b *onnx.Builder, n *onnx.Node) string {
	size := onnx.Sure(s.ShapesOf(n, s.g.Shapes[n.Inputs[0]], nil))[0]
	height, width := size[1], size[2]
	onnx.Require(height <= maxFold/width, "makes a grid of %d×%d places", width, height)
	aligned := n.Int("align_corners", 0) == 1
	onnx.Require(!aligned || min(height, width) > 1, "aligns the corners of one place, where runtimes differ")
	place := func(i, pixels int64) float32 {
		if aligned {
			return float32(2*i)/float32(pixels-1) - 1
		}
		return float32(2*i+1)/float32(pixels) - 1
	}
	places := make([]float32, 3*height*width)
	for i := range height * width {
		places[i], places[height*width+i] = place(i%width, width), place(i/width, height)
		places[2*height*width+i] = 1
	}
	t := b.Op("MatMul", n.Inputs[0], b.Const(onnx.FloatTensor(onnx.Shape{3, height * width}, places)))
	return b.Reshape(b.Transpose(t, 0, 2, 1), size)
}
