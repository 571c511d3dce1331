package onnx

import (
	"cmp"
	"math"
	"slices"
)

// Slopes of the operators that compute y = f(x), value by value: formulas for dy/dx, with its value at a kink as in
// PyTorch. The slopes of functions with flat parts also return on, which is 0 exactly there: any gradient from above
// ends there, even if it is infinite or NaN.

// Steep turns HardSigmoid into a jump: max(0, min(1, 3e38·x)) is 0 for x ≤ 0 and 1 for every normal x > 0.
const Steep = 3e38

// Step appends max(0, min(1, αx+β)). HardSigmoid is vectorised in ONNX Runtime, and it stays in the blocked layout of
// the convolutions around it; Sign, Greater and Where are several times slower and leave that layout.
func (b *Builder) Step(x string, alpha, beta float32) string {
	return b.OpWith("HardSigmoid", Attrs{"alpha": alpha, "beta": beta}, x)
}

// Positive appends the mask [x > 0], of 0 and 1.
func (b *Builder) Positive(x string) string { return b.Step(x, Steep, 0) }

// inside appends the mask [0 < y < 1] for y in [0, 1]: there alone y − y² > 0.
func (b *Builder) inside(y string) string {
	return b.Positive(b.Op("Sub", y, b.Op("Mul", y, y)))
}

// Masked appends g·slope, but 0 where on is 0 (the slope is 0 there too), for any g: 0·∞ would be NaN.
func (b *Builder) Masked(g, slope, on string) string {
	product := b.Op("Mul", g, slope)
	return b.Guarded(b.OpWith("Cast", Attrs{"to": int64(Bool)}, on), product, b.Float(0))
}

// Guarded appends on ? fast : otherwise. fast alone gives the same values, except for NaN that it makes of infinite
// values and NaN where on is false.
func (b *Builder) Guarded(on, fast, otherwise string) string {
	out := b.Op("Where", on, fast, otherwise)
	if b.err == nil {
		b.G.Nodes[len(b.G.Nodes)-1].Guard = true
	}
	return out
}

// Unguarded returns the graph without guards, so that masks multiply; g itself if it has none. Unless it gives NaN, it
// gives the same values as g, except for the sign of zeros. ONNX Runtime runs it a quarter faster: its Where takes
// several passes over the values, and leaves the blocked layout of the convolutions.
func (g *Graph) Unguarded() *Graph {
	if !slices.ContainsFunc(g.Nodes, func(n *Node) bool { return n.Guard }) {
		return g
	}
	out, fast := g.Clone(), map[string]string{}
	out.Nodes = slices.DeleteFunc(out.Nodes, func(n *Node) bool {
		for i, in := range n.Inputs {
			n.Inputs[i] = cmp.Or(fast[in], in)
		}
		if n.Guard {
			fast[n.Outputs[0]] = n.Inputs[1]
		}
		return n.Guard
	})
	out.Prune()
	return out
}

// negativePart appends min(x, 0).
func (b *Builder) negativePart(x string) string { return b.Op("Clip", x, "", b.Float(0)) }

// Less appends x − v, or returns x if v is the constant 0.
func (b *Builder) Less(x, v string) string {
	if t, ok := b.G.Consts[v]; ok && len(t.Floats) == 1 && t.Floats[0] == 0 {
		return x
	}
	return b.Op("Sub", x, v)
}

