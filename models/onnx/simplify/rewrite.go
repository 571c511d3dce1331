package simplify

import (
	"errors"
	"fmt"
	"slices"

	"selfheal/models/onnx"
)

// rewrite brings a node whose shape arithmetic names the batch into a form that
// holds for every batch, and writes spatial and layout operators by simpler ones.
// It reports true when it has written other nodes in the node's place.
func (s *simplifier) rewrite(n *onnx.Node) (bool, error) {
	if done, err := s.onRows(n); done || err != nil {
		return done, err
	}
	if done, err := s.strided(n); done || err != nil {
		return done, err
	}
	switch n.Op {
	case "Reshape":
		return s.openBatch(n)
	case "Resize":
		return s.resize(n)
	case "MaxUnpool":
		return s.unpool(n)
	case "GatherND":
		return s.gatherND(n)
	case "LpPool", "GlobalLpPool":
		return s.lpPool(n)
	case "Expand":
		return s.expand(n)
	case "ConstantOfShape":
		return s.fillBatch(n)
	case "Concat":
		return false, s.openConcat(n)
	case "Squeeze":
		return s.squeezeAxes(n)
	}
	return false, nil
}

// openBatch rewrites a Reshape's target so that it holds for every batch: the
// dimension that is a multiple of the batch size is copied or inferred. In a
// model that was exported with a fixed batch it is the one, or a part of the one,
// that has as many values in front of it as the batch had. It reports true where
// the result is kept apart as rows.
func (s *simplifier) openBatch(n *onnx.Node) (bool, error) {
	t, err := s.IntsOf(n, 1)
	if err != nil {
		return false, err
	}
	in := s.g.Shapes[n.Inputs[0]]
	if !in.HasBatch() || s.fixedBatch > onnx.MaxDimension {
		return false, nil
	}
	t = slices.Clone(t)
	at := onnx.BatchIndex(t)
	fixed := at < 0 && s.fixedBatch > 0
	sizes, rest := slices.Clone(t), in.Items() // with 0 and -1 resolved; rest: what -1 stands for
	if fixed {
		rest *= s.fixedBatch
	}
	infer := -1
	for i, d := range t {
		if d == 0 && n.Int("allowzero", 0) == 0 && i < len(in) {
			if d = in[i]; d < 0 {
				return false, nil // copies the batch already
			}
		}
		if k := onnx.BatchFactor(d); k > 0 {
			d = k
		}
		if sizes[i] = d; d == -1 && infer < 0 {
			infer = i
		} else if d < 1 || rest%d != 0 {
			return false, nil // an error of the shape rule, if -1 does not stand for the batch
		} else {
			rest /= d
		}
	}
	if infer >= 0 {
		sizes[infer] = rest
	}
	if fixed {
		front := in.BeforeBatch()
		if len(sizes) == 2 && front > 1 && sizes[0]%s.fixedBatch == 0 {
			if done, err := s.toRows(n, []int64{sizes[0] / s.fixedBatch, sizes[1]}); done || err != nil {
				return done, err
			}
		}
		for i, d := range sizes {
			if front == 1 && d%s.fixedBatch == 0 {
				at = i
				break
			}
			if front%d != 0 {
				return false, nil
			}
			front /= d
		}
		if at < 0 {
			return false, nil
		}
		sizes[at] /= s.fixedBatch
	} else {
		if at == 0 || infer == 0 { // the batch is among the rows
			if done, err := s.toRows(n, sizes); done || err != nil {
				return done, err
			}
		}
		if at < 0 {
			return false, nil
		}
	}
	if at == 0 && in[0] == onnx.Batch && sizes[0] == 1 {
		t[0] = 0 // copy the batch
		n.Set("allowzero", 0)
	} else {
		t = sizes
		t[at] = -1
	}
	n.Inputs[1] = s.g.AddConst(n.Outputs[0]+"/shape", onnx.IntTensor(t...))
	return false, nil
}

// isBatch reports whether a size in shape arithmetic is the batch: open, or as exported.
func (s *simplifier) isBatch(d int64) bool {
	return d == onnx.BatchSize || s.fixedBatch > 0 && d == s.fixedBatch
}

