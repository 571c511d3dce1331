package onnx

import "slices"

// A Batching says how an operator treats the batch if some inputs hold it at one axis. A network is right for every
// item of a batch only if each of its operators has a row that fits; an operator without one works on constants alone.
type Batching struct {
	Doc     string
	Aligned bool // the values of an item stand at the same place in all inputs
	fits    func(in, out []Shape) bool
}

// The ways in which operators treat a batch.
var (
	first = &Batching{"the first input has it; the others serve all items alike", false, func(in, _ []Shape) bool {
		return in[0].HasBatch() && !slices.ContainsFunc(in[1:], Shape.HasBatch)
	}}
	byPlace = &Batching{"any input has it, at the axis where broadcasting puts it", true, func(in, out []Shape) bool {
		y := out[0]
		return !slices.ContainsFunc(in, func(x Shape) bool {
			a := x.BatchAxis()
			return a >= 0 && x[a] != y[len(y)-len(x)+a]
		})
	}}
	inAll = &Batching{"every input has it, at the same axis", true, func(in, _ []Shape) bool {
		a := in[0].BatchAxis()
		return !slices.ContainsFunc(in, func(x Shape) bool { return a < 0 || x.BatchAxis() != a || x[a] != in[0][a] })
	}}
	inOne = &Batching{"one input has it", false, func(in, _ []Shape) bool {
		return len(slices.DeleteFunc(slices.Clone(in), func(x Shape) bool { return !x.HasBatch() })) == 1
	}}
	anyInput = &Batching{"any input has it, as its equation or its matrices say", false,
		func(_, _ []Shape) bool { return true }}
)

// batched refuses a node that does not treat the items of a batch one by one.
func (n *Node) batched(in, out []Shape) {
	if n.Op == "CastLike" { // its second input only gives a type
		in = in[:1]
	}
	if !slices.ContainsFunc(in, Shape.HasBatch) {
		return
	}
	row := TraitsOf(n.Op).Batch
	Require(row != nil, "has no rule for a batch: it works on constants alone")
	given := []Shape{} // without absent inputs
	for i, x := range in {
		if n.Inputs[i] != "" {
			given = append(given, x)
		}
	}
	whole := !slices.ContainsFunc(out[:min(len(out), len(n.Outputs))], func(y Shape) bool { return !y.HasBatch() })
	Require(whole && row.fits(given, out), "does not treat the items of the batch one by one (%s)", row.Doc)
}