var (
	// max(x, 0): [y > 0], 0 at the kink
	reluSlope = mask(func(b *Builder, n *Node) string { return b.Positive(n.Outputs[0]) })
	// |x|: sign x, 0 at 0
	absSlope = mask(func(b *Builder, n *Node) string { return b.Op("Sign", n.Inputs[0]) })
	// x for x > α, else 0: [x > α], 0 at α
	thresholdedReluSlope = mask(func(b *Builder, n *Node) string {
		return b.Positive(b.Less(n.Inputs[0], b.Float(n.Float("alpha", 1))))
	})

	expSlope  = func(_ *Builder, n *Node) string { return n.Outputs[0] }                          // eˣ: y
	sinSlope  = func(b *Builder, n *Node) string { return b.Op("Cos", n.Inputs[0]) }              // sin x: cos x
	cosSlope  = func(b *Builder, n *Node) string { return b.Op("Neg", b.Op("Sin", n.Inputs[0])) } // cos x: −sin x
	sinhSlope = func(b *Builder, n *Node) string { return b.Op("Cosh", n.Inputs[0]) }             // sinh x: cosh x
	coshSlope = func(b *Builder, n *Node) string { return b.Op("Sinh", n.Inputs[0]) }             // cosh x: sinh x
	// tan x: 1 + y²
	tanSlope = func(b *Builder, n *Node) string {
		return b.Op("Add", b.Op("Mul", n.Outputs[0], n.Outputs[0]), b.Float(1))
	}
	// arctan x: 1/(1 + x²)
	atanSlope = func(b *Builder, n *Node) string {
		return b.Op("Reciprocal", b.Op("Add", b.Op("Mul", n.Inputs[0], n.Inputs[0]), b.Float(1)))
	}
	// ln(1+eˣ): 1/(1+e⁻ˣ)
	softplusSlope = func(b *Builder, n *Node) string { return b.Op("Sigmoid", n.Inputs[0]) }
)

// mask makes the rule of a slope that is 0 only where the function is flat.
func mask(slope func(b *Builder, n *Node) string) slopeRule {
	return func(b *Builder, n *Node) (string, string) {
		s := slope(b, n)
		return s, s
	}
}

// x for x > 0, αx else: 1 or α; α at 0
func leakyReluSlope(b *Builder, n *Node) (slope, on string) {
	x, alpha := n.Inputs[0], n.Float("alpha", 0.01)
	switch {
	case alpha == 0:
		return reluSlope(b, n)
	case alpha > 0 && alpha <= 1:
		return b.Op("Max", b.Positive(x), b.Float(alpha)), ""
	}
	return b.Op("Where", b.Op("Greater", x, b.Float(0)), b.Float(1), b.Float(alpha)), ""
}

// Elu and Selu, γx for x > 0, γα(eˣ−1) else: γ or y + γα; the latter at 0
func exponentialSlope(b *Builder, n *Node) string {
	above, below, _ := exponential(n)
	y := n.Outputs[0]
	if above == below && above > 0 { // no step: min(y, 0) + below
		return b.Op("Add", b.negativePart(y), b.Float(below))
	}
	return b.Op("Where", b.Op("Greater", n.Inputs[0], b.Float(0)), b.Float(above), b.Op("Add", y, b.Float(below)))
}

// x for x > 0, α(e^{x/α}−1) else: min(y, 0)/α + 1
func celuSlope(b *Builder, n *Node) string {
	low := b.negativePart(n.Outputs[0])
	if alpha := n.Float("alpha", 1); alpha != 1 {
		low = b.Op("Mul", low, b.Float(1/alpha))
	}
	return b.Op("Add", low, b.Float(1))
}

// 1/(1+e⁻ˣ): y·(1−y)
func sigmoidSlope(b *Builder, n *Node) string {
	y := n.Outputs[0]
	return b.Op("Mul", y, b.Op("Sub", b.Float(1), y))
}

// max(0, min(1, αx+β)): α for 0 < y < 1, otherwise 0, at both ends too. One that is as steep as the masks here is a
// step without gradient.
func hardSigmoidSlope(b *Builder, n *Node) (slope, on string) {
	alpha := n.Float("alpha", 0.2)
	if alpha >= Steep || alpha <= -Steep {
		return "", ""
	}
	on = b.inside(n.Outputs[0])
	return b.Op("Mul", on, b.Float(alpha)), on
}

// x·h, h = max(0, min(1, x/6 + ½)): h + (h−½)·[0 < h < 1]; 0 at −3 and 1 at 3, as in PyTorch since 2.3
func hardSwishSlope(b *Builder, n *Node) (slope, on string) {
	on = b.Step(n.Inputs[0], 1./6, 0.5)
	return b.GatedSlope(on, 0.5), on
}

