package control

import (
	"fmt"
	"slices"

	"selfheal/models/onnx"
	"selfheal/models/onnx/simplify"
)

// The kinds of embedding functions.
const (
	Linear      = "linear"
	ONNX        = "onnx"
	Autoencoder = "autoencoder"
	Identity    = "identity"
)

// EmbeddingKind is a row of the table of embedding functions.
type EmbeddingKind struct{ Name, Doc string }

// EmbeddingKinds is that table.
var EmbeddingKinds = []EmbeddingKind{
	{Linear, "the projection onto the principal subspace of clean states (paper, section 4.1)"},
	{ONNX, "a model in a file, which maps states to their own shape"},
	{Autoencoder, "a network that selfheal fit trains (paper, Eq. 4); a run reads the file that it wrote"},
	{Identity, "E(x) = x: no control"},
}

// LinearEmbedding returns E(x) = μ + (x − μ)·V·Vᵀ as a graph on states of the given shape (paper, section 4.1). mean
// has one value, and components (row-major, dim × rank) one row, a dimension of the flattened state.
func LinearEmbedding(state onnx.Shape, mean, components []float32, rank int) (*onnx.Graph, error) {
	dim := state.Items()
	if int64(len(mean)) != dim || int64(len(components)) != dim*int64(rank) {
		return nil, fmt.Errorf("a linear embedding of rank %d doesn't fit states of shape %v", rank, state)
	}
	transposed := make([]float32, len(components))
	for i := range int(dim) {
		for j := range rank {
			transposed[j*int(dim)+i] = components[i*rank+j]
		}
	}
	b := &onnx.Builder{G: onnx.NewGraph("linear")}
	x := b.Input("state", state)
	mu := b.Const(onnx.FloatTensor(onnx.Shape{1, dim}, mean))
	v := b.Const(onnx.FloatTensor(onnx.Shape{dim, int64(rank)}, components))
	vt := b.Const(onnx.FloatTensor(onnx.Shape{int64(rank), dim}, transposed))
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
	g, err := simplify.Open(model, simplify.Options{Layout: simplify.ChannelsFirst})
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
