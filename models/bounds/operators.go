package bounds

import (
	"slices"

	"selfheal/models/onnx"
)

// maxPools are the operators that [maxPool] bounds.
var maxPools = []string{"MaxPool", "GlobalMaxPool"}

// limits describes the restrictions on some operators.
var limits = map[string]string{
	"BatchNormalization": "in inference",
	"Clip":               "between constants",
	"Conv":               "by constants",
	"ConvTranspose":      "by constants",
	"DequantizeLinear":   "behind a QuantizeLinear, with one zero point",
	"Div":                "by a constant",
	"Elu":                "of α up to 1",
	"Gemm":               "by constants",
	"HardSigmoid":        "of a slope above 0",
	"LeakyRelu":          "of a slope from 0 to 1",
	"MatMul":             "by a constant",
	"MaxPool":            "without indices",
	"Mul":                "by a constant, or of two tensors of one rank",
	"Pad":                "with a constant",
	"QuantizeLinear":     "in front of a DequantizeLinear, with one zero point",
	"Resize":             "but for cubic",
}

// Operators lists the operators that have bounds in the order of [onnx.Operators], with their restrictions.
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
