package attacks

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// PixelForms are the values of [Setup].Pixels: floating point, and the levels k/255 of stored images.
var PixelForms = []string{"float", "8bit"}

// Rounding tells how an adversarial image fared when its pixels were rounded to levels.
type Rounding int

// The outcomes; the zero value means that the image was not rounded, or stayed adversarial.
const (
	Survived Rounding = iota
	Regained          // rounding undid the success; a search among levels regained it
	Lost              // no search regained it, or the clean image has no levels within epsilon
)

// stored wraps an attack so that only images on the levels k/255 of 8 bits count: saved as bytes and read again, they
// are the same. It rounds what the attack returns. If that undoes the success, a search among the levels within the
// ball, which takes gradients, tries to regain it. An image that is still lost gets a second chance: the attack runs
// again with the other value of [Options].VerdictOnly.
//
// The clean image stays as it is, even if its values lie between the levels: rounding them counts as a perturbation. An
// image that has no levels within epsilon can't be stored and counts as robust. Attacks that see labels alone round
// within their own queries instead: see [questions].
type stored struct {
	Attack
	norm    Norm
	epsilon float64
}

// searchSteps is the number of search steps for an image.
const searchSteps = 20

// Passes bounds the passes of both runs of the attack and of the searches.
func (a stored) Passes(classes int) (forward, backward int) {
	forward, backward = a.Attack.Passes(classes)
	return 2 * (forward + 2 + searchSteps), 2 * (backward + searchSteps)
}

func (a stored) Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error) {
	total := Result{FirstSuccess: -1, FirstForward: -1}
	m := &levelSearch{grid: newGrid(a.norm, a.epsilon, im.Pixels)}
	if !m.fits() {
		total.Rounded = Lost
		return total, ctx.Err()
	}
	for _, verdictOnly := range []bool{how.VerdictOnly, !how.VerdictOnly} {
		how.VerdictOnly = verdictOnly
		res, err := a.Attack.Perturb(ctx, o, im, how)
		if err != nil {
			return Result{}, err
		}
		how.Memory = nil // it is of the first run
		res.Iterations += total.Iterations
		res.Forward += total.Forward
		res.Backward += total.Backward
		res.Starts += total.Starts
		res.Blind += total.Blind
		if res.Adversarial == nil {
			res.Rounded, res.Distance = total.Rounded, 0 // a point beyond epsilon is not on levels
			return res, nil
		}
		res.FirstSuccess += total.Iterations
		res.FirstForward += total.Forward
		m.attempt = attempt{Options: how, o: o, im: im, res: res,
			eval: Evaluation{Logits: make([]float32, o.Classes())}}
		if err := m.search(ctx); err != nil {
			return Result{}, err
		}
		if total = m.res; total.Distance > 0 {
			total.Distance = a.norm.Distance(total.Adversarial, im.Pixels)
		}
		if total.Rounded != Lost {
			return total, nil
		}
		total.Adversarial, total.Distance, total.FirstSuccess, total.FirstForward = nil, 0, -1, -1
	}
	return total, nil
}

// Store moves x, a point of the ball around the clean image, to levels k/255 in the ball. It reports whether there are
// such levels; if not, x stays.
func Store(n Norm, epsilon float64, clean, x []float32) bool {
	g := newGrid(n, epsilon, clean)
	if g.fits() {
		g.round(x, math.Round)
		g.write(x)
	}
	return g.fits()
}

// levelSearch is the search for one image that can be stored.
type levelSearch struct {
	attempt
	*grid
}

// search rounds the adversarial image and searches if rounding undid the success.
func (m *levelSearch) search(ctx context.Context) error {
	x := m.res.Adversarial
	m.round(x, math.Round)
	m.write(x)
	if wrong, err := m.wrong(ctx, x); err != nil || wrong {
		return err // most images survive rounding and cost no gradient
	}
	m.res.Rounded = Lost
	for range searchSteps {
		wrong, err := m.gradient(ctx, x, Margin, -1)
		if wrong {
			m.res.Rounded = Regained
		}
		if wrong || err != nil || !m.move(m.eval.Gradient) {
			return err
		}
		m.write(x)
	}
	wrong, err := m.wrong(ctx, x)
	if wrong {
		m.res.Rounded = Regained
	}
	return err
}

// grid is an image on the levels, and how much of the ball around the clean one it uses.
type grid struct {
	norm   Norm
	clean  []float32
	home   []int // levels nearest to the clean image
	level  []int
	spent  float64 // used part of the ball, in units of cost
	budget float64
}

// byteLevels are the 8-bit levels in float32, computed as data sets compute them from bytes.
var byteLevels = func() (all [256]float32) {
	for k := range all {
		all[k] = float32(k) / 255
	}
	return all
}()

// BetweenLevels reports whether a value is none of the levels k/255.
func BetweenLevels(v float32) bool { return v != float32(math.Round(255*float64(v)))/255 }