// batchZeros gives zeros of the given rank whose axis at is the batch of tensor,
// the others 1: added to a constant they repeat it for every item.
func (s *simplifier) batchZeros(b *onnx.Builder, tensor string, rank, at int) string {
	x := s.g.Shapes[tensor]
	var starts, ends, axes []int64
	for i, d := range x {
		if d > 1 {
			starts, ends, axes = append(starts, 0), append(ends, 1), append(axes, int64(i))
		}
	}
	if len(axes) > 0 {
		tensor = b.Op("Slice", tensor, b.Ints(starts...), b.Ints(ends...), b.Ints(axes...))
	}
	shape := slices.Repeat([]int64{1}, rank)
	shape[at] = -1
	return b.Op("Reshape", b.Op("Clip", tensor, b.Float(0), b.Float(0)), b.Ints(shape...))
}

// isFloat reports whether a tensor holds floats, as far as one can tell without
// types: every constant is known.
func (s *simplifier) isFloat(tensor string) bool {
	t, ok := s.g.Consts[tensor]
	return !ok || t.DType == onnx.Float
}

// expand repeats a tensor for every item where an Expand's target names the batch.
func (s *simplifier) expand(n *onnx.Node) (bool, error) {
	target, err := s.IntsOf(n, 1)
	if err != nil {
		return false, err
	}
	at := onnx.BatchIndex(target)
	if at < 0 {
		return false, nil
	}
	x := s.g.Shapes[n.Inputs[0]]
	if !x.HasBatch() && target[at] != onnx.BatchSize {
		return false, errors.New("repeats a constant more than once for every item of the batch")
	}
	rest := slices.Clone(target)
	rest[at] = 1
	b := &onnx.Builder{G: s.g, Prefix: n.Outputs[0] + "/"}
	sizes := b.Ints(rest...)
	if x.HasBatch() {
		n.Inputs[1] = sizes
		return false, b.Err()
	}
	if !s.isFloat(n.Inputs[0]) {
		return false, errors.New("repeats integers for every item of the batch")
	}
	t := n.Inputs[0]
	if full, err := onnx.Broadcast(x, rest); err != nil {
		return false, err
	} else if !slices.Equal(full, x) {
		t = b.Op("Expand", t, sizes)
	}
	b.Named(n.Outputs[0], "Add", t, s.batchZeros(b, s.source[n.Inputs[1]], len(rest), at))
	return true, b.Err()
}

// fillBatch is ConstantOfShape for every item of the batch.
func (s *simplifier) fillBatch(n *onnx.Node) (bool, error) {
	size, err := s.IntsOf(n, 0)
	if err != nil {
		return false, err
	}
	at := slices.Index(size, onnx.BatchSize)
	value := onnx.Scalar(0)
	if t, ok := n.Attrs["value"].(*onnx.Tensor); ok {
		value = t
	}
	if at < 0 || value.DType != onnx.Float || len(value.Floats) != 1 {
		return false, errors.New("fills a tensor whose size depends on the batch")
	}
	rest := slices.Clone(size)
	rest[at] = 1
	if err := onnx.Shape(rest).Check(); err != nil {
		return false, err
	}
	b := &onnx.Builder{G: s.g, Prefix: n.Outputs[0] + "/"}
	t := b.Op("Add", s.batchZeros(b, s.source[n.Inputs[0]], len(rest), at), b.Float(value.Floats[0]))
	b.Named(n.Outputs[0], "Expand", t, b.Ints(rest...))
	return true, b.Err()
}

// openConcat repeats what a model that was exported with a batch of 1 joins to
// its data: a class token, which has the batch's 1 in front.
func (s *simplifier) openConcat(n *onnx.Node) error {
	data := ""
	for _, in := range n.Inputs {
		if x := s.g.Shapes[in]; len(x) > 0 && x[0] == onnx.Batch {
			data = in
		}
	}
	if s.fixedBatch != 1 || data == "" || n.Int("axis", 1) == 0 {
		return nil
	}
	b := &onnx.Builder{G: s.g, Prefix: n.Outputs[0] + "/"}
	for i, in := range n.Inputs {
		if x := s.g.Shapes[in]; len(x) == len(s.g.Shapes[data]) && x[0] == 1 && !x.HasBatch() && s.isFloat(in) {
			n.Inputs[i] = b.Op("Add", in, s.batchZeros(b, data, len(x), 0))
		}
	}
	return b.Err()
}

