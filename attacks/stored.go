package attacks

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// PixelForms are the values of [Setup].Pixels: floating point, and the levels k/255 of stored images.
var PixelForms = []string{"float", "8bit"}

// Rounding is what became of an adversarial image when its pixels were rounded to levels.
type Rounding int

// The outcomes; the zero value is of an image that was not rounded, or stayed adversarial.
const (
	Survived Rounding = iota
	Regained          // rounding undid the success, or left the ball; a search among levels mended it
	Lost              // and did not
)

// stored has the images that count lie on the levels k/255 of 8 bits, so that they survive being saved: what an attack
// returns is rounded, and where that undoes the success, mended by a search among the levels within the ball. An image
// that is lost all the same gets a second chance: what the attack returns at full strength, or for the verdict alone.
// The search takes gradients. After an attack that sees labels alone, the image is rounded away from the clean one
// instead.
type stored struct {
	Attack
	norm    Norm
	epsilon float64
	labels  bool // are all that the attack sees
}

// mends is how many steps of the search an image gets.
const mends = 20

// Passes bounds the passes: those of both runs of the attack, and of the searches.
func (a stored) Passes(classes int) (forward, backward int) {
	forward, backward = a.Attack.Passes(classes)
	if a.labels {
		return 2 * (forward + 2), 0
	}
	return 2 * (forward + 2 + mends), 2 * (backward + mends)
}

