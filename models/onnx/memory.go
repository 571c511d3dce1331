package onnx

// Memory estimates what a program of the graph holds, in bytes of float32: the weights of its session,
// which are the constants, or what is computed of constants alone, that nodes of the batch read, and, for
// each item of a batch, the most that values between inputs and outputs come to at once. Nodes run in the
// graph's order and a value goes after its last reader. Shapes must be there.
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
		delete(size, out.Name) // the caller's
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
