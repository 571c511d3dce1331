package vector_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"selfheal/internal/vector"
)

// lengths around the blocks that the walks are made in.
var lengths = []int{0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 100, 3072}

// sample draws values of every kind: of both signs, zeros, equal ones, values outside
// [0,1] and, in one vector of four, NaN.
func sample(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		switch rng.IntN(6) {
		case 0:
			v[i] = 0
		case 1:
			v[i] = 0.25
		case 2:
			v[i] = float32(math.Copysign(0, -1))
		default:
			v[i] = float32(rng.NormFloat64())
		}
	}
	if n > 0 && rng.IntN(4) == 0 {
		v[rng.IntN(n)] = float32(math.NaN())
	}
	return v
}

// same reports whether two vectors have the same bits, any NaN being equal to any other.
func same(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool {
		return math.Float32bits(x) == math.Float32bits(y) || math.IsNaN(float64(x)) && math.IsNaN(float64(y))
	})
}

// lanes adds terms as the C code does: in sixteen parts, then pairwise.
func lanes(n int, term func(i int) float64) float64 {
	var s [16]float64
	for i := range n {
		s[i%16] += term(i)
	}
	for half := 8; half > 0; half /= 2 {
		for l := range half {
			s[l] += s[l+half]
		}
	}
	return s[0]
}