// GatedSlope returns the derivative of x·h for h = max(0, min(1, αx+β)): h + αx for 0 < h < 1, where
// αx = h − β, otherwise h.
func (b *Builder) GatedSlope(h string, beta float32) string {
	return b.Op("Add", h, b.Op("Mul", b.Op("Sub", h, b.Float(beta)), b.inside(h)))
}

// x·tanh(ln(1+eˣ)). With e = eˣ, m = e(e+2), d = m + 2 the factor is t = m/d and the
// slope t + x·4(m−e)/d²; above 20, where t is 1 in float32, x is held at 20 in e.
func mishSlope(b *Builder, n *Node) string {
	x := n.Inputs[0]
	e := b.Op("Exp", b.Op("Clip", x, "", b.Float(20)))
	m := b.Op("Mul", e, b.Op("Add", e, b.Float(2)))
	d := b.Op("Add", m, b.Float(2))
	dt := b.Op("Div", b.Op("Div", b.Op("Mul", b.Op("Sub", m, e), b.Float(4)), d), d)
	return b.Op("Add", b.Op("Div", m, d), b.Op("Mul", x, dt))
}

// x·Φ(x), Φ(x) = ½(1 + erf(x/√2)): Φ + x·e^(−x²/2)/√(2π); with approximate="tanh"
// ½x(1+t), t = tanh u, u = √(2/π)(x + κx³), κ = 0.044715: ½(1+t) + ½x(1−t²)·√(2/π)(1+3κx²)
func geluSlope(b *Builder, n *Node) string {
	x := n.Inputs[0]
	half := func(v string) string { return b.Step(v, 0.5, 0.5) } // ½(1+v) for |v| ≤ 1, in one pass
	if n.Str("approximate", "none") == "tanh" {
		const kappa = 0.044715
		root := math.Sqrt(2 / math.Pi)
		square := b.Op("Mul", x, x)
		cubic := b.Op("Add", b.Op("Mul", square, b.Float(float32(root*kappa))), b.Float(float32(root)))
		t := b.Op("Tanh", b.Op("Mul", x, cubic))
		du := b.Op("Add", b.Op("Mul", square, b.Float(float32(1.5*root*kappa))), b.Float(float32(root/2)))
		falling := b.Op("Sub", b.Float(1), b.Op("Mul", t, t))
		return b.Op("Add", half(t), b.Op("Mul", b.Op("Mul", x, falling), du))
	}
	h := b.Op("Mul", x, b.Float(float32(math.Sqrt(0.5))))
	phi := half(b.Op("Erf", h))
	// x·e^(−x²/2)/√(2π) = h·e^(ln(1/√π) − h²): the factor costs nothing in the exponent
	bell := b.Op("Exp", b.Op("Sub", b.Float(float32(-0.5*math.Log(math.Pi))), b.Op("Mul", h, h)))
	return b.Op("Add", phi, b.Op("Mul", h, bell))
}

// erf x: (2/√π)·e^(−x²)
func erfSlope(b *Builder, n *Node) string {
	square := b.Op("Mul", n.Inputs[0], n.Inputs[0])
	return b.Op("Exp", b.Op("Sub", b.Float(float32(math.Log(2/math.Sqrt(math.Pi)))), square))
}

// x/(1+|x|): (1−|y|)²
func softsignSlope(b *Builder, n *Node) string {
	rest := b.Op("Sub", b.Float(1), b.Op("Abs", n.Outputs[0]))
	return b.Op("Mul", rest, rest)
}

// tanh x: 1−y²
func tanhSlope(b *Builder, n *Node) string {
	y := n.Outputs[0]
	return b.Op("Sub", b.Float(1), b.Op("Mul", y, y))
}

// 1/x: −y²
func reciprocalSlope(b *Builder, n *Node) string {
	y := n.Outputs[0]
	return b.Op("Neg", b.Op("Mul", y, y))
}
