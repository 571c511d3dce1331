package grad

import "selfheal/models/onnx"

// steep turns HardSigmoid into a jump: max(0, min(1, 3e38·x)) is 0 for x ≤ 0
// and 1 for every normal x > 0.
const steep = 3e38

// step appends max(0, min(1, αx+β)). HardSigmoid is vectorised in ONNX Runtime, and it
// stays in the blocked layout of the convolutions around it; Sign, Greater and
// Where are several times slower and leave that layout.
func (c *Context) step(x string, alpha, beta float32) string {
	return c.OpWith("HardSigmoid", onnx.Attrs{"alpha": alpha, "beta": beta}, x)
}

// positive appends the mask [x > 0], of 0 and 1.
func (c *Context) positive(x string) string { return c.step(x, steep, 0) }

// negative appends the mask [x < 0].
func (c *Context) negative(x string) string { return c.step(x, -steep, 0) }

// notNegative appends the mask [x ≥ 0].
func (c *Context) notNegative(x string) string { return c.step(x, steep, 1) }

// inside appends the mask [0 < y < 1] for y in [0, 1]: there alone y − y² > 0.
func (c *Context) inside(y string) string {
	return c.positive(c.Op("Sub", y, c.Op("Mul", y, y)))
}

// negativePart appends min(x, 0).
func (c *Context) negativePart(x string) string { return c.Op("Clip", x, "", c.Float(0)) }

// producer returns the node that writes a tensor, or nil. It reads the nodes that
// have been appended since it was last asked, each once.
func (c *Context) producer(tensor string) *onnx.Node {
	for ; c.indexed < len(c.G.Nodes); c.indexed++ {
		n := c.G.Nodes[c.indexed]
		for _, o := range n.Outputs {
			c.writers[o] = n
		}
	}
	return c.writers[tensor]
}