// squeezeAxes names the axes that a Squeeze without any drops: in a batch of one
// item the batch would be among them. Where there are none it does nothing, and
// reports true: ONNX Runtime takes an empty list for no list.
func (s *simplifier) squeezeAxes(n *onnx.Node) (bool, error) {
	x := s.g.Shapes[n.Inputs[0]]
	if given, err := s.IntsOf(n, 1); n.Input(1) != "" && (err != nil || len(given) > 0) || x == nil {
		return false, nil
	}
	axes := x.Ones()
	if len(axes) == 0 {
		s.become(n, n.Inputs[0], len(s.g.Nodes))
		return true, nil
	}
	n.SetInput(1, s.g.AddConst(n.Outputs[0]+"/axes", onnx.IntTensor(axes...)))
	return false, nil
}

// gatherND writes a GatherND of data by constant indices as a Gather along the
// axes that they count in, made one. It reports false where the data has no batch,
// a table then, which the runtime reads by itself.
func (s *simplifier) gatherND(n *onnx.Node) (bool, error) {
	x := s.g.Shapes[n.Inputs[0]]
	if !x.HasBatch() {
		return false, nil
	}
	at, ok := s.g.Consts[n.Inputs[1]]
	if !ok || len(at.Shape) == 0 || n.Int("batch_dims", 0) != 0 {
		return false, errors.New("is supported with constant indices and batch_dims of 0 only")
	}
	depth := int(at.Shape[len(at.Shape)-1])
	if depth < 1 || depth > x.BatchAxis() {
		return false, errors.New("picks from the batch")
	}
	var flat []int64
	for i := 0; i < len(at.Ints); i += depth {
		place := int64(0)
		for a, v := range at.Ints[i : i+depth] {
			if v < -x[a] || v >= x[a] {
				return false, fmt.Errorf("index %d is outside %v", v, x)
			}
			place = place*x[a] + (v+x[a])%x[a]
		}
		flat = append(flat, place)
	}
	shape := at.Shape[:len(at.Shape)-1]
	b := &onnx.Builder{G: s.g, Prefix: n.Outputs[0] + "/"}
	t := b.Reshape(n.Inputs[0], slices.Concat(onnx.Shape{x[:depth].Items()}, x[depth:]))
	indices := b.Const(&onnx.Tensor{DType: onnx.Int64, Shape: slices.Clone(shape), Ints: flat})
	b.Append(&onnx.Node{Name: n.Name, Op: "Gather", Inputs: []string{t, indices}, Outputs: n.Outputs,
		Attrs: onnx.Attrs{"axis": 0}})
	return true, b.Err()
}

// lpPool writes the p-norm of each window as the root of an average pool of |x|^p
// times the window's size. The norm is held at its root, as other norms are.
func (s *simplifier) lpPool(n *onnx.Node) (bool, error) {
	x := s.g.Shapes[n.Inputs[0]]
	if _, err := s.ShapesOf(n, x); err != nil {
		return false, err
	}
	p := n.Int("p", 2)
	if p != 1 && p != 2 {
		return false, fmt.Errorf("has p = %d; 1 and 2 are supported", p)
	}
	b := &onnx.Builder{G: s.g, Prefix: n.Outputs[0] + "/"}
	t := n.Inputs[0]
	if p == 1 {
		t = b.Op("Abs", t)
	} else {
		t = b.Op("Mul", t, t)
	}
	size := x[2:].Items()
	if n.Op == "GlobalLpPool" {
		t = b.Op("GlobalAveragePool", t)
	} else {
		w, err := onnx.NodeWindow(n, nil)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(w.Dilations, func(d int64) bool { return d != 1 }) {
			return false, errors.New("dilations are not supported")
		}
		size = onnx.Shape(w.Kernel).Items()
		t = b.OpWith("AveragePool", onnx.Attrs{
			"kernel_shape": slices.Clone(w.Kernel), "strides": slices.Clone(w.Strides), "pads": slices.Clone(w.Pads),
			"ceil_mode": n.Int("ceil_mode", 0), "count_include_pad": 1,
		}, t)
	}
	t = b.Op("Mul", t, b.Float(float32(size)))
	if p == 2 {
		t = b.Op("Sqrt", b.Op("Clip", t, b.Float(tiny)))
	}
	b.Named(n.Outputs[0], "Identity", t)
	return true, b.Err()
}