func (a stored) Perturb(ctx context.Context, o Oracle, im Image, how Options) (Result, error) {
	total := Result{FirstSuccess: -1, FirstForward: -1}
	for _, verdictOnly := range []bool{how.VerdictOnly, !how.VerdictOnly} {
		how.VerdictOnly = verdictOnly
		res, err := a.Attack.Perturb(ctx, o, im, how)
		if err != nil {
			return Result{}, err
		}
		res.Iterations += total.Iterations
		res.Forward += total.Forward
		res.Backward += total.Backward
		res.Starts += total.Starts
		res.Blind += total.Blind
		if res.Adversarial == nil {
			res.Rounded, res.Distance = total.Rounded, 0 // a point beyond epsilon lies on no levels
			return res, nil
		}
		res.FirstSuccess += total.Iterations
		res.FirstForward += total.Forward
		m := &mending{stored: a, attempt: attempt{Options: how, o: o, im: im, res: res,
			eval: Evaluation{Logits: make([]float32, o.Classes())}}}
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

// mending is the search on one image.
type mending struct {
	stored
	attempt
	clean  []float64 // in units of a level, whole ones where the clean image is a stored one
	level  []float64 // whole, or the clean one
	spent  float64   // of the ball, as cost counts
	budget float64
}

// search rounds the adversarial image and mends it.
func (m *mending) search(ctx context.Context) error {
	x := m.res.Adversarial
	from := slices.Clone(x)
	m.begin(from, math.Round)
	m.write(x)
	if wrong, err := m.wrong(ctx, x); err != nil || wrong && m.spent <= m.budget {
		return err // most images survive, for no gradient
	}
	if m.labels {
		m.begin(from, func(v float64) float64 { return math.Ceil(v - 1e-3) })
		m.write(x)
	}
	m.res.Rounded = Lost
	for k := 0; ; k++ {
		ask := func() (bool, error) { return m.gradient(ctx, x, Margin, -1) }
		if m.labels || k == mends {
			ask = func() (bool, error) { return m.wrong(ctx, x) }
		}
		switch wrong, err := ask(); {
		case err != nil:
			return err
		case wrong && m.spent <= m.budget:
			m.res.Rounded = Regained
			return nil
		case m.labels || k == mends || !m.move(m.eval.Gradient):
			return nil
		}
		m.write(x)
	}
}

// write puts the levels into x: where they are the clean image's, its values, which may lie beside their levels.
func (m *mending) write(x []float32) {
	for i, k := range m.level {
		if x[i] = float32(k) / 255; k == m.clean[i] {
			x[i] = m.im.Pixels[i]
		}
	}
}

// begin rounds x, and how far it lies from the clean image. Where that leaves the ball, the values that rounding took
// farthest out are rounded inwards instead.
func (m *mending) begin(x []float32, round func(float64) float64) {
	m.clean, m.level = make([]float64, len(x)), make([]float64, len(x))
	switch e := 255 * m.epsilon * (1 + roundingSlack); m.norm {
	case L0:
		m.budget = m.epsilon
	case L2:
		m.budget = e * e
	default:
		m.budget = e
	}
	out := make([]float64, len(x)) // by how far rounding took a value away from the clean one
	order := make([]int, len(x))
	for i, v := range x {
		m.clean[i] = 255 * float64(m.im.Pixels[i])
		if whole := math.Round(m.clean[i]); math.Abs(m.clean[i]-whole) < 1e-3 {
			m.clean[i] = whole
		}
		exact := 255 * float64(v)
		if exact > m.clean[i] {
			m.level[i] = min(round(exact), 255)
		} else {
			m.level[i] = max(-round(-exact), 0)
		}
		if v == m.im.Pixels[i] {
			m.level[i] = m.clean[i]
		}
		if m.norm == Linf && math.Abs(m.level[i]-m.clean[i]) > m.budget {
			m.level[i] = m.nearer(i)
		}
		out[i] = math.Abs(m.level[i]-m.clean[i]) - math.Abs(exact-m.clean[i])
		order[i] = i
	}
	m.spent = m.total()
	if m.norm == Linf || m.spent <= m.budget {
		return
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(out[b], out[a]) })
	for _, i := range order {
		if m.spent <= m.budget {
			break
		}
		m.set(i, m.nearer(i))
	}
}

// nearer is the next level on the way to the clean value, which it does not pass.
func (m *mending) nearer(i int) float64 {
	switch at, to := m.level[i], m.clean[i]; {
	case at > to:
		return max(math.Ceil(at)-1, to)
	case at < to:
		return min(math.Floor(at)+1, to)
	default:
		return to
	}
}

// cost is what a value at a level takes of the ball. In ℓ∞ values do not share it.
func (m *mending) cost(i int, level float64) float64 {
	switch away := math.Abs(level - m.clean[i]); m.norm {
	case L0:
		if away > 0 {
			return 1
		}
	case L1:
		return away
	case L2:
		return away * away
	}
	return 0
}

func (m *mending) total() (sum float64) {
	for i, k := range m.level {
		sum += m.cost(i, k)
	}
	return sum
}

func (m *mending) set(i int, level float64) {
	m.spent += m.cost(i, level) - m.cost(i, m.level[i])
	m.level[i] = level
}

// move takes every value by at most a level along the gradient: first the moves that leave room in the ball, then those
// that gain most for what they take of it, and, where it is full, in exchange for moves back that cost less than they
// gain. It reports whether any was made.
func (m *mending) move(gradient []float32) bool {
	type step struct {
		at              int
		to, gain, takes float64
	}
	var out, back []step
	moved := false
	for i, g := range gradient {
		to := math.Floor(m.level[i]) + 1
		if g < 0 {
			to = math.Ceil(m.level[i]) - 1
		}
		takes := m.cost(i, to) - m.cost(i, m.level[i])
		switch {
		case g == 0 || to < 0 || to > 255 || m.norm == Linf && math.Abs(to-m.clean[i]) > m.budget:
		case takes <= 0:
			m.set(i, to)
			moved = true
			continue
		default:
			out = append(out, step{i, to, math.Abs(float64(g)), takes})
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
	for _, s := range out {
		if taken[s.at] {
			continue
		}
		lost := 0.0
		for k := 0; m.spent+s.takes > m.budget && k < len(back); k++ {
			b := back[k]
			if taken[b.at] || b.at == s.at || lost+b.gain >= s.gain {
				continue
			}
			m.set(b.at, b.to)
			taken[b.at], moved = true, true
			lost += b.gain
		}
		if m.spent+s.takes <= m.budget {
			m.set(s.at, s.to)
			taken[s.at], moved = true, true
		} else {
			break
		}
	}
	return moved
}
