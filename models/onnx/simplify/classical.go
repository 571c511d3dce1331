package simplify

import (
	"slices"

	"selfheal/models/onnx"
)

// The operators of scikit-learn's and tree ensembles' files, domain ai.onnx.ml, written by standard ones. Attributes
// are called as their documentation does. The opened network is held against the file, whose kernels are not specified
// in every detail.
var classical = map[string]func(e *expansion){
	"Scaler": scaler, "Normalizer": normalizer, "ArrayFeatureExtractor": featureExtractor, "Binarizer": binarizer,
	"FeatureVectorizer": featureVectorizer, "LinearClassifier": linearClassifier,
	"TreeEnsembleClassifier": treeEnsemble,
}

// result makes a tensor the node's i-th output.
func (e *expansion) result(i int, x string) {
	e.add("Identity", nil, e.n.Outputs[i:i+1], x)
}

func (e *expansion) float(v float32) string { return e.constant(onnx.Scalar(v)) }

func (e *expansion) floatsOf(name string) []float32 {
	v, _ := e.n.Attrs[name].([]float32)
	return v
}

// width returns how many values a row of the first input has.
func (e *expansion) width() int64 {
	x := e.s.g.Shapes[e.in(0)]
	onnx.Require(len(x) == 2 && x[1] > 0, "takes rows, [N, d], not %v", x)
	return x[1]
}

// row makes a constant of one value, or one for each column.
func (e *expansion) row(values []float32) string {
	n := int64(len(values))
	onnx.Require(n == 1 || n == e.width(), "has %d values for %d columns", n, e.width())
	return e.constant(onnx.FloatTensor(onnx.Shape{1, n}, values))
}

// (x − offset)·scale
func scaler(e *expansion) {
	x := e.in(0)
	if offset := e.floatsOf("offset"); len(offset) > 0 {
		x = e.op("Sub", nil, x, e.row(offset))
	}
	if scale := e.floatsOf("scale"); len(scale) > 0 {
		x = e.op("Mul", nil, x, e.row(scale))
	}
	e.result(0, x)
}

// x over the norm of its row; a row of zeros stays.
func normalizer(e *expansion) {
	norm := map[string]string{"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceL2"}[e.n.Str("norm", "MAX")]
	onnx.Require(norm != "", "has an unknown norm")
	e.width()
	x := e.in(0)
	length := e.op(norm, onnx.Attrs{"keepdims": int64(1)}, x, e.constant(onnx.IntTensor(1)))
	zero := e.op("Equal", nil, length, e.float(0))
	e.result(0, e.op("Div", nil, x, e.op("Where", nil, zero, e.float(1), length)))
}

// Values at indices along the last axis. They are the indices themselves if the list is 0, 1, 2, …
func featureExtractor(e *expansion) {
	if c := e.s.g.Consts[e.in(0)]; c != nil && c.DType != onnx.Float &&
		slices.Equal(c.Ints, onnx.Range(0, len(c.Ints))) {
		e.result(0, e.in(1))
		return
	}
	e.add("Gather", onnx.Attrs{"axis": int64(-1)}, e.n.Outputs[:1], e.in(0), e.in(1))
}

// 1 above the threshold, else 0
func binarizer(e *expansion) {
	above := e.op("Greater", nil, e.in(0), e.float(e.n.Float("threshold", 0)))
	e.add("Cast", onnx.Attrs{"to": int64(onnx.Float)}, e.n.Outputs[:1], above)
}

// all inputs in one row
func featureVectorizer(e *expansion) {
	e.add("Concat", onnx.Attrs{"axis": int64(1)}, e.n.Outputs[:1], e.n.Inputs...)
}

// classes returns how many the node lists.
func (e *expansion) classes() int64 {
	texts, _ := e.n.Attrs["classlabels_strings"].([]string)
	n := int64(max(len(texts), len(e.n.Ints("classlabels_ints", e.n.Ints("classlabels_int64s", nil)))))
	onnx.Require(n > 1, "lists %d classes", n)
	return n
}

// classified gives the scores z, [N, classes], and the class of the largest. The single score of the second of two
// classes is extended: to 1 − z and z if it is a share, else to −z and z.
func (e *expansion) classified(z string, single, share bool) {
	post := e.n.Str("post_transform", "NONE")
	both := func(first, second string) string {
		return e.op("Concat", onnx.Attrs{"axis": int64(1)}, first, second)
	}
	switch {
	case single && share:
		z = both(e.op("Sub", nil, e.float(1), z), z)
	case single:
		z = both(e.op("Neg", nil, z), z)
	}
	switch {
	case post == "LOGISTIC" && !(single && share):
		z = e.op("Sigmoid", nil, z)
	case post == "SOFTMAX" && !single:
		z = e.op("Softmax", onnx.Attrs{"axis": int64(1)}, z)
	default:
		onnx.Require(post == "NONE" || post == "LOGISTIC", "has the post_transform %.20s, which is not supported here",
			post)
	}
	e.result(1, z)
	class := e.n.Outputs[0]
	if e.s.g.IsOutput(class) || len(e.s.reads[class]) > 0 {
		labels := e.n.Ints("classlabels_ints", e.n.Ints("classlabels_int64s", nil))
		onnx.Require(len(labels) > 0 && slices.Equal(labels, onnx.Range(0, len(labels))),
			"gives labels that are not 0, 1, 2, …: take its scores by output_name (--output-name)")
		e.add("ArgMax", onnx.Attrs{"axis": int64(1), "keepdims": int64(0)}, e.n.Outputs[:1], z)
	}
	e.s.g.Opened = true
}

// coefficients·x + intercepts
func linearClassifier(e *expansion) {
	w, d, classes := e.floatsOf("coefficients"), e.width(), e.classes()
	rows := int64(len(w)) / d
	onnx.Require(rows*d == int64(len(w)) && rows == classes,
		"has %d coefficients for %d columns and %d classes", len(w), d, classes)
	z := e.op("MatMul", nil, e.in(0), e.constant(onnx.FloatTensor(onnx.Shape{rows, d}, w).Transposed()))
	if b := e.floatsOf("intercepts"); len(b) > 0 {
		onnx.Require(int64(len(b)) == rows, "has %d intercepts for %d scores", len(b), rows)
		z = e.op("Add", nil, z, e.constant(onnx.FloatTensor(onnx.Shape{1, rows}, b)))
	}
	e.classified(z, false, false)
}
