package optimize

import (
	"slices"

	"selfheal/models/onnx"
)

func (w *rewriter) isHWNC(name string) bool { return w.hwnc[name] != "" }

// isImage reports whether a tensor is a batch of feature maps, which may be laid out as [H W N C].
func (w *rewriter) isImage(name string) bool {
	s := w.src.Shapes[name]
	return w.src.Consts[name] == nil && len(s) == 4 && s[0] == onnx.Batch
}

// inNCHW creates a tensor in the source's layout if needed.
func (w *rewriter) inNCHW(name string) {
	if !w.isHWNC(name) || w.nchw[name] {
		return
	}
	s := w.src.Shapes[name]
	m := w.transposed(w.hwnc[name], s[2]*s[3], -1) // [N·C, H·W]
	w.Append(&onnx.Node{Op: "Reshape", Inputs: []string{m, w.Ints(-1, s[1], s[2], s[3])}, Outputs: []string{name}})
	w.nchw[name] = true
}

// inHWNC returns a batch of feature maps as [H W N C].
func (w *rewriter) inHWNC(name string) string {
	if !w.isHWNC(name) {
		s := w.src.Shapes[name]
		w.hwnc[name] = w.Reshape(w.transposed(name, -1, s[2]*s[3]), onnx.Shape{s[2], s[3], -1, s[1]})
	}
	return w.hwnc[name]
}

// transposed transposes a tensor as a matrix: both layouts reduce to [N·C, H·W], and ONNX Runtime transposes a matrix
// faster than it permutes four axes.
func (w *rewriter) transposed(name string, rows, columns int64) string {
	return w.Transpose(w.Reshape(name, onnx.Shape{rows, columns}), 1, 0)
}

// pointwise copies a pointwise node between [H W N C] tensors, with its constants in the same layout. It returns false
// if an input has no such layout.
func (w *rewriter) pointwise(n *onnx.Node) bool {
	for _, in := range n.Inputs {
		k := w.src.Consts[in]
		if in != "" && !w.isImage(in) && (k == nil || len(k.Shape) > 4 || len(k.Shape) == 4 && k.Shape[0] != 1) {
			return false
		}
	}
	c := n.Clone()
	for i, in := range n.Inputs {
		switch k := w.src.Consts[in]; {
		case in == "":
		case w.isImage(in):
			c.Inputs[i] = w.inHWNC(in)
		case len(k.Shape) > 0 && n.Op != "Clip": // Clip's limits are single numbers
			c.Inputs[i] = w.Const(constInHWNC(k))
		}
	}
	c.Outputs = []string{w.G.Fresh(n.Outputs[0] + "/hwnc")}
	w.Append(c)
	w.hwnc[n.Outputs[0]] = c.Outputs[0]
	return true
}

// constInHWNC turns a constant that broadcasts against [N C H W] into one that
// broadcasts against [H W N C]; its rank is at most 4 and it has no batch.
func constInHWNC(k *onnx.Tensor) *onnx.Tensor {
	s := k.Shape.Padded(4)
	c, h, w := s[1], s[2], s[3]
	out := *k
	out.Shape = onnx.Shape{h, w, 1, c}
	if out.Floats != nil {
		out.Floats = onnx.FloatTensor(onnx.Shape{c, h * w}, k.Floats).Transposed().Floats
	}
	return &out
}

// perChannel makes a constant [C], which broadcasts against [H W N C].
func (w *rewriter) perChannel(v []float32) string { return w.Const(onnx.FloatVector(v)) }

// batchNormalization writes y = f·x + o as two operators on a [H W N C] tensor.
func (w *rewriter) batchNormalization(n *onnx.Node) bool {
	scale, offset, ok := w.src.Affine(n)
	if !ok {
		return false
	}
	y := w.inHWNC(n.Inputs[0])
	if slices.ContainsFunc(scale, func(s float32) bool { return s != 1 }) {
		y = w.Op("Mul", y, w.perChannel(scale))
	}
	w.hwnc[n.Outputs[0]] = w.Op("Add", y, w.perChannel(offset))
	return true
}
