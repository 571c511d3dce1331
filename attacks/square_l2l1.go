package attacks

import (
	"math"

	"selfheal/internal/vector"
)

// bumps makes Square's proposals in ℓ2 and ℓ1. Windows are filled with a pair of bumps of opposite sign, and the norm
// that one window loses goes to another (Andriushchenko et al. 2020, section 3.3 and algorithm 3; Croce & Hein 2021,
// section 4, for ℓ1).
type bumps struct {
	norm  Norm
	eps   float64
	shape Shape

	delta   []float32      // best − clean image; between a step and its end, with the change that is tried
	length  float64        // norm of best − clean image
	moved   vector.Blocks  // ℓ1: where best differs from the clean image
	strayed vector.Blocks  // ℓ1: where the point tried last may differ from it
	touched vector.Blocks  // ℓ1: a buffer for the point to try
	windows vector.Windows // where delta may differ from best − clean image
	held    []float32      // values of best − clean image there
	shapes  [][]float32    // η by its side

	// Buffers of a step, for each channel:
	first, rest []float64 // powers in the windows, see vector.WindowSums
	signs, k    []float32 // signs of η, and the factor that makes a direction of the values in window one
	sums        []float64 // powers of the new values
	scales      []float64 // factors that scale the new values to their norm
	blocks      []float32 // new values of window one, before scaling
}

func newBumps(a square, shape Shape) *bumps {
	m, c := min(shape.H, shape.W), shape.C
	b := &bumps{norm: a.Norm, eps: a.Epsilon, shape: shape, delta: make([]float32, shape.Size()),
		held: make([]float32, 2*c*m*m), blocks: make([]float32, c*m*m), shapes: make([][]float32, m+1),
		moved: vector.NewBlocks(shape.Size()), strayed: vector.NewBlocks(shape.Size()),
		touched: vector.NewBlocks(shape.Size()),
		signs:   make([]float32, c), k: make([]float32, c)}
	for _, v := range []*[]float64{&b.first, &b.rest, &b.sums, &b.scales} {
		*v = make([]float64, c)
	}
	return b
}

// power returns |v|² in ℓ2 and |v| in ℓ1; root inverts it for a sum of powers.
func (b *bumps) power(v float64) float64 {
	if b.norm == L2 {
		return v * v
	}
	return math.Abs(v)
}

func (b *bumps) root(sum float64) float64 {
	if b.norm == L2 {
		return math.Sqrt(sum)
	}
	return sum
}

// rectangle writes R(h, w), scaled to norm sign, into the h×w rows of out: nested rectangles around the centre.
// Rectangle k (from 0) has half-width k and adds 1/(k+1)² in ℓ2 and 1/(k+1)⁴ in ℓ1.
func (b *bumps) rectangle(h, w int, sign float64, out []float32) {
	rings := max(h/2, w/2) + 1
	inside := make([]float64, rings+1) // inside[k]: sum of rectangles k and beyond
	for k := rings - 1; k >= 0; k-- {
		g := 1 / float64((k+1)*(k+1))
		if b.norm == L1 {
			g *= g
		}
		inside[k] = inside[k+1] + g
	}
	sum := 0.0
	for i := range h {
		for j := range w {
			v := float32(inside[max(i-h/2, h/2-i, j-w/2, w/2-j)])
			out[i*w+j] = v
			sum += b.power(float64(v))
		}
	}
	for i, v := range out[:h*w] {
		out[i] = float32(float64(v) * (sign / b.root(sum)))
	}
}

// eta returns η(s), the s×s pair of bumps with norm 1: the upper half positive, the lower negative.
func (b *bumps) eta(s int) []float32 {
	if b.shapes[s] == nil {
		v := make([]float32, s*s)
		b.rectangle(s/2, s, 1, v)
		b.rectangle(s-s/2, s, -1, v[s/2*s:])
		sum := 0.0
		for _, e := range v {
			sum += b.power(float64(e))
		}
		for i := range v {
			v[i] = float32(float64(v[i]) / b.root(sum))
		}
		b.shapes[s] = v
	}
	return b.shapes[s]
}

