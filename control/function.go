package control

import (
	"errors"
	"fmt"

	"selfheal/attacks"
	"selfheal/models/onnx"
	"selfheal/models/ort"
)

// Function describes a classifier that is known by its answers alone.
type Function struct {
	Shape   attacks.Shape
	Classes int
	Labels  bool   // it gives only the class, see [NetworkOptions]
	ID      string // identifies it
	// Answer writes the logits of n images, one after the other; many goroutines call it.
	Answer func(x, y []float32, n int) error
}

// NewFunction makes a network of a function: it has neither layers nor gradients, and any other use asks the function.
func NewFunction(pool *ort.Pool, name string, f Function) (*Network, error) {
	if f.Classes < 2 || f.Classes > mostClasses {
		return nil, fmt.Errorf("a classifier has 2 to %d classes, not %d", mostClasses, f.Classes)
	}
	s := f.Shape
	g := &onnx.Graph{Name: name,
		Inputs: []onnx.Value{{Name: "x", DType: onnx.Float,
			Shape: onnx.Shape{onnx.Batch, int64(s.C), int64(s.H), int64(s.W)}}},
		Outputs: []onnx.Value{{Name: "y", DType: onnx.Float, Shape: onnx.Shape{onnx.Batch, int64(f.Classes)}}}}
	n := &Network{Name: name, Graph: g, pool: pool, direct: true, Labels: f.Labels, shape: s, classes: f.Classes,
		ID: f.ID, fast: g, function: &f}
	n.losses = newLosses(n, g, g)
	return n, nil
}

// Opaque reports whether the network is a function, without layers and gradients.
func (n *Network) Opaque() bool { return n.function != nil }

// answering returns the program that asks the function.
func (n *Network) answering() (*ort.Program, error) {
	return n.pool.Function(n.Name, ort.Port{Name: "x", Size: n.shape.Size()}, ort.Port{Name: "y", Size: n.classes},
		n.function.Answer)
}

// errOpaque is the error about a gradient of a function.
var errOpaque = errors.New("a function has no gradients")
