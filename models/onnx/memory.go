package onnx

// Memory estimates the bytes, in float32, that a program of the graph holds. weights is the session's: the constants,
// and results computed from constants alone, that nodes on the batch read. item is, for each item of a batch, the
// largest sum of the values alive at once between inputs and outputs: nodes run in the graph's order, and a value is
// freed after its last reader. Shapes must be set.
func (g *Graph) Memory() (weights, item int64) {
	size, readers, counted := map[string]int64{}, map[string]int{}, map[string]bool{}
	for _, n := range g.Nodes {
		if !g.batched(n) {
			continue // it runs once, when the session is made
		}
		for _, name := range n.Outputs {
			size[name] = 4 * g.Shapes[name].Items()
		}
		for _, name := range n.Inputs {
			readers[name]++
			if s := g.Shapes[name]; name != "" && !s.HasBatch() && !counted[name] {
				counted[name] = true
				weights += 4 * s.Items()
			}
		}
	}
	for _, out := range g.Outputs {
		delete(size, out.Name) // the caller holds it
	}
	var held int64
	for _, n := range g.Nodes {
		if !g.batched(n) {
			continue
		}
		for _, name := range n.Outputs {
			held += size[name]
		}
		item = max(item, held)
		for _, name := range n.Inputs {
			if readers[name]--; readers[name] == 0 {
				held -= size[name]
			}
		}
	}
	return weights, item
}

func (g *Graph) batched(n *Node) bool { return g.Shapes[n.Outputs[0]].HasBatch() }
