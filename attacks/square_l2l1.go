package attacks

import (
	"math"

	"selfheal/internal/vector"
)

// bumps makes Square's proposals in ℓ2 and ℓ1: windows are filled with a pair of
// bumps of opposite sign, and the norm that one window loses goes to another
// (Andriushchenko et al. 2020, section 3.3 and algorithm 3; Croce & Hein 2021,
// section 4, for ℓ1).
type bumps struct {
	norm  Norm
	eps   float64
	shape Shape

	delta    []float32 // best − clean image, but what is tried between a step and its end
	length   float64   // the norm of best − clean image
	one, two window    // in which delta may differ from that
	held     []float32 // what it has there
	blocks   []float32 // new values of all channels' windows
	shapes   [][]float32
}

func newBumps(a Square, shape Shape) *bumps {
	m := min(shape.H, shape.W)
	return &bumps{
		norm: a.Norm, eps: a.Epsilon, shape: shape,
		delta: make([]float32, shape.Size()), held: make([]float32, 0, 2*shape.C*m*m),
		blocks: make([]float32, shape.C*m*m), shapes: make([][]float32, m+1),
	}
}

// power is |v|² in ℓ2 and |v| in ℓ1; root undoes it for a sum of powers.
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

// rectangle writes R(h, w) with norm sign into the h×w rows of out: nested
// rectangles around the centre, the k-th (from 0) of half-width k adding
// 1/(k+1)² in ℓ2 and 1/(k+1)⁴ in ℓ1.
func (b *bumps) rectangle(h, w int, sign float64, out []float32) {
	rings := max(h/2, w/2) + 1
	inside := make([]float64, rings+1) // inside[k]: what rectangles k and beyond add
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
	scale := sign / b.root(sum)
	for i := range out[:h*w] {
		out[i] = float32(float64(out[i]) * scale)
	}
}

// eta returns η(s), the s×s pair of bumps with norm 1: the upper half positive,
// the lower negative.
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

// strides returns how an index into η moves per row and column of the window:
// with probability ½ the bumps lie side by side.
func (b *bumps) strides(s *search, side int) (row, col int) {
	if s.rng.Float64() > 0.5 {
		return 1, side
	}
	return side, 1
}

// start writes the start point: a grid of tiles, a fifth of the image's shorter
// side each, that fills the image around its centre; each tile holds η with a
// random sign per channel. The whole is scaled to epsilon.
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
}

// radius is that of the ℓ1 projection, a little less than epsilon.
func (b *bumps) radius() float64 { return b.eps * (1 - 1e-6) }

// measure takes the perturbation of a point that becomes the best one.
func (b *bumps) measure(x, point []float32) {
	vector.Difference(point, x, b.delta)
	b.length = b.norm.Length(b.delta)
}

// step writes into s.tried a proposal: window one gets the direction of what is
// there plus η, and the norm of what both windows hold plus its share of what
// the perturbation lacks of epsilon; window two is cleared.
func (b *bumps) step(s *search, side int) {
	one, two := s.randomWindow(side), s.randomWindow(side)
	eta := b.eta(side)
	row, col := b.strides(s, side)
	area := side * side
	lack := max(b.power(b.eps)-b.power(b.length), 0) / float64(b.shape.C)
	change := 0.0 // of the sum of powers over the image
	for c := range b.shape.C {
		sign := randomSign(s.rng)
		sumOne, sumTwo := b.windowSums(s, c, one, two)
		held := sumOne + sumTwo
		block := b.blocks[c*area : (c+1)*area]
		k := float32(1 / (1e-12 + b.root(sumOne)))
		sum, i := 0.0, 0
		s.rows(one, c, func(from, to int) {
			for j, d := range b.delta[from:to] {
				v := sign*eta[i*row+j*col] + float32(d*k)
				block[i*side+j] = v
				sum += b.power(float64(v))
			}
			i++
		})
		target := b.root(lack + held)
		if b.norm == L1 {
			target *= float64(b.shape.C)
		}
		scale := target / (1e-12 + b.root(sum))
		for i, v := range block {
			block[i] = float32(float64(v) * scale)
		}
		change += scale*scale*sum - held
	}
	b.compose(s, one, two)
	if b.norm == L2 {
		total := math.Sqrt(max(b.length*b.length+change, 0))
		vector.AddScaledClamped(s.im.Pixels, b.delta, float32(b.eps/(total+1e-12)), s.tried)
	} else {
		projectL1(s.im.Pixels, b.delta, s.tried, b.radius())
	}
}

// windowSums returns the sums of powers of channel c in window one, and in what
// window two covers outside of it.
func (b *bumps) windowSums(s *search, c int, one, two window) (sumOne, rest float64) {
	s.rows(one, c, func(from, to int) {
		for _, d := range b.delta[from:to] {
			sumOne += b.power(float64(d))
		}
	})
	row := two.top
	s.rows(two, c, func(from, to int) {
		// Columns [skipFrom, skipTo) of this row belong to window one.
		skipFrom, skipTo := to, to
		if row >= one.top && row < one.top+one.side {
			skipFrom = min(max(from+one.left-two.left, from), to)
			skipTo = max(min(from+one.left+one.side-two.left, to), skipFrom)
		}
		for _, d := range b.delta[from:skipFrom] {
			rest += b.power(float64(d))
		}
		for _, d := range b.delta[skipTo:to] {
			rest += b.power(float64(d))
		}
		row++
	})
	return sumOne, rest
}

// compose clears window two of delta and writes the blocks to window one.
func (b *bumps) compose(s *search, one, two window) {
	b.one, b.two, b.held = one, two, b.held[:0]
	b.each(s, one, func(d []float32) { b.held = append(b.held, d...) })
	b.each(s, two, func(d []float32) {
		b.held = append(b.held, d...)
		clear(d)
	})
	blocks := b.blocks
	b.each(s, one, func(d []float32) { blocks = blocks[copy(d, blocks):] })
}

// undo makes delta what it was before compose.
func (b *bumps) undo(s *search) {
	held := b.held
	restore := func(d []float32) { held = held[copy(d, held):] }
	b.each(s, b.one, restore)
	b.each(s, b.two, restore)
}

// each calls f with each row of delta in a window.
func (b *bumps) each(s *search, w window, f func(d []float32)) {
	for c := range b.shape.C {
		s.rows(w, c, func(from, to int) { f(b.delta[from:to]) })
	}
}
