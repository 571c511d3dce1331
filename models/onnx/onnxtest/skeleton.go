package onnxtest

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"selfheal/models/onnx"
)

// maxSkeleton bounds the weights that a skeleton is filled with: over twice a WRN-76-10's.
const maxSkeleton = 1 << 28

// FillSkeleton reads a skeleton and draws its weights, which follow only from seed and their names, with the same bits
// on every platform. It returns the graph that Decode would return for the file with these weights in it: Simplify or
// Encode it.
//
// Weights are drawn so that activations stay near order 1 however deep the network is (see fanGain), and
// BatchNormalization's statistics so that a mistake with any of them shows: scale and variance uniform in [0.5, 1.5),
// bias and mean with standard deviation 0.1.
func FillSkeleton(data []byte, seed uint64) (*onnx.Graph, error) {
	g, err := onnx.DecodeSkeleton(data)
	if err != nil {
		return nil, err
	}
	total, roles := int64(0), newRoles(g)
	for name, t := range g.Consts {
		n := t.Shape.Items()
		if int64(t.Len()) == n {
			continue
		}
		if total += n; total > maxSkeleton {
			return nil, fmt.Errorf("its weights would be more than %d values", int64(maxSkeleton))
		}
		h := fnv.New64a()
		h.Write([]byte(name))
		t.Floats = make([]float32, n)
		roles.draw(name, t)(rand.New(rand.NewPCG(seed, h.Sum64())), t.Floats)
	}
	return g, g.Verify()
}

type distribution func(r *rand.Rand, v []float32)

// normal draws approximately from N(0, std²): it sums four uniform numbers, which integers add exactly.
// rand.NormFloat64 does not serve because of math.Exp, whose last bit differs between platforms.
func normal(std float64) distribution {
	// Var of a sum of four uniform 16-bit numbers: 4·(2³² − 1)/12.
	scale := float32(std / math.Sqrt((1<<32-1)/3.0))
	return func(r *rand.Rand, v []float32) {
		for i := range v {
			u := r.Uint64()
			sum := int64(u&0xffff) + int64(u>>16&0xffff) + int64(u>>32&0xffff) + int64(u>>48)
			v[i] = float32(2*sum-4*0xffff) * 0.5 * scale
		}
	}
}

// uniform draws from [lo, lo + width).
func uniform(lo, width float32) distribution {
	return func(r *rand.Rand, v []float32) {
		for i := range v {
			// The conversion forbids a fused multiply-add.
			v[i] = lo + float32(width*(float32(r.Uint32()>>8)*(1.0/(1<<24))))
		}
	}
}

// roles finds the purpose of a graph's constants.
type roles struct {
	producers map[string]*onnx.Node
	consumers map[string][]*onnx.Node
	data      map[string]bool // tensors that depend on the input
	joins     int             // residual joins
}

func newRoles(g *onnx.Graph) *roles {
	r := &roles{producers: g.Producers(), consumers: g.Consumers()}
	_, r.data = g.Reached(g.Inputs[0].Name)
	for _, n := range g.Nodes {
		if r.isJoin(n) {
			r.joins++
		}
	}
	return r
}

func (r *roles) isJoin(n *onnx.Node) bool {
	return n.Op == "Add" && r.data[n.Input(0)] && r.data[n.Input(1)]
}

// draw chooses a constant's distribution by its first consumer.
func (r *roles) draw(name string, t *onnx.Tensor) distribution {
	shape := t.Shape
	for range 8 { // operators that only move the constant
		next := r.consumers[name]
		if len(next) == 0 {
			break
		}
		n := next[0]
		switch {
		case onnx.TraitsOf(n.Op).Relabels, n.Op == "Identity", n.Op == "Cast":
		case n.Op == "Transpose":
			reversed := onnx.Range(0, len(shape))
			slices.Reverse(reversed)
			before := shape
			shape = onnx.Each(n.Ints("perm", reversed), func(from int64) int64 { return before[from] })
		default:
			return r.at(n, slices.Index(n.Inputs, name), shape)
		}
		name = n.Outputs[0]
	}
	return normal(0.1)
}