func equal(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// pick returns a if a condition holds, otherwise b.
func pick(holds bool, a, b float32) float32 {
	if holds {
		return a
	}
	return b
}

// The walks do this to a value, with C's treatment of NaN and −0.
func abs(v float32) float32           { return math.Float32frombits(math.Float32bits(v) &^ (1 << 31)) }
func less(a, b float32) float32       { return pick(a < b, a, b) }
func more(a, b float32) float32       { return pick(a > b, a, b) }
func clamp(v float32) float32         { return pick(v < 0, 0, pick(v > 1, 1, v)) }
func along(g, step float32) float32   { return pick(g > 0, step, pick(g < 0, -step, 0)) }
func against(w, size float32) float32 { return signed(size, ^math.Float32bits(w*flip)) }
func apart(a, b float32) float64      { return float64(a) - float64(b) }

// signed gives a size the sign in the highest bit.
func signed(size float32, bits uint32) float32 {
	return math.Float32frombits(math.Float32bits(size) | bits&(1<<31))
}

func shrunk(x, y, point, alpha float32) float32 {
	over := more(more(y-(1-x), -(x+y)), 0)
	return clamp(point - signed(less(more(over, alpha), abs(y)), math.Float32bits(y)))
}

var flip = float32(-1) // of a constant the compiler makes a negation, which turns the sign of NaN too

type values = []float32

// inputs are the arguments of a walk; out is its output's content before, rooms and sizes are |a| and |b|.
type inputs struct {
	a, b, c, d, e, out, rooms, sizes values
	k, w, least                      float32
	lambda                           float64
	pace                             vector.Pace
}

func (in inputs) paceOf(size float32) float64 {
	if in.pace == vector.BySize {
		return float64(size)
	}
	return 1 + 0*float64(size) // it is NaN for a size of NaN
}

// reached reports whether lambda takes coordinate i to its room.
func (in inputs) reached(i int) bool { return !(float64(in.a[i]) > in.lambda*in.paceOf(in.b[i])) }

// line returns a + λ·b at i, in two roundings.
func (in inputs) line(i int) float64 { return float64(in.a[i]) + float64(in.lambda*float64(in.b[i])) }

// vectors are the walks that write a vector, each with the value that it writes at i.
var vectors = map[string]struct {
	walk  func(in inputs, out values)
	value func(in inputs, i int) float32
}{
	"Difference": {func(in inputs, out values) { vector.Difference(in.a, in.b, out) },
		func(in inputs, i int) float32 { return in.a[i] - in.b[i] }},
	"Scaled": {func(in inputs, out values) { vector.Scaled(in.a, in.k, out) },
		func(in inputs, i int) float32 { return in.a[i] * in.k }},
	"AddScaled": {func(in inputs, out values) { vector.AddScaled(in.a, in.b, in.k, out) },
		func(in inputs, i int) float32 { return in.a[i] + float32(in.b[i]*in.k) }},
	"AddScaledClamped": {func(in inputs, out values) { vector.AddScaledClamped(in.a, in.b, in.k, out) },
		func(in inputs, i int) float32 { return clamp(in.a[i] + float32(in.b[i]*in.k)) }},
	"Toward": {func(in inputs, out values) { vector.Toward(in.a, out, in.k) },
		func(in inputs, i int) float32 { return in.a[i] + float32((in.out[i]-in.a[i])*in.k) }},
	"TowardClamped": {func(in inputs, out values) { vector.TowardClamped(in.a, out, in.k) },
		func(in inputs, i int) float32 { return clamp(in.a[i] + float32((in.out[i]-in.a[i])*in.k)) }},
	"SignStep": {func(in inputs, out values) { vector.SignStep(in.a, in.b, in.c, in.d, in.e, in.k, in.w, out) },
		func(in inputs, i int) float32 {
			c := in.b[i]
			z := less(more(c+along(in.c[i], in.k), in.d[i]), in.e[i])
			z = c + float32((z-c)*in.w) + float32((c-in.a[i])*(1-in.w))
			return less(more(z, in.d[i]), in.e[i])
		}},
	"Momentum": {func(in inputs, out values) { vector.Momentum(in.a, in.b, in.w, out) },
		func(in inputs, i int) float32 {
			return in.b[i] + float32((in.out[i]-in.b[i])*in.w) + float32((in.b[i]-in.a[i])*(1-in.w))
		}},
	"SparseStep": {func(in inputs, out values) { vector.SparseStep(in.a, in.b, in.c, in.least, in.k, out) },
		func(in inputs, i int) float32 {
			return in.b[i] + along(in.c[i], pick(abs(in.c[i]) >= in.least, in.k, 0)) - in.a[i]
		}},
	"Rooms": {func(in inputs, out values) { vector.Rooms(in.a, in.b, flip, in.least, out, in.c) },
		func(in inputs, i int) float32 { return pick(in.b[i]*flip < 0, 1-in.a[i], in.a[i]) }},
	"Rooms, sizes": {func(in inputs, out values) { vector.Rooms(in.a, in.b, flip, in.least, in.c, out) },
		func(in inputs, i int) float32 { return pick(abs(in.b[i]) <= in.least, 0, abs(in.b[i])) }},
	"Moves": {func(in inputs, out values) { vector.Moves(in.c, in.rooms, in.sizes, flip, in.lambda, in.pace, out) },
		func(in inputs, i int) float32 {
			move := less(float32(in.lambda*in.paceOf(in.sizes[i])), in.rooms[i])
			return against(in.c[i], pick(in.sizes[i] == 0, 0, move))
		}},
	"MovesFrom": {func(in inputs, out values) { vector.MovesFrom(in.c, in.rooms, in.b, flip, in.least, out) },
		func(in inputs, i int) float32 { return pick(in.b[i] >= in.least, against(in.c[i], in.rooms[i]), 0) }},
	"Combine": {func(in inputs, out values) { vector.Combine(in.a, in.b, in.c, in.w, in.k, out) },
		func(in inputs, i int) float32 {
			x := (in.out[i] + float32(in.k*in.b[i])) * (1 - in.w)
			return clamp(float32(x) + float32((in.a[i]+float32(in.c[i]*in.k))*in.w))
		}},
	"Shrink": {func(in inputs, out values) { vector.Shrink(in.a, out, in.k, out) },
		func(in inputs, i int) float32 { return shrunk(in.a[i], in.out[i], in.a[i]+in.out[i], in.k) }},
	"ShrinkPoint": {func(in inputs, out values) { vector.ShrinkPoint(in.a, in.b, in.k, out) },
		func(in inputs, i int) float32 { return shrunk(in.a[i], in.b[i], in.out[i], in.k) }},
}

// sums are the walks that add terms up, each with its term at i.
var sums = map[string]struct {
	walk func(in inputs) float64
	term func(in inputs, i int) float64
}{
	"DotDifference": {func(in inputs) float64 { return vector.DotDifference(in.a, in.b, in.c) },
		func(in inputs, i int) float64 { return float64(in.a[i]) * apart(in.b[i], in.c[i]) }},
	"Dot": {func(in inputs) float64 { return vector.Dot(in.a, in.b) },
		func(in inputs, i int) float64 { return float64(in.a[i]) * float64(in.b[i]) }},
	"Spread": {func(in inputs) float64 { s, _ := vector.Spread(in.a, in.b, in.lambda, in.c); return s },
		func(in inputs, i int) float64 { return math.Abs(in.line(i)) * float64(in.c[i]) }},
	"Spread, slope": {func(in inputs) float64 { _, s := vector.Spread(in.a, in.b, in.lambda, in.c); return s },
		func(in inputs, i int) float64 {
			return math.Copysign(1, in.line(i)) * float64(in.b[i]) * float64(in.c[i])
		}},
	"Sum1": {func(in inputs) float64 { return vector.Sum1(in.a) },
		func(in inputs, i int) float64 { return float64(abs(in.a[i])) }},
	"Sum2": {func(in inputs) float64 { return vector.Sum2(in.a) },
		func(in inputs, i int) float64 { return float64(in.a[i]) * float64(in.a[i]) }},
	"Distance1": {func(in inputs) float64 { return vector.Distance1(in.a, in.b) },
		func(in inputs, i int) float64 { return math.Abs(apart(in.a[i], in.b[i])) }},
	"Distance2": {func(in inputs) float64 { return vector.Distance2(in.a, in.b) },
		func(in inputs, i int) float64 { return apart(in.a[i], in.b[i]) * apart(in.a[i], in.b[i]) }},
	"Changed": {func(in inputs) float64 { return float64(vector.Changed(in.a, in.b)) },
		func(in inputs, i int) float64 { return float64(pick(in.a[i] != in.b[i], 1, 0)) }},
	"CountFrom": {func(in inputs) float64 { return float64(vector.CountFrom(in.a, in.least)) },
		func(in inputs, i int) float64 { return float64(pick(abs(in.a[i]) >= in.least && in.a[i] != 0, 1, 0)) }},
	"Reach, slope": {func(in inputs) float64 { s, _ := vector.Reach(in.a, in.b, in.lambda, in.pace); return s },
		func(in inputs, i int) float64 {
			if in.reached(i) {
				return 0
			}
			return float64(in.b[i]) * in.paceOf(in.b[i])
		}},
	"Reach, fixed": {func(in inputs) float64 { _, f := vector.Reach(in.a, in.b, in.lambda, in.pace); return f },
		func(in inputs, i int) float64 {
			if in.reached(i) {
				return float64(in.b[i]) * float64(in.a[i])
			}
			return 0
		}},
	"CostFrom": {func(in inputs) float64 { return vector.CostFrom(in.a, in.b, in.least, in.pace) },
		func(in inputs, i int) float64 {
			if in.b[i] >= in.least {
				return float64(in.a[i]) * in.paceOf(in.b[i])
			}
			return 0
		}},
}

// Every walk gives, bit for bit, the value in Go of the expression in its comment.
func TestWalks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n := range lengths {
		for round := range 20 {
			in := inputs{k: rng.Float32(), w: rng.Float32(), least: rng.Float32(), lambda: rng.Float64()}
			for _, v := range []*values{&in.a, &in.b, &in.c, &in.d, &in.e, &in.out} {
				*v = sample(rng, n)
			}
			in.rooms, in.sizes = make(values, n), make(values, n)
			largest, farthest := 0.0, 0.0
			for i := range n {
				in.rooms[i], in.sizes[i] = abs(in.a[i]), abs(in.b[i])
				largest = max(largest, math.Abs(float64(in.a[i])))
				farthest = max(farthest, math.Abs(apart(in.a[i], in.b[i])))
			}
			in.pace = []vector.Pace{vector.Uniform, vector.BySize}[round%2]
			if round%5 == 4 {
				in.lambda = math.Inf(1)
			}
			if got := float64(vector.Max(in.a)); !equal(got, largest) {
				t.Errorf("Max of %d values: %v, want %v", n, got, largest)
			}
			if got := vector.DistanceMax(in.a, in.b); !equal(got, farthest) {
				t.Errorf("DistanceMax of %d values: %v, want %v", n, got, farthest)
			}
			for name, f := range vectors {
				in := in
				in.c = slices.Clone(in.c) // some walks have a second output
				got, want := slices.Clone(in.out), make(values, n)
				for i := range want {
					want[i] = f.value(in, i)
				}
				if f.walk(in, got); !same(got, want) {
					t.Errorf("%s of %d values: %v, want %v", name, n, got, want)
				}
			}
			for name, f := range sums {
				got, want := f.walk(in), lanes(n, func(i int) float64 { return f.term(in, i) })
				if !equal(got, want) {
					t.Errorf("%s of %d values: %v, want %v", name, n, got, want)
				}
			}
		}
	}
}

