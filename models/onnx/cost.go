package onnx

// Parameters counts the float values of the graph's constants.
func (g *Graph) Parameters() int64 {
	n := int64(0)
	for _, t := range g.Consts {
		n += int64(len(t.Floats))
	}
	return n
}

// FLOPs counts the floating-point operations of one item's pass: 2 for each
// multiply-accumulate of Conv, ConvTranspose, Gemm and MatMul, 1 a value for
// everything else. Infer must have run.
func (g *Graph) FLOPs() int64 {
	total := int64(0)
	for _, n := range g.Nodes {
		out := g.Shapes[n.Outputs[0]].Items()
		switch n.Op {
		case "Conv":
			w := g.Shapes[n.Inputs[1]]
			total += 2 * out * w[1:].Items()
		case "ConvTranspose":
			w := g.Shapes[n.Inputs[1]]
			total += 2 * g.Shapes[n.Inputs[0]].Items() * w[1:].Items()
		case "Gemm":
			k := g.Shapes[n.Inputs[0]]
			inner := k[1]
			if n.Int("transA", 0) == 1 {
				inner = k[0]
			}
			total += 2 * out * inner
		case "MatMul":
			a := g.Shapes[n.Inputs[0]]
			total += 2 * out * a[len(a)-1]
		case "Reshape", "Flatten", "Identity", "Squeeze", "Unsqueeze", "Transpose", "Concat":
		default:
			total += out
		}
	}
	return total
}
