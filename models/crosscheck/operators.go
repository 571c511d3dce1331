package crosscheck

import (
	"fmt"
	"maps"
	"slices"

	"selfheal/models/onnx"
)

// limit says which form of its operator a node is that the engine lacks, or "".
type limit func(r *readers, n *onnx.Node) string

// operators are those that the engine runs as ONNX defines them; the tests
// compare each with ONNX Runtime. A limit names the forms that the engine
// would compute wrong without a word; those that it refuses are left to it.
// Constant is absent: the engine takes constants that print alike for equal.
var operators = map[string]limit{
	"Abs": nil, "Add": distinct, "BatchNormalization": nil, "Conv": conv, "Div": distinct, "Exp": nil,
	"Flatten": flatten, "Gemm": gemm, "GlobalAveragePool": nil, "Identity": identity, "LeakyRelu": nil,
	"Log": nil, "MatMul": distinct, "MaxPool": window, "Mul": distinct, "Neg": nil, "Relu": nil,
	"Reshape": reshape, "Sigmoid": nil, "Softmax": softmax, "Sqrt": nil, "Sub": distinct, "Tanh": nil, "Transpose": nil,
}

// readers knows who writes and who reads a graph's tensors.
type readers struct {
	g         *onnx.Graph
	producers map[string]*onnx.Node
	consumers map[string][]*onnx.Node
}

func newReaders(g *onnx.Graph) *readers { return &readers{g, g.Producers(), g.Consumers()} }

// unsupported lists what the engine lacks for a graph, sorted.
func (r *readers) unsupported() []string {
	lacks := map[string]bool{}
	for _, n := range r.g.Nodes {
		check, known := operators[n.Op]
		switch {
		case n.Domain != "":
			lacks[n.Domain+"."+n.Op] = true
		case !known:
			lacks[n.Op] = true
		case check != nil:
			if form := check(r, n); form != "" {
				lacks[n.Op+" "+form] = true
			}
		}
	}
	if out := r.g.Outputs[0].Name; len(r.consumers[out]) > 0 {
		lacks["an output that other nodes read"] = true // it is left unset
	}
	return slices.Sorted(maps.Keys(lacks))
}

// overwrites reports whether a BatchNormalization may write over a tensor that
// another node still needs: on a batch of one the engine computes it in place,
// and other operators pass their input's memory on.
func (r *readers) overwrites() bool {
	return slices.ContainsFunc(r.g.Nodes, func(n *onnx.Node) bool {
		if n.Op != "BatchNormalization" {
			return false
		}
		from := r.producers[n.Input(0)]
		return from == nil || from.Op != "Conv" || len(r.consumers[n.Input(0)]) > 1
	})
}

func distinct(_ *readers, n *onnx.Node) string {
	if n.Input(0) == n.Input(1) {
		return "of a tensor with itself"
	}
	return ""
}

func conv(r *readers, n *onnx.Node) string {
	if group := n.Int("group", 1); group != 1 {
		return fmt.Sprintf("with group %d", group)
	}
	return window(r, n)
}

// window is for operators with a kernel: pads are taken in another order than
// ONNX's, so they must be equal.
func window(_ *readers, n *onnx.Node) string {
	pads := n.Ints("pads", nil)
	switch {
	case len(n.Ints("kernel_shape", nil)) != 2:
		return "without a kernel_shape of two dimensions"
	case n.Str("auto_pad", "NOTSET") != "NOTSET":
		return "with auto_pad " + n.Str("auto_pad", "")
	case len(slices.Compact(slices.Clone(pads))) > 1:
		return fmt.Sprintf("with pads %v", pads)
	}
	return ""
}

func flatten(_ *readers, n *onnx.Node) string {
	if a := n.Int("axis", 1); a < 0 {
		return fmt.Sprintf("with axis %d", a)
	}
	return ""
}

// gemm: the engine needs the bias, and its register takes the result.
func gemm(r *readers, n *onnx.Node) string {
	c := n.Input(2)
	switch {
	case c == "":
		return "without a bias"
	case len(r.consumers[c]) > 1:
		return "with a shared bias"
	}
	return ""
}

func identity(r *readers, n *onnx.Node) string {
	if _, ok := r.g.Consts[n.Input(0)]; ok {
		return "of a constant"
	}
	return ""
}

func reshape(r *readers, n *onnx.Node) string {
	c, ok := r.g.Consts[n.Input(1)]
	switch {
	case !ok:
		return "to a computed shape"
	case slices.Contains(c.Ints, -1):
		return fmt.Sprintf("to %v", c.Ints)
	}
	return ""
}

// softmax: the engine normalises the last dimension of a matrix.
func softmax(r *readers, n *onnx.Node) string {
	from := r.producers[n.Input(0)]
	if a := n.Int("axis", 1); (a != 1 && a != -1) || from == nil || from.Op != "Gemm" {
		return "other than over the classes after Gemm"
	}
	return ""
}