func TestBetween(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for _, n := range lengths {
		for range 20 {
			v := sample(rng, n)
			for i := range v {
				if rng.IntN(3) > 0 {
					v[i] = 0
				}
			}
			from, to := rng.Float32(), float32(math.Inf(1))
			if rng.IntN(2) == 0 {
				from, to = math.SmallestNonzeroFloat32, rng.Float32()
			}
			var want []int32
			for i, e := range v {
				if m := float32(math.Abs(float64(e))); m >= from && m < to {
					want = append(want, int32(i))
				}
			}
			if got := vector.Between(v, from, to, make([]int32, n)); !slices.Equal(got, want) {
				t.Errorf("%v between %v and %v: %v, want %v", v, from, to, got, want)
			}
		}
	}
}

// TestSmallest: the k-th smallest of sizes of every order, many of them equal.
func TestSmallest(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	for range 500 {
		v, sizes := make([]float32, 1+rng.IntN(80)), []float32(nil)
		spread := rng.IntN(70) // down to subnormal numbers
		for i := range v {
			v[i] = float32(math.Ldexp(float64(rng.IntN(80)-40), -rng.IntN(spread+1)*2))
			sizes = append(sizes, abs(v[i]))
		}
		slices.Sort(sizes)
		k := rng.IntN(len(v))
		if got := vector.Smallest(v, k); got != sizes[k] {
			t.Fatalf("%d-th of %v: %v", k, sizes, got)
		}
	}
}

