package control

import (
	"fmt"
	"slices"

	"selfheal/control/pca"
	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
	"selfheal/models/opened"
)

// The kinds of embedding functions.
const (
	Linear      = "linear"
	ONNX        = "onnx"
	Autoencoder = "autoencoder"
	Along       = "along"
	Identity    = "identity"
)

// EmbeddingKind is a row of the table of embedding functions.
type EmbeddingKind struct{ Name, Doc string }

// EmbeddingKinds is the table of embedding functions.
var EmbeddingKinds = []EmbeddingKind{
	{Linear, "the projection onto the principal subspace of clean states (paper, section 4.1)"},
	{ONNX, "a model in a file, which maps states to their own shape"},
	{Autoencoder, "a network that selfheal fit trains (paper, Eq. 4); a run reads the file that it wrote"},
	{Along, "a network that trains along with an autoencoder at the input, whose objective has joint: true"},
	{Identity, "E(x) = x: no control"},
}

// LinearEmbedding returns E(x) = μ + (x − μ)·V·Vᵀ as a graph on states of the given shape, with the mean and the
// subspace fitted to such states (paper, section 4.1).
func LinearEmbedding(state onnx.Shape, s *pca.Subspace) (*onnx.Graph, error) {
	dim, rank := int64(s.Dim), int64(s.Rank)
	b := &onnx.Builder{G: onnx.NewGraph("linear")}
	x := b.Input("state", state)
	mu := b.Const(onnx.FloatTensor(onnx.Shape{1, dim}, s.Mean))
	components := onnx.FloatTensor(onnx.Shape{dim, rank}, s.Components)
	v, vt := b.Const(components), b.Const(components.Transposed())
	code := b.Op("MatMul", b.Op("Sub", b.Op("Reshape", x, b.Ints(0, dim)), mu), v)
	flat := b.Op("Add", b.Op("MatMul", code, vt), mu)
	b.Output("embedding", b.Op("Reshape", flat, b.Ints(append([]int64{0}, state[1:]...)...)))
	return b.Done()
}

// IdentityEmbedding returns E(x) = x: no control.
func IdentityEmbedding(state onnx.Shape) (*onnx.Graph, error) {
	b := &onnx.Builder{G: onnx.NewGraph("identity")}
	b.Output("embedding", b.Input("state", state))
	return b.Done()
}

// ONNXEmbedding reads an embedding model and checks that it maps states of the given shape to their own shape.
func ONNXEmbedding(model []byte, state onnx.Shape) (*onnx.Graph, error) {
	o := simplify.Options{Layout: simplify.ChannelsFirst}
	if len(state) == 4 {
		o.Size = func() ([3]int, error) { return [3]int{int(state[1]), int(state[2]), int(state[3])}, nil }
	}
	g, err := opened.Graph(&onnx.File{Data: model}, o, nil)
	if err != nil {
		return nil, err
	}
	if in := g.Inputs[0].Shape; !slices.Equal(in, state) {
		return nil, fmt.Errorf("takes states of shape %v, the network's are %v", in, state)
	}
	if out := g.Outputs[0].Shape; !slices.Equal(out, state) {
		return nil, fmt.Errorf("gives %v for states of shape %v; an embedding keeps the shape", out, state)
	}
	return g, nil
}