// strides returns how an index into η moves per row and column of the window: with probability ½ the bumps lie side by
// side.
func (b *bumps) strides(s *search, side int) (row, col int) {
	if s.rng.Float64() > 0.5 {
		return 1, side
	}
	return side, 1
}

// start writes the start point: a grid of tiles around the image's centre, each a fifth of the image's shorter side.
// Each tile holds η with a random sign per channel. The whole is scaled to epsilon.
func (b *bumps) start(s *search) {
	clear(b.delta)
	h, w := b.shape.H, b.shape.W
	side := min(h, w) / 5
	eta := b.eta(side)
	for top := h % side / 2; top+side <= h; top += side {
		for left := w % side / 2; left+side <= w; left += side {
			row, col := b.strides(s, side)
			for c := range b.shape.C {
				sign := randomSign(s.rng)
				for i := range side {
					at := (c*h+top+i)*w + left
					for j := range side {
						b.delta[at+j] = sign * eta[i*row+j*col]
					}
				}
			}
		}
	}
	x := s.im.Pixels
	if b.norm == L1 {
		projectL1(x, b.delta, s.tried, b.radius())
	} else {
		vector.AddScaledClamped(x, b.delta, float32(b.eps/(L2.Length(b.delta)+1e-12)), s.tried)
	}
	b.measure(x, s.tried)
	copy(b.strayed, b.moved)
}

// radius returns the radius of the ℓ1 projection, slightly less than epsilon.
func (b *bumps) radius() float64 { return b.eps * (1 - 1e-6) }

// measure stores the perturbation of a point that becomes the best one.
func (b *bumps) measure(x, point []float32) {
	vector.Difference(point, x, b.delta)
	b.length = b.norm.Length(b.delta)
	b.moved.NotZero(b.delta)
}

// step writes a proposal into s.tried. Window one gets the direction of its values plus η; its norm becomes the norm of
// both windows plus its share of the norm that the perturbation lacks to epsilon. Window two is cleared.
func (b *bumps) step(s *search, side int) {
	one, two := s.randomWindow(side), s.randomWindow(side)
	eta := b.eta(side)
	row, col := b.strides(s, side)
	b.windows = vector.Windows{C: b.shape.C, H: b.shape.H, W: b.shape.W, Side: side,
		Top: one.top, Left: one.left, Top2: two.top, Left2: two.left}
	squares := b.norm == L2
	vector.WindowSums(b.delta, b.windows, squares, b.first, b.rest)
	for c, first := range b.first {
		b.signs[c], b.k[c] = randomSign(s.rng), float32(1/(1e-12+b.root(first)))
	}
	vector.WindowAdd(b.delta, b.windows, eta, row, col, b.signs, b.k, squares, b.blocks, b.sums)
	lack := max(b.power(b.eps)-b.power(b.length), 0) / float64(b.shape.C)
	change := 0.0 // of the sum of powers over the image
	for c, sum := range b.sums {
		held := b.first[c] + b.rest[c]
		target := b.root(lack + held)
		if b.norm == L1 {
			target *= float64(b.shape.C)
		}
		b.scales[c] = target / (1e-12 + b.root(sum))
		change += b.scales[c]*b.scales[c]*sum - held
	}
	vector.WindowWrite(b.delta, b.windows, b.blocks, b.scales, b.held)
	if b.norm == L2 {
		total := math.Sqrt(max(b.length*b.length+change, 0))
		vector.AddScaledClamped(s.im.Pixels, b.delta, float32(b.eps/(total+1e-12)), s.tried)
	} else {
		b.project(s, one)
	}
}

// project applies projectL1 to delta, in which few values are not 0: those in a window and those that best has moved.
// All other values of s.tried are set to the clean image's.
func (b *bumps) project(s *search, changed window) {
	copy(b.touched, b.moved)
	for c := range b.shape.C {
		s.rows(changed, c, b.touched.Mark)
	}
	b.strayed.MarkAll(b.touched)
	w := borrow(len(b.delta))
	defer w.giveBack()
	vector.ShrinkBlocks(s.im.Pixels, b.delta, b.radius(), b.strayed, w.v[0], w.v[1], s.tried)
	b.strayed, b.touched = b.touched, b.strayed
}
