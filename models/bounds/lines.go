package bounds

import (
	"math"

	"selfheal/models/onnx"
)

// line is a·x + b.
type line struct{ a, b float64 }

func (l line) at(x float64) float64 { return l.a*x + l.b }

// through returns the line with a slope through a point of f.
func through(f func(float64) float64, x, slope float64) line { return line{slope, f(x) - slope*x} }

// activation is an operator y = f(x) that works value by value.
type activation struct {
	f func(x float64) float64
	// error bounds how far ONNX Runtime's value is from f's, beside its own rounding; perInput is the same per unit of
	// |x|.
	error, perInput float64
	// span returns the least and the largest value on [l, u]; nil: f(l) and f(u), as f is monotonic.
	span  func(l, u float64) (low, high float64)
	bends func(l, u float64) bool // reports whether f is not affine on [l, u]; elsewhere its two lines are one
	// lines returns f's bounds on [l, u] if it bends there: lower ≤ f ≤ upper.
	lines func(l, u float64) (lower, upper line)
	// free holds the slopes of f's pieces on both sides of its kink at 0, where f is convex: any line through the kink
	// with a slope between the two bounds f from below (Xu et al. 2021). nil: f has no such kink.
	free *[2]float64
	// turns reports whether that holds on [l, u]; nil: wherever f bends.
	turns func(l, u float64) bool
}

// activations maps operators to functions that make a node's activation.
var activations = map[string]func(g *onnx.Graph, n *onnx.Node) (activation, bool){
	"Relu": always(leaky(0)),
	"LeakyRelu": func(_ *onnx.Graph, n *onnx.Node) (activation, bool) {
		alpha := float64(n.Float("alpha", 0.01))
		return leaky(alpha), alpha >= 0 && alpha <= 1
	},
	"Clip": func(g *onnx.Graph, n *onnx.Node) (activation, bool) {
		end := func(i int, none float64) (float64, bool) {
			t, ok := g.Consts[n.Input(i)]
			switch {
			case n.Input(i) == "":
				return none, true
			case !ok || len(t.Floats) != 1:
				return 0, false
			}
			return float64(t.Floats[0]), true
		}
		lo, ok1 := end(1, math.Inf(-1))
		hi, ok2 := end(2, math.Inf(1))
		return clip(lo, hi), ok1 && ok2 && lo < hi
	},
	"HardSigmoid": func(_ *onnx.Graph, n *onnx.Node) (activation, bool) {
		alpha, beta := float64(n.Float("alpha", 0.2)), float64(n.Float("beta", 0.5))
		return scaled(clip(0, 1), alpha, beta), alpha > 0 && alpha < onnx.Steep
	},
	"Elu": func(_ *onnx.Graph, n *onnx.Node) (activation, bool) {
		alpha := float64(n.Float("alpha", 1))
		f := func(x float64) float64 { return max(x, 0) + alpha*math.Expm1(min(x, 0)) }
		slope := func(x float64) float64 {
			if x > 0 {
				return 1
			}
			return alpha * math.Exp(x)
		}
		return convex(f, slope, 4e-7), alpha > 0 && alpha <= 1
	},
	"Softplus": always(convex(func(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) },
		sigmoid, 8e-7)),
	"Sigmoid":   always(sShaped(sigmoid, func(x float64) float64 { return sigmoid(x) * sigmoid(-x) }, sigmoidError)),
	"Exp":       always(convex(math.Exp, math.Exp, 0)),
	"Erf":       always(sShaped(math.Erf, gaussian, 4e-7)),
	"Tanh":      always(sShaped(math.Tanh, tanhSlope, 4e-7)),
	"HardSwish": always(hardSwish(1./6, 0.5)),
	"Gelu": func(_ *onnx.Graph, n *onnx.Node) (activation, bool) {
		if n.Str("approximate", "none") == "tanh" {
			return tanhGelu(), true
		}
		return gelu(), true
	},
}

