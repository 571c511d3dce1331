package bounds

import (
	"math"

	"selfheal/models/onnx"
)

// product is a Mul of two tensors: for each value of the output, the places of its factors in the two tensors, one
// behind the other, which are the stage's input.
type product struct {
	first, second []int32
	repeats       int64 // of a factor's value, at most
}

// newProduct appends the stage's input in front of the node. Both factors have the batch first.
func newProduct(g *onnx.Graph, at int) (p *product, joined string) {
	n := g.Nodes[at]
	a, b, y := g.Shapes[n.Inputs[0]], g.Shapes[n.Inputs[1]], g.Shapes[n.Outputs[0]]
	if len(a) != len(y) || len(b) != len(y) || a[0] != onnx.Batch || b[0] != onnx.Batch || y.Items() > mostTaken {
		return nil, ""
	}
	p = &product{repeats: y.Items() / min(a.Items(), b.Items())}
	for o := range y.Items() {
		p.first = append(p.first, int32(placeOf(o, y, a)))
		p.second = append(p.second, int32(a.Items()+placeOf(o, y, b)))
	}
	return p, insert(g, at, n.Outputs[0], func(b *onnx.Builder) string {
		flat := func(t string) string { return b.Reshape(t, onnx.Shape{onnx.Batch, g.Shapes[t].Items()}) }
		return b.OpWith("Concat", onnx.Attrs{"axis": int64(1)}, flat(n.Inputs[0]), flat(n.Inputs[1]))
	})
}

// placeOf is where a value of an output, by its place in the item, has a factor that is broadcast.
func placeOf(o int64, out, in onnx.Shape) int64 {
	at, step := int64(0), int64(1)
	for k := len(out) - 1; k > 0; k-- {
		if in[k] > 1 {
			at += step * (o % out[k])
		}
		step *= in[k]
		o /= out[k]
	}
	return at
}

// relax has McCormick's planes (McCormick 1976) as auto_LiRPA chooses them: for a from la to ua and b from lb to ub
//
//	lb·a + la·b − la·lb ≤ a·b ≤ ub·a + la·b − la·ub.
func (p *product) relax(s *stage, r *relaxation, sums *sums, unit float64) {
	size := len(p.first)
	slopes, steps, others := make([]float32, size), make([]float32, size), make([]float32, size)
	for o, i := range p.first {
		j := p.second[o]
		la, ua := float64(r.lower[i]), float64(r.upper[i])
		lb, ub := float64(r.lower[j]), float64(r.upper[j])
		slopes[o], steps[o], others[o] = r.upper[j], float32(lb-ub), r.lower[i]
		step, reachA, reachB := float64(steps[o]), max(-la, ua), max(-lb, ub)
		above, below := -la*ub, -la*lb-math.Abs(lb-ub-step)*reachA
		corners := [4]float64{la * lb, la * ub, ua * lb, ua * ub}
		low, high := corners[0], corners[0]
		for _, c := range corners {
			low, high = min(low, c), max(high, c)
		}
		wrong := 4 * unit * max(-low, high)
		r.out.Lower[o], r.out.Upper[o] = down(low-wrong), up(high+wrong)
		// Coefficients, with what other values and other readers give to one place.
		size := math.Abs(ub) + math.Abs(step)
		wrong += gamma(unit, 4+s.readers+p.repeats) * (reachA*size + reachB*math.Abs(la))
		zeroA, zeroB := float64(s.segment.atZero[i]), float64(s.segment.atZero[j])
		wrongA, wrongB := float64(r.wrong[i]), float64(r.wrong[j])
		sums.set(o, above+ub*zeroA+la*zeroB, below-above+step*zeroA,
			-wrong-math.Abs(ub)*wrongA-math.Abs(la)*wrongB,
			2*wrong+(math.Abs(ub+step)+math.Abs(ub))*wrongA+2*math.Abs(la)*wrongB)
	}
	r.ports[slopePort], r.ports[stepPort], r.ports[otherSlopePort] = slopes, steps, others
	r.ports[sumsPort], r.ports[stepSumsPort] = sums.all, sums.positive
}
