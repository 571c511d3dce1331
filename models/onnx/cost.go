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
		count := TraitsOf(n.Op).flops
		if count == nil {
			count = oneAValue
		}
		total += count(g, n)
	}
	return total
}

func free(*Graph, *Node) int64          { return 0 }
func oneAValue(g *Graph, n *Node) int64 { return g.Shapes[n.Outputs[0]].Items() }

func convFLOPs(g *Graph, n *Node) int64 {
	return 2 * oneAValue(g, n) * g.Shapes[n.Inputs[1]][1:].Items()
}

func convTransposeFLOPs(g *Graph, n *Node) int64 {
	return 2 * g.Shapes[n.Inputs[0]].Items() * g.Shapes[n.Inputs[1]][1:].Items()
}

func gemmFLOPs(g *Graph, n *Node) int64 {
	x := g.Shapes[n.Inputs[0]]
	inner := x[1]
	if n.Int("transA", 0) == 1 {
		inner = x[0]
	}
	return 2 * oneAValue(g, n) * inner
}

func matMulFLOPs(g *Graph, n *Node) int64 {
	x := g.Shapes[n.Inputs[0]]
	return 2 * oneAValue(g, n) * x[len(x)-1]
}
