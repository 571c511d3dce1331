package attacks

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestProjectL1 compares with bisection on the shrinkage and checks the set.
func TestProjectL1(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	for k := range 400 {
		d := 1 + rng.IntN(60)
		x, y := make([]float32, d), make([]float32, d)
		for i := range x {
			x[i], y[i] = rng.Float32(), float32(rng.NormFloat64())*[]float32{0.1, 1, 3}[k%3]
			switch rng.IntN(8) {
			case 0:
				y[i] = 0
			case 1:
				x[i] = 1
			case 2:
				x[i], y[i] = 0.5, 0.25 // equal breakpoints
			}
		}
		radius := 0.05 + 3*rng.Float64()
		got := make([]float32, d)
		projectL1(x, y, got, radius)
		left := func(alpha float64) (out []float64, norm float64) {
			for i, v := range x {
				over := max(0, -min(1-float64(v)-float64(y[i]), float64(v)+float64(y[i])))
				rest := math.Abs(float64(y[i])) - min(max(over, alpha), math.Abs(float64(y[i])))
				out, norm = append(out, math.Copysign(rest, float64(y[i]))), norm+rest
			}
			return out, norm
		}
		lo, hi := 0.0, 20.0
		if _, norm := left(0); norm > radius {
			for range 200 {
				if mid := (lo + hi) / 2; func() bool { _, n := left(mid); return n > radius }() {
					lo = mid
				} else {
					hi = mid
				}
			}
		} else {
			hi = 0
		}
		want, _ := left(hi)
		for i, v := range x {
			if math.Abs(float64(got[i])-float64(v)-want[i]) > 1e-6 {
				t.Fatalf("case %d: value %d moved by %v, want %v", k, i, got[i]-v, want[i])
			}
			if got[i] < 0 || got[i] > 1 {
				t.Fatalf("case %d: %v outside [0,1]", k, got[i])
			}
		}
	}
	nan := float32(math.NaN())
	projectL1([]float32{.5, .5}, []float32{nan, 9}, make([]float32, 2), 1) // ends
}

// TestProjectPlane compares FAB's projections with solutions found by bisection
// (ℓ∞, ℓ2) and by sorting (ℓ1), and checks that they lie on the plane in the box.
func TestProjectPlane(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	for k := range 600 {
		d := 1 + rng.IntN(50)
		x, w := make([]float32, d), make([]float32, d)
		span := 0.0
		for i := range x {
			x[i], w[i] = rng.Float32(), float32(rng.NormFloat64())
			switch rng.IntN(8) {
			case 0:
				w[i] = 0
			case 1:
				x[i] = float32(rng.IntN(2))
			case 2:
				w[i] = 0.5 // ties
			}
			span += math.Abs(float64(w[i]))
		}
		b := span * (rng.Float64()*2 - 1) * 0.5
		excess := -b
		for i, v := range x {
			excess += float64(w[i]) * float64(v)
		}
		sign := 1.0
		if excess < 0 {
			sign, excess = -1, -excess
		}
		room := make([]float64, d)
		most := 0.0
		for i, v := range x {
			if room[i] = 1 - float64(v); float64(w[i])*sign > 0 {
				room[i] = float64(v)
			}
			most += room[i] * math.Abs(float64(w[i]))
		}
		for _, n := range classic {
			got := projected(n, x, w, b)
			want := leastMove(n, w, room, excess)
			on := -b
			for i, v := range x {
				moved := float64(v) + float64(got[i])
				if moved < -1e-6 || moved > 1+1e-6 {
					t.Fatalf("case %d %v: %v outside [0,1]", k, n, moved)
				}
				on += float64(w[i]) * moved
			}
			if excess < most && math.Abs(on) > 1e-5*(1+span) {
				t.Errorf("case %d %v: %v off the plane", k, n, on)
			}
			if excess >= most && math.Abs(math.Abs(on)-(excess-most)) > 1e-5*(1+span) {
				t.Errorf("case %d %v: not at the nearest corner", k, n)
			}
			if length := n.Length(got); math.Abs(length-want) > 1e-5*(1+want) {
				t.Errorf("case %d %v: moved by %v, want %v", k, n, length, want)
			}
		}
	}
}

// projected returns FAB's projection of t onto {u : w·u = b} within [0,1].
func projected(n Norm, t, w []float32, b float64) []float32 {
	d := make([]float32, len(t))
	p := newFiller(borrow(len(t)))
	for i, v := range t {
		b -= float64(w[i]) * float64(v)
	}
	guess := float64(len(t) % 3) // any will do
	p.project(n, t, w, -b, &guess, d)
	return d
}

// leastMove returns the least norm of a move that lowers Σ|w|·move by excess, each move at most its room.
func leastMove(n Norm, w []float32, room []float64, excess float64) float64 {
	if n == L1 {
		order := make([]int, len(w))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int {
			return int(math.Copysign(1, math.Abs(float64(w[b]))-math.Abs(float64(w[a]))))
		})
		sum := 0.0
		for _, i := range order {
			size := math.Abs(float64(w[i]))
			if size == 0 {
				break
			}
			step := min(room[i], excess/size)
			sum, excess = sum+step, excess-step*size
		}
		return sum
	}
	at := func(lambda float64) (gain, length float64) {
		for i, v := range w {
			size := math.Abs(float64(v))
			if size == 0 {
				continue
			}
			step := min(lambda, room[i])
			if n == L2 {
				step = min(lambda*size, room[i])
				length += step * step
			} else {
				length = max(length, step)
			}
			gain += step * size
		}
		if n == L2 {
			length = math.Sqrt(length)
		}
		return gain, length
	}
	lo, hi := 0.0, 1e9
	for range 300 {
		if gain, _ := at((lo + hi) / 2); gain < excess {
			lo = (lo + hi) / 2
		} else {
			hi = (lo + hi) / 2
		}
	}
	_, length := at(hi)
	return length
}
