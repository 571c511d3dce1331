package simplify

import "selfheal/models/onnx"

// AsItLies is a file's own network with its operators as they lie, in integers too, behind what o has of layout,
// scale, mean and std: it takes [N, C, H, W] images in [0,1]. Operators have the form of version [onnx.Opset] at least.
// Nothing else is simplified, and shapes are not known.
func AsItLies(data []byte, o Options) (g *onnx.Graph, err error) {
	defer onnx.Refused(&err)
	g = onnx.Sure(onnx.Decode(data))
	if o.Output != "" {
		takeOutput(g, o.Output)
	}
	g.Outputs = g.Outputs[:1]
	g.Prune()
	for _, n := range g.Nodes {
		from := g.Opset
		if n.Origin != nil {
			from = n.Origin.Opset
		}
		upgrade(g, n, from)
	}
	g.Opset = max(g.Opset, onnx.Opset)
	onnx.Require(isImage(g), "takes no images")
	onnx.Sure(o.fill(g))
	g.Shapes = map[string]onnx.Shape{}
	if in := &g.Inputs[0]; in.DType == onnx.Uint8 {
		old := in.Name
		in.Name, in.DType = g.Fresh(old+"/levels"), onnx.Float
		whole, level := g.Fresh(old+"/whole"), g.Fresh(old+"/level")
		lo, hi := g.AddConst(old+"/lo", onnx.Scalar(0)), g.AddConst(old+"/hi", onnx.Scalar(255))
		g.Nodes = append([]*onnx.Node{
			{Op: "Round", Inputs: []string{in.Name}, Outputs: []string{whole}},
			{Op: "Clip", Inputs: []string{whole, lo, hi}, Outputs: []string{level}},
			{Op: "Cast", Attrs: onnx.Attrs{"to": int64(onnx.Uint8)}, Inputs: []string{level}, Outputs: []string{old}},
		}, g.Nodes...)
		o.Scale, o.Mean, o.Std = 255, nil, nil
	}
	if o.Layout == ChannelsLast || o.Layout == "" && hasChannelsLast(g) {
		channelsFirst(g)
	}
	onnx.Must(Preprocess(g, o))
	return g, nil
}
