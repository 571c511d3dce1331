package simplify

import "selfheal/models/onnx"

// join puts a flat input in front of several, and a flat output behind the first ones.
func (o Options) join(g *onnx.Graph) {
	if len(g.Inputs) < 2 && len(o.Joined) == 0 {
		return
	}
	g.Shapes = map[string]onnx.Shape{}
	reserve(g, g.Nodes)
	for _, in := range g.Inputs {
		g.Shapes[in.Name] = nil
	}
	axis, batch := int64(1), onnx.Shape{onnx.Batch}
	if o.Whole {
		axis, batch = 0, nil
	}
	if len(g.Inputs) > 1 {
		joinInputs(g, axis, batch)
	}
	if len(o.Joined) > 0 {
		joinOutputs(g, axis, batch, o.Joined)
	}
}

func joinInputs(g *onnx.Graph, axis int64, batch onnx.Shape) {
	flat, total := g.Take("inputs"), int64(0)
	var nodes []*onnx.Node
	for _, in := range g.Inputs {
		onnx.Require(in.DType == onnx.Float, "input %q is not float32", in.Name)
		item := in.Shape
		if batch != nil {
			onnx.Require(len(item) > 0 && item[0] <= 1, "input %q has shape %v, without a batch in front", in.Name,
				item)
			item = item[1:]
		}
		for i, d := range item {
			onnx.Require(d >= 1 || batch == nil && i == 0, "input %q leaves a dimension of %v open; export the model "+
				"for one size", in.Name, in.Shape)
		}
		item = item.Single()
		if err := item.Check(); err != nil {
			onnx.Refuse("input %q: %w", in.Name, err)
		}
		part := g.Take(in.Name + "/part")
		ends := func(at ...int64) string { return g.AddConst("join", onnx.IntTensor(at...)) }
		nodes = append(nodes, &onnx.Node{Op: "Slice", Outputs: []string{part},
			Inputs: []string{flat, ends(total), ends(total + item.Items()), ends(axis)}},
			reshaped(g, part, in.Name, append(batch[:len(batch):len(batch)], item...)))
		total += item.Items()
	}
	g.Inputs = []onnx.Value{{Name: flat, DType: onnx.Float, Shape: append(batch[:len(batch):len(batch)], total)}}
	g.Nodes = append(nodes, g.Nodes...)
}

func joinOutputs(g *onnx.Graph, axis int64, batch onnx.Shape, values []int) {
	onnx.Require(len(values) <= len(g.Outputs), "has %d outputs, not %d", len(g.Outputs), len(values))
	all := &onnx.Node{Op: "Concat", Attrs: onnx.Attrs{"axis": axis}, Outputs: []string{g.Take("outputs")}}
	for i, n := range values {
		out := g.Outputs[i]
		onnx.Require(out.DType == onnx.Float, "output %q is not float32", out.Name)
		flat := g.Take(out.Name + "/flat")
		g.Nodes = append(g.Nodes, reshaped(g, out.Name, flat, append(batch[:len(batch):len(batch)], int64(n))))
		all.Inputs = append(all.Inputs, flat)
	}
	g.Nodes = append(g.Nodes, all)
	g.Outputs = []onnx.Value{{Name: all.Outputs[0], DType: onnx.Float}}
}

// reshaped is a node that gives a tensor another shape, whose batch is inferred.
func reshaped(g *onnx.Graph, from, to string, shape onnx.Shape) *onnx.Node {
	sizes := g.AddConst("join", onnx.IntTensor(onnx.Each(shape, func(d int64) int64 { return max(d, -1) })...))
	return &onnx.Node{Op: "Reshape", Inputs: []string{from, sizes}, Outputs: []string{to}}
}
