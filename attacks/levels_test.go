package attacks

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// spends computes the distance of levels from the clean image, in the unit of the grid's budget, by [Norm.Distance].
func spends(g *grid, level []int) float64 {
	x := make([]float32, len(level))
	for i, k := range level {
		x[i] = float32(k) / 255
	}
	d := g.norm.Distance(x, g.clean)
	if g.norm == L2 {
		d *= d
	}
	return d
}

// stand puts levels into a grid.
func (g *grid) stand(level []int) {
	g.level = slices.Clone(level)
	g.spent = g.total()
}

// A move is held against every combination of steps of a level or none that the ball has room for. It gains the most of
// all if all steps cost the same, else never less than nothing, and nearly the most on average; in ℓ0 values that have
// changed go on for nothing, though going home would make room for others.
func TestMovesAgainstAllCombinations(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 7))
	const n = 6
	for _, norm := range Norms() {
		var gained, possible float64
		full := 0
		for try := range 150 {
			clean, gradient, level := make([]float32, n), make([]float32, n), make([]int, n)
			beside := norm == L1 && try%2 == 1 // of the levels: then steps cost more or less
			exact := norm == Linf || norm == L1 && !beside
			for i := range n {
				level[i] = []int{0, 1, 254, 255, 100, 101}[rng.IntN(6)]
				if clean[i] = float32(level[i]) / 255; beside && level[i] > 0 && level[i] < 255 {
					clean[i] += float32(rng.Float64()-0.5) / 255
				}
				gradient[i] = float32(rng.NormFloat64())
				if rng.IntN(8) == 0 {
					gradient[i] = 0
				}
			}
			epsilon := [...]float64{1.5 / 255, 2.4 / 255, 3.5 / 255, 3}[norm]
			m := &levelSearch{grid: newGrid(norm, epsilon, clean)}
			for range 30 { // somewhere in the ball, of levels next to the clean ones
				i := rng.IntN(n)
				by := slices.Clone(m.level)
				if by[i] = m.home[i] + rng.IntN(3) - 1; by[i] >= 0 && by[i] <= 255 && spends(m.grid, by) <= m.budget {
					m.stand(by)
				}
			}
			from := slices.Clone(m.level)
			gain := func(to []int) (sum float64) {
				for i := range to {
					sum += float64(gradient[i]) * float64(to[i]-from[i])
				}
				return sum
			}
			most := 0.0
			for k := range 729 {
				to := slices.Clone(from)
				for i, rest := 0, k; i < n; i, rest = i+1, rest/3 {
					to[i] += rest%3 - 1
				}
				if slices.Min(to) >= 0 && slices.Max(to) <= 255 && spends(m.grid, to) <= m.budget {
					most = max(most, gain(to))
				}
			}
			moved := m.move(gradient)
			got := gain(m.level)
			if spent := spends(m.grid, m.level); spent > m.budget ||
				norm != Linf && math.Abs(spent-m.spent) > 1e-9 {
				t.Errorf("%v, try %d: spent %v of %v, counted %v", norm, try, spent, m.budget, m.spent)
			}
			if spends(m.grid, from)+1/255. > m.budget {
				full++
			}
			if moved == slices.Equal(from, m.level) || got < 0 || exact && got < most-1e-6 ||
				got > most+1e-6 {
				t.Errorf("%v, try %d: from %v by %v to %v: gains %v, the best %v; moved %v", norm, try, from, gradient,
					m.level, got, most, moved)
			}
			gained, possible = gained+got, possible+most
		}
		t.Logf("%v: %.4f of the gain, %d full", norm, gained/possible, full)
		if gained < 0.97*possible {
			t.Errorf("%v: %v of %v gained", norm, gained, possible)
		}
	}
	for _, c := range []struct { // the second value has changed, and no exchange gains anything
		norm    Norm
		epsilon float64
		by      float32
		want    []int
	}{{L0, 1, 5, []int{51, 104}}, {L1, 1.4 / 255, 1, []int{51, 103}}} {
		m := &levelSearch{grid: newGrid(c.norm, c.epsilon, []float32{51. / 255, 102. / 255})}
		m.stand([]int{51, 103})
		m.move([]float32{c.by, 1})
		if !slices.Equal(m.level, c.want) {
			t.Errorf("%v: %v, want %v", c.norm, m.level, c.want)
		}
	}
}