func TestFinite(t *testing.T) {
	for _, c := range []struct {
		v    []float32
		want bool
	}{
		{nil, true},
		{[]float32{0, math.SmallestNonzeroFloat32, -math.MaxFloat32}, true},
		{[]float32{0, float32(math.Inf(-1))}, false},
		{append(make([]float32, 40), float32(math.NaN())), false},
	} {
		if got := vector.Finite(c.v); got != c.want {
			t.Errorf("%v: %v", c.v, got)
		}
	}
}

// Vectors of different lengths are refused before anything is read.
func TestLengths(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	vector.Difference(make([]float32, 4), make([]float32, 3), make([]float32, 4))
}

// The halves of a number add up to it, and the first has the 8 bits of bf16.
func TestHalves(t *testing.T) {
	t.Parallel()
	v := []float32{0, 1, -1, 0.1, 0.2, 1.0 / 3, 0.99999, -0.7, 1e-30, 255, 254.9, 0.50195313, 0.50390625}
	high, low := make([]float32, len(v)), slices.Clone(v)
	vector.Halves(low, high, low)
	for i, x := range v {
		if high[i]+low[i] != x || math.Float32bits(high[i])&0xffff != 0 ||
			math.Abs(float64(low[i])) > math.Abs(float64(x))/256 {
			t.Errorf("%v is %v and %v", x, high[i], low[i])
		}
	}
}
