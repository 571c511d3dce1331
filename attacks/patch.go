package attacks

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// PatchKind is the kind of patches in a config.
const PatchKind = "patch"

// SideName is the parameter that a config gives as a list; each value makes its own cell.
const SideName = "sides"

// patch changes the pixels of one square, anywhere in the image, to any values in [0,1] (Rao, Stutz & Schiele 2020,
// "Adversarial Training against Location-Optimized Adversarial Patches", section 3). The square begins with random
// pixels. Each iteration tries it at a place nearby and leaves it there if that raises the loss; otherwise its pixels
// make a step along the gradient's sign. The first run begins where the clean image's gradient is largest, the others
// at random places.
type patch struct {
	common
	Sides, Steps, Restarts, Stride int // Sides is the one side of the square
	StepSize                       float64
}

func (a patch) limit() Limit { return within(a.Sides) }

// within limits the changes to a square with this side.
type within int

// Hidden returns "": the changed pixels tell.
func (within) Hidden() string { return "" }

// Outside measures the smallest square around the changed pixels.
func (w within) Outside(clean []float32, made Result, s Shape) string {
	side := extent(clean, made.Adversarial, s)
	if side <= int(w) {
		return ""
	}
	return fmt.Sprintf("its changed pixels lie in no square of %dx%d, only of side %d", w, w, side)
}

// extent returns the side of the smallest square that holds every pixel in which two images differ.
func extent(a, b []float32, s Shape) int {
	top, bottom, left, right := s.H, -1, s.W, -1
	for i, v := range a {
		if v != b[i] {
			row, col := i/s.W%s.H, i%s.W
			top, bottom, left, right = min(top, row), max(bottom, row), min(left, col), max(right, col)
		}
	}
	return max(bottom-top, right-left, -1) + 1
}

// Check also returns an error for a square that does not fit into the image.
func (a patch) Check(classes int, s Shape) error {
	if most := min(s.H, s.W); a.Sides > most {
		return fmt.Errorf("%s: a side of %d is too large, images are %dx%d", a.name, a.Sides, s.H, s.W)
	}
	return a.common.Check(classes, s)
}

// Passes counts a gradient on the clean image; each run has a gradient and one try nearby per iteration, and a forward
// pass after the last.
func (a patch) Passes(int) (forward, backward int) {
	return 1 + times(a.Restarts, 2*a.Steps+1), 1 + times(a.Restarts, a.Steps)
}

func (a patch) Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error) {
	p := &patchRun{patch: a, attempt: newAttempt(o, im, how), shape: o.Shape(), cur: slices.Clone(im.Pixels),
		tried: slices.Clone(im.Pixels)}
	if _, err := p.gradient(ctx, im.Pixels, a.Loss, -1); err != nil {
		return Result{}, err
	}
	row, col := busiest(p.eval.Gradient, p.shape, a.Sides)
	for restart := 0; restart < a.Restarts && p.adv == nil; restart++ {
		p.rng = generator(how.Seed, a.name, restart, 0, im.ID)
		if restart > 0 {
			row, col = p.rng.IntN(p.shape.H-a.Sides+1), p.rng.IntN(p.shape.W-a.Sides+1)
		}
		if err := p.run(ctx, row, col); err != nil {
			return Result{}, err
		}
	}
	return p.claim(p.adv, Linf, 1), nil
}

// busiest returns the place of the square at which the gradient's values have the largest sum.
func busiest(gradient []float32, s Shape, side int) (row, col int) {
	// above[i][j] sums the first i rows and j columns.
	above := make([][]float64, s.H+1)
	above[0] = make([]float64, s.W+1)
	for i := range s.H {
		above[i+1] = make([]float64, s.W+1)
		line := 0.0
		for j := range s.W {
			for c := range s.C {
				line += math.Abs(float64(gradient[(c*s.H+i)*s.W+j]))
			}
			above[i+1][j+1] = above[i][j+1] + line
		}
	}
	most := math.Inf(-1)
	for i := 0; i+side <= s.H; i++ {
		for j := 0; j+side <= s.W; j++ {
			if sum := above[i+side][j+side] - above[i][j+side] - above[i+side][j] + above[i][j]; sum > most {
				row, col, most = i, j, sum
			}
		}
	}
	return row, col
}

// patchRun is the attack at work on one image.
type patchRun struct {
	patch
	attempt
	shape      Shape
	rng        *rand.Rand
	row, col   int       // upper left corner of the square
	cur, tried []float32 // the image with the square there; a buffer for another
}

// run makes one restart.
func (p *patchRun) run(ctx context.Context, row, col int) error {
	p.row, p.col = row, col
	copy(p.cur, p.im.Pixels)
	p.each(row, col, func(at int) { p.cur[at] = p.rng.Float32() })
	for range p.Steps {
		wrong, err := p.gradient(ctx, p.cur, p.Loss, -1)
		if err != nil || p.note(wrong, p.cur) {
			return err
		}
		switch moved, ends, err := p.shift(ctx, float64(p.eval.Loss)); {
		case err != nil || ends:
			return err
		case !moved:
			p.each(p.row, p.col, func(at int) {
				p.cur[at] = min(max(p.cur[at]+along(p.eval.Gradient[at], float32(p.StepSize)), 0), 1)
			})
		}
		p.res.Iterations++
	}
	wrong, err := p.wrong(ctx, p.cur)
	p.note(wrong, p.cur)
	return err
}

// each calls do with the index of every value of the square at a place.
func (p *patchRun) each(row, col int, do func(at int)) {
	for c := range p.shape.C {
		for i := row; i < row+p.Sides; i++ {
			for j := col; j < col+p.Sides; j++ {
				do((c*p.shape.H+i)*p.shape.W + j)
			}
		}
	}
}

// shift tries the square in a random direction and moves it there if that raises the loss.
func (p *patchRun) shift(ctx context.Context, loss float64) (moved, ends bool, err error) {
	row, col, by := p.row, p.col, p.Stride*(2*p.rng.IntN(2)-1)
	if p.rng.IntN(2) == 0 {
		row = min(max(row+by, 0), p.shape.H-p.Sides)
	} else {
		col = min(max(col+by, 0), p.shape.W-p.Sides)
	}
	if row == p.row && col == p.col {
		return false, false, nil
	}
	copy(p.tried, p.im.Pixels)
	away := (row-p.row)*p.shape.W + col - p.col
	p.each(row, col, func(at int) { p.tried[at] = p.cur[at-away] })
	wrong, err := p.wrong(ctx, p.tried)
	if err != nil {
		return false, false, err
	}
	ends = p.note(wrong, p.tried)
	if p.Loss.Value(p.eval.Logits, p.im.Label, -1) > loss {
		p.row, p.col, p.cur, p.tried = row, col, p.tried, p.cur
		return true, ends, nil
	}
	return false, ends, nil
}
