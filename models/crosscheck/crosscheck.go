// Package crosscheck runs a model on a second engine that shares no code with
// ONNX Runtime: onnx-go, in pure Go. It knows few operators and old forms of
// them, and it is slow; where it runs a model, it says whether ONNX Runtime
// computes the same.
package crosscheck

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	engine "github.com/owulveryck/onnx-go"
	"github.com/owulveryck/onnx-go/backend/x/gorgonnx"
	"gorgonia.org/tensor"

	"selfheal/models/onnx"
)

// ErrUnsupported lists what a model needs and the second engine lacks.
type ErrUnsupported struct {
	Operators []string // operator names, some with what is special: "Conv with group 4"
}

func (e *ErrUnsupported) Error() string {
	return "the second engine does not run " + e.List()
}

// List is the operators on one line.
func (e *ErrUnsupported) List() string {
	return strings.Join(strings.Fields(strings.Join(e.Operators, ", ")), " ")
}

// one lets one model run at a time: onnx-go numbers its nodes with a global counter.
var one sync.Mutex

// Logits runs a model file's own bytes on one item and returns the first
// output, flat. x is row-major with the given shape, the batch dimension of 1
// included: [1 C H W]. The error is an *[ErrUnsupported] where the engine is
// known to lack something, and names the engine where it fails otherwise.
func Logits(model []byte, x []float32, shape []int64) ([]float32, error) {
	g, err := onnx.Decode(model)
	if err != nil {
		return nil, err
	}
	r := newReaders(g)
	if lacks := r.unsupported(); len(lacks) > 0 {
		return nil, &ErrUnsupported{lacks}
	}
	if len(g.Inputs) != 1 {
		return nil, fmt.Errorf("the model has %d inputs, an image classifier has one", len(g.Inputs))
	}
	dims, err := dimensions(g.Inputs[0], len(x), shape)
	if err != nil {
		return nil, err
	}
	x = slices.Clone(x) // the engine may write over it
	if r.overwrites() {
		// Only with a batch of one: let the item run twice, side by side.
		x, dims[0] = append(x, x...), 2
	}
	one.Lock()
	defer one.Unlock()
	out, err := run(model, x, dims)
	var lacks *engine.ErrNotImplemented
	if errors.As(err, &lacks) {
		return nil, &ErrUnsupported{[]string{reason(lacks)}}
	}
	if err != nil {
		return nil, fmt.Errorf("the second engine (onnx-go) fails: %w", err)
	}
	return out[:len(out)/dims[0]], nil
}

// dimensions checks the item against the model's input; the engine itself would
// multiply matrices that do not fit.
func dimensions(in onnx.Value, size int, shape []int64) ([]int, error) {
	n := int64(1)
	dims := make([]int, len(shape))
	for i, d := range shape {
		n *= d
		dims[i] = int(d)
	}
	if n != int64(size) || len(shape) == 0 || shape[0] != 1 {
		return nil, fmt.Errorf("%d values for one item of shape %v", size, shape)
	}
	fits := len(in.Shape) == len(shape)
	for i := 1; fits && i < len(shape); i++ {
		fits = in.Shape[i] == shape[i] || in.Shape[i] < 0
	}
	if !fits {
		return nil, fmt.Errorf("an item of shape %v for input %q of shape %v", shape, in.Name, in.Shape)
	}
	return dims, nil
}

// run decodes and evaluates on onnx-go, which panics on some graphs.
func run(model []byte, x []float32, shape []int) (out []float32, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = nil, fmt.Errorf("it panics: %v", r)
		}
	}()
	backend := gorgonnx.NewGraph()
	m := engine.NewModel(backend)
	if err := m.UnmarshalBinary(model); err != nil {
		return nil, err
	}
	if len(m.Input) != 1 || len(m.Output) == 0 {
		return nil, fmt.Errorf("it sees %d inputs and %d outputs", len(m.Input), len(m.Output))
	}
	// Model.SetInput takes its argument for a node's number.
	in, ok := backend.Node(m.Input[0]).(engine.DataCarrier)
	if !ok {
		return nil, errors.New("its input takes no tensor")
	}
	if err := in.SetTensor(tensor.New(tensor.WithShape(shape...), tensor.WithBacking(x))); err != nil {
		return nil, err
	}
	if err := backend.Run(); err != nil {
		return nil, err
	}
	outputs, err := m.GetOutputTensors()
	if err != nil {
		return nil, err
	}
	switch data := outputs[0].Data().(type) {
	case []float32:
		return data, nil
	case float32:
		return []float32{data}, nil
	}
	return nil, fmt.Errorf("it gives %T, not float32 values", outputs[0].Data())
}

// reason shortens the engine's message to one entry of a list.
func reason(e *engine.ErrNotImplemented) string {
	switch {
	case e.AttributeName != "":
		return fmt.Sprintf("%s with %s %v", e.Operator, e.AttributeName, e.AttributeValue)
	case e.Message != "":
		return fmt.Sprintf("%s (%s)", e.Operator, e.Message)
	}
	return e.Operator
}

// Compare returns the largest difference between a and b as a share of the
// largest absolute value in them: 0 when they are equal, +Inf when their
// lengths differ or one is not finite.
func Compare(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	var diff, scale float64
	for i := range a {
		p, q := float64(a[i]), float64(b[i])
		diff = math.Max(diff, math.Abs(p-q))
		scale = math.Max(scale, math.Max(math.Abs(p), math.Abs(q)))
	}
	switch {
	case math.IsNaN(diff) || math.IsInf(scale, 0):
		return math.Inf(1)
	case diff == 0:
		return 0
	}
	return diff / scale
}
