package bounds

import (
	"math"

	"selfheal/models/onnx"
)

// gates are the functions of which x·gate(x) is bounded as one function of x: SiLU, and HardSwish.
var gates = map[string]func(n *onnx.Node) (activation, bool){
	"Sigmoid": func(*onnx.Node) (activation, bool) {
		f := func(x float64) float64 { return x * sigmoid(x) }
		slope := func(x float64) float64 { return sigmoid(x) + f(x)*sigmoid(-x) }
		// The slope rises between the two zeros of the second derivative, and falls outside.
		return wavy(f, slope, sigmoidError, -2.399357280520, 2.399357280520), true
	},
	"HardSigmoid": func(n *onnx.Node) (activation, bool) {
		alpha, beta := float64(n.Float("alpha", 0.2)), float64(n.Float("beta", 0.5))
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
		return wavy(f, slope, kinkError(beta), -beta/alpha, (1-beta)/alpha), alpha > 0 && alpha < onnx.Steep
	},
}

// wavy is a function whose slope is monotonic between some turns, where it may jump.
func wavy(f, slope func(x float64) float64, perInput float64, turns ...float64) activation {
	// extremes of f(x) − a·x on [l, u] are at its ends, at turns, and where the slope is a.
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
		// Of the slopes of the chord, and of f at the ends and in the middle, those that come nearest in the middle.
		lines: func(l, u float64) (lower, upper line) {
			middle := (l + u) / 2
			lower.b, upper.b = math.Inf(-1), math.Inf(1)
			for _, a := range []float64{(f(u) - f(l)) / (u - l), slope(middle), slope(l), slope(u)} {
				low, high := extremes(l, u, a)
				// What is rounded of the extremes is far below float32's digits.
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

// crossing is where a slope that is monotonic between l and u is a, or an end where it is not.
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

// gated finds the input x and the function of a node x·gate(x).
func gated(g *onnx.Graph, n *onnx.Node) (x string, f activation, ok bool) {
	producers := g.Producers()
	for i, in := range n.Inputs {
		gate := producers[in]
		if gate == nil || gates[gate.Op] == nil {
			continue
		}
		if x = n.Inputs[1-i]; gate.Inputs[0] == x {
			f, ok = gates[gate.Op](gate)
			return x, f, ok
		}
	}
	return "", f, false
}
