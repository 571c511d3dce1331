package optimize

import (
	"slices"

	"selfheal/models/onnx"
)

// isWide reports whether a tensor exists as [H W N C].
func (t *tuner) isWide(name string) bool { return t.wide[name] != "" }

// isImage reports whether a tensor is a batch of feature maps, which has a wide form.
func (t *tuner) isImage(name string) bool {
	s := t.src.Shapes[name]
	_, constant := t.src.Consts[name]
	return !constant && len(s) == 4 && s[0] == onnx.Batch
}

// inPlain makes a tensor exist in the source's layout.
func (t *tuner) inPlain(name string) {
	w := t.wide[name]
	if w == "" || t.plain[name] {
		return
	}
	s := t.src.Shapes[name]
	m := t.matrix(w, s[2]*s[3], -1) // [H·W, N·C]
	t.Append(&onnx.Node{Op: "Reshape", Inputs: []string{m, t.Ints(-1, s[1], s[2], s[3])}, Outputs: []string{name}})
	t.plain[name] = true
}

// inWide returns a batch of feature maps as [H W N C].
func (t *tuner) inWide(name string) string {
	if t.wide[name] == "" {
		s := t.src.Shapes[name]
		t.wide[name] = t.Reshape(t.matrix(name, -1, s[2]*s[3]), onnx.Shape{s[2], s[3], -1, s[1]})
	}
	return t.wide[name]
}

// matrix transposes a tensor seen as a matrix: [N·C, H·W] is what both layouts
// come to, and ONNX Runtime transposes a matrix faster than it permutes four axes.
func (t *tuner) matrix(name string, rows, columns int64) string {
	return t.OpWith("Transpose", onnx.Attrs{"perm": []int64{1, 0}}, t.Reshape(name, onnx.Shape{rows, columns}))
}

// pointwise are the operators that work value by value, or between values at the
// same place: they are the same in every layout.
var pointwise = []string{
	"Relu", "LeakyRelu", "PRelu", "Elu", "Selu", "Celu", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Softplus", "Softsign",
	"Erf", "Gelu", "Mish", "Clip", "Exp", "Log", "Sqrt", "Abs", "Neg", "Reciprocal", "Identity", "ThresholdedRelu",
	"Add", "Sub", "Mul", "Div", "Pow", "Min", "Max",
}

// pointwise copies such a node between wide tensors; constants are turned too.
// It reports false where an input has no wide form.
func (t *tuner) pointwise(n *onnx.Node) bool {
	if slices.ContainsFunc(n.Outputs, t.isOutput) {
		return false
	}
	for _, in := range n.Inputs {
		k, constant := t.src.Consts[in]
		if in != "" && !t.isImage(in) && (!constant || len(k.Shape) > 4 || len(k.Shape) == 4 && k.Shape[0] != 1) {
			return false
		}
	}
	c := n.Clone()
	for i, in := range n.Inputs {
		switch k := t.src.Consts[in]; {
		case in == "":
		case t.isImage(in):
			c.Inputs[i] = t.inWide(in)
		case len(k.Shape) > 0 && n.Op != "Clip": // whose limits are single numbers
			c.Inputs[i] = t.Const(turnConst(k))
		}
	}
	t.appendWide(n, c)
	return true
}

// appendWide appends c, which computes n's output in the wide layout.
func (t *tuner) appendWide(n, c *onnx.Node) {
	c.Outputs = []string{t.G.Fresh(n.Outputs[0] + "/hwnc")}
	t.Append(c)
	t.wide[n.Outputs[0]] = c.Outputs[0]
}

func (t *tuner) isOutput(name string) bool {
	return slices.ContainsFunc(t.src.Outputs, func(v onnx.Value) bool { return v.Name == name })
}

// turnConst turns a constant that broadcasts against [N C H W] into one that
// broadcasts against [H W N C]; its rank is at most 4 and it has no batch.
func turnConst(k *onnx.Tensor) *onnx.Tensor {
	s := append(slices.Repeat(onnx.Shape{1}, 4-len(k.Shape)), k.Shape...)
	c, h, w := s[1], s[2], s[3]
	out := *k
	out.Shape = onnx.Shape{h, w, 1, c}
	if out.Floats != nil {
		out.Floats = make([]float32, len(k.Floats))
		for i := range c {
			for j := range h * w {
				out.Floats[j*c+i] = k.Floats[i*h*w+j]
			}
		}
	}
	return &out
}

// perChannel makes a constant [C], which broadcasts against [H W N C].
func (t *tuner) perChannel(v []float32) string {
	return t.Const(onnx.FloatTensor(onnx.Shape{int64(len(v))}, v))
}

// batchNormalization writes y = f·x + o as two operators on a wide tensor.
func (t *tuner) batchNormalization(n *onnx.Node) bool {
	scale, offset, ok := t.src.Affine(n)
	if !ok || t.isOutput(n.Outputs[0]) {
		return false
	}
	y := t.inWide(n.Inputs[0])
	if slices.ContainsFunc(scale, func(s float32) bool { return s != 1 }) {
		y = t.Op("Mul", y, t.perChannel(scale))
	}
	t.wide[n.Outputs[0]] = t.Op("Add", y, t.perChannel(offset))
	return true
}