// Rounding takes each value to the nearest level on its side of the clean image, or the one beyond. If these leave
// the ball, as many as needed go a level back, or home in ℓ0, those first that rounding took farthest out.
func TestRoundsIntoTheBall(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 8))
	const n = 7
	for _, norm := range Norms() {
		kept, back := 0, 0
		for try := range 400 {
			clean, x := make([]float32, n), make([]float32, n)
			for i := range n {
				clean[i] = float32(rng.IntN(256)) / 255
				if norm != L0 || rng.IntN(8) == 0 {
					clean[i] = min(max(clean[i]+float32(rng.NormFloat64()*1e-3), 0), 1)
				}
				x[i] = min(max(clean[i]+float32(rng.NormFloat64()*6/255), 0), 1)
				if rng.IntN(4) == 0 {
					x[i] = clean[i]
				}
			}
			by := roundings[Rounding(try%2)] // to the nearest levels, or beyond
			level, out, order := make([]int, n), make([]float64, n), make([]int, n)
			for i, v := range x {
				home := math.Round(255 * float64(clean[i]))
				at := 255 * float64(v)
				switch order[i] = i; {
				case v == clean[i]:
					at = home
				case try%2 == 0:
					at = math.RoundToEven(at)
				case v > clean[i]:
					at = min(math.Ceil(at-1e-3), 255)
				default:
					at = max(math.Floor(at+1e-3), 0)
				}
				level[i] = int(at)
				out[i] = math.Abs(at/255-float64(clean[i])) - math.Abs(float64(v)-float64(clean[i]))
			}
			far := norm.Distance(x, clean)
			g := newGrid(norm, [...]float64{3.5 / 255, far, far, 4}[norm], clean)
			if !g.fits() {
				continue
			}
			if norm == Linf {
				for i := range level {
					for math.Abs(float64(float32(level[i])/255)-float64(clean[i])) > g.budget {
						level[i] += int(math.Copysign(1, float64(g.home[i]-level[i])))
					}
				}
			}
			slices.SortStableFunc(order, func(a, b int) int { return int(math.Copysign(1, out[b]-out[a])) })
			again := 0
			for k := 0; spends(g, level) > g.budget; k++ {
				i := order[k%n]
				switch again++; {
				case norm == L0 || level[i] == g.home[i]:
					level[i] = g.home[i]
				case level[i] > g.home[i]:
					level[i]--
				default:
					level[i]++
				}
			}
			if again > 0 {
				back++
			} else {
				kept++
			}
			if g.round(x, by); !slices.Equal(g.level, level) || math.Abs(g.spent-g.total()) > 1e-12 {
				t.Errorf("%v, try %d: levels %v, want %v; spent %v of %v", norm, try, g.level, level, g.spent, g.budget)
			}
			if got := spends(g, g.level); norm != Linf && math.Abs(got-g.spent) > 1e-9 {
				t.Errorf("%v, try %d: spent %v, counted %v", norm, try, got, g.spent)
			}
		}
		if kept < 20 || norm != Linf && back < 20 {
			t.Errorf("%v: %d stay as they are rounded, %d go back", norm, kept, back)
		}
	}
}

// An image that lies on levels takes nothing of the ball; budgets are epsilon's, in ℓ2 its square.
func TestGridBegins(t *testing.T) {
	t.Parallel()
	clean := []float32{0, 10.25 / 255, 254.75 / 255, 1}
	for _, n := range Norms() {
		g := newGrid(n, 2, clean)
		budget := [...]float64{2, 4, 2, 2}[n]
		spent := [...]float64{0, 2 * 0.25 * 0.25 / 255 / 255, 0.5 / 255, 2}[n]
		if !slices.Equal(g.home, []int{0, 10, 255, 255}) || math.Abs(g.spent-spent) > 1e-7 ||
			g.budget < budget || g.budget > budget*(1+2e-5) || n == L0 && g.budget != 2 {
			t.Errorf("%v: levels %v, %v of %v spent", n, g.home, g.spent, g.budget)
		}
	}
}