// always returns a function that makes an activation without parameters.
func always(a activation) func(*onnx.Graph, *onnx.Node) (activation, bool) {
	return func(*onnx.Graph, *onnx.Node) (activation, bool) { return a, true }
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func silu(x float64) float64 { return x * sigmoid(x) }

func tanhSlope(x float64) float64 { return (1 - math.Tanh(x)) * (1 + math.Tanh(x)) }

func gaussian(x float64) float64 { return 2 / math.Sqrt(math.Pi) * math.Exp(-x*x) }

// sigmoidError bounds the error of ONNX Runtime's Sigmoid.
const sigmoidError = 2e-7

// kinkError bounds the error of αx + β between the kinks of HardSigmoid.
func kinkError(beta float64) float64 { return 4 * Unit * (1 + 2*math.Abs(beta)) }

// leaky is max(x, αx). Its upper line is the chord; its lower one goes through the kink with the slope of one side: 1
// if the chord is steeper than 1/2, which for α = 0 leaves the smallest area (Zhang et al. 2018).
func leaky(alpha float64) activation {
	f := func(x float64) float64 { return max(x, alpha*x) }
	return activation{
		f:     f,
		bends: func(l, u float64) bool { return l < 0 && u > 0 },
		lines: func(l, u float64) (lower, upper line) {
			upper = through(f, u, (u-alpha*l)/(u-l))
			lower.a = alpha
			if upper.a > 0.5 {
				lower.a = 1
			}
			return lower, upper
		},
		free: &[2]float64{alpha, 1},
	}
}

// clip is min(max(x, lo), hi): convex around lo, concave around hi.
func clip(lo, hi float64) activation {
	f := func(x float64) float64 { return min(max(x, lo), hi) }
	return activation{
		f:     f,
		bends: func(l, u float64) bool { return l < lo && lo < u || l < hi && hi < u },
		lines: func(l, u float64) (lower, upper line) {
			chord := through(f, l, (f(u)-f(l))/(u-l))
			lower, upper = chord, chord
			if l < lo { // below: flat, through lo's kink with slope 1, or from lo's kink to f(u)
				lower = line{0, lo}
				if reach := min(u, hi) - lo; reach > lo-l {
					slope := min(1, (f(u)-lo)/(u-lo))
					lower = line{slope, lo - slope*lo}
				}
			}
			if u > hi {
				upper = line{0, hi}
				if reach := hi - max(l, lo); reach > u-hi {
					slope := min(1, (hi-f(l))/(hi-l))
					upper = line{slope, hi - slope*hi}
				}
			}
			return lower, upper
		},
	}
}

// scaled is f(αx + β), α > 0, for an f that has values in [0, 1] and is flat outside [0, 1].
func scaled(f activation, alpha, beta float64) activation {
	in := func(x float64) float64 { return alpha*x + beta }
	out := func(l line) line { return line{l.a * alpha, l.a*beta + l.b} }
	return activation{
		f:     func(x float64) float64 { return f.f(in(x)) },
		error: kinkError(beta),
		bends: func(l, u float64) bool { return f.bends(in(l), in(u)) },
		lines: func(l, u float64) (lower, upper line) {
			lower, upper = f.lines(in(l), in(u))
			return out(lower), out(upper)
		},
	}
}

// convex bounds a convex f by its chord from above and its tangent in the middle from below.
func convex(f, slope func(x float64) float64, error float64) activation {
	return activation{
		f: f, error: error,
		bends: func(l, u float64) bool { return l < u },
		lines: func(l, u float64) (lower, upper line) {
			return through(f, (l+u)/2, slope((l+u)/2)), through(f, l, (f(u)-f(l))/(u-l))
		},
	}
}

// sShaped bounds an f that is convex below 0 and concave above, with f(x) − f(0) odd.
func sShaped(f, slope func(x float64) float64, error float64) activation {
	return activation{
		f: f, error: error,
		bends: func(l, u float64) bool { return l < u },
		lines: func(l, u float64) (lower, upper line) {
			chord := through(f, l, (f(u)-f(l))/(u-l))
			middle := through(f, (l+u)/2, slope((l+u)/2))
			switch {
			case l >= 0:
				return chord, middle
			case u <= 0:
				return middle, chord
			}
			lower, upper = chord, chord
			if slope(u) < chord.a { // otherwise f lies below its chord
				upper = tangent(f, slope, l, u)
			}
			if slope(l) < chord.a {
				mirrored := tangent(func(x float64) float64 { return -f(-x) }, slope, -u, -l)
				lower = line{mirrored.a, -mirrored.b}
			}
			return lower, upper
		},
	}
}

// tangent returns f's tangent at the middle of l < 0 and u > 0 if that lies above f at l; otherwise at the first point,
// up to u, for which it does. Its slope falls as the point moves up.
func tangent(f, slope func(x float64) float64, l, u float64) line {
	low, high := max(0, (l+u)/2), u
	if through(f, low, slope(low)).at(l) >= f(l) {
		return through(f, low, slope(low))
	}
	for range 60 {
		at := (low + high) / 2
		if through(f, at, slope(at)).at(l) >= f(l) {
			high = at
		} else {
			low = at
		}
	}
	return through(f, high, slope(high))
}

// gates maps a gate to the function x·gate(x), which is bounded as one function of x: SiLU and HardSwish.
var gates = map[string]func(g *onnx.Graph, n *onnx.Node) (activation, bool){
	// The slope rises between the two zeros of the second derivative, and falls outside.
	"Sigmoid": always(wavy(silu, func(x float64) float64 { return sigmoid(x) + silu(x)*sigmoid(-x) }, sigmoidError,
		-2.399357280520, 2.399357280520)),
	"HardSigmoid": func(_ *onnx.Graph, n *onnx.Node) (activation, bool) {
		alpha, beta := float64(n.Float("alpha", 0.2)), float64(n.Float("beta", 0.5))
		return hardSwish(alpha, beta), alpha > 0 && alpha < onnx.Steep
	},
}

// hardSwish is x·min(max(αx + β, 0), 1), α > 0.
func hardSwish(alpha, beta float64) activation {
	inner := func(x float64) float64 { return alpha*x + beta }
	slope := func(x float64) float64 {
		switch v := inner(x); {
		case v <= 0:
			return 0
		case v >= 1:
			return 1
		}
		return 2*alpha*x + beta
	}
	f := func(x float64) float64 { return x * min(max(inner(x), 0), 1) }
	return wavy(f, slope, kinkError(beta), -beta/alpha, (1-beta)/alpha)
}

// geluError bounds the error of Gelu for |x| = 1: package simplify recognises a product whose constants are nearly
// Gelu's.
const geluError = 4e-6

// gelu is x·Φ(x), whose second derivative φ(x)·(2 − x²) is 0 at ±√2.
func gelu() activation {
	share := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	slope := func(x float64) float64 { return share(x) + x*gaussian(x/math.Sqrt2)/(2*math.Sqrt2) }
	return wavy(func(x float64) float64 { return x * share(x) }, slope, geluError, -math.Sqrt2, math.Sqrt2)
}

// tanhGelu is ½x·(1 + tanh u), u = a·(x + bx³). With t = tanh u its second derivative is 1 − t² times
//
//	a·(1 + 6bx²) − a²·x·t·(1 + 3bx²)²
//
// The second term grows faster than the first, so this is 0 at one x > 0 only, and at −x.
func tanhGelu() activation {
	const b = 0.044715
	a := math.Sqrt(2 / math.Pi)
	u := func(x float64) float64 { return a * (x + b*x*x*x) }
	share := func(x float64) float64 { return 1 / (1 + math.Exp(-2*u(x))) } // ½·(1 + tanh u)
	slope := func(x float64) float64 {
		return share(x) + 2*x*share(x)*share(-x)*a*(1+3*b*x*x)
	}
	turn := crossing(func(x float64) float64 {
		c := 1 + 3*b*x*x
		return a * x * math.Tanh(u(x)) * c * c / (1 + 6*b*x*x)
	}, 1, 0, 4)
	return wavy(func(x float64) float64 { return x * share(x) }, slope, geluError, -turn, turn)
}

// wavy is a function whose slope is monotonic between its turns; the slope may jump there.
func wavy(f, slope func(x float64) float64, perInput float64, turns ...float64) activation {
	// f(x) − a·x on [l, u] has its extremes at the ends, at turns, and where the slope is a.
	extremes := func(l, u, a float64) (low, high float64) {
		low, high = math.Inf(1), math.Inf(-1)
		look := func(x float64) {
			y := f(x) - a*x
			low, high = min(low, y), max(high, y)
		}
		ends := []float64{l}
		for _, t := range turns {
			if l < t && t < u {
				ends = append(ends, t)
			}
		}
		ends = append(ends, u)
		for i, end := range ends {
			if look(end); i > 0 {
				look(crossing(slope, a, ends[i-1], end))
			}
		}
		return low, high
	}
	return activation{
		f: f, perInput: perInput,
		span:  func(l, u float64) (low, high float64) { return extremes(l, u, 0) },
		bends: func(l, u float64) bool { return l < u },
		// The candidates are the slopes of the chord and of f at the ends and in the middle; the line nearest to f in
		// the middle is taken.
		lines: func(l, u float64) (lower, upper line) {
			middle := (l + u) / 2
			lower.b, upper.b = math.Inf(-1), math.Inf(1)
			for _, a := range []float64{(f(u) - f(l)) / (u - l), slope(middle), slope(l), slope(u)} {
				low, high := extremes(l, u, a)
				// The rounding of the extremes is far below float32's digits.
				apart := 1e-12 * (1 + math.Abs(a)*max(-l, u) + max(math.Abs(f(l)), math.Abs(f(u))))
				if one := (line{a, low - apart}); one.at(middle) > lower.at(middle) {
					lower = one
				}
				if one := (line{a, high + apart}); one.at(middle) < upper.at(middle) {
					upper = one
				}
			}
			return lower, upper
		},
	}
}

// crossing returns the point at which a slope that is monotonic between l and u equals a, or an end if none does.
func crossing(slope func(x float64) float64, a, l, u float64) float64 {
	inside := (u - l) * 1e-9 // beside a jump
	low, high := l+inside, u-inside
	rises := slope(high) > slope(low)
	for range 60 {
		if at := (low + high) / 2; slope(at) < a == rises {
			low = at
		} else {
			high = at
		}
	}
	return (low + high) / 2
}

// gated returns the input x and the function of a node x·gate(x).
func gated(g *onnx.Graph, n *onnx.Node) (x string, f activation, ok bool) {
	producers := g.Producers()
	for i, in := range n.Inputs {
		gate := producers[in]
		if gate == nil || gates[gate.Op] == nil {
			continue
		}
		if x = n.Inputs[1-i]; gate.Inputs[0] == x {
			f, ok = gates[gate.Op](g, gate)
			return x, f, ok
		}
	}
	return "", f, false
}
