package onnx

import (
	"fmt"
	"slices"
)

// Mean appends the mean of t along axes, which stay as dimensions of 1. It is a
// GlobalAveragePool over the axes, transposed to the end, because ONNX Runtime's
// ReduceSum and ReduceMean round differently with an item's place in the batch
// (their vectorised loops start at aligned addresses), and this pool does not.
func (b *Builder) Mean(t string, axes []int64) string {
	x := b.Shape(t)
	at, err := Axes(axes, len(x))
	if err != nil {
		b.Fail(err)
		return t
	}
	lead := x.BatchAxis()
	if slices.Contains(at, lead) {
		b.Fail(fmt.Errorf("can't take the mean of %v along axes %v: it must keep the batch", x, axes))
		return t
	}
	if lead < 0 { // no places in a batch to depend on
		count := x.Items()
		for i, d := range x {
			if !slices.Contains(at, i) {
				count /= d
			}
		}
		return b.Op("Mul", b.OpWith("ReduceSum", Attrs{"keepdims": 1}, t, b.Ints(axes...)), b.Float(1/float32(count)))
	}
	perm, order, result, rows := []int64{int64(lead)}, []int64{}, []int64{}, int64(1)
	for i, d := range x {
		switch {
		case slices.Contains(at, i):
			order = append(order, int64(i))
			result = append(result, 1)
		case i == lead:
			result = append(result, -1) // infer
		default:
			perm, rows, result = append(perm, int64(i)), rows*d, append(result, d)
		}
	}
	kept := len(perm)
	perm = append(perm, order...)
	sorted := slices.IsSorted(perm)
	if kept == 2 && len(x) > 2 && sorted {
		return b.Op("GlobalAveragePool", t)
	}
	if !sorted {
		t = b.OpWith("Transpose", Attrs{"perm": perm}, t)
	}
	t = b.Op("GlobalAveragePool", b.Op("Reshape", t, b.Ints(0, rows, -x.Items()/rows/x[lead])))
	if lead == 0 {
		return b.Op("Reshape", t, b.Ints(result...))
	}
	transposed, inverse := make([]int64, len(x)), make([]int64, len(x))
	for i, p := range perm {
		transposed[i], inverse[p] = result[p], int64(i)
	}
	return b.OpWith("Transpose", Attrs{"perm": inverse}, b.Op("Reshape", t, b.Ints(transposed...)))
}

// Sum appends the sum of t along axes, which stay as dimensions of 1; see
// [Builder.Mean]. A sum over the batch, which gradients with respect to
// parameters are, is a ReduceSum, as is one of a tensor without a batch.
func (b *Builder) Sum(t string, axes []int64) string {
	x := b.Shape(t)
	if at, err := Axes(axes, len(x)); err == nil {
		if lead := x.BatchAxis(); lead < 0 || slices.Contains(at, lead) {
			return b.OpWith("ReduceSum", Attrs{"keepdims": 1}, t, b.Ints(axes...))
		}
	}
	mean := b.Mean(t, axes)
	if b.err != nil {
		return t
	}
	return b.Op("Mul", mean, b.Float(float32(x.Items()/b.Shape(mean).Items())))
}
