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

// apart is aᵢ − bᵢ in float64.
func apart(a, b []float32, i int) float64 { return float64(a[i]) - float64(b[i]) }

func equal(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// Every walk gives, bit for bit, what the expression in its comment gives in Go.
func TestWalks(t *testing.T) {
	rng, flip := rand.New(rand.NewPCG(1, 1)), float32(-1)
	type inputs struct {
		n             int
		a, b, c, d, e []float32
		k, w, least   float32
		pace          vector.Pace
		lambda        float64
	}
	abs := func(v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ (1 << 31)) }
	clamp := func(v float32) float32 {
		if v < 0 {
			return 0
		}
		if v > 1 {
			return 1
		}
		return v
	}
	along := func(g, step float32) float32 {
		switch {
		case g > 0:
			return step
		case g < 0:
			return -step
		}
		return 0
	}
	less := func(a, b float32) float32 {
		if a < b {
			return a
		}
		return b
	}
	more := func(a, b float32) float32 {
		if a > b {
			return a
		}
		return b
	}
	against := func(w, size float32) float32 { // a NaN has a sign too, that of the operand
		w *= flip
		return math.Float32frombits(math.Float32bits(size) | ^math.Float32bits(w)&(1<<31))
	}
	pace := func(in inputs, size float32) float64 {
		if in.pace == vector.BySize {
			return float64(size)
		}
		return 1 + 0*float64(size) // a size of NaN makes that NaN
	}
	shrunk := func(x, y, point, alpha float32) float32 {
		over := more(more(y-(1-x), -(x+y)), 0)
		move := less(more(over, alpha), abs(y))
		return clamp(point - math.Float32frombits(math.Float32bits(move)|math.Float32bits(y)&(1<<31)))
	}
	type values = []float32
	written := func(n int, walk func(out values)) values {
		out := make(values, n)
		walk(out)
		return out
	}
	each := func(n int, f func(i int) float32) []float32 {
		out := make([]float32, n)
		for i := range out {
			out[i] = f(i)
		}
		return out
	}
	vectors := map[string]func(in inputs) (got, want []float32){
		"Difference": func(in inputs) (got, want []float32) {
			return written(in.n, func(out values) { vector.Difference(in.a, in.b, out) }),
				each(in.n, func(i int) float32 { return in.a[i] - in.b[i] })
		},
		"Scaled": func(in inputs) (got, want []float32) {
			return written(in.n, func(out values) { vector.Scaled(in.a, in.k, out) }),
				each(in.n, func(i int) float32 { return in.a[i] * in.k })
		},
		"AddScaled": func(in inputs) (got, want []float32) {
			return written(in.n, func(out values) { vector.AddScaled(in.a, in.b, in.k, out) }),
				each(in.n, func(i int) float32 { return in.a[i] + float32(in.b[i]*in.k) })
		},
		"AddScaledClamped": func(in inputs) (got, want []float32) {
			return written(in.n, func(out values) { vector.AddScaledClamped(in.a, in.b, in.k, out) }),
				each(in.n, func(i int) float32 { return clamp(in.a[i] + float32(in.b[i]*in.k)) })
		},
		"Toward": func(in inputs) (got, want []float32) {
			got = slices.Clone(in.b)
			vector.Toward(in.a, got, in.k)
			return got, each(in.n, func(i int) float32 { return in.a[i] + float32((in.b[i]-in.a[i])*in.k) })
		},
		"TowardClamped": func(in inputs) (got, want []float32) {
			got = slices.Clone(in.b)
			vector.TowardClamped(in.a, got, in.k)
			return got, each(in.n, func(i int) float32 { return clamp(in.a[i] + float32((in.b[i]-in.a[i])*in.k)) })
		},
		"Magnitudes": func(in inputs) (got, want []float32) {
			return written(in.n, func(out values) { vector.Magnitudes(in.a, out) }),
				each(in.n, func(i int) float32 { return abs(in.a[i]) })
		},
		"SignStep": func(in inputs) (got, want []float32) {
			return written(in.n, func(out values) { vector.SignStep(in.a, in.b, in.c, in.d, in.e, in.k, in.w, out) }),
				each(in.n, func(i int) float32 {
					c := in.b[i]
					z := less(more(c+along(in.c[i], in.k), in.d[i]), in.e[i])
					z = c + float32((z-c)*in.w) + float32((c-in.a[i])*(1-in.w))
					return less(more(z, in.d[i]), in.e[i])
				})
		},
		"Momentum": func(in inputs) (got, want []float32) {
			got = slices.Clone(in.c)
			vector.Momentum(in.a, in.b, in.w, got)
			return got, each(in.n, func(i int) float32 {
				return in.b[i] + float32((in.c[i]-in.b[i])*in.w) + float32((in.b[i]-in.a[i])*(1-in.w))
			})
		},
		"SparseStep": func(in inputs) (got, want []float32) {
			return written(in.n, func(out values) { vector.SparseStep(in.a, in.b, in.c, in.least, in.k, out) }),
				each(in.n, func(i int) float32 {
					step := float32(0)
					if abs(in.c[i]) >= in.least {
						step = in.k
					}
					return in.b[i] + along(in.c[i], step) - in.a[i]
				})
		},
		"Rooms": func(in inputs) (got, want []float32) {
			rooms, sizes := make([]float32, in.n), make([]float32, in.n)
			vector.Rooms(in.a, in.b, flip, in.least, rooms, sizes)
			for i, w := range in.b {
				room, size := in.a[i], abs(w)
				if w*flip < 0 {
					room = 1 - in.a[i]
				}
				if size <= in.least {
					size = 0
				}
				want = append(want, room, size)
				got = append(got, rooms[i], sizes[i])
			}
			return got, want
		},
		"Moves": func(in inputs) (got, want []float32) {
			rooms := each(in.n, func(i int) float32 { return abs(in.a[i]) })
			sizes := each(in.n, func(i int) float32 { return abs(in.b[i]) })
			return written(in.n, func(out values) { vector.Moves(in.c, rooms, sizes, flip, in.lambda, in.pace, out) }),
				each(in.n, func(i int) float32 {
					move := less(float32(in.lambda*pace(in, sizes[i])), rooms[i])
					if sizes[i] == 0 {
						move = 0
					}
					return against(in.c[i], move)
				})
		},
		"MovesFrom": func(in inputs) (got, want []float32) {
			rooms := each(in.n, func(i int) float32 { return abs(in.a[i]) })
			return written(in.n, func(out values) { vector.MovesFrom(in.c, rooms, in.b, flip, in.least, out) }),
				each(in.n, func(i int) float32 {
					if in.b[i] >= in.least {
						return against(in.c[i], rooms[i])
					}
					return 0
				})
		},
		"Combine": func(in inputs) (got, want []float32) {
			got = slices.Clone(in.d)
			vector.Combine(in.a, in.b, in.c, in.w, in.k, got)
			return got, each(in.n, func(i int) float32 {
				x := (in.d[i] + float32(in.k*in.b[i])) * (1 - in.w)
				return clamp(float32(x) + float32((in.a[i]+float32(in.c[i]*in.k))*in.w))
			})
		},
		"Shrink": func(in inputs) (got, want []float32) {
			got = slices.Clone(in.b)
			vector.Shrink(in.a, got, in.k, got)
			return got, each(in.n, func(i int) float32 { return shrunk(in.a[i], in.b[i], in.a[i]+in.b[i], in.k) })
		},
		"ShrinkPoint": func(in inputs) (got, want []float32) {
			got = slices.Clone(in.c)
			vector.ShrinkPoint(in.a, in.b, in.k, got)
			return got, each(in.n, func(i int) float32 { return shrunk(in.a[i], in.b[i], in.c[i], in.k) })
		},
	}
	sums := map[string]func(in inputs) (got, want float64){
		"DotDifference": func(in inputs) (float64, float64) {
			return vector.DotDifference(in.a, in.b, in.c), lanes(in.n, func(i int) float64 {
				return float64(in.a[i]) * apart(in.b, in.c, i)
			})
		},
		"Sum1": func(in inputs) (float64, float64) {
			return vector.Sum1(in.a), lanes(in.n, func(i int) float64 { return float64(abs(in.a[i])) })
		},
		"Sum2": func(in inputs) (float64, float64) {
			return vector.Sum2(in.a), lanes(in.n, func(i int) float64 { return float64(in.a[i]) * float64(in.a[i]) })
		},
		"Max": func(in inputs) (got, want float64) {
			for _, v := range in.a {
				want = max(want, math.Abs(float64(v)))
			}
			return float64(vector.Max(in.a)), want
		},
		"Distance1": func(in inputs) (float64, float64) {
			return vector.Distance1(in.a, in.b),
				lanes(in.n, func(i int) float64 { return math.Abs(apart(in.a, in.b, i)) })
		},
		"Distance2": func(in inputs) (float64, float64) {
			return vector.Distance2(in.a, in.b), lanes(in.n, func(i int) float64 {
				return apart(in.a, in.b, i) * apart(in.a, in.b, i)
			})
		},
		"DistanceMax": func(in inputs) (got, want float64) {
			for i := range in.a {
				want = max(want, math.Abs(apart(in.a, in.b, i)))
			}
			return vector.DistanceMax(in.a, in.b), want
		},
		"Changed": func(in inputs) (got, want float64) {
			for i, v := range in.a {
				if v != in.b[i] {
					want++
				}
			}
			return float64(vector.Changed(in.a, in.b)), want
		},
		"CountFrom": func(in inputs) (got, want float64) {
			for _, v := range in.a {
				if v >= -in.least && v != 0 {
					want++
				}
			}
			return float64(vector.CountFrom(in.a, -in.least)), want
		},
		"Reach, slope": func(in inputs) (got, want float64) {
			got, _ = vector.Reach(in.a, in.b, in.lambda, in.pace)
			return got, lanes(in.n, func(i int) float64 {
				if float64(in.a[i]) > in.lambda*pace(in, in.b[i]) {
					return float64(in.b[i]) * pace(in, in.b[i])
				}
				return 0
			})
		},
		"Reach, fixed": func(in inputs) (got, want float64) {
			_, got = vector.Reach(in.a, in.b, in.lambda, in.pace)
			return got, lanes(in.n, func(i int) float64 {
				if float64(in.a[i]) > in.lambda*pace(in, in.b[i]) {
					return 0
				}
				return float64(in.b[i]) * float64(in.a[i])
			})
		},
		"CostFrom": func(in inputs) (got, want float64) {
			return vector.CostFrom(in.a, in.b, in.least, in.pace), lanes(in.n, func(i int) float64 {
				if in.b[i] >= in.least {
					return float64(in.a[i]) * pace(in, in.b[i])
				}
				return 0
			})
		},
	}
	for _, n := range lengths {
		for round := range 20 {
			in := inputs{n: n, k: rng.Float32(), w: rng.Float32(), least: rng.Float32(), lambda: rng.Float64()}
			for _, v := range []*[]float32{&in.a, &in.b, &in.c, &in.d, &in.e} {
				*v = sample(rng, n)
			}
			in.pace = vector.Uniform
			if round%2 == 1 {
				in.pace = vector.BySize
			}
			if round%5 == 4 {
				in.lambda = math.Inf(1)
			}
			for name, f := range vectors {
				if got, want := f(in); !same(got, want) {
					t.Errorf("%s of %d values: %v, want %v", name, n, got, want)
				}
			}
			for name, f := range sums {
				if got, want := f(in); !equal(got, want) {
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