// newGrid begins at the levels nearest to the clean image, whose values lie in [0,1].
func newGrid(n Norm, epsilon float64, clean []float32) *grid {
	g := &grid{norm: n, clean: clean, budget: epsilon * (1 + roundingSlack)}
	switch n {
	case L0:
		g.budget = epsilon
	case L2:
		g.budget *= g.budget
	}
	for _, v := range clean {
		g.home = append(g.home, int(math.Round(255*float64(v))))
	}
	g.level = slices.Clone(g.home)
	g.spent = g.total()
	return g
}

// fits reports whether the levels lie in the ball. If the nearest ones do not, none do.
func (g *grid) fits() bool { return g.spent <= g.budget }

// write puts the levels into x.
func (g *grid) write(x []float32) {
	for i, k := range g.level {
		x[i] = byteLevels[k]
	}
}

// away returns the distance of a level from the clean value.
func (g *grid) away(i, level int) float64 {
	return math.Abs(float64(byteLevels[level]) - float64(g.clean[i]))
}

// round rounds x. by rounds 255·v for a value above the clean one and −255·v for one below it, so that math.Ceil rounds
// away from the clean image. If the result leaves the ball, values are rounded towards the clean image instead until it
// fits, beginning with those that rounding moved farthest out.
func (g *grid) round(x []float32, by func(float64) float64) {
	out := make([]float64, len(x)) // how far rounding moved each value away from the clean one
	order := make([]int, len(x))
	for i, v := range x {
		switch clean := g.clean[i]; {
		case v == clean:
			g.level[i] = g.home[i]
		case v > clean:
			g.level[i] = min(int(by(255*float64(v))), 255)
		default:
			g.level[i] = max(-int(by(-255*float64(v))), 0)
		}
		for g.norm == Linf && g.away(i, g.level[i]) > g.budget {
			g.level[i] = g.nearer(i)
		}
		out[i] = g.away(i, g.level[i]) - math.Abs(float64(v)-float64(g.clean[i]))
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(out[b], out[a]) })
	for g.spent = g.total(); !g.fits(); g.spent = g.total() { // in the end it is back at the nearest levels
		for _, i := range order {
			if g.fits() {
				break
			}
			g.set(i, g.nearer(i))
		}
	}
}

// nearer returns the next level on the way to the one nearest to the clean value. In ℓ0, where distance does not count,
// it returns that one.
func (g *grid) nearer(i int) int {
	if g.norm == L0 {
		return g.home[i]
	}
	return g.level[i] + cmp.Compare(g.home[i], g.level[i])
}

// cost returns how much of the ball a value at a level uses. In ℓ∞ values do not share the ball.
func (g *grid) cost(i, level int) float64 {
	switch away := g.away(i, level); {
	case g.norm == L0 && away > 0:
		return 1
	case g.norm == L0:
		return 0
	case g.norm == L1:
		return away
	case g.norm == L2:
		return away * away
	case away > g.budget:
		return math.Inf(1)
	}
	return 0
}

func (g *grid) total() (sum float64) {
	for i, k := range g.level {
		sum += g.cost(i, k)
	}
	return sum
}

func (g *grid) set(i, level int) {
	g.spent += g.cost(i, level) - g.cost(i, g.level[i])
	g.level[i] = level
}

// move takes every value by at most one level along the gradient. It first makes the moves that leave room in the ball,
// then those that gain most for their cost. When the ball is full, it exchanges them for moves back that cost less than
// they gain. It reports whether it made any.
func (m *levelSearch) move(gradient []float32) bool {
	type step struct {
		at, to      int
		gain, takes float64
	}
	var out, back []step
	moved := false
	for i, g := range gradient {
		to := m.level[i] + 1
		if g < 0 {
			to = m.level[i] - 1
		}
		if g != 0 && to >= 0 && to <= 255 {
			switch takes := m.cost(i, to) - m.cost(i, m.level[i]); {
			case takes <= 0:
				m.set(i, to)
				moved = true
				continue
			case takes <= m.budget:
				out = append(out, step{i, to, math.Abs(float64(g)), takes})
			}
		}
		if m.norm != Linf {
			to := m.nearer(i)
			if frees := m.cost(i, m.level[i]) - m.cost(i, to); frees > 0 {
				back = append(back, step{i, to, math.Abs(float64(g)), frees})
			}
		}
	}
	worth := func(a, b step) int { return cmp.Compare(b.gain*a.takes, a.gain*b.takes) }
	slices.SortStableFunc(out, worth)
	slices.SortStableFunc(back, func(a, b step) int { return worth(b, a) })
	taken := map[int]bool{}
	do := func(s step) {
		m.set(s.at, s.to)
		taken[s.at], moved = true, true
	}
	for _, s := range out {
		if taken[s.at] {
			continue
		}
		lost, freed := 0.0, 0.0
		var swapped []step
		for k := 0; m.spent+s.takes-freed > m.budget && k < len(back); k++ {
			if b := back[k]; !taken[b.at] && b.at != s.at && lost+b.gain < s.gain {
				swapped = append(swapped, b)
				lost += b.gain
				freed += b.takes
			}
		}
		if m.spent+s.takes-freed > m.budget {
			break
		}
		for _, b := range swapped {
			do(b)
		}
		do(s)
	}
	return moved
}