// at returns the distribution of input i of a node.
func (r *roles) at(n *onnx.Node, i int, shape onnx.Shape) distribution {
	weighs := slices.Contains([]string{"Conv", "ConvTranspose", "Gemm"}, n.Op) && i == 1 || n.Op == "MatMul" ||
		n.Op == "Einsum"
	switch {
	case weighs && len(shape) >= 2:
		return normal(math.Sqrt(r.fanGain(n, i) / fanIn(n, i, shape)))
	case n.Op == "PRelu":
		return uniform(0.1, 0.2)
	case n.Op == "Mul", n.Op == "Div", strings.HasSuffix(n.Op, "Normalization") && i == 1, // a scale
		n.Op == "BatchNormalization" && i == 4: // the variance
		return uniform(0.5, 1)
	}
	return normal(0.1) // a bias or a mean
}

// fanIn returns the number of products that one output value sums.
func fanIn(n *onnx.Node, input int, w onnx.Shape) float64 {
	last := len(w) - 1
	switch n.Op {
	case "MatMul":
		if input == 0 {
			return float64(w[last])
		}
	case "Conv":
		return float64(w[1:].Items())
	case "ConvTranspose": // [in, out/group, k…]: of k values, one in stride reaches an output
		k := float64(w[0]) / float64(n.Int("group", 1)) * float64(w[2:].Items())
		for _, s := range n.Ints("strides", nil) {
			k /= float64(s)
		}
		return max(1, k)
	case "Gemm":
		if n.Int("transB", 0) == 1 {
			return float64(w[1])
		}
		return float64(w[0])
	}
	return float64(w[last-1])
}

// gatedGain stands in for the gain of a Mul: a SiLU, x·sigmoid(x), or a squeeze-excite's scale, f(x)·sigmoid(·), has
// one between 2.8 and 11.
const gatedGain = 5

// fanGain returns the variance of the weights times their fan-in. It restores the second moment that the previous
// activation reduced (ReLU by a half: He et al. 2015, equation 10), so that plain chains keep it. A branch that ends in
// a residual join with a skip connection adds variance instead: its last operator gets a share of one over the number
// of joins, so that all joins together multiply the variance by about e. If two branches meet, each gets half.
func (r *roles) fanGain(n *onnx.Node, weight int) float64 {
	gain := 1.0
	for in, hops := n.Input(1-min(weight, 1)), 0; hops < 8; hops++ {
		p := r.producers[in]
		if p == nil {
			break
		}
		if p.Op == "Mul" {
			gain = gatedGain
			break
		}
		if g := onnx.TraitsOf(p.Op).Gain; g > 0 {
			gain = g
			break
		}
		if !onnx.TraitsOf(p.Op).Steady || p.Op == "BatchNormalization" {
			break
		}
		in = p.Input(0)
	}
	out := n.Outputs[0]
	for range 8 {
		next := r.consumers[out]
		if len(next) != 1 {
			break
		}
		if r.isJoin(next[0]) {
			other := next[0].Input(1 - slices.Index(next[0].Inputs, out))
			if r.endsInWeights(other) {
				return gain / 2
			}
			return gain / float64(r.joins)
		}
		if !onnx.TraitsOf(next[0].Op).Steady && next[0].Op != "Add" {
			break
		}
		out = next[0].Outputs[0]
	}
	return gain
}

// endsInWeights reports whether a tensor comes from a Conv or its like, not from a skip connection.
func (r *roles) endsInWeights(t string) bool {
	for range 8 {
		p := r.producers[t]
		switch {
		case p == nil:
			return false
		case slices.Contains([]string{"Conv", "ConvTranspose", "Gemm", "MatMul"}, p.Op):
			return true
		case !onnx.TraitsOf(p.Op).Steady:
			return false
		}
		t = p.Input(0)
	}
	return false
}
