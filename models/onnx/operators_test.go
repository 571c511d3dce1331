package onnx

import "testing"

// lack says what an operator's row lacks, or "". Gradient rules are gradtest's to check.
func lack(t Traits) string {
	switch {
	case (t.shape == nil) != t.Folded:
		return "has no shape rule and is not folded, or both"
	case t.Gain > 0 && !t.Pointwise && !t.Simplified:
		return "has a gain and is not pointwise"
	case t.Slope != nil && (t.Simplified || t.Discrete()):
		return "has a slope that nobody asks for"
	case t.inKernels != nil && !t.Pointwise:
		return "has another kernel, which must keep the shape, and is not pointwise"
	case len(t.Parameters) > 0 && t.Parameters[len(t.Parameters)-1] >= max(3, t.Inputs):
		return "has parameters beyond its inputs"
	}
	return ""
}

// Every row has what it must have; and the check can fail.
func TestOperatorsAreComplete(t *testing.T) {
	for op, row := range operators {
		if f := lack(row); f != "" {
			t.Errorf("%s %s", op, f)
		}
	}
	for _, spoil := range []func(row *Traits){
		func(row *Traits) { row.shape = nil },
		func(row *Traits) { row.Folded = true },
		func(row *Traits) { row.Pointwise = false },
		func(row *Traits) { row.Simplified = true },
		func(row *Traits) { row.Parameters = []int{3} },
	} {
		row := operators["Elu"]
		if spoil(&row); lack(row) == "" {
			t.Errorf("%+v passes for complete", row)
		}
	}
}
