package bounds

import (
	"slices"

	"selfheal/models/onnx"
)

// maxPools are the operators that [maxPool] bounds.
var maxPools = []string{"MaxPool", "GlobalMaxPool"}

// limits say what some operators must be like.
var limits = map[string]string{
	"BatchNormalization": "in inference",
	"Conv":               "by constants", "ConvTranspose": "by constants", "Gemm": "by constants", "MatMul": "by a constant",
	"Mul": "by a constant, or of two tensors of one rank", "Div": "by a constant", "Pad": "with a constant",
	"Resize": "but for cubic", "Clip": "between constants", "LeakyRelu": "of a slope from 0 to 1", "Elu": "of α up to 1", "HardSigmoid": "of a slope above 0", "MaxPool": "without indices",
	"QuantizeLinear":   "in front of a DequantizeLinear, with one zero point",
	"DequantizeLinear": "behind a QuantizeLinear, with one zero point",
}

// Operators lists the operators that have bounds in the order of [onnx.Operators], and what some of them must be like.
func Operators() (all []string) {
	for _, op := range onnx.Operators() {
		_, affine := affineOperators[op]
		rounds := op == "QuantizeLinear" || op == "DequantizeLinear" // see [Network.steps]
		if !affine && !rounds && activations[op] == nil && !slices.Contains(maxPools, op) &&
			!onnx.TraitsOf(op).Relabels {
			continue
		}
		if limit := limits[op]; limit != "" {
			op += " (" + limit + ")"
		}
		all = append(all, op)
	}
	return all
}
