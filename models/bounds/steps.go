package bounds

import (
	"math"
	"slices"

	"selfheal/models/onnx"
)

// stageFor appends a placeholder of a stage on x, which alone, or with the operator and constant behind it, writes the
// tensor y.
func stageFor(b *onnx.Builder, stages map[*onnx.Node]*stage, x string, f activation, y string, behind ...string) {
	clip := &onnx.Node{Op: "Clip", Inputs: []string{x}, Outputs: []string{y}}
	if len(behind) > 0 {
		clip.Outputs[0] = b.G.Fresh(y + "/stage")
	}
	b.Append(clip)
	if len(behind) > 0 {
		b.Named(y, behind[0], clip.Outputs[0], behind[1])
	}
	stages[clip] = &stage{target: target{tensor: x}, activation: f}
}

// steps makes stages of pairs of a QuantizeLinear and the following DequantizeLinear, as package simplify leaves them
// with scales of 1.
func (n *Network) steps(stages map[*onnx.Node]*stage) error {
	g := n.graph
	made := g.Producers()
	err := g.Rewrite(func(b *onnx.Builder, node *onnx.Node) bool {
		q := made[node.Inputs[0]]
		if node.Op != "DequantizeLinear" || q == nil || q.Op != "QuantizeLinear" {
			return false
		}
		zero, taken := g.Consts[q.Input(2)], g.Consts[node.Input(2)]
		one := func(t *onnx.Tensor) bool { return t != nil && slices.Min(t.Ints) == slices.Max(t.Ints) }
		unit := func(t *onnx.Tensor) bool {
			return t != nil && !slices.ContainsFunc(t.Floats, func(v float32) bool { return v != 1 })
		}
		if !one(zero) || !one(taken) || !unit(g.Consts[q.Input(1)]) || !unit(g.Consts[node.Input(1)]) {
			return false // this QuantizeLinear has no bounds
		}
		lo, hi, ok := onnx.QuantizedRange(zero.DType)
		if !ok {
			return false
		}
		z, x, y := zero.Ints[0], q.Inputs[0], node.Outputs[0]
		b.Prefix = y + "/"
		f := rounded(float64(lo-z), float64(hi-z))
		if f.free != nil { // its kink must lie at 0
			x = b.Op("Sub", x, b.Float(float32(f.kink)))
		}
		if off := z - taken.Ints[0]; off == 0 {
			stageFor(b, stages, x, f.activation, y)
		} else { // the zero point is still included
			stageFor(b, stages, x, f.activation, y, "Add", b.Float(float32(off)))
		}
		return true
	})
	g.Prune()
	return err
}

// wraps makes stages of x − p·⌊x/p + ½⌋, which package simplify writes for sums that may leave int32.
func (n *Network) wraps(stages map[*onnx.Node]*stage) error {
	g := n.graph
	made := g.Producers()
	err := g.Rewrite(func(b *onnx.Builder, node *onnx.Node) bool {
		// by returns the two inputs of the node op that writes a tensor.
		by := func(tensor, op string) (first, second string) {
			if n := made[tensor]; n != nil && n.Op == op {
				return n.Input(0), n.Input(1)
			}
			return "", ""
		}
		x, whole := by(node.Outputs[0], "Sub")
		floor, p := by(whole, "Mul")
		sum, _ := by(floor, "Floor")
		ratio, half := by(sum, "Add")
		if of, over := by(ratio, "Div"); x == "" || of != x || over != p || g.Consts[p] == nil ||
			g.Consts[half] == nil || !slices.Equal(g.Consts[half].Floats, []float32{0.5}) {
			return false
		}
		b.Prefix = node.Outputs[0] + "/"
		stageFor(b, stages, b.Op("Div", x, p), wrapped, node.Outputs[0], "Mul", p)
		return true
	})
	g.Prune()
	return err
}

// wrapped is the identity if a sum surely stays in int32, with room for rounding. Otherwise it is anything between the
// sum and its value wrapped to int32: a runtime may compute either for a QDQ graph.
var wrapped = activation{
	f:     func(x float64) float64 { return x },
	bends: func(l, u float64) bool { return l < -wrapEnd || u > wrapEnd },
	span: func(l, u float64) (low, high float64) {
		if l < -wrapEnd || u > wrapEnd {
			l, u = min(l, -0.5), max(u, 0.5)
		}
		return l, u
	},
	lines: func(l, u float64) (lower, upper line) { return line{0, min(l, -0.5)}, line{0, max(u, 0.5)} },
}

const wrapEnd = 0.5 - 16*Unit

// stairs describes x + kink, rounded to an integer and clipped to two ends.
type stairs struct {
	activation
	kink float64
}

// rounded makes the stairs from lo to hi. A value within apart of a tie may become either integer: the file's kernels
// multiply by scales that are rounded differently.
func rounded(lo, hi float64) (s stairs) {
	apart := 16 * Unit * (hi - lo + 1)
	if lo == 0 { // as for a ReLU: no stair lies below the line through the lower corner (½, 0)
		s.kink, s.free = 0.5+apart, &[2]float64{0, 1}
	}
	low := func(x float64) float64 { return min(max(math.Ceil(x+s.kink-0.5-apart), lo), hi) }
	high := func(x float64) float64 { return min(max(math.Floor(x+s.kink+0.5+apart), lo), hi) }
	s.f = low
	s.span = func(l, u float64) (float64, float64) { return low(l), high(u) }
	s.bends = func(l, u float64) bool { return low(l) < high(u) }
	s.turns = func(l, u float64) bool { return l < 0 && u > 0 && high(u) < hi }
	s.lines = func(l, u float64) (lower, upper line) {
		l, u = l+s.kink, u+s.kink
		turned := over(-u, -l, -low(u-s.kink), -low(l-s.kink), apart)
		upper = over(l, u, high(l-s.kink), high(u-s.kink), apart)
		return line{turned.a, turned.a*s.kink - turned.b}, line{upper.a, upper.a*s.kink + upper.b}
	}
	return s
}

// over returns a line above stairs that rise from first to last on [l, u]. Their hull goes from (l, first) along the
// upper corners (k − ½ − apart, k) to (u, last). The line is the hull's edge over the middle, with a slope of at most
// 1.
func over(l, u, first, last, apart float64) line {
	corner := last - 0.5 - apart
	if first == last || (l+u)/2 >= corner {
		return line{0, last}
	}
	if slope := (last - first) / (corner - l); slope < 1 { // the stairs begin within the interval
		return line{slope, first - slope*l}
	}
	return line{1, 0.5 + apart}
}
